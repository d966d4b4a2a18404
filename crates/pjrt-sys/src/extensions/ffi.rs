//! Foreign function extension: custom call handlers and user data of an execution.

use std::ffi::{c_char, c_void};

use crate::abi::{args, extension, record, sized};
use crate::*;

/// Traits of a custom call handler.
pub type PJRT_FFI_Handler_TraitsBits = u32;
/// May be recorded in a command buffer.
pub const PJRT_FFI_HANDLER_TRAITS_COMMAND_BUFFER_COMPATIBLE: PJRT_FFI_Handler_TraitsBits = 1;

record! {
    /// How objects of a registered type are handled.
    PJRT_FFI_Type_Info {
        deleter: Option<unsafe extern "C" fn(*mut c_void)>,
        serialize: Option<unsafe extern "C" fn()>,
        deserialize: Option<unsafe extern "C" fn()>,
    }
}

args! {
    /// Arguments of `PJRT_FFI_Type_Register`.
    PJRT_FFI_Type_Register_Args {
        type_name: *const c_char,
        type_name_size: usize,
        type_id: i64, // out
        type_info: *mut PJRT_FFI_Type_Info,
    }
}

record! {
    /// An object handed to custom call handlers, with the id of its type.
    PJRT_FFI_UserData {
        type_id: i64,
        data: *mut c_void,
    }
}

args! {
    /// Arguments of `PJRT_FFI_UserData_Add`.
    PJRT_FFI_UserData_Add_Args {
        context: *mut PJRT_ExecuteContext,
        user_data: PJRT_FFI_UserData,
    }
}

sized! {
    /// Arguments of `PJRT_FFI_Register_Handler`.
    PJRT_FFI_Register_Handler_Args {
        target_name: *const c_char,
        target_name_size: usize,
        handler: *mut c_void,
        platform_name: *const c_char,
        platform_name_size: usize,
        traits: PJRT_FFI_Handler_TraitsBits,
    }
}

extension! {
    /// The extension record; read its functions through [`slot`].
    PJRT_FFI_Extension = PJRT_Extension_Type_FFI {
        type_register: Call<PJRT_FFI_Type_Register_Args>,
        user_data_add: Call<PJRT_FFI_UserData_Add_Args>,
        register_handler: Call<PJRT_FFI_Register_Handler_Args>,
    }
}
