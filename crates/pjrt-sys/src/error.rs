//! Errors: what a failing call returns, how to read it and how to free it.

use std::ffi::{c_char, c_void};

use crate::abi::{args, record};
use crate::*;

/// Why a call failed: the canonical Abseil status codes.
pub type PJRT_Error_Code = u32;
/// Code 0.
pub const PJRT_Error_Code_OK: PJRT_Error_Code = 0;
/// Code 1.
pub const PJRT_Error_Code_CANCELLED: PJRT_Error_Code = 1;
/// Code 2.
pub const PJRT_Error_Code_UNKNOWN: PJRT_Error_Code = 2;
/// Code 3.
pub const PJRT_Error_Code_INVALID_ARGUMENT: PJRT_Error_Code = 3;
/// Code 4.
pub const PJRT_Error_Code_DEADLINE_EXCEEDED: PJRT_Error_Code = 4;
/// Code 5.
pub const PJRT_Error_Code_NOT_FOUND: PJRT_Error_Code = 5;
/// Code 6.
pub const PJRT_Error_Code_ALREADY_EXISTS: PJRT_Error_Code = 6;
/// Code 7.
pub const PJRT_Error_Code_PERMISSION_DENIED: PJRT_Error_Code = 7;
/// Code 8.
pub const PJRT_Error_Code_RESOURCE_EXHAUSTED: PJRT_Error_Code = 8;
/// Code 9.
pub const PJRT_Error_Code_FAILED_PRECONDITION: PJRT_Error_Code = 9;
/// Code 10.
pub const PJRT_Error_Code_ABORTED: PJRT_Error_Code = 10;
/// Code 11.
pub const PJRT_Error_Code_OUT_OF_RANGE: PJRT_Error_Code = 11;
/// Code 12.
pub const PJRT_Error_Code_UNIMPLEMENTED: PJRT_Error_Code = 12;
/// Code 13.
pub const PJRT_Error_Code_INTERNAL: PJRT_Error_Code = 13;
/// Code 14.
pub const PJRT_Error_Code_UNAVAILABLE: PJRT_Error_Code = 14;
/// Code 15.
pub const PJRT_Error_Code_DATA_LOSS: PJRT_Error_Code = 15;
/// Code 16.
pub const PJRT_Error_Code_UNAUTHENTICATED: PJRT_Error_Code = 16;

/// Receives one payload of an error: key, key size, value, value size, the caller's argument.
pub type PJRT_Error_PayloadVisitor = unsafe extern "C" fn(*const c_char, usize, *const c_char, usize, *mut c_void);

/// Makes a plugin-owned error inside a caller's callback. The message is copied before it returns.
pub type PJRT_CallbackError = unsafe extern "C" fn(PJRT_Error_Code, *const c_char, usize) -> *mut PJRT_Error;

args! {
    /// Arguments of `PJRT_Error_Destroy`. `error` may be null.
    PJRT_Error_Destroy_Args {
        error: *mut PJRT_Error,
    }
}

args! {
    /// Arguments of `PJRT_Error_Message`. `message` lives as long as `error`.
    PJRT_Error_Message_Args {
        error: *const PJRT_Error,
        message: *const c_char, // out
        message_size: usize, // out
    }
}

record! {
    /// How newer plugins lay out an error.
    PJRT_Error_FunctionTable {
        struct_size: usize,
        instance_size: usize,
        extension_start: *mut PJRT_Extension_Base,
        destroy: Option<unsafe extern "C" fn(*mut PJRT_Error)>,
        message: Option<unsafe extern "C" fn(*const PJRT_Error, *mut *const c_char, *mut usize)>,
        get_code: Option<unsafe extern "C" fn(*const PJRT_Error) -> PJRT_Error_Code>,
        for_each_payload: Option<unsafe extern "C" fn(*const PJRT_Error, PJRT_Error_PayloadVisitor, *mut c_void)>,
    }
}

record! {
    /// An error. Older plugins have no function table in it: read it through the `PJRT_Error_*` slots only.
    PJRT_Error {
        vtable: *const PJRT_Error_FunctionTable,
    }
}

args! {
    /// Arguments of `PJRT_Error_GetCode`.
    PJRT_Error_GetCode_Args {
        error: *const PJRT_Error,
        code: PJRT_Error_Code, // out
    }
}

args! {
    /// Arguments of `PJRT_Error_ForEachPayload`.
    PJRT_Error_ForEachPayload_Args {
        error: *const PJRT_Error,
        visitor: Option<PJRT_Error_PayloadVisitor>,
        user_arg: *mut c_void,
    }
}
