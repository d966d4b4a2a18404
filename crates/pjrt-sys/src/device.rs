//! Devices and their descriptions.

use std::ffi::{c_char, c_int};

use crate::abi::{args, opaque};
use crate::*;

opaque! {
    /// What a device is, whether or not it is present; owned by its client or topology.
    PJRT_DeviceDescription,
    /// A device of a client; owned by the client.
    PJRT_Device,
    /// Backs the answer of `PJRT_Device_GetAttributes`.
    PJRT_Device_Attributes,
    /// Marks work on a device for a debugger or profiler.
    PJRT_AsyncTrackingEvent,
}

args! {
    /// Arguments of `PJRT_DeviceDescription_Id`.
    PJRT_DeviceDescription_Id_Args {
        device_description: *mut PJRT_DeviceDescription,
        id: c_int, // out
    }
}

args! {
    /// Arguments of `PJRT_DeviceDescription_ProcessIndex`.
    PJRT_DeviceDescription_ProcessIndex_Args {
        device_description: *mut PJRT_DeviceDescription,
        process_index: c_int, // out
    }
}

args! {
    /// Arguments of `PJRT_DeviceDescription_Attributes`.
    PJRT_DeviceDescription_Attributes_Args {
        device_description: *mut PJRT_DeviceDescription,
        num_attributes: usize, // out
        attributes: *const PJRT_NamedValue, // out
    }
}

args! {
    /// Arguments of `PJRT_DeviceDescription_Kind`.
    PJRT_DeviceDescription_Kind_Args {
        device_description: *mut PJRT_DeviceDescription,
        device_kind: *const c_char, // out
        device_kind_size: usize, // out
    }
}

args! {
    /// Arguments of `PJRT_DeviceDescription_DebugString`.
    PJRT_DeviceDescription_DebugString_Args {
        device_description: *mut PJRT_DeviceDescription,
        debug_string: *const c_char, // out
        debug_string_size: usize, // out
    }
}

args! {
    /// Arguments of `PJRT_DeviceDescription_ToString`.
    PJRT_DeviceDescription_ToString_Args {
        device_description: *mut PJRT_DeviceDescription,
        to_string: *const c_char, // out
        to_string_size: usize, // out
    }
}

args! {
    /// Arguments of `PJRT_Device_GetDescription`.
    PJRT_Device_GetDescription_Args {
        device: *mut PJRT_Device,
        device_description: *mut PJRT_DeviceDescription, // out
    }
}

args! {
    /// Arguments of `PJRT_Device_IsAddressable`.
    PJRT_Device_IsAddressable_Args {
        device: *mut PJRT_Device,
        is_addressable: bool, // out
    }
}

args! {
    /// Arguments of `PJRT_Device_LocalHardwareId`.
    PJRT_Device_LocalHardwareId_Args {
        device: *mut PJRT_Device,
        local_hardware_id: c_int, // out
    }
}

args! {
    /// Arguments of `PJRT_Device_AddressableMemories`.
    PJRT_Device_AddressableMemories_Args {
        device: *mut PJRT_Device,
        memories: *const *mut PJRT_Memory, // out
        num_memories: usize, // out
    }
}

args! {
    /// Arguments of `PJRT_Device_DefaultMemory`.
    PJRT_Device_DefaultMemory_Args {
        device: *mut PJRT_Device,
        memory: *mut PJRT_Memory, // out
    }
}

args! {
    /// Arguments of `PJRT_Device_MemoryStats`.
    PJRT_Device_MemoryStats_Args {
        device: *mut PJRT_Device,
        bytes_in_use: i64, // out
        peak_bytes_in_use: i64, // out
        peak_bytes_in_use_is_set: bool, // out
        num_allocs: i64, // out
        num_allocs_is_set: bool, // out
        largest_alloc_size: i64, // out
        largest_alloc_size_is_set: bool, // out
        bytes_limit: i64, // out
        bytes_limit_is_set: bool, // out
        bytes_reserved: i64, // out
        bytes_reserved_is_set: bool, // out
        peak_bytes_reserved: i64, // out
        peak_bytes_reserved_is_set: bool, // out
        bytes_reservable_limit: i64, // out
        bytes_reservable_limit_is_set: bool, // out
        largest_free_block_bytes: i64, // out
        largest_free_block_bytes_is_set: bool, // out
        pool_bytes: i64, // out
        pool_bytes_is_set: bool, // out
        peak_pool_bytes: i64, // out
        peak_pool_bytes_is_set: bool, // out
        peak_allocated_bytes: i64, // out
        peak_allocated_bytes_is_set: bool, // out
    }
}

args! {
    /// Arguments of `PJRT_Device_ClearMemoryStats`.
    PJRT_Device_ClearMemoryStats_Args {
        device: *mut PJRT_Device,
    }
}

args! {
    /// Arguments of `PJRT_Device_PoisonExecution`.
    PJRT_Device_PoisonExecution_Args {
        device: *mut PJRT_Device,
        launch_id: i32,
        error_code: PJRT_Error_Code,
        error_message: *const c_char,
        error_message_size: usize,
        poisoned: bool, // out
        payload: *const PJRT_NamedValue,
        num_payload: usize,
    }
}

args! {
    /// Arguments of `PJRT_Device_GetAttributes`.
    PJRT_Device_GetAttributes_Args {
        device: *mut PJRT_Device,
        attributes: *const PJRT_NamedValue, // out
        num_attributes: usize, // out
        device_attributes: *mut PJRT_Device_Attributes, // out
        attributes_deleter: Option<unsafe extern "C" fn(*mut PJRT_Device_Attributes)>, // out
    }
}

args! {
    /// Arguments of `PJRT_Device_CreateAsyncTrackingEvent`.
    PJRT_Device_CreateAsyncTrackingEvent_Args {
        device: *mut PJRT_Device,
        description: *const c_char,
        description_size: usize,
        event: *mut PJRT_AsyncTrackingEvent, // out
    }
}

args! {
    /// Arguments of `PJRT_AsyncTrackingEvent_Destroy`.
    PJRT_AsyncTrackingEvent_Destroy_Args {
        event: *mut PJRT_AsyncTrackingEvent,
    }
}
