//! Executables: compiled programs, what is known about them, how they are stored and loaded.

use std::ffi::{c_char, c_int};

use crate::abi::{args, opaque, record, sized};
use crate::*;

opaque! {
    /// A compiled program, not tied to present devices.
    PJRT_Executable,
    /// A compiled program on the devices of a client.
    PJRT_LoadedExecutable,
    /// Backs the bytes of a serialized executable.
    PJRT_SerializedExecutable,
    /// Backs the bytes of serialized compile options.
    PJRT_SerializedCompileOptions,
    /// Backs the bytes of a serialized device assignment.
    PJRT_DeviceAssignmentSerialized,
}

args! {
    /// Code with its format: `mlir` (text or bytecode), `hlo` or `hlo_with_config` (protobuf).
    PJRT_Program {
        code: *mut c_char, // out
        code_size: usize,
        format: *const c_char,
        format_size: usize,
    }
}

args! {
    /// Arguments of `PJRT_Compile`. `compile_options` is a serialized `CompileOptionsProto`; `client` may be null.
    PJRT_Compile_Args {
        topology: *const PJRT_TopologyDescription,
        program: *const PJRT_Program,
        compile_options: *const c_char,
        compile_options_size: usize,
        client: *mut PJRT_Client,
        executable: *mut PJRT_Executable, // out
    }
}

record! {
    /// Replica and partition a device plays.
    PJRT_LogicalDeviceIds {
        replica: c_int,
        partition: c_int,
    }
}

sized! {
    /// Where on a larger slice a program is loaded.
    PJRT_LoadOptions {
        computation_origin: *const i32,
        computation_origin_size: usize,
        multi_slice_config: *mut PJRT_MultiSlice_Config,
    }
}

args! {
    /// Arguments of `PJRT_Executable_Destroy`.
    PJRT_Executable_Destroy_Args {
        executable: *mut PJRT_Executable,
    }
}

args! {
    /// Arguments of `PJRT_Executable_Name`.
    PJRT_Executable_Name_Args {
        executable: *mut PJRT_Executable,
        executable_name: *const c_char, // out
        executable_name_size: usize, // out
    }
}

args! {
    /// Arguments of `PJRT_Executable_NumReplicas`.
    PJRT_Executable_NumReplicas_Args {
        executable: *mut PJRT_Executable,
        num_replicas: usize, // out
    }
}

args! {
    /// Arguments of `PJRT_Executable_NumPartitions`.
    PJRT_Executable_NumPartitions_Args {
        executable: *mut PJRT_Executable,
        num_partitions: usize, // out
    }
}

args! {
    /// Arguments of `PJRT_Executable_OptimizedProgram`. Called twice: with `program.code` null it reports the size,
    /// then it fills the caller's memory.
    PJRT_Executable_OptimizedProgram_Args {
        executable: *mut PJRT_Executable,
        program: *mut PJRT_Program, // out
    }
}

args! {
    /// Arguments of `PJRT_Executable_NumOutputs`.
    PJRT_Executable_NumOutputs_Args {
        executable: *mut PJRT_Executable,
        num_outputs: usize, // out
    }
}

args! {
    /// Arguments of `PJRT_Executable_SizeOfGeneratedCodeInBytes`.
    PJRT_Executable_SizeOfGeneratedCodeInBytes_Args {
        executable: *mut PJRT_Executable,
        size_in_bytes: i64, // out
    }
}

args! {
    /// Arguments of `PJRT_Executable_Fingerprint`.
    PJRT_Executable_Fingerprint_Args {
        executable: *mut PJRT_Executable,
        executable_fingerprint: *const c_char, // out
        executable_fingerprint_size: usize, // out
    }
}

args! {
    /// Arguments of `PJRT_Executable_GetCostAnalysis`.
    PJRT_Executable_GetCostAnalysis_Args {
        executable: *mut PJRT_Executable,
        num_properties: usize, // out
        properties: *const PJRT_NamedValue, // out
    }
}

args! {
    /// Arguments of `PJRT_Executable_GetCompiledMemoryStats`. Plugins write as many fields as they know; later ones
    /// keep what the caller put there.
    PJRT_Executable_GetCompiledMemoryStats_Args {
        executable: *mut PJRT_Executable,
        generated_code_size_in_bytes: i64, // out
        argument_size_in_bytes: i64, // out
        output_size_in_bytes: i64, // out
        alias_size_in_bytes: i64, // out
        temp_size_in_bytes: i64, // out
        host_generated_code_size_in_bytes: i64, // out
        host_argument_size_in_bytes: i64, // out
        host_output_size_in_bytes: i64, // out
        host_alias_size_in_bytes: i64, // out
        host_temp_size_in_bytes: i64, // out
        peak_memory_in_bytes: i64, // out
        total_size_in_bytes: i64, // out
        total_allocation_bytes: i64, // out
        indefinite_allocations: i64, // out
        peak_unpadded_heap_bytes: i64, // out
    }
}

args! {
    /// Arguments of `PJRT_Executable_OutputElementTypes`.
    PJRT_Executable_OutputElementTypes_Args {
        executable: *mut PJRT_Executable,
        output_types: *mut PJRT_Buffer_Type, // out
        num_output_types: usize, // out
    }
}

args! {
    /// Arguments of `PJRT_Executable_OutputDimensions`.
    PJRT_Executable_OutputDimensions_Args {
        executable: *mut PJRT_Executable,
        num_outputs: usize,
        dims: *const i64, // out
        dim_sizes: *const usize, // out
    }
}

args! {
    /// Arguments of `PJRT_Executable_ParameterMemoryKinds`.
    PJRT_Executable_ParameterMemoryKinds_Args {
        executable: *mut PJRT_Executable,
        num_parameters: usize,
        memory_kinds: *const *const c_char, // out
        memory_kind_sizes: *const usize, // out
    }
}

args! {
    /// Arguments of `PJRT_Executable_OutputMemoryKinds`.
    PJRT_Executable_OutputMemoryKinds_Args {
        executable: *mut PJRT_Executable,
        num_outputs: usize,
        memory_kinds: *const *const c_char, // out
        memory_kind_sizes: *const usize, // out
    }
}

args! {
    /// Arguments of `PJRT_Executable_Serialize`. The bytes live until the deleter is called, exactly once.
    PJRT_Executable_Serialize_Args {
        executable: *const PJRT_Executable,
        serialized_bytes: *const c_char, // out
        serialized_bytes_size: usize, // out
        serialized_executable: *mut PJRT_SerializedExecutable,
        serialized_executable_deleter: Option<unsafe extern "C" fn(*mut PJRT_SerializedExecutable)>, // out
    }
}

args! {
    /// Arguments of `PJRT_Executable_GetCompileOptions`. The bytes live until the deleter is called, exactly once.
    PJRT_Executable_GetCompileOptions_Args {
        executable: *mut PJRT_Executable,
        serialized_bytes: *const c_char, // out
        serialized_bytes_size: usize, // out
        serialized_compile_options: *mut PJRT_SerializedCompileOptions,
        serialized_compile_options_deleter: Option<unsafe extern "C" fn(*mut PJRT_SerializedCompileOptions)>, // out
    }
}

args! {
    /// Arguments of `PJRT_Executable_DeserializeAndLoad`.
    PJRT_Executable_DeserializeAndLoad_Args {
        client: *mut PJRT_Client,
        serialized_executable: *const c_char,
        serialized_executable_size: usize,
        loaded_executable: *mut PJRT_LoadedExecutable, // out
        overridden_serialized_compile_options: *const c_char,
        overridden_serialized_compile_options_size: usize,
        load_options: *mut PJRT_LoadOptions,
    }
}

args! {
    /// Arguments of `PJRT_LoadedExecutable_Destroy`.
    PJRT_LoadedExecutable_Destroy_Args {
        executable: *mut PJRT_LoadedExecutable,
    }
}

args! {
    /// Arguments of `PJRT_LoadedExecutable_GetExecutable`. The caller owns the executable.
    PJRT_LoadedExecutable_GetExecutable_Args {
        loaded_executable: *mut PJRT_LoadedExecutable,
        executable: *mut PJRT_Executable, // out
    }
}

args! {
    /// Arguments of `PJRT_LoadedExecutable_GetDeviceAssignment`. The bytes live until the deleter is called,
    /// exactly once.
    PJRT_LoadedExecutable_GetDeviceAssignment_Args {
        executable: *mut PJRT_LoadedExecutable,
        serialized_bytes: *const c_char, // out
        serialized_bytes_size: usize, // out
        serialized_device_assignment: *mut PJRT_DeviceAssignmentSerialized,
        serialized_device_assignment_deleter: Option<unsafe extern "C" fn(*mut PJRT_DeviceAssignmentSerialized)>, // out
    }
}

args! {
    /// Arguments of `PJRT_LoadedExecutable_AddressableDevices`.
    PJRT_LoadedExecutable_AddressableDevices_Args {
        executable: *mut PJRT_LoadedExecutable,
        addressable_devices: *const *mut PJRT_Device, // out
        num_addressable_devices: usize, // out
    }
}

args! {
    /// Arguments of `PJRT_LoadedExecutable_AddressableDeviceLogicalIds`.
    PJRT_LoadedExecutable_AddressableDeviceLogicalIds_Args {
        executable: *mut PJRT_LoadedExecutable,
        addressable_device_logical_ids: *mut PJRT_LogicalDeviceIds, // out
        num_addressable_device_logical_ids: usize, // out
    }
}

args! {
    /// Arguments of `PJRT_LoadedExecutable_Delete`.
    PJRT_LoadedExecutable_Delete_Args {
        executable: *mut PJRT_LoadedExecutable,
    }
}

args! {
    /// Arguments of `PJRT_LoadedExecutable_IsDeleted`.
    PJRT_LoadedExecutable_IsDeleted_Args {
        executable: *mut PJRT_LoadedExecutable,
        is_deleted: bool, // out
    }
}

args! {
    /// Arguments of `PJRT_LoadedExecutable_Fingerprint`.
    PJRT_LoadedExecutable_Fingerprint_Args {
        executable: *mut PJRT_LoadedExecutable,
        executable_fingerprint: *const c_char, // out
        executable_fingerprint_size: usize, // out
    }
}
