//! Phase compile extension: run parts of the compiler by name.

use std::ffi::c_char;

use crate::abi::{args, extension, opaque};
use crate::*;

opaque! {
    /// A compiler that runs phases by name.
    PJRT_PhaseCompiler,
}

args! {
    /// Arguments of `PJRT_PhaseCompile_Get_Compiler`.
    PJRT_PhaseCompile_Get_Compiler_Args {
        phase_compiler: *const PJRT_PhaseCompiler, // out
    }
}

args! {
    /// Arguments of `PJRT_PhaseCompile_Destroy_Compiler`.
    PJRT_PhaseCompile_Destroy_Compiler_Args {
        phase_compiler: *const PJRT_PhaseCompiler,
    }
}

args! {
    /// Arguments of `PJRT_PhaseCompile_Run_Phase`. Programs are serialized `PjRtPartialProgramProto`s. Outputs are
    /// freed with `phase_compile_c_buffers_destroy`.
    PJRT_PhaseCompile_Run_Phase_Args {
        phase_compiler: *const PJRT_PhaseCompiler,
        input_programs: *mut *const c_char,
        input_programs_sizes: *const usize,
        num_input_programs: usize,
        phases_to_run: *mut *const c_char,
        phases_to_run_sizes: *const usize,
        num_phases_to_run: usize,
        compile_options: *const c_char,
        compile_options_size: usize,
        topology: *mut PJRT_TopologyDescription,
        output_programs: *mut *const c_char, // out
        output_programs_sizes: *const usize, // out
        num_output_programs: usize, // out
    }
}

args! {
    /// Arguments of `PJRT_PhaseCompile_Get_PhaseNames`. The names are freed with `phase_compile_c_buffers_destroy`.
    PJRT_PhaseCompile_Get_PhaseNames_Args {
        phase_compiler: *const PJRT_PhaseCompiler,
        phase_names: *mut *const c_char, // out
        phase_names_sizes: *const usize, // out
        num_phase_names: usize, // out
    }
}

args! {
    /// Arguments of `PJRT_PhaseCompile_C_Buffers_Destroy`.
    PJRT_PhaseCompile_C_Buffers_Destroy_Args {
        char_buffers: *mut *const c_char,
        char_buffer_sizes: *const usize,
        num_char_buffers: usize,
    }
}

extension! {
    /// The extension record; read its functions through [`slot`].
    PJRT_PhaseCompile_Extension = PJRT_Extension_Type_PhaseCompile {
        phase_compile_get_compiler: Call<PJRT_PhaseCompile_Get_Compiler_Args>,
        phase_compile_destroy_compiler: VoidCall<PJRT_PhaseCompile_Destroy_Compiler_Args>,
        phase_compile_run_phases: Call<PJRT_PhaseCompile_Run_Phase_Args>,
        phase_compile_get_phase_names: Call<PJRT_PhaseCompile_Get_PhaseNames_Args>,
        phase_compile_c_buffers_destroy: VoidCall<PJRT_PhaseCompile_C_Buffers_Destroy_Args>,
    }
}
