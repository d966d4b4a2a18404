//! TPU executable extension: what is inside a serialized TPU executable.

use std::ffi::c_char;

use crate::abi::{extension, opaque, sized};
use crate::*;

opaque! {
    /// Backs target arguments.
    PJRT_TpuExecutable_TargetArguments,
    /// Backs compiled memory statistics.
    PJRT_TpuExecutable_CompiledMemoryStats,
    /// Backs compilation environments.
    PJRT_TpuExecutable_CompilationEnvironments,
    /// Backs cost analysis results.
    PJRT_TpuExecutable_CostAnalysisResult,
    /// Backs a module.
    PJRT_TpuExecutable_HloModuleWithConfig,
    /// Backs a field value.
    PJRT_TpuExecutable_FieldValue,
}

sized! {
    /// Arguments of `PJRT_TpuExecutable_GetTargetArguments`.
    PJRT_TpuExecutable_GetTargetArguments_Args {
        serialized_executable: *const c_char,
        serialized_executable_size: usize,
        target_arguments: *const c_char, // out
        target_arguments_size: usize, // out
        target_arguments_ptr: *mut PJRT_TpuExecutable_TargetArguments, // out
        target_arguments_deleter: Option<unsafe extern "C" fn(*mut PJRT_TpuExecutable_TargetArguments)>, // out
    }
}

sized! {
    /// Arguments of `PJRT_TpuExecutable_GetHloModuleWithConfig`.
    PJRT_TpuExecutable_GetHloModuleWithConfig_Args {
        serialized_executable: *const c_char,
        serialized_executable_size: usize,
        hlo_module_with_config: *const c_char, // out
        hlo_module_with_config_size: usize, // out
        hlo_module_with_config_ptr: *mut PJRT_TpuExecutable_HloModuleWithConfig, // out
        hlo_module_with_config_deleter: Option<unsafe extern "C" fn(*mut PJRT_TpuExecutable_HloModuleWithConfig)>, // out
    }
}

sized! {
    /// Arguments of `PJRT_TpuExecutable_RunHloCostAnalysis`.
    PJRT_TpuExecutable_RunHloCostAnalysis_Args {
        target_arguments: *const c_char,
        target_arguments_size: usize,
        hlo_module: *mut *const c_char,
        hlo_module_size: *mut usize,
        num_hlo_modules: usize,
        analysis_results: *const PJRT_NamedValue, // out
        num_analysis_results: usize, // out
        analysis_results_ptr: *mut PJRT_TpuExecutable_CostAnalysisResult, // out
        analysis_results_deleter: Option<unsafe extern "C" fn(*mut PJRT_TpuExecutable_CostAnalysisResult)>, // out
    }
}

sized! {
    /// Arguments of `PJRT_TpuExecutable_GetCompiledMemoryStats`.
    PJRT_TpuExecutable_GetCompiledMemoryStats_Args {
        serialized_executable: *const c_char,
        serialized_executable_size: usize,
        compiled_memory_stats: *const c_char, // out
        compiled_memory_stats_size: usize, // out
        compiled_memory_stats_ptr: *mut PJRT_TpuExecutable_CompiledMemoryStats, // out
        compiled_memory_stats_deleter: Option<unsafe extern "C" fn(*mut PJRT_TpuExecutable_CompiledMemoryStats)>, // out
    }
}

sized! {
    /// Arguments of `PJRT_TpuExecutable_SetTpuCompilationEnv`.
    PJRT_TpuExecutable_SetTpuCompilationEnv_Args {
        serialized_compilation_environments: *const c_char,
        serialized_compilation_environments_size: usize,
        result_compilation_environments: *const c_char, // out
        result_compilation_environments_size: usize, // out
        result_compilation_environments_ptr: *mut PJRT_TpuExecutable_CompilationEnvironments, // out
        result_compilation_environments_deleter: Option<unsafe extern "C" fn(*mut PJRT_TpuExecutable_CompilationEnvironments)>, // out
    }
}

sized! {
    /// Arguments of `PJRT_TpuExecutable_GetTpuCompilationEnvFieldAsString`.
    PJRT_TpuExecutable_GetTpuCompilationEnvFieldAsString_Args {
        serialized_compilation_environments: *const c_char,
        serialized_compilation_environments_size: usize,
        field_name: *const c_char,
        field_name_size: usize,
        field_value: *const c_char, // out
        field_value_size: usize, // out
        field_value_ptr: *mut PJRT_TpuExecutable_FieldValue, // out
        field_value_deleter: Option<unsafe extern "C" fn(*mut PJRT_TpuExecutable_FieldValue)>, // out
    }
}

sized! {
    /// Arguments of `PJRT_TpuExecutable_IsTpuPredeterminedError`.
    PJRT_TpuExecutable_IsTpuPredeterminedError_Args {
        serialized_status: *const c_char,
        serialized_status_size: usize,
        is_predetermined: bool, // out
    }
}

sized! {
    /// Arguments of `PJRT_TpuExecutable_IsTpuCancellationPlaceholderError`.
    PJRT_TpuExecutable_IsTpuCancellationPlaceholderError_Args {
        serialized_status: *const c_char,
        serialized_status_size: usize,
        is_cancellation_placeholder: bool, // out
    }
}

extension! {
    /// The extension record; read its functions through [`slot`].
    PJRT_TpuExecutable_Extension = PJRT_Extension_Type_TpuExecutable {
        get_target_arguments: Call<PJRT_TpuExecutable_GetTargetArguments_Args>,
        get_hlo_module_with_config: Call<PJRT_TpuExecutable_GetHloModuleWithConfig_Args>,
        get_core_program_abi_version: Unused,
        get_compiled_memory_stats: Call<PJRT_TpuExecutable_GetCompiledMemoryStats_Args>,
        run_hlo_cost_analysis: Call<PJRT_TpuExecutable_RunHloCostAnalysis_Args>,
        set_tpu_compilation_env: Call<PJRT_TpuExecutable_SetTpuCompilationEnv_Args>,
        get_tpu_compilation_env_field_as_string: Call<PJRT_TpuExecutable_GetTpuCompilationEnvFieldAsString_Args>,
        is_tpu_predetermined_error: Call<PJRT_TpuExecutable_IsTpuPredeterminedError_Args>,
        is_tpu_cancellation_placeholder_error: Call<PJRT_TpuExecutable_IsTpuCancellationPlaceholderError_Args>,
    }
}
