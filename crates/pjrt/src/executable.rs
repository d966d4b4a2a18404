//! Compiled programs: what is known about them, and their stored form.
#![allow(unsafe_code)]

use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;

use pjrt_sys::*;

use crate::api::{Api, bytes, list, text};
use crate::attribute::{self, AttributeValue};
use crate::buffer_type::BufferType;
use crate::compile_options::CompileOptions;
use crate::error::Error;
use crate::handle::ClientHandle;
use crate::program::{EncodedProgram, Format};

/// Memory a compiled program needs per device, in bytes. Figures the plugin does not know are `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CompiledMemoryStats {
    /// The program's code.
    pub generated_code_bytes: i64,
    /// Arguments.
    pub argument_bytes: i64,
    /// Outputs, those that reuse arguments included.
    pub output_bytes: i64,
    /// Outputs that reuse arguments.
    pub alias_bytes: i64,
    /// Everything between arguments and outputs.
    pub temp_bytes: i64,
    /// Code in host memory.
    pub host_generated_code_bytes: i64,
    /// Arguments in host memory.
    pub host_argument_bytes: i64,
    /// Outputs in host memory.
    pub host_output_bytes: i64,
    /// Outputs in host memory that reuse arguments.
    pub host_alias_bytes: i64,
    /// Everything in between, in host memory.
    pub host_temp_bytes: i64,
    /// The most that is live at once.
    pub peak_memory_bytes: Option<i64>,
    /// Everything together.
    pub total_bytes: Option<i64>,
    /// What is allocated, and compared with the device's limit.
    pub total_allocation_bytes: Option<i64>,
    /// Allocations that live as long as the program.
    pub indefinite_allocation_bytes: Option<i64>,
    /// The most that is live at once, without padding.
    pub peak_unpadded_heap_bytes: Option<i64>,
}

/// A compiled program that is not tied to present devices. Clones are the same program.
#[derive(Clone)]
pub struct Executable {
    handle: Arc<Handle>,
}

struct Handle {
    api: Arc<Api>,
    raw: NonNull<PJRT_Executable>,
    /// The client behind an executable that was taken from a loaded one.
    _client: Option<Arc<ClientHandle>>,
}

// SAFETY: a compiled program does not change, and the interface ties none of its functions to a thread.
unsafe impl Send for Handle {}
// SAFETY: as for `Send`; what plugins compute lazily behind it, such as cost analysis, they guard themselves.
unsafe impl Sync for Handle {}

impl Drop for Handle {
    fn drop(&mut self) {
        let mut args = PJRT_Executable_Destroy_Args::new();
        args.executable = self.raw.as_ptr();
        // Nothing can be done about a failure to free.
        // SAFETY: this handle owns the executable and is the last one.
        let _ = unsafe { self.api.call(slot::PJRT_Executable_Destroy, &mut args) };
    }
}

impl fmt::Debug for Executable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Executable").field("raw", &self.handle.raw).finish()
    }
}

impl Executable {
    pub(crate) fn owned(
        api: &Arc<Api>,
        raw: *mut PJRT_Executable,
        client: Option<Arc<ClientHandle>>,
        call: &'static str,
    ) -> Result<Self, Error> {
        let raw = NonNull::new(raw).ok_or(Error::Answer { call, what: "the executable is null" })?;
        Ok(Self { handle: Arc::new(Handle { api: api.clone(), raw, _client: client }) })
    }

    pub(crate) fn api(&self) -> &Arc<Api> {
        &self.handle.api
    }

    pub(crate) fn raw(&self) -> *mut PJRT_Executable {
        self.handle.raw.as_ptr()
    }

    /// The program's name.
    pub fn name(&self) -> Result<String, Error> {
        let mut args = PJRT_Executable_Name_Args::new();
        args.executable = self.raw();
        // SAFETY: the executable is alive, and the text lives as long.
        unsafe {
            self.api().call(slot::PJRT_Executable_Name, &mut args)?;
            Ok(text(args.executable_name, args.executable_name_size))
        }
    }

    /// Number of replicas.
    pub fn num_replicas(&self) -> Result<usize, Error> {
        let mut args = PJRT_Executable_NumReplicas_Args::new();
        args.executable = self.raw();
        // SAFETY: the executable is alive.
        unsafe { self.api().call(slot::PJRT_Executable_NumReplicas, &mut args)? };
        Ok(args.num_replicas)
    }

    /// Number of partitions.
    pub fn num_partitions(&self) -> Result<usize, Error> {
        let mut args = PJRT_Executable_NumPartitions_Args::new();
        args.executable = self.raw();
        // SAFETY: the executable is alive.
        unsafe { self.api().call(slot::PJRT_Executable_NumPartitions, &mut args)? };
        Ok(args.num_partitions)
    }

    /// Outputs per device.
    pub fn num_outputs(&self) -> Result<usize, Error> {
        let mut args = PJRT_Executable_NumOutputs_Args::new();
        args.executable = self.raw();
        // SAFETY: the executable is alive.
        unsafe { self.api().call(slot::PJRT_Executable_NumOutputs, &mut args)? };
        Ok(args.num_outputs)
    }

    /// Size of the code in bytes.
    pub fn code_size_bytes(&self) -> Result<i64, Error> {
        let mut args = PJRT_Executable_SizeOfGeneratedCodeInBytes_Args::new();
        args.executable = self.raw();
        // SAFETY: the executable is alive.
        unsafe { self.api().call(slot::PJRT_Executable_SizeOfGeneratedCodeInBytes, &mut args)? };
        Ok(args.size_in_bytes)
    }

    /// What the compiler thinks the program costs, such as `flops` and `bytes accessed`. Loop bodies count once.
    pub fn cost_analysis(&self) -> Result<Vec<(String, AttributeValue)>, Error> {
        let mut args = PJRT_Executable_GetCostAnalysis_Args::new();
        args.executable = self.raw();
        // SAFETY: the executable is alive, and the properties live as long.
        unsafe {
            self.api().call(slot::PJRT_Executable_GetCostAnalysis, &mut args)?;
            Ok(attribute::decode(args.properties, args.num_properties))
        }
    }

    /// Memory the program needs per device.
    pub fn memory_stats(&self) -> Result<CompiledMemoryStats, Error> {
        /// Marks figures an older plugin does not write.
        const UNWRITTEN: i64 = i64::MIN;
        let mut args = PJRT_Executable_GetCompiledMemoryStats_Args::new();
        args.executable = self.raw();
        args.peak_memory_in_bytes = UNWRITTEN;
        args.total_size_in_bytes = UNWRITTEN;
        args.total_allocation_bytes = UNWRITTEN;
        args.indefinite_allocations = UNWRITTEN;
        args.peak_unpadded_heap_bytes = UNWRITTEN;
        // SAFETY: the executable is alive.
        unsafe { self.api().call(slot::PJRT_Executable_GetCompiledMemoryStats, &mut args)? };
        let written = |value: i64| (value != UNWRITTEN).then_some(value);
        Ok(CompiledMemoryStats {
            generated_code_bytes: args.generated_code_size_in_bytes,
            argument_bytes: args.argument_size_in_bytes,
            output_bytes: args.output_size_in_bytes,
            alias_bytes: args.alias_size_in_bytes,
            temp_bytes: args.temp_size_in_bytes,
            host_generated_code_bytes: args.host_generated_code_size_in_bytes,
            host_argument_bytes: args.host_argument_size_in_bytes,
            host_output_bytes: args.host_output_size_in_bytes,
            host_alias_bytes: args.host_alias_size_in_bytes,
            host_temp_bytes: args.host_temp_size_in_bytes,
            peak_memory_bytes: written(args.peak_memory_in_bytes),
            total_bytes: written(args.total_size_in_bytes),
            total_allocation_bytes: written(args.total_allocation_bytes),
            indefinite_allocation_bytes: written(args.indefinite_allocations),
            peak_unpadded_heap_bytes: written(args.peak_unpadded_heap_bytes),
        })
    }

    /// The program as the compiler left it.
    pub fn optimized_program(&self) -> Result<EncodedProgram, Error> {
        let mut program = PJRT_Program::new();
        let mut args = PJRT_Executable_OptimizedProgram_Args::new();
        args.executable = self.raw();
        args.program = &mut program;
        // SAFETY: the executable is alive; without memory the call only reports a size.
        unsafe { self.api().call(slot::PJRT_Executable_OptimizedProgram, &mut args)? };
        let mut code = vec![0u8; program.code_size];
        program.code = code.as_mut_ptr().cast();
        args.program = &mut program;
        // SAFETY: `code` has the size the first call reported.
        unsafe { self.api().call(slot::PJRT_Executable_OptimizedProgram, &mut args)? };
        code.truncate(program.code_size);
        // SAFETY: the format belongs to the plugin and is as long as stated.
        let format = unsafe { text(program.format, program.format_size) };
        Ok(EncodedProgram { format: Format::from_name(&format), bytes: code })
    }

    /// A form that can be stored and loaded by the same plugin version; see
    /// [`Client::deserialize`](crate::Client::deserialize).
    pub fn serialize(&self) -> Result<Vec<u8>, Error> {
        let mut args = PJRT_Executable_Serialize_Args::new();
        args.executable = self.raw();
        // SAFETY: the executable is alive.
        unsafe { self.api().call(slot::PJRT_Executable_Serialize, &mut args)? };
        // SAFETY: the bytes live until the deleter is called.
        let serialized = unsafe { bytes(args.serialized_bytes, args.serialized_bytes_size) };
        if let Some(delete) = args.serialized_executable_deleter {
            // SAFETY: called once, after the bytes were copied.
            unsafe { delete(args.serialized_executable) };
        }
        Ok(serialized)
    }

    /// The options the program was compiled with.
    pub fn compile_options(&self) -> Result<CompileOptions, Error> {
        let mut args = PJRT_Executable_GetCompileOptions_Args::new();
        args.executable = self.raw();
        // SAFETY: the executable is alive.
        unsafe { self.api().call(slot::PJRT_Executable_GetCompileOptions, &mut args)? };
        // SAFETY: the bytes live until the deleter is called.
        let serialized = unsafe { bytes(args.serialized_bytes, args.serialized_bytes_size) };
        if let Some(delete) = args.serialized_compile_options_deleter {
            // SAFETY: called once, after the bytes were copied.
            unsafe { delete(args.serialized_compile_options) };
        }
        CompileOptions::decode(slot::PJRT_Executable_GetCompileOptions.name(), &serialized)
    }

    /// Bytes that are equal for equal programs compiled with equal options by the same compiler.
    pub fn fingerprint(&self) -> Result<Vec<u8>, Error> {
        let mut args = PJRT_Executable_Fingerprint_Args::new();
        args.executable = self.raw();
        // SAFETY: the executable is alive, and the bytes live as long.
        unsafe {
            self.api().call(slot::PJRT_Executable_Fingerprint, &mut args)?;
            Ok(bytes(args.executable_fingerprint, args.executable_fingerprint_size))
        }
    }

    /// Element type of each output.
    pub fn output_types(&self) -> Result<Vec<BufferType>, Error> {
        let mut args = PJRT_Executable_OutputElementTypes_Args::new();
        args.executable = self.raw();
        // SAFETY: the executable is alive, and the list lives as long.
        let types = unsafe {
            self.api().call(slot::PJRT_Executable_OutputElementTypes, &mut args)?;
            list(args.output_types, args.num_output_types)
        };
        Ok(types.into_iter().map(BufferType::from_number).collect())
    }

    /// Dimensions of each output, per device.
    pub fn output_dims(&self) -> Result<Vec<Vec<i64>>, Error> {
        let mut args = PJRT_Executable_OutputDimensions_Args::new();
        args.executable = self.raw();
        // SAFETY: the executable is alive, and the list lives as long.
        let ranks = unsafe {
            self.api().call(slot::PJRT_Executable_OutputDimensions, &mut args)?;
            list(args.dim_sizes, args.num_outputs)
        };
        let overflow = Error::Answer {
            call: slot::PJRT_Executable_OutputDimensions.name(),
            what: "the ranks of the outputs overflow",
        };
        let total = ranks.iter().try_fold(0usize, |sum, rank| sum.checked_add(*rank)).ok_or(overflow)?;
        // SAFETY: `dims` has as many entries as the ranks sum up to.
        let dims = unsafe { list(args.dims, total) };
        let mut rest = dims.as_slice();
        let mut outputs = Vec::with_capacity(ranks.len());
        for rank in ranks {
            let (output, after) = rest.split_at_checked(rank).unwrap_or_default();
            outputs.push(output.to_vec());
            rest = after;
        }
        Ok(outputs)
    }

    /// Kind of memory of each output.
    pub fn output_memory_kinds(&self) -> Result<Vec<String>, Error> {
        let mut args = PJRT_Executable_OutputMemoryKinds_Args::new();
        args.executable = self.raw();
        // SAFETY: the executable is alive, and the texts live as long.
        unsafe {
            self.api().call(slot::PJRT_Executable_OutputMemoryKinds, &mut args)?;
            Ok(texts(args.memory_kinds, args.memory_kind_sizes, args.num_outputs))
        }
    }

    /// Kind of memory of each parameter.
    pub fn parameter_memory_kinds(&self) -> Result<Vec<String>, Error> {
        let mut args = PJRT_Executable_ParameterMemoryKinds_Args::new();
        args.executable = self.raw();
        // SAFETY: the executable is alive, and the texts live as long.
        unsafe {
            self.api().call(slot::PJRT_Executable_ParameterMemoryKinds, &mut args)?;
            Ok(texts(args.memory_kinds, args.memory_kind_sizes, args.num_parameters))
        }
    }
}

/// # Safety
/// `data` and `sizes` are null or have `count` entries, each text as long as its size.
unsafe fn texts(data: *const *const std::ffi::c_char, sizes: *const usize, count: usize) -> Vec<String> {
    // SAFETY: as the caller promises.
    let (data, sizes) = unsafe { (list(data, count), list(sizes, count)) };
    // SAFETY: as the caller promises.
    data.into_iter().zip(sizes).map(|(data, size)| unsafe { text(data, size) }).collect()
}
