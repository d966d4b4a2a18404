//! Memories: the places of a device where buffers live.
#![allow(unsafe_code)]

use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;

use pjrt_sys::*;

use crate::api::{list, text};
use crate::device::Device;
use crate::error::Error;
use crate::handle::ClientHandle;

/// A memory of a client.
#[derive(Clone)]
pub struct Memory {
    pub(crate) client: Arc<ClientHandle>,
    raw: NonNull<PJRT_Memory>,
}

// SAFETY: a memory lives as long as its client, which `client` keeps alive; the interface lets every function on it be
// called from any thread.
unsafe impl Send for Memory {}
// SAFETY: as for `Send`; functions only read what does not change.
unsafe impl Sync for Memory {}

impl PartialEq for Memory {
    fn eq(&self, other: &Self) -> bool {
        self.raw == other.raw
    }
}

impl Eq for Memory {}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memory").field("raw", &self.raw).finish()
    }
}

impl Memory {
    pub(crate) fn new(client: &Arc<ClientHandle>, raw: *mut PJRT_Memory, call: &'static str) -> Result<Self, Error> {
        let raw = NonNull::new(raw).ok_or(Error::Answer { call, what: "the memory is null" })?;
        Ok(Self { client: client.clone(), raw })
    }

    pub(crate) fn raw(&self) -> *mut PJRT_Memory {
        self.raw.as_ptr()
    }

    /// The memory's id, unique among memories of its kind.
    pub fn id(&self) -> Result<i32, Error> {
        let mut args = PJRT_Memory_Id_Args::new();
        args.memory = self.raw();
        // SAFETY: the memory is alive.
        unsafe { self.client.api.call(slot::PJRT_Memory_Id, &mut args)? };
        Ok(args.id)
    }

    /// The kind, such as `device` or `pinned_host`.
    pub fn kind(&self) -> Result<String, Error> {
        let mut args = PJRT_Memory_Kind_Args::new();
        args.memory = self.raw();
        // SAFETY: the memory is alive, and the text lives as long.
        unsafe {
            self.client.api.call(slot::PJRT_Memory_Kind, &mut args)?;
            Ok(text(args.kind, args.kind_size))
        }
    }

    /// A name for logs.
    pub fn debug_string(&self) -> Result<String, Error> {
        let mut args = PJRT_Memory_DebugString_Args::new();
        args.memory = self.raw();
        // SAFETY: the memory is alive, and the text lives as long.
        unsafe {
            self.client.api.call(slot::PJRT_Memory_DebugString, &mut args)?;
            Ok(text(args.debug_string, args.debug_string_size))
        }
    }

    /// The devices that can address the memory.
    pub fn devices(&self) -> Result<Vec<Device>, Error> {
        let mut args = PJRT_Memory_AddressableByDevices_Args::new();
        args.memory = self.raw();
        // SAFETY: the memory is alive.
        unsafe { self.client.api.call(slot::PJRT_Memory_AddressableByDevices, &mut args)? };
        // SAFETY: the list lives as long as the memory.
        let devices = unsafe { list(args.devices, args.num_devices) };
        let call = slot::PJRT_Memory_AddressableByDevices.name();
        devices.into_iter().map(|raw| Device::new(&self.client, raw, call)).collect()
    }
}

impl Device {
    /// The memories the device can address.
    pub fn memories(&self) -> Result<Vec<Memory>, Error> {
        let mut args = PJRT_Device_AddressableMemories_Args::new();
        args.device = self.raw();
        // SAFETY: the device is alive.
        unsafe { self.client.api.call(slot::PJRT_Device_AddressableMemories, &mut args)? };
        // SAFETY: the list lives as long as the device.
        let memories = unsafe { list(args.memories, args.num_memories) };
        let call = slot::PJRT_Device_AddressableMemories.name();
        memories.into_iter().map(|raw| Memory::new(&self.client, raw, call)).collect()
    }

    /// The memory where data of the device is put unless told otherwise.
    pub fn default_memory(&self) -> Result<Memory, Error> {
        let mut args = PJRT_Device_DefaultMemory_Args::new();
        args.device = self.raw();
        // SAFETY: the device is alive.
        unsafe { self.client.api.call(slot::PJRT_Device_DefaultMemory, &mut args)? };
        Memory::new(&self.client, args.memory, slot::PJRT_Device_DefaultMemory.name())
    }
}
