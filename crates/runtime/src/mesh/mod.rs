//! Devices arranged as a mesh, and arrays that lie on it.

mod order;

use std::fmt;
use std::sync::Arc;

use chips::Slice;
use tensor::Spec;
use trace::{Mesh, PartitionSpec, Site, Torus};
use weights::TensorRegion;

use crate::device::{DeviceInfo, Platform};
use crate::error::{Error, ValidationError};

/// The devices of slices that need not be here.
pub fn site_of(slice: &Slice) -> Site {
    let size = |count: u32| usize::try_from(count).unwrap_or(usize::MAX);
    let per_chip = slice.devices_per_slice() / slice.chips_per_slice().max(1);
    let extent = slice.shape().into_iter().chain([per_chip]).map(size).collect();
    let torus = Torus { extent, wraps: slice.wrap().to_vec() };
    Site { name: slice.to_string(), devices: Some(size(slice.devices())), torus: Some(torus) }
}

/// The devices of all processes.
pub(crate) fn site_here(devices: &[DeviceInfo], platform: &Platform) -> Site {
    let name = devices.first().map_or_else(String::new, |device| device.kind.clone());
    // The CPU device pretends to be as many as are asked for.
    let count = Some(devices.len()).filter(|_| *platform != Platform::Cpu);
    Site { name, devices: count, torus: order::torus(devices) }
}

/// The devices of a mesh, in its order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceMesh {
    mesh: Mesh,
    /// Places in the backend's list of devices; `None` for those of other processes.
    devices: Vec<Option<usize>>,
    /// Numbers the plugin gives them.
    ids: Vec<i64>,
    /// The process each belongs to.
    processes: Vec<usize>,
}

impl DeviceMesh {
    /// Arranges the devices of all processes, of which `local` are this one's: along the dimensions of their torus where they
    /// have places in one.
    pub(crate) fn new(mesh: &Mesh, devices: &[DeviceInfo], local: &[DeviceInfo]) -> Result<DeviceMesh, Error> {
        let (wanted, present) = (mesh.num_devices(), devices.len());
        if wanted != present {
            let near = mesh.nearest(present).map_or(String::new(), |near| format!("; {near} would fit"));
            let message = format!("the mesh {mesh} has {wanted} devices, there are {present}{near}");
            return Err(ValidationError::Mesh(message).into());
        }
        if let Some((axis, why)) = order::torus(devices).as_ref().and_then(|torus| torus.broken_ring(mesh)) {
            let open = mesh.without_rings();
            let message = format!("`{}` of the mesh {mesh} is no ring: {why}; {open} would work", axis.name);
            return Err(ValidationError::Mesh(message).into());
        }
        let order: Vec<DeviceInfo> = order::of(mesh, devices).into_iter().map(|n| devices[n].clone()).collect();
        DeviceMesh::in_order(mesh, &order, local)
    }

    /// These devices in this order, as many as the mesh has, some of them of this process.
    pub(crate) fn in_order(mesh: &Mesh, devices: &[DeviceInfo], local: &[DeviceInfo]) -> Result<DeviceMesh, Error> {
        let (wanted, given) = (mesh.num_devices(), devices.len());
        let refuse = |message: String| Err(ValidationError::Mesh(message).into());
        if wanted != given {
            return refuse(format!("the mesh {mesh} has {wanted} devices, {given} are chosen"));
        }
        let ids: Vec<i64> = devices.iter().map(|device| i64::from(device.id)).collect();
        if let Some(n) = (0..ids.len()).find(|&n| ids[..n].contains(&ids[n])) {
            return refuse(format!("device {} is chosen twice for the mesh {mesh}", ids[n]));
        }
        let processes =
            devices.iter().map(|device| usize::try_from(device.process_index).unwrap_or_default()).collect();
        let place = |device: &DeviceInfo| local.iter().position(|have| have.id == device.id);
        let devices: Vec<Option<usize>> = devices.iter().map(place).collect();
        if devices.iter().all(Option::is_none) {
            return refuse(format!("the mesh {mesh} has no device of this process"));
        }
        Ok(DeviceMesh { mesh: mesh.clone(), devices, ids, processes })
    }

    /// The mesh.
    pub fn mesh(&self) -> &Mesh {
        &self.mesh
    }

    /// Places of its devices in the backend's list; `None` for those of other processes.
    pub fn devices(&self) -> &[Option<usize>] {
        &self.devices
    }

    /// Number of its devices that are of this process.
    pub fn num_local(&self) -> usize {
        self.devices.iter().flatten().count()
    }

    /// The process of each of its devices.
    pub fn processes(&self) -> &[usize] {
        &self.processes
    }

    /// Numbers of its devices.
    pub fn ids(&self) -> &[i64] {
        &self.ids
    }
}

/// How an array lies on the devices of a mesh.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedSharding {
    /// The devices.
    pub mesh: Arc<DeviceMesh>,
    /// Which part each has.
    pub sharding: PartitionSpec,
}

impl NamedSharding {
    /// The part of each device, in the order of the mesh.
    pub fn regions(&self, spec: &Spec) -> Result<Vec<TensorRegion>, Error> {
        let mesh = self.mesh.mesh();
        let size = self.sharding.part_dims(mesh, &spec.dims).map_err(|_| self.does_not_fit(spec))?;
        let region = |device: usize| {
            let place = self.sharding.part_of(mesh, device);
            let start = place.iter().zip(&size).map(|(at, size)| at * size).collect();
            TensorRegion { start, size: size.clone() }
        };
        Ok((0..mesh.num_devices()).map(region).collect())
    }

    /// The parts of this process's devices, in the order of the mesh.
    pub fn local_regions(&self, spec: &Spec) -> Result<Vec<(usize, TensorRegion)>, Error> {
        let regions = self.regions(spec)?.into_iter().zip(self.mesh.devices());
        Ok(regions.filter_map(|(region, device)| Some(((*device)?, region))).collect())
    }

    /// Whether the devices of this process have all of an array.
    pub(crate) fn is_here(&self, spec: &Spec) -> Result<bool, Error> {
        let here = self.local_regions(spec)?;
        Ok(self.regions(spec)?.iter().all(|region| here.iter().any(|(_, have)| have == region)))
    }

    /// The error of an array that does not fit.
    pub fn does_not_fit(&self, spec: &Spec) -> Error {
        ValidationError::Mesh(format!("{spec} does not lie on {self}")).into()
    }
}

impl fmt::Display for NamedSharding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the mesh {} as {}", self.mesh.mesh(), self.sharding)
    }
}
