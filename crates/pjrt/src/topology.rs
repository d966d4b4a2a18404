//! Topology descriptions: devices to compile for, present or not.
#![allow(unsafe_code)]

use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;

use pjrt_sys::*;

use crate::api::{Api, bytes, list, text};
use crate::attribute::{self, AttributeValue};
use crate::device::DeviceDescription;
use crate::error::Error;
use crate::handle::ClientHandle;

/// Devices a program can be compiled for. Clones are the same topology.
#[derive(Clone)]
pub struct Topology {
    handle: Arc<Handle>,
}

struct Handle {
    api: Arc<Api>,
    raw: NonNull<PJRT_TopologyDescription>,
    /// The client that owns `raw`. `None`: this handle owns it.
    client: Option<Arc<ClientHandle>>,
}

// SAFETY: a topology description is immutable once made, and the interface ties none of its functions to a thread.
unsafe impl Send for Handle {}
// SAFETY: as for `Send`; every function takes it as input only.
unsafe impl Sync for Handle {}

impl Drop for Handle {
    fn drop(&mut self) {
        if self.client.is_some() {
            return;
        }
        let mut args = PJRT_TopologyDescription_Destroy_Args::new();
        args.topology = self.raw.as_ptr();
        // Nothing can be done about a failure to free.
        // SAFETY: this handle owns the topology and is the last one.
        let _ = unsafe { self.api.call(slot::PJRT_TopologyDescription_Destroy, &mut args) };
    }
}

impl fmt::Debug for Topology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Topology").field("raw", &self.handle.raw).finish()
    }
}

impl Topology {
    pub(crate) fn owned(api: &Arc<Api>, raw: *mut PJRT_TopologyDescription, call: &'static str) -> Result<Self, Error> {
        Self::new(api, raw, None, call)
    }

    pub(crate) fn of_client(
        api: &Arc<Api>,
        raw: *mut PJRT_TopologyDescription,
        client: &Arc<ClientHandle>,
        call: &'static str,
    ) -> Result<Self, Error> {
        Self::new(api, raw, Some(client.clone()), call)
    }

    fn new(
        api: &Arc<Api>,
        raw: *mut PJRT_TopologyDescription,
        client: Option<Arc<ClientHandle>>,
        call: &'static str,
    ) -> Result<Self, Error> {
        let raw = NonNull::new(raw).ok_or(Error::Answer { call, what: "the topology is null" })?;
        Ok(Self { handle: Arc::new(Handle { api: api.clone(), raw, client }) })
    }

    pub(crate) fn api(&self) -> &Arc<Api> {
        &self.handle.api
    }

    pub(crate) fn raw(&self) -> *mut PJRT_TopologyDescription {
        self.handle.raw.as_ptr()
    }

    /// The platform, such as `tpu`.
    pub fn platform_name(&self) -> Result<String, Error> {
        let mut args = PJRT_TopologyDescription_PlatformName_Args::new();
        args.topology = self.raw();
        // SAFETY: the topology is alive.
        unsafe { self.api().call(slot::PJRT_TopologyDescription_PlatformName, &mut args)? };
        // SAFETY: the name lives as long as the topology.
        Ok(unsafe { text(args.platform_name, args.platform_name_size) })
    }

    /// Version of the platform in words.
    pub fn platform_version(&self) -> Result<String, Error> {
        let mut args = PJRT_TopologyDescription_PlatformVersion_Args::new();
        args.topology = self.raw();
        // SAFETY: the topology is alive.
        unsafe { self.api().call(slot::PJRT_TopologyDescription_PlatformVersion, &mut args)? };
        // SAFETY: the version lives as long as the topology.
        Ok(unsafe { text(args.platform_version, args.platform_version_size) })
    }

    /// The devices, in the plugin's order.
    pub fn devices(&self) -> Result<Vec<DeviceDescription>, Error> {
        let describe = |raw| {
            // SAFETY: descriptions live as long as the topology.
            unsafe { DeviceDescription::read(self.api(), raw) }
        };
        self.raw_devices()?.into_iter().map(describe).collect()
    }

    /// How many devices there are.
    pub fn device_count(&self) -> Result<usize, Error> {
        Ok(self.raw_devices()?.len())
    }

    pub(crate) fn raw_devices(&self) -> Result<Vec<*mut PJRT_DeviceDescription>, Error> {
        let mut args = PJRT_TopologyDescription_GetDeviceDescriptions_Args::new();
        args.topology = self.raw();
        // SAFETY: the topology is alive.
        unsafe { self.api().call(slot::PJRT_TopologyDescription_GetDeviceDescriptions, &mut args)? };
        // SAFETY: the list lives as long as the topology.
        Ok(unsafe { list(args.descriptions, args.num_descriptions) })
    }

    /// What the plugin says about the whole topology, such as `device_memory_bytes_limit` and `wrap`.
    pub fn attributes(&self) -> Result<Vec<(String, AttributeValue)>, Error> {
        let mut args = PJRT_TopologyDescription_Attributes_Args::new();
        args.topology = self.raw();
        // SAFETY: the topology is alive.
        unsafe { self.api().call(slot::PJRT_TopologyDescription_Attributes, &mut args)? };
        // SAFETY: attributes live as long as the topology.
        Ok(unsafe { attribute::decode(args.attributes, args.num_attributes) })
    }

    /// A form that can be stored, compared and given to [`Plugin::deserialize_topology`](crate::Plugin).
    pub fn serialize(&self) -> Result<Vec<u8>, Error> {
        let mut args = PJRT_TopologyDescription_Serialize_Args::new();
        args.topology = self.raw();
        // SAFETY: the topology is alive.
        unsafe { self.api().call(slot::PJRT_TopologyDescription_Serialize, &mut args)? };
        // SAFETY: the bytes live until the deleter is called.
        let serialized = unsafe { bytes(args.serialized_bytes, args.serialized_bytes_size) };
        if let Some(delete) = args.serialized_topology_deleter {
            // SAFETY: called once, after the bytes were copied.
            unsafe { delete(args.serialized_topology) };
        }
        Ok(serialized)
    }

    /// A number that is equal for equal topologies.
    pub fn fingerprint(&self) -> Result<u64, Error> {
        let mut args = PJRT_TopologyDescription_Fingerprint_Args::new();
        args.topology = self.raw();
        // SAFETY: the topology is alive.
        unsafe { self.api().call(slot::PJRT_TopologyDescription_Fingerprint, &mut args)? };
        Ok(args.fingerprint)
    }
}
