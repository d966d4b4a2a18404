//! Phase compile: running parts of a compiler by name.
#![allow(unsafe_code)]

use std::ffi::{CString, c_char};
use std::sync::Arc;

use pjrt_sys::extensions::phase_compile::*;
use prost::Message;

use super::record::Record;
use crate::api::{Api, bytes, chars, list, text};
use crate::compile_options::CompileOptions;
use crate::error::Error;
use crate::topology::Topology;

/// A program between two phases (`PjRtPartialProgramProto`).
#[derive(Clone, PartialEq, Message)]
pub struct PartialProgram {
    /// The program, in the format the plugin's phases agreed on.
    #[prost(bytes = "vec", tag = "1")]
    pub program: Vec<u8>,
    /// Name of the format.
    #[prost(string, tag = "2")]
    pub program_format: String,
    /// The phase that made it.
    #[prost(string, tag = "3")]
    pub producer_phase: String,
    /// The phases that can take it.
    #[prost(string, repeated, tag = "4")]
    pub consumer_phases: Vec<String>,
    /// Version of the format.
    #[prost(string, tag = "5")]
    pub version: String,
    /// Tells the outputs of one phase apart.
    #[prost(string, tag = "6")]
    pub program_name: String,
}

impl PartialProgram {
    /// A StableHLO module as the input of a first phase.
    pub fn mlir(module: impl Into<Vec<u8>>, phase: &str) -> Self {
        Self {
            program: module.into(),
            program_format: "mlir".into(),
            consumer_phases: vec![phase.into()],
            version: "1.0".into(),
            ..Default::default()
        }
    }
}

/// The phase compile extension of a plugin.
#[derive(Clone, Debug)]
pub struct PhaseCompile {
    record: Record<PJRT_PhaseCompile_Extension>,
}

/// A compiler lent by the plugin.
struct Compiler<'a> {
    record: &'a Record<PJRT_PhaseCompile_Extension>,
    raw: *const PJRT_PhaseCompiler,
}

impl Drop for Compiler<'_> {
    fn drop(&mut self) {
        let mut args = PJRT_PhaseCompile_Destroy_Compiler_Args::new();
        args.phase_compiler = self.raw;
        // SAFETY: the record belongs to the plugin and begins with its size.
        if let Some(destroy) = unsafe { slot::phase_compile_destroy_compiler.read(self.record.table) } {
            // SAFETY: the compiler is alive and this is its owner.
            unsafe { destroy(&mut args) };
        }
    }
}

impl PhaseCompile {
    pub(crate) fn find(api: &Arc<Api>) -> Option<Self> {
        Record::find(api, PJRT_PhaseCompile_Extension::TYPE).map(|record| Self { record })
    }

    fn compiler(&self) -> Result<Compiler<'_>, Error> {
        let mut args = PJRT_PhaseCompile_Get_Compiler_Args::new();
        // SAFETY: the arguments hold nothing but their size.
        unsafe { self.record.call(slot::phase_compile_get_compiler, &mut args)? };
        match args.phase_compiler.is_null() {
            false => Ok(Compiler { record: &self.record, raw: args.phase_compiler }),
            true => Err(Error::Answer { call: "phase_compile_get_compiler", what: "the compiler is null" }),
        }
    }

    /// Names of the phases, in order.
    pub fn phases(&self) -> Result<Vec<String>, Error> {
        let compiler = self.compiler()?;
        let mut args = PJRT_PhaseCompile_Get_PhaseNames_Args::new();
        args.phase_compiler = compiler.raw;
        // SAFETY: the compiler is alive.
        unsafe { self.record.call(slot::phase_compile_get_phase_names, &mut args)? };
        // SAFETY: the names live until they are given back, which happens once, after they were copied.
        unsafe {
            let names = buffers(args.phase_names, args.phase_names_sizes, args.num_phase_names);
            let names = names.into_iter().map(|(data, size)| text(data, size)).collect();
            self.give_back(args.phase_names, args.phase_names_sizes, args.num_phase_names);
            Ok(names)
        }
    }

    /// Runs phases on programs and gives what comes out.
    pub fn run(
        &self,
        topology: &Topology,
        phases: &[&str],
        programs: Vec<PartialProgram>,
        options: &CompileOptions,
    ) -> Result<Vec<PartialProgram>, Error> {
        self.record.api.same(topology.api())?;
        let compiler = self.compiler()?;
        let phase_names = phases
            .iter()
            .map(|name| CString::new(*name))
            .collect::<Result<Vec<_>, _>>()
            .map_err(|_| Error::input("the name of a phase holds a zero byte"))?;
        let mut phase_pointers: Vec<*const c_char> = phase_names.iter().map(|name| name.as_ptr()).collect();
        let phase_sizes: Vec<usize> = phase_names.iter().map(|name| name.as_bytes().len()).collect();
        let inputs: Vec<Vec<u8>> = programs.into_iter().map(|program| program.encode_to_vec()).collect();
        let mut input_pointers: Vec<*const c_char> = inputs.iter().map(|input| chars(input)).collect();
        let input_sizes: Vec<usize> = inputs.iter().map(Vec::len).collect();
        let options = options.to_bytes();

        let mut args = PJRT_PhaseCompile_Run_Phase_Args::new();
        args.phase_compiler = compiler.raw;
        args.input_programs = input_pointers.as_mut_ptr();
        args.input_programs_sizes = input_sizes.as_ptr();
        args.num_input_programs = inputs.len();
        args.phases_to_run = phase_pointers.as_mut_ptr();
        args.phases_to_run_sizes = phase_sizes.as_ptr();
        args.num_phases_to_run = phases.len();
        args.compile_options = chars(&options);
        args.compile_options_size = options.len();
        args.topology = topology.raw();
        // SAFETY: compiler and topology are alive and of one plugin; the arrays above live until the end of this
        // function and have the stated lengths.
        unsafe { self.record.call(slot::phase_compile_run_phases, &mut args)? };
        // SAFETY: the outputs live until they are given back, which happens once, after they were copied.
        let outputs: Vec<Vec<u8>> = unsafe {
            let outputs = buffers(args.output_programs, args.output_programs_sizes, args.num_output_programs);
            let outputs = outputs.into_iter().map(|(data, size)| bytes(data, size)).collect();
            self.give_back(args.output_programs, args.output_programs_sizes, args.num_output_programs);
            outputs
        };
        let call = "phase_compile_run_phases";
        outputs
            .iter()
            .map(|output| PartialProgram::decode(output.as_slice()).map_err(|source| Error::Decode { call, source }))
            .collect()
    }

    /// Frees what a call answered.
    ///
    /// # Safety
    /// The arrays are what a function of this record answered, and are not used afterwards.
    unsafe fn give_back(&self, data: *mut *const c_char, sizes: *const usize, count: usize) {
        let mut args = PJRT_PhaseCompile_C_Buffers_Destroy_Args::new();
        args.char_buffers = data;
        args.char_buffer_sizes = sizes;
        args.num_char_buffers = count;
        // SAFETY: the record belongs to the plugin and begins with its size.
        if let Some(destroy) = unsafe { slot::phase_compile_c_buffers_destroy.read(self.record.table) } {
            // SAFETY: as the caller promises.
            unsafe { destroy(&mut args) };
        }
    }
}

/// # Safety
/// Both arrays are null or have `count` entries.
unsafe fn buffers(data: *mut *const c_char, sizes: *const usize, count: usize) -> Vec<(*const c_char, usize)> {
    // SAFETY: as the caller promises.
    unsafe { list(data.cast_const(), count).into_iter().zip(list(sizes, count)).collect() }
}
