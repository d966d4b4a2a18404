//! The devices of a backend: which there are, here and in other processes, what memory they have, and meshes of them.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;
use trace::Mesh;

use crate::backend::Backend;
use crate::device::DeviceInfo;
use crate::error::{Error, ValidationError};
use crate::mesh::DeviceMesh;

/// The devices of a backend. Devices have an index, from 0, over all processes in the order of their numbers.
///
/// ```
/// use runtime::config::{Config, Mode, Target};
/// use runtime::{Backend, DeviceManager};
///
/// let backend = Backend::auto(&Config::new(Mode::Development).device(Target::Cpu).cpu_devices(4))?;
/// let devices = DeviceManager::new(&backend);
/// assert_eq!((devices.num_devices(), devices.num_addressable()), (4, 4));
/// let pair = devices.mesh_of(&"data=2".parse()?, &[1, 3])?;
/// assert_eq!(pair.ids().len(), 2);
/// # Ok::<(), runtime::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct DeviceManager {
    backend: Backend,
    /// Of all processes, by number.
    all: Vec<DeviceInfo>,
}

/// What a device says of its memory. What it does not say is `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DeviceMemory {
    /// Bytes it has.
    pub limit_bytes: Option<u64>,
    /// Bytes in use, by anybody.
    pub used_bytes: Option<u64>,
    /// The most bytes that were in use.
    pub peak_bytes: Option<u64>,
}

impl DeviceManager {
    /// The devices of a backend.
    pub fn new(backend: &Backend) -> DeviceManager {
        let mut all: Vec<DeviceInfo> = backend.topology().devices().cloned().collect();
        all.sort_by_key(|device| device.id);
        DeviceManager { backend: backend.clone(), all }
    }

    /// Devices of all processes.
    pub fn devices(&self) -> &[DeviceInfo] {
        &self.all
    }

    /// Devices of this process.
    pub fn addressable(&self) -> &[DeviceInfo] {
        self.backend.devices()
    }

    /// The device that arrays and programs of one device go to.
    pub fn device(&self) -> &DeviceInfo {
        self.backend.device()
    }

    /// A device by its index.
    pub fn get(&self, index: usize) -> Result<&DeviceInfo, Error> {
        self.all.get(index).ok_or_else(|| {
            let count = self.all.len();
            let message = format!("there is no device {index}: there are {count}, numbered from 0");
            ValidationError::Other(message).into()
        })
    }

    /// Number of devices of all processes.
    pub fn num_devices(&self) -> usize {
        self.all.len()
    }

    /// Number of devices of this process.
    pub fn num_addressable(&self) -> usize {
        self.addressable().len()
    }

    /// Kinds of devices, with how many there are of each.
    pub fn kinds(&self) -> BTreeMap<&str, usize> {
        let mut kinds = BTreeMap::new();
        for device in &self.all {
            *kinds.entry(device.kind.as_str()).or_default() += 1;
        }
        kinds
    }

    /// What a device says of its memory, by its index. Of devices of other processes only the limit is known.
    pub fn memory(&self, index: usize) -> Result<DeviceMemory, Error> {
        Ok(self.memory_of(self.get(index)?))
    }

    /// As [`memory`](Self::memory), of a device that is known.
    pub(crate) fn memory_of(&self, device: &DeviceInfo) -> DeviceMemory {
        let place = self.addressable().iter().position(|have| have.id == device.id);
        let said = place.and_then(|place| self.backend.device_memory(place));
        let bytes = |bytes: i64| u64::try_from(bytes).ok();
        DeviceMemory {
            limit_bytes: said.and_then(|said| said.bytes_limit).and_then(bytes).or(device.memory_bytes),
            used_bytes: said.and_then(|said| bytes(said.bytes_in_use)),
            peak_bytes: said.and_then(|said| said.peak_bytes_in_use).and_then(bytes),
        }
    }

    /// All devices as a mesh, in an order that follows the torus where there is one.
    pub fn mesh(&self, mesh: &Mesh) -> Result<Arc<DeviceMesh>, Error> {
        self.backend.mesh(mesh)
    }

    /// Some devices as a mesh, by their indices, in this order. One of them must be of this process.
    pub fn mesh_of(&self, mesh: &Mesh, indices: &[usize]) -> Result<Arc<DeviceMesh>, Error> {
        let chosen = indices.iter().map(|&index| self.get(index).cloned()).collect::<Result<Vec<_>, Error>>()?;
        Ok(Arc::new(DeviceMesh::in_order(mesh, &chosen, self.addressable())?))
    }
}
