//! Clients: live connections to devices.

use std::ffi::{c_char, c_int, c_void};

use crate::abi::{args, opaque, sized};
use crate::*;

opaque! {
    /// A live connection to devices.
    PJRT_Client,
}

/// State of one process of a multi-process program.
pub type PJRT_ProcessState = u32;
/// Not said.
pub const PJRT_ProcessState_kUnspecified: PJRT_ProcessState = 0;
/// Not started.
pub const PJRT_ProcessState_kUninitialized: PJRT_ProcessState = 1;
/// Was connected.
pub const PJRT_ProcessState_kDisconnected: PJRT_ProcessState = 2;
/// Running.
pub const PJRT_ProcessState_kConnected: PJRT_ProcessState = 3;
/// Failed; see the error fields.
pub const PJRT_ProcessState_kError: PJRT_ProcessState = 4;

sized! {
    /// State of one process of a multi-process program.
    PJRT_ProcessInfo {
        task_id: c_int,
        incarnation_id: u64,
        state: PJRT_ProcessState,
        error_code: c_int,
        error_message: *const c_char,
        error_message_size: usize,
    }
}

args! {
    /// Arguments of `PJRT_Client_Create`.
    PJRT_Client_Create_Args {
        create_options: *const PJRT_NamedValue,
        num_options: usize,
        kv_get_callback: Option<PJRT_KeyValueGetCallback>,
        kv_get_user_arg: *mut c_void,
        kv_put_callback: Option<PJRT_KeyValuePutCallback>,
        kv_put_user_arg: *mut c_void,
        client: *mut PJRT_Client, // out
        kv_try_get_callback: Option<PJRT_KeyValueTryGetCallback>,
        kv_try_get_user_arg: *mut c_void,
    }
}

args! {
    /// Arguments of `PJRT_Client_Destroy`.
    PJRT_Client_Destroy_Args {
        client: *mut PJRT_Client,
    }
}

args! {
    /// Arguments of `PJRT_Client_PlatformName`.
    PJRT_Client_PlatformName_Args {
        client: *mut PJRT_Client,
        platform_name: *const c_char, // out
        platform_name_size: usize, // out
    }
}

args! {
    /// Arguments of `PJRT_Client_ProcessIndex`.
    PJRT_Client_ProcessIndex_Args {
        client: *mut PJRT_Client,
        process_index: c_int, // out
    }
}

args! {
    /// Arguments of `PJRT_Client_PlatformVersion`.
    PJRT_Client_PlatformVersion_Args {
        client: *mut PJRT_Client,
        platform_version: *const c_char, // out
        platform_version_size: usize, // out
    }
}

args! {
    /// Arguments of `PJRT_Client_TopologyDescription`. The topology belongs to the client.
    PJRT_Client_TopologyDescription_Args {
        client: *mut PJRT_Client,
        topology: *mut PJRT_TopologyDescription, // out
    }
}

args! {
    /// Arguments of `PJRT_Client_Devices`.
    PJRT_Client_Devices_Args {
        client: *mut PJRT_Client,
        devices: *const *mut PJRT_Device, // out
        num_devices: usize, // out
    }
}

args! {
    /// Arguments of `PJRT_Client_AddressableDevices`.
    PJRT_Client_AddressableDevices_Args {
        client: *mut PJRT_Client,
        addressable_devices: *const *mut PJRT_Device, // out
        num_addressable_devices: usize, // out
    }
}

args! {
    /// Arguments of `PJRT_Client_LookupDevice`.
    PJRT_Client_LookupDevice_Args {
        client: *mut PJRT_Client,
        id: c_int,
        device: *mut PJRT_Device, // out
    }
}

args! {
    /// Arguments of `PJRT_Client_LookupAddressableDevice`.
    PJRT_Client_LookupAddressableDevice_Args {
        client: *mut PJRT_Client,
        local_hardware_id: c_int,
        addressable_device: *mut PJRT_Device, // out
    }
}

args! {
    /// Arguments of `PJRT_Client_UpdateGlobalProcessInfo`.
    PJRT_Client_UpdateGlobalProcessInfo_Args {
        client: *mut PJRT_Client,
        process_infos: *mut PJRT_ProcessInfo,
        num_process_infos: usize,
    }
}

args! {
    /// Arguments of `PJRT_Client_AddressableMemories`.
    PJRT_Client_AddressableMemories_Args {
        client: *mut PJRT_Client,
        addressable_memories: *const *mut PJRT_Memory, // out
        num_addressable_memories: usize, // out
    }
}

args! {
    /// Arguments of `PJRT_Client_Compile`. `compile_options` is a serialized `CompileOptionsProto`.
    PJRT_Client_Compile_Args {
        client: *mut PJRT_Client,
        program: *const PJRT_Program,
        compile_options: *const c_char,
        compile_options_size: usize,
        executable: *mut PJRT_LoadedExecutable, // out
    }
}

args! {
    /// Arguments of `PJRT_Client_Load`.
    PJRT_Client_Load_Args {
        client: *mut PJRT_Client,
        executable: *mut PJRT_Executable,
        compile_options: *const c_char,
        compile_options_size: usize,
        loaded_executable: *mut PJRT_LoadedExecutable, // out
    }
}

args! {
    /// Arguments of `PJRT_Client_DefaultDeviceAssignment`. `num_replicas * num_partitions` ids are written,
    /// replica-major.
    PJRT_Client_DefaultDeviceAssignment_Args {
        client: *mut PJRT_Client,
        num_replicas: c_int,
        num_partitions: c_int,
        default_assignment_size: usize,
        default_assignment: *mut c_int, // out
    }
}

args! {
    /// Arguments of `PJRT_Client_DmaMap`.
    PJRT_Client_DmaMap_Args {
        client: *mut PJRT_Client,
        data: *mut c_void,
        size: usize,
    }
}

args! {
    /// Arguments of `PJRT_Client_DmaUnmap`.
    PJRT_Client_DmaUnmap_Args {
        client: *mut PJRT_Client,
        data: *mut c_void,
    }
}

args! {
    /// Arguments of `PJRT_Client_CreateUninitializedBuffer`.
    PJRT_Client_CreateUninitializedBuffer_Args {
        client: *mut PJRT_Client,
        shape_dims: *const i64,
        shape_num_dims: usize,
        shape_element_type: PJRT_Buffer_Type,
        shape_layout: *mut PJRT_Buffer_MemoryLayout,
        device: *mut PJRT_Device,
        memory: *mut PJRT_Memory,
        buffer: *mut PJRT_Buffer, // out
    }
}

args! {
    /// Arguments of `PJRT_Client_CreateErrorBuffer`.
    PJRT_Client_CreateErrorBuffer_Args {
        client: *mut PJRT_Client,
        error_code: PJRT_Error_Code,
        error_message: *const c_char,
        error_message_size: usize,
        shape_dims: *const i64,
        shape_num_dims: usize,
        shape_element_type: PJRT_Buffer_Type,
        shape_layout: *mut PJRT_Buffer_MemoryLayout,
        memory: *mut PJRT_Memory,
        buffer: *mut PJRT_Buffer, // out
        payload: *const PJRT_NamedValue,
        num_payload: usize,
    }
}

args! {
    /// Arguments of `PJRT_Client_CreateAliasBuffer`.
    PJRT_Client_CreateAliasBuffer_Args {
        client: *mut PJRT_Client,
        memory: *mut PJRT_Memory,
        shape_dims: *const i64,
        shape_num_dims: usize,
        shape_element_type: PJRT_Buffer_Type,
        shape_layout: *mut PJRT_Buffer_MemoryLayout,
        alias_buffer: *mut PJRT_Buffer, // out
        fulfill_alias_buffer_cb: *mut PJRT_FulfillAliasBufferCallback, // out
    }
}

args! {
    /// Arguments of `PJRT_Client_FulfillAliasBuffer`.
    PJRT_Client_FulfillAliasBuffer_Args {
        client: *mut PJRT_Client,
        buffer: *mut PJRT_Buffer,
        status_code: PJRT_Error_Code,
        error_message: *const c_char,
        error_message_size: usize,
        fulfill_alias_buffer_cb: *mut PJRT_FulfillAliasBufferCallback,
    }
}

args! {
    /// Arguments of `PJRT_Client_BufferFromHostBuffer`. The caller owns both the buffer and the event.
    PJRT_Client_BufferFromHostBuffer_Args {
        client: *mut PJRT_Client,
        data: *const c_void,
        r#type: PJRT_Buffer_Type,
        dims: *const i64,
        num_dims: usize,
        byte_strides: *const i64,
        num_byte_strides: usize,
        host_buffer_semantics: PJRT_HostBufferSemantics,
        device: *mut PJRT_Device,
        memory: *mut PJRT_Memory,
        device_layout: *mut PJRT_Buffer_MemoryLayout,
        done_with_host_buffer: *mut PJRT_Event, // out
        buffer: *mut PJRT_Buffer, // out
    }
}

args! {
    /// Arguments of `PJRT_Client_CreateViewOfDeviceBuffer`.
    PJRT_Client_CreateViewOfDeviceBuffer_Args {
        client: *mut PJRT_Client,
        device_buffer_ptr: *mut c_void,
        dims: *const i64,
        num_dims: usize,
        element_type: PJRT_Buffer_Type,
        layout: *mut PJRT_Buffer_MemoryLayout,
        device: *mut PJRT_Device,
        on_delete_callback: Option<unsafe extern "C" fn(*mut c_void, *mut c_void)>,
        on_delete_callback_arg: *mut c_void,
        stream: isize,
        buffer: *mut PJRT_Buffer, // out
        memory: *mut PJRT_Memory,
    }
}
