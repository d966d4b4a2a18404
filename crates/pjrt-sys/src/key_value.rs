//! Key-value callbacks: how the processes of one client find each other.

use std::ffi::{c_char, c_int, c_void};

use crate::abi::args;
use crate::*;

/// Frees a value that the get callback handed out.
pub type PJRT_KeyValueGetCallback_ValueDeleter = unsafe extern "C" fn(*mut c_char);

/// Blocks until the key has a value or the time is over. Called from any thread.
pub type PJRT_KeyValueGetCallback = unsafe extern "C" fn(*mut PJRT_KeyValueGetCallback_Args) -> *mut PJRT_Error;

/// Frees a value that the try-get callback handed out.
pub type PJRT_KeyValueTryGetCallback_ValueDeleter = unsafe extern "C" fn(*mut c_char);

/// Answers NOT_FOUND at once when the key has no value. Called from any thread.
pub type PJRT_KeyValueTryGetCallback = unsafe extern "C" fn(*mut PJRT_KeyValueTryGetCallback_Args) -> *mut PJRT_Error;

/// Stores a value under a key. Called from any thread.
pub type PJRT_KeyValuePutCallback = unsafe extern "C" fn(*mut PJRT_KeyValuePutCallback_Args) -> *mut PJRT_Error;

args! {
    /// Arguments of `PJRT_KeyValueGetCallback`.
    PJRT_KeyValueGetCallback_Args {
        key: *const c_char,
        key_size: usize,
        timeout_in_ms: c_int,
        callback_error: *mut PJRT_CallbackError,
        user_arg: *mut c_void,
        value: *mut c_char, // out
        value_size: usize, // out
        value_deleter_callback: Option<PJRT_KeyValueGetCallback_ValueDeleter>, // out
    }
}

args! {
    /// Arguments of `PJRT_KeyValueTryGetCallback`.
    PJRT_KeyValueTryGetCallback_Args {
        key: *const c_char,
        key_size: usize,
        callback_error: *mut PJRT_CallbackError,
        user_arg: *mut c_void,
        value: *mut c_char, // out
        value_size: usize, // out
        value_deleter_callback: Option<PJRT_KeyValueTryGetCallback_ValueDeleter>, // out
    }
}

args! {
    /// Arguments of `PJRT_KeyValuePutCallback`.
    PJRT_KeyValuePutCallback_Args {
        key: *const c_char,
        key_size: usize,
        value: *const c_char,
        value_size: usize,
        callback_error: *mut PJRT_CallbackError,
        user_arg: *mut c_void,
    }
}
