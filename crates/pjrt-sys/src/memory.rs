//! Memories: the places of a device where buffers live.

use std::ffi::{c_char, c_int, c_void};

use crate::abi::{args, record};
use crate::*;

args! {
    /// How newer plugins lay out a memory.
    PJRT_Memory_FunctionTable {
        instance_struct_size: usize,
        get_user_data: Option<unsafe extern "C" fn(*mut PJRT_Memory, *const c_void) -> *mut c_void>,
        set_user_data: Option<unsafe extern "C" fn(*mut PJRT_Memory, *const c_void, *mut c_void, Option<unsafe extern "C" fn(*mut c_void)>)>,
    }
}

record! {
    /// A memory of a client. Older plugins have no function table in it: read it through the `PJRT_Memory_*` slots
    /// only.
    PJRT_Memory {
        vtable: *const PJRT_Memory_FunctionTable,
    }
}

args! {
    /// Arguments of `PJRT_Memory_Id`.
    PJRT_Memory_Id_Args {
        memory: *mut PJRT_Memory,
        id: c_int, // out
    }
}

args! {
    /// Arguments of `PJRT_Memory_Kind`.
    PJRT_Memory_Kind_Args {
        memory: *mut PJRT_Memory,
        kind: *const c_char, // out
        kind_size: usize, // out
    }
}

args! {
    /// Arguments of `PJRT_Memory_Kind_Id`.
    PJRT_Memory_Kind_Id_Args {
        memory: *mut PJRT_Memory,
        kind_id: c_int, // out
    }
}

args! {
    /// Arguments of `PJRT_Memory_DebugString`.
    PJRT_Memory_DebugString_Args {
        memory: *mut PJRT_Memory,
        debug_string: *const c_char, // out
        debug_string_size: usize, // out
    }
}

args! {
    /// Arguments of `PJRT_Memory_ToString`.
    PJRT_Memory_ToString_Args {
        memory: *mut PJRT_Memory,
        to_string: *const c_char, // out
        to_string_size: usize, // out
    }
}

args! {
    /// Arguments of `PJRT_Memory_AddressableByDevices`.
    PJRT_Memory_AddressableByDevices_Args {
        memory: *mut PJRT_Memory,
        devices: *const *mut PJRT_Device, // out
        num_devices: usize, // out
    }
}
