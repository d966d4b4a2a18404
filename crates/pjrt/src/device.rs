//! Devices: descriptions as plain data, and devices of a client.
#![allow(unsafe_code)]

use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;

use pjrt_sys::*;

use crate::api::{Api, text};
use crate::attribute::{self, AttributeValue};
use crate::error::Error;
use crate::handle::ClientHandle;

/// What a device is, present or not.
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceDescription {
    /// Unique among the devices of a platform, also over several hosts.
    pub id: i32,
    /// Index of the process the device belongs to.
    pub process_index: i32,
    /// The vendor's name of this kind of device, such as `TPU v5 lite`.
    pub kind: String,
    /// What the plugin says about the device, such as `coords`.
    pub attributes: Vec<(String, AttributeValue)>,
    /// A name for logs, detailed.
    pub debug_string: String,
    /// A name for people, short.
    pub display: String,
}

impl DeviceDescription {
    /// # Safety
    /// `raw` is a description of this plugin, alive during the call.
    pub(crate) unsafe fn read(api: &Api, raw: *mut PJRT_DeviceDescription) -> Result<Self, Error> {
        let mut id = PJRT_DeviceDescription_Id_Args::new();
        id.device_description = raw;
        let mut process_index = PJRT_DeviceDescription_ProcessIndex_Args::new();
        process_index.device_description = raw;
        let mut kind = PJRT_DeviceDescription_Kind_Args::new();
        kind.device_description = raw;
        let mut attributes = PJRT_DeviceDescription_Attributes_Args::new();
        attributes.device_description = raw;
        let mut debug_string = PJRT_DeviceDescription_DebugString_Args::new();
        debug_string.device_description = raw;
        let mut display = PJRT_DeviceDescription_ToString_Args::new();
        display.device_description = raw;
        // SAFETY: the caller vouches for `raw`; what is answered lives as long as it and is copied here.
        unsafe {
            api.call(slot::PJRT_DeviceDescription_Id, &mut id)?;
            api.call(slot::PJRT_DeviceDescription_ProcessIndex, &mut process_index)?;
            api.call(slot::PJRT_DeviceDescription_Kind, &mut kind)?;
            api.call(slot::PJRT_DeviceDescription_Attributes, &mut attributes)?;
            api.call(slot::PJRT_DeviceDescription_DebugString, &mut debug_string)?;
            api.call(slot::PJRT_DeviceDescription_ToString, &mut display)?;
            Ok(Self {
                id: id.id,
                process_index: process_index.process_index,
                kind: text(kind.device_kind, kind.device_kind_size),
                attributes: attribute::decode(attributes.attributes, attributes.num_attributes),
                debug_string: text(debug_string.debug_string, debug_string.debug_string_size),
                display: text(display.to_string, display.to_string_size),
            })
        }
    }

    /// An attribute by name.
    pub fn attribute(&self, name: &str) -> Option<&AttributeValue> {
        self.attributes.iter().find(|(found, _)| found == name).map(|(_, value)| value)
    }
}

/// Memory use of a device. Figures the plugin does not know are `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct DeviceMemoryStats {
    pub bytes_in_use: i64,
    pub peak_bytes_in_use: Option<i64>,
    pub num_allocs: Option<i64>,
    pub largest_alloc_bytes: Option<i64>,
    pub bytes_limit: Option<i64>,
    pub bytes_reserved: Option<i64>,
    pub peak_bytes_reserved: Option<i64>,
    pub bytes_reservable_limit: Option<i64>,
    pub largest_free_block_bytes: Option<i64>,
    pub pool_bytes: Option<i64>,
    pub peak_pool_bytes: Option<i64>,
    pub peak_allocated_bytes: Option<i64>,
}

/// A device of a client.
#[derive(Clone)]
pub struct Device {
    pub(crate) client: Arc<ClientHandle>,
    raw: NonNull<PJRT_Device>,
}

// SAFETY: a device lives as long as its client, which `client` keeps alive; the interface lets every function on it be
// called from any thread.
unsafe impl Send for Device {}
// SAFETY: as for `Send`; the plugin synchronizes what changes behind a device, such as its memory statistics.
unsafe impl Sync for Device {}

impl PartialEq for Device {
    fn eq(&self, other: &Self) -> bool {
        self.raw == other.raw
    }
}

impl Eq for Device {}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Device").field("raw", &self.raw).finish()
    }
}

impl Device {
    pub(crate) fn new(client: &Arc<ClientHandle>, raw: *mut PJRT_Device, call: &'static str) -> Result<Self, Error> {
        let raw = NonNull::new(raw).ok_or(Error::Answer { call, what: "the device is null" })?;
        Ok(Self { client: client.clone(), raw })
    }

    pub(crate) fn raw(&self) -> *mut PJRT_Device {
        self.raw.as_ptr()
    }

    fn raw_description(&self) -> Result<*mut PJRT_DeviceDescription, Error> {
        let mut args = PJRT_Device_GetDescription_Args::new();
        args.device = self.raw();
        // SAFETY: the device is alive.
        unsafe { self.client.api.call(slot::PJRT_Device_GetDescription, &mut args)? };
        let call = slot::PJRT_Device_GetDescription.name();
        match args.device_description.is_null() {
            true => Err(Error::Answer { call, what: "the description is null" }),
            false => Ok(args.device_description),
        }
    }

    /// What the device is.
    pub fn description(&self) -> Result<DeviceDescription, Error> {
        let raw = self.raw_description()?;
        // SAFETY: the description lives as long as the device.
        unsafe { DeviceDescription::read(&self.client.api, raw) }
    }

    /// The device's id, unique among the devices of the platform.
    pub fn id(&self) -> Result<i32, Error> {
        let mut args = PJRT_DeviceDescription_Id_Args::new();
        args.device_description = self.raw_description()?;
        // SAFETY: the description lives as long as the device.
        unsafe { self.client.api.call(slot::PJRT_DeviceDescription_Id, &mut args)? };
        Ok(args.id)
    }

    /// The vendor's name of this kind of device.
    pub fn kind(&self) -> Result<String, Error> {
        let mut args = PJRT_DeviceDescription_Kind_Args::new();
        args.device_description = self.raw_description()?;
        // SAFETY: the description lives as long as the device, and so does the text.
        unsafe {
            self.client.api.call(slot::PJRT_DeviceDescription_Kind, &mut args)?;
            Ok(text(args.device_kind, args.device_kind_size))
        }
    }

    /// Whether this process can use the device, or only sees it.
    pub fn is_addressable(&self) -> Result<bool, Error> {
        let mut args = PJRT_Device_IsAddressable_Args::new();
        args.device = self.raw();
        // SAFETY: the device is alive.
        unsafe { self.client.api.call(slot::PJRT_Device_IsAddressable, &mut args)? };
        Ok(args.is_addressable)
    }

    /// The number of the device on its host. `None` if it has none.
    pub fn local_hardware_id(&self) -> Result<Option<i32>, Error> {
        let mut args = PJRT_Device_LocalHardwareId_Args::new();
        args.device = self.raw();
        // SAFETY: the device is alive.
        unsafe { self.client.api.call(slot::PJRT_Device_LocalHardwareId, &mut args)? };
        Ok(Some(args.local_hardware_id).filter(|id| *id != -1))
    }

    /// What the plugin says about the device as it is now.
    pub fn attributes(&self) -> Result<Vec<(String, AttributeValue)>, Error> {
        let mut args = PJRT_Device_GetAttributes_Args::new();
        args.device = self.raw();
        // SAFETY: the device is alive.
        unsafe { self.client.api.call(slot::PJRT_Device_GetAttributes, &mut args)? };
        // SAFETY: attributes live until the deleter is called.
        let attributes = unsafe { attribute::decode(args.attributes, args.num_attributes) };
        if let Some(delete) = args.attributes_deleter {
            // SAFETY: called once, after the attributes were copied.
            unsafe { delete(args.device_attributes) };
        }
        Ok(attributes)
    }

    /// Memory in use.
    pub fn memory_stats(&self) -> Result<DeviceMemoryStats, Error> {
        let mut args = PJRT_Device_MemoryStats_Args::new();
        args.device = self.raw();
        // SAFETY: the device is alive.
        unsafe { self.client.api.call(slot::PJRT_Device_MemoryStats, &mut args)? };
        let known = |value: i64, is_set: bool| is_set.then_some(value);
        Ok(DeviceMemoryStats {
            bytes_in_use: args.bytes_in_use,
            peak_bytes_in_use: known(args.peak_bytes_in_use, args.peak_bytes_in_use_is_set),
            num_allocs: known(args.num_allocs, args.num_allocs_is_set),
            largest_alloc_bytes: known(args.largest_alloc_size, args.largest_alloc_size_is_set),
            bytes_limit: known(args.bytes_limit, args.bytes_limit_is_set),
            bytes_reserved: known(args.bytes_reserved, args.bytes_reserved_is_set),
            peak_bytes_reserved: known(args.peak_bytes_reserved, args.peak_bytes_reserved_is_set),
            bytes_reservable_limit: known(args.bytes_reservable_limit, args.bytes_reservable_limit_is_set),
            largest_free_block_bytes: known(args.largest_free_block_bytes, args.largest_free_block_bytes_is_set),
            pool_bytes: known(args.pool_bytes, args.pool_bytes_is_set),
            peak_pool_bytes: known(args.peak_pool_bytes, args.peak_pool_bytes_is_set),
            peak_allocated_bytes: known(args.peak_allocated_bytes, args.peak_allocated_bytes_is_set),
        })
    }

    /// Starts the peaks of the memory statistics afresh.
    pub fn clear_memory_stats(&self) -> Result<(), Error> {
        let mut args = PJRT_Device_ClearMemoryStats_Args::new();
        args.device = self.raw();
        // SAFETY: the device is alive.
        unsafe { self.client.api.call(slot::PJRT_Device_ClearMemoryStats, &mut args) }
    }
}
