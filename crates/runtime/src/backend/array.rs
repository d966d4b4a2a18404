//! Arrays on a device.

use std::sync::Arc;

use pjrt::{Buffer, Client, Device, HostSource, Placement, SharedBytes};
use tensor::Literal;

use crate::element::{dtype, element_type};
use crate::error::{Error, ValidationError};
use crate::memory::{Allocation, MemoryError, MemoryManager, Owner};
use tensor::Spec;

/// An array on a device. Clones are the same array; its memory is free when the last is dropped.
#[derive(Clone, Debug)]
pub struct DeviceArray {
    held: Arc<Held>,
}

#[derive(Debug)]
struct Held {
    buffer: Buffer,
    spec: Spec,
    allocation: Allocation,
}

/// Host memory of a literal that a device may read in place.
struct Shared(Arc<Literal>);

impl AsRef<[u8]> for Shared {
    fn as_ref(&self) -> &[u8] {
        self.0.bytes()
    }
}

impl DeviceArray {
    pub(crate) fn new(buffer: Buffer, spec: Spec, allocation: Allocation) -> DeviceArray {
        DeviceArray { held: Arc::new(Held { buffer, spec, allocation }) }
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

    /// The plugin's handle.
    pub fn buffer(&self) -> &Buffer {
        &self.held.buffer
    }

    /// Whether a program has taken its memory.
    pub fn is_deleted(&self) -> Result<bool, Error> {
        self.held.buffer.is_deleted().map_err(Error::device("asking for an array"))
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
        let event = self.held.buffer.ready_event().map_err(Error::device("waiting for an array"))?;
        event.wait().map_err(Error::device("computing an array"))
    }

    /// Copies the array to the host, after waiting for it.
    pub fn to_host(&self) -> Result<Literal, Error> {
        self.must_be_here()?;
        let _span = tracing::debug_span!("transfer", to = "host", bytes = self.held.spec.bytes()).entered();
        let read = self.held.buffer.to_host().and_then(|read| read.wait());
        let bytes = read.map_err(Error::device("reading an array"))?;
        let Spec { dtype, dims } = &self.held.spec;
        let literal = Literal::new(*dtype, dims.clone(), bytes);
        literal
            .ok_or_else(|| ValidationError::Other(format!("the device gave other bytes than {}", self.spec())).into())
    }
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
