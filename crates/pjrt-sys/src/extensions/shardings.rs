//! Shardings extension: shardings of the parameters and outputs of an executable.

use std::ffi::c_char;

use crate::abi::{args, extension};
use crate::*;

args! {
    /// Arguments of `PJRT_Shardings_PJRT_Executable_ParameterShardings`.
    PJRT_Shardings_PJRT_Executable_ParameterShardings_Args {
        executable: *mut PJRT_Executable,
        num_parameters: usize, // out
        shardings: *const *const c_char, // out
        sharding_sizes: *const usize, // out
    }
}

args! {
    /// Arguments of `PJRT_Shardings_PJRT_Executable_OutputShardings`.
    PJRT_Shardings_PJRT_Executable_OutputShardings_Args {
        executable: *mut PJRT_Executable,
        num_outputs: usize, // out
        shardings: *const *const c_char, // out
        sharding_sizes: *const usize, // out
    }
}

extension! {
    /// The extension record; read its functions through [`slot`].
    PJRT_Shardings_Extension = PJRT_Extension_Type_Shardings {
        PJRT_Shardings_PJRT_Executable_ParameterShardings: Call<PJRT_Shardings_PJRT_Executable_ParameterShardings_Args>,
        PJRT_Shardings_PJRT_Executable_OutputShardings: Call<PJRT_Shardings_PJRT_Executable_OutputShardings_Args>,
    }
}
