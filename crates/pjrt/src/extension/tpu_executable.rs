//! TPU executable: what is inside a serialized TPU executable, without loading it.
#![allow(unsafe_code)]

use std::sync::Arc;

use pjrt_sys::extensions::tpu_executable::*;
use prost::Message;

use super::record::Record;
use crate::api::{Api, bytes, chars};
use crate::error::Error;
use crate::program::{EncodedProgram, Format};

/// The TPU executable extension of a plugin.
#[derive(Clone, Debug)]
pub struct TpuExecutable {
    record: Record<PJRT_TpuExecutable_Extension>,
}

/// Memory plan of a serialized executable (`CompiledMemoryStatsProto`).
#[derive(Clone, PartialEq, Message)]
pub struct TpuMemoryStats {
    /// The program's code, in bytes.
    #[prost(int64, tag = "1")]
    pub generated_code_bytes: i64,
    /// Arguments, in bytes.
    #[prost(int64, tag = "2")]
    pub argument_bytes: i64,
    /// Outputs, in bytes, those that reuse arguments included.
    #[prost(int64, tag = "3")]
    pub output_bytes: i64,
    /// Outputs that reuse arguments, in bytes.
    #[prost(int64, tag = "4")]
    pub alias_bytes: i64,
    /// Everything between arguments and outputs, in bytes.
    #[prost(int64, tag = "5")]
    pub temp_bytes: i64,
    /// A serialized `BufferAssignmentProto`.
    #[prost(bytes = "vec", tag = "13")]
    pub serialized_buffer_assignment: Vec<u8>,
    /// The most that is live at once, in bytes.
    #[prost(int64, tag = "14")]
    pub peak_memory_bytes: i64,
    /// Everything together, in bytes.
    #[prost(int64, tag = "15")]
    pub total_bytes: i64,
    /// What is allocated, in bytes.
    #[prost(int64, tag = "16")]
    pub total_allocation_bytes: i64,
}

impl TpuExecutable {
    pub(crate) fn find(api: &Arc<Api>) -> Option<Self> {
        Record::find(api, PJRT_TpuExecutable_Extension::TYPE).map(|record| Self { record })
    }

    /// The memory plan, with the assignment of every buffer.
    pub fn memory_stats(&self, serialized_executable: &[u8]) -> Result<TpuMemoryStats, Error> {
        let mut args = PJRT_TpuExecutable_GetCompiledMemoryStats_Args::new();
        args.serialized_executable = chars(serialized_executable);
        args.serialized_executable_size = serialized_executable.len();
        // SAFETY: the executable is borrowed for the call; the answer lives until the deleter is called.
        let stats = unsafe {
            self.record.call(slot::get_compiled_memory_stats, &mut args)?;
            bytes(args.compiled_memory_stats, args.compiled_memory_stats_size)
        };
        if let Some(delete) = args.compiled_memory_stats_deleter {
            // SAFETY: called once, after the bytes were copied.
            unsafe { delete(args.compiled_memory_stats_ptr) };
        }
        let call = slot::get_compiled_memory_stats.name();
        TpuMemoryStats::decode(stats.as_slice()).map_err(|source| Error::Decode { call, source })
    }

    /// The optimized program.
    pub fn program(&self, serialized_executable: &[u8]) -> Result<EncodedProgram, Error> {
        let mut args = PJRT_TpuExecutable_GetHloModuleWithConfig_Args::new();
        args.serialized_executable = chars(serialized_executable);
        args.serialized_executable_size = serialized_executable.len();
        // SAFETY: the executable is borrowed for the call; the answer lives until the deleter is called.
        let module = unsafe {
            self.record.call(slot::get_hlo_module_with_config, &mut args)?;
            bytes(args.hlo_module_with_config, args.hlo_module_with_config_size)
        };
        if let Some(delete) = args.hlo_module_with_config_deleter {
            // SAFETY: called once, after the bytes were copied.
            unsafe { delete(args.hlo_module_with_config_ptr) };
        }
        Ok(EncodedProgram { format: Format::HloWithConfig, bytes: module })
    }
}
