//! Memory descriptions: kinds of memory of devices that need not be present.
#![allow(unsafe_code)]

use std::sync::Arc;

use pjrt_sys::extensions::memory_descriptions::*;

use super::record::Record;
use crate::api::{Api, list, text};
use crate::error::Error;
use crate::topology::Topology;

/// One kind of memory.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct MemoryDescription {
    /// Its name, such as `device` or `pinned_host`.
    pub name: String,
    /// Its number.
    pub id: i32,
}

/// The kinds of memory of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryKinds {
    /// All kinds, in no particular order.
    pub kinds: Vec<MemoryDescription>,
    /// Index of the kind where data is put unless told otherwise.
    pub default: Option<usize>,
}

/// The memory descriptions extension of a plugin.
#[derive(Clone, Debug)]
pub struct MemoryDescriptions {
    record: Record<PJRT_MemoryDescriptions_Extension>,
}

impl MemoryDescriptions {
    pub(crate) fn find(api: &Arc<Api>) -> Option<Self> {
        Record::find(api, PJRT_MemoryDescriptions_Extension::TYPE).map(|record| Self { record })
    }

    /// Kinds of memory of a device of a topology, by its place in [`Topology::devices`].
    pub fn of_device(&self, topology: &Topology, index: usize) -> Result<MemoryKinds, Error> {
        self.record.api.same(topology.api())?;
        let devices = topology.raw_devices()?;
        let device = devices.get(index).ok_or_else(|| {
            Error::input(format!("the topology has {} devices, and none with index {index}", devices.len()))
        })?;
        let mut args = PJRT_DeviceDescription_MemoryDescriptions_Args::new();
        args.device_description = *device;
        // SAFETY: the device's description lives as long as the topology, and so does the list.
        let raw = unsafe {
            self.record.call(slot::PJRT_DeviceDescription_MemoryDescriptions, &mut args)?;
            list(args.memory_descriptions, args.num_memory_descriptions)
        };
        let mut kinds = Vec::with_capacity(raw.len());
        for memory in raw {
            let mut args = PJRT_MemoryDescription_Kind_Args::new();
            args.memory_description = memory;
            // SAFETY: the memory's description lives as long as the topology, and so does its name.
            unsafe {
                self.record.call(slot::PJRT_MemoryDescription_Kind, &mut args)?;
                kinds.push(MemoryDescription { name: text(args.kind, args.kind_size), id: args.kind_id });
            }
        }
        let default = Some(args.default_memory_index).filter(|index| *index < kinds.len());
        Ok(MemoryKinds { kinds, default })
    }
}
