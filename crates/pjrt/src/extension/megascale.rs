//! Megascale: configurations of programs that span several slices.
#![allow(unsafe_code)]

use std::sync::Arc;

use pjrt_sys::PJRT_MultiSlice_Config;
use pjrt_sys::extensions::megascale::{self, *};
use pjrt_sys::extensions::multi_slice::{self, *};

use super::record::Record;
use crate::api::{Api, bytes};
use crate::error::Error;
use crate::topology::Topology;

/// The two multi-slice extensions of a plugin.
#[derive(Clone, Debug)]
pub struct Megascale {
    megascale: Record<PJRT_Megascale_Extension>,
    multi_slice: Record<PJRT_MultiSlice_Extension>,
}

/// A configuration owned by us.
struct Config<'a> {
    record: &'a Record<PJRT_MultiSlice_Extension>,
    raw: *mut PJRT_MultiSlice_Config,
}

impl Drop for Config<'_> {
    fn drop(&mut self) {
        let mut args = PJRT_MultiSlice_Config_Destroy_Args::new();
        args.config = self.raw;
        // Nothing can be done about a failure to free.
        // SAFETY: the configuration is alive and this is its owner.
        let _ = unsafe { self.record.call(multi_slice::slot::config_destroy, &mut args) };
    }
}

impl Megascale {
    pub(crate) fn find(api: &Arc<Api>) -> Option<Self> {
        let megascale = Record::find(api, PJRT_Megascale_Extension::TYPE)?;
        let multi_slice = Record::find(api, PJRT_MultiSlice_Extension::TYPE)?;
        Some(Self { megascale, multi_slice })
    }

    /// The configuration for compiling on `num_slices` slices like `topology`, as
    /// [`CompileOptions::serialized_multi_slice_config`](crate::CompileOptions::serialized_multi_slice_config) takes it.
    pub fn compile_config(&self, topology: &Topology, num_slices: i32) -> Result<Vec<u8>, Error> {
        self.megascale.api.same(topology.api())?;
        let mut args = PJRT_Megascale_CreateAoTConfig_Args::new();
        args.topology = topology.raw();
        args.num_slices = num_slices;
        // SAFETY: the topology is alive and of this plugin.
        unsafe { self.megascale.call(megascale::slot::create_aot_config, &mut args)? };
        if args.multi_slice_config.is_null() {
            return Err(Error::Answer { call: "create_aot_config", what: "the configuration is null" });
        }
        let config = Config { record: &self.multi_slice, raw: args.multi_slice_config };
        let mut args = PJRT_MultiSlice_Config_Serialize_Args::new();
        args.config = config.raw;
        // SAFETY: the configuration is alive; the bytes live until the deleter is called.
        let serialized = unsafe {
            self.multi_slice.call(multi_slice::slot::config_serialize, &mut args)?;
            bytes(args.serialized, args.size)
        };
        if let Some(delete) = args.serialized_config_deleter {
            // SAFETY: called once, after the bytes were copied.
            unsafe { delete(args.serialized_config) };
        }
        Ok(serialized)
    }

    /// The device id a multi-slice program uses for a device of a slice.
    pub fn global_device_id(&self, slice: i32, device: i32) -> Result<i64, Error> {
        let mut args = PJRT_Megascale_DeviceId_To_MegascaleId_Args::new();
        args.slice_id = slice;
        args.per_slice_device_id = device;
        // SAFETY: the arguments are numbers.
        unsafe { self.megascale.call(megascale::slot::device_id_to_megascale_id, &mut args)? };
        Ok(args.megascale_id)
    }

    /// Slice and device of a multi-slice program's device id.
    pub fn slice_and_device(&self, global_device_id: i64) -> Result<(i32, i32), Error> {
        let mut args = PJRT_Megascale_MegascaleId_To_DeviceId_Args::new();
        args.megascale_id = global_device_id;
        // SAFETY: the arguments are numbers.
        unsafe { self.megascale.call(megascale::slot::megascale_id_to_device_id, &mut args)? };
        Ok((args.slice_id, args.per_slice_device_id))
    }
}
