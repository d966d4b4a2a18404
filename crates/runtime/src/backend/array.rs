//! Arrays on a device.

use std::sync::Arc;

use pjrt::{Buffer, Client, Device, HostSource, Placement, SharedBytes};
use tensor::Literal;
use weights::TensorRegion;

use crate::element::{dtype, element_type};
use crate::error::{Error, ValidationError};
use crate::memory::{MemoryError, MemoryManager, MemoryReservation, Owner};
use crate::mesh::NamedSharding;
use tensor::Spec;

/// An array on a device. Clones are the same array; its memory is free when the last is dropped.
#[derive(Clone, Debug)]
pub struct DeviceArray {
    held: Arc<Held>,
}

#[derive(Debug)]
struct Held {
    /// One for each device of this process that has a part, at least one.
    buffers: Vec<Buffer>,
    spec: Spec,
    /// How it lies on a mesh; `None` for an array of one device.
    placed: Option<NamedSharding>,
    allocation: MemoryReservation,
}

/// What gives the part of an array that lies in a region.
pub(crate) type PartOf<'a> = &'a mut dyn FnMut(&TensorRegion) -> Result<Arc<Literal>, Error>;

/// Host memory of a literal that a device may read in place.
struct Shared(Arc<Literal>);

impl AsRef<[u8]> for Shared {
    fn as_ref(&self) -> &[u8] {
        self.0.bytes()
    }
}

impl DeviceArray {
    pub(crate) fn new(buffer: Buffer, spec: Spec, allocation: MemoryReservation) -> DeviceArray {
        DeviceArray { held: Arc::new(Held { buffers: vec![buffer], spec, placed: None, allocation }) }
    }

    /// An array whose parts are on the devices of a mesh, in the order of the mesh.
    pub(crate) fn of_parts(
        buffers: Vec<Buffer>,
        spec: Spec,
        placed: NamedSharding,
        allocation: MemoryReservation,
    ) -> DeviceArray {
        DeviceArray { held: Arc::new(Held { buffers, spec, placed: Some(placed), allocation }) }
    }

    /// Sends the devices of a mesh that are of this process their parts of an array; `part_of` gives each part that is needed
    /// here, once.
    pub(crate) fn send_parts(
        client: &Client,
        devices: &[Device],
        allocation: MemoryReservation,
        spec: Spec,
        placed: NamedSharding,
        part_of: PartOf<'_>,
    ) -> Result<DeviceArray, Error> {
        let _span = tracing::debug_span!("transfer", to = "mesh", bytes = spec.bytes()).entered();
        let mut parts: Vec<(TensorRegion, Arc<Literal>)> = Vec::new();
        let mut buffers = Vec::new();
        for (device, region) in placed.local_regions(&spec)? {
            let part = match parts.iter().find(|(have, _)| *have == region) {
                Some((_, part)) => part.clone(),
                None => part_of(&region)?,
            };
            if part.dtype() != spec.dtype || part.dims() != region.size {
                return Err(placed.does_not_fit(&Spec::new(part.dtype(), part.dims())));
            }
            let dims: Vec<i64> = region.size.iter().map(|&size| size as i64).collect();
            let shared: SharedBytes = Arc::new(Shared(Arc::clone(&part)));
            let device = devices.get(device).ok_or_else(|| placed.does_not_fit(&spec))?;
            let place = Placement::Device(device);
            let sent =
                client.buffer_from_host(HostSource::ZeroCopy(shared), element_type(spec.dtype), &dims, None, place);
            buffers.push(sent.map_err(Error::device("sending an array"))?.0);
            parts.push((region, part));
        }
        Ok(DeviceArray::of_parts(buffers, spec, placed, allocation))
    }

    /// Sends a literal to a device. The device reads it while the call returns; a CPU device may use it in place.
    pub(crate) fn send(
        client: &Client,
        device: &Device,
        memory: &MemoryManager,
        owner: &Owner,
        literal: &Arc<Literal>,
    ) -> Result<DeviceArray, Error> {
        let spec = Spec::new(literal.dtype(), literal.dims());
        let _span = tracing::debug_span!("transfer", to = "device", bytes = spec.bytes()).entered();
        let allocation = memory.reserve(owner, spec.bytes())?;
        let dims: Vec<i64> = spec.dims.iter().map(|&size| size as i64).collect();
        let shared: SharedBytes = Arc::new(Shared(Arc::clone(literal)));
        let sent = client.buffer_from_host(
            HostSource::ZeroCopy(shared),
            element_type(spec.dtype),
            &dims,
            None,
            Placement::Device(device),
        );
        let (buffer, _read) = sent.map_err(Error::device("sending an array"))?;
        Ok(DeviceArray::new(buffer, spec, allocation))
    }

    /// Type and shape.
    pub fn spec(&self) -> &Spec {
        &self.held.spec
    }

    /// Bytes that count against the budget.
    pub fn bytes(&self) -> u64 {
        self.held.allocation.bytes()
    }

    /// A program has taken the memory of this array: it counts for the result.
    pub(crate) fn memory_was_taken(&self) {
        self.held.allocation.release();
    }

    /// Who holds it.
    pub fn owner(&self) -> &str {
        self.held.allocation.owner()
    }

    /// The plugin's handles, one for each device of this process that has a part.
    pub fn buffers(&self) -> &[Buffer] {
        &self.held.buffers
    }

    /// How it lies on a mesh; `None` for an array of one device.
    pub fn named_sharding(&self) -> Option<&NamedSharding> {
        self.held.placed.as_ref()
    }

    /// Whether a program has taken its memory.
    pub fn is_deleted(&self) -> Result<bool, Error> {
        for buffer in &self.held.buffers {
            if buffer.is_deleted().map_err(Error::device("asking for an array"))? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Fails if a program has taken its memory.
    pub(crate) fn must_be_here(&self) -> Result<(), MemoryError> {
        // Empty arrays have nothing to take.
        let is_here = self.held.allocation.bytes() > 0 || self.held.spec.bytes() == 0;
        if is_here { Ok(()) } else { Err(MemoryError::Taken(self.held.spec.clone())) }
    }

    /// Waits until the array is computed.
    pub fn wait(&self) -> Result<(), Error> {
        self.must_be_here()?;
        self.held.buffers.iter().try_for_each(|buffer| {
            let event = buffer.ready_event().map_err(Error::device("waiting for an array"))?;
            event.wait().map_err(Error::device("computing an array"))
        })
    }

    /// The parts of the array that are here, each once, with where they lie in it.
    pub fn parts_to_host(&self) -> Result<Vec<(TensorRegion, Literal)>, Error> {
        self.some_parts_to_host(&|_| true)
    }

    /// The parts of the array that are here and wanted, each once, with where they lie in it. Others are not copied.
    pub fn some_parts_to_host(
        &self,
        is_wanted: &dyn Fn(&TensorRegion) -> bool,
    ) -> Result<Vec<(TensorRegion, Literal)>, Error> {
        self.must_be_here()?;
        let Some(placed) = &self.held.placed else {
            let whole = TensorRegion::whole(&self.held.spec.dims);
            return if is_wanted(&whole) { Ok(vec![(whole, self.to_host()?)]) } else { Ok(Vec::new()) };
        };
        let mut parts: Vec<(TensorRegion, Literal)> = Vec::new();
        for ((_, region), buffer) in placed.local_regions(&self.held.spec)?.into_iter().zip(&self.held.buffers) {
            if is_wanted(&region) && !parts.iter().any(|(have, _)| *have == region) {
                let part = read(buffer, &Spec::new(self.held.spec.dtype, &region.size[..]))?;
                parts.push((region, part));
            }
        }
        Ok(parts)
    }

    /// Whether the devices of this process have all of it.
    pub fn is_here(&self) -> Result<bool, Error> {
        self.held.placed.as_ref().map_or(Ok(true), |placed| placed.is_here(&self.held.spec))
    }

    /// Copies the array to the host, after waiting for it. One that is split over processes is an error:
    /// [`Backend::gather`](crate::Backend::gather) brings its parts together first.
    pub fn to_host(&self) -> Result<Literal, Error> {
        self.must_be_here()?;
        let _span = tracing::debug_span!("transfer", to = "host", bytes = self.held.spec.bytes()).entered();
        match (&self.held.placed, &self.held.buffers[..]) {
            (None, [buffer, ..]) => read(buffer, &self.held.spec),
            _ if !self.is_here()? => {
                let message = format!("{} has parts in other processes: gather it first", self.held.spec);
                Err(Error::Distributed(message))
            }
            _ => {
                let Spec { dtype, dims } = &self.held.spec;
                let joined = TensorRegion::joined(*dtype, dims, &self.parts_to_host()?);
                joined.ok_or_else(|| ValidationError::Other(format!("the parts do not make up {}", self.spec())).into())
            }
        }
    }
}

fn read(buffer: &Buffer, spec: &Spec) -> Result<Literal, Error> {
    let bytes = buffer.to_host().and_then(|read| read.wait()).map_err(Error::device("reading an array"))?;
    let literal = Literal::new(spec.dtype, spec.dims.clone(), bytes);
    literal.ok_or_else(|| ValidationError::Other(format!("the device gave other bytes than {spec}")).into())
}

/// Type and shape of a buffer.
pub(crate) fn spec_of(buffer: &Buffer) -> Result<Spec, Error> {
    let element = buffer.element_type().map_err(Error::device("asking for a type"))?;
    let dims = buffer.dims().map_err(Error::device("asking for a shape"))?;
    let unknown = || ValidationError::Other(format!("the device gave an array of {element} {dims:?}"));
    let dtype = dtype(element).ok_or_else(unknown)?;
    let dims = dims.iter().map(|&size| usize::try_from(size).ok()).collect::<Option<Vec<_>>>().ok_or_else(unknown)?;
    Ok(Spec::new(dtype, dims))
}
