//! The key-value store a caller lends a client: how its process finds the others, and hears that one of them is gone.
#![allow(unsafe_code)]

use std::ffi::{c_char, c_int, c_void};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pjrt_sys::*;

use crate::plugin::call::{Failure, bytes, text};

/// Callbacks of the caller, with what it wants to get back with each.
struct Callbacks {
    get: PJRT_KeyValueGetCallback,
    get_arg: *mut c_void,
    put: PJRT_KeyValuePutCallback,
    put_arg: *mut c_void,
    /// Callers of older versions have none.
    try_get: Option<PJRT_KeyValueTryGetCallback>,
    try_get_arg: *mut c_void,
}

// SAFETY: the header allows the callbacks, with their arguments, on any thread while the client lives.
unsafe impl Send for Callbacks {}

/// The store, as long as the caller's client lives: launches may outlive it, and then find nothing.
pub(crate) struct Store {
    callbacks: Mutex<Option<Callbacks>>,
}

/// Makes an error for a callback that failed.
///
/// # Safety
/// `message` is null or points to `size` bytes.
unsafe extern "C" fn make_error(code: PJRT_Error_Code, message: *const c_char, size: usize) -> *mut PJRT_Error {
    // SAFETY: by the contract above.
    Failure::new(code, unsafe { text(message, size) }).into_raw()
}

impl Store {
    /// The callbacks a caller registered; `None` where it has no store.
    pub(in crate::plugin) fn of(args: &PJRT_Client_Create_Args) -> Option<Store> {
        let callbacks = Callbacks {
            get: args.kv_get_callback?,
            get_arg: args.kv_get_user_arg,
            put: args.kv_put_callback?,
            put_arg: args.kv_put_user_arg,
            try_get: args.kv_try_get_callback,
            try_get_arg: args.kv_try_get_user_arg,
        };
        Some(Store { callbacks: Mutex::new(Some(callbacks)) })
    }

    /// The client ends: the callbacks must not be called again. Waits for one that runs.
    pub(super) fn close(&self) {
        *self.lock() = None;
    }

    fn lock(&self) -> MutexGuard<'_, Option<Callbacks>> {
        self.callbacks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The value of a key; waits until there is one.
    pub(super) fn get(&self, key: &str, timeout: Duration) -> Result<Vec<u8>, Failure> {
        let callbacks = self.lock();
        let callbacks = callbacks.as_ref().ok_or_else(closed)?;
        let mut make: PJRT_CallbackError = make_error;
        let mut args = PJRT_KeyValueGetCallback_Args::new();
        (args.key, args.key_size) = (key.as_ptr().cast(), key.len());
        args.timeout_in_ms = c_int::try_from(timeout.as_millis()).unwrap_or(c_int::MAX);
        args.callback_error = &raw mut make;
        args.user_arg = callbacks.get_arg;
        // SAFETY: the callback and its argument are the caller's and live; everything borrowed lives for the call.
        unsafe {
            outcome((callbacks.get)(&mut args))?;
            Ok(taken(args.value, args.value_size, args.value_deleter_callback))
        }
    }

    /// Sets the value of a key.
    pub(super) fn put(&self, key: &str, value: &[u8]) -> Result<(), Failure> {
        let callbacks = self.lock();
        let callbacks = callbacks.as_ref().ok_or_else(closed)?;
        let mut make: PJRT_CallbackError = make_error;
        let mut args = PJRT_KeyValuePutCallback_Args::new();
        (args.key, args.key_size) = (key.as_ptr().cast(), key.len());
        (args.value, args.value_size) = (value.as_ptr().cast(), value.len());
        args.callback_error = &raw mut make;
        args.user_arg = callbacks.put_arg;
        // SAFETY: as in `get`.
        unsafe { outcome((callbacks.put)(&mut args)) }
    }

    /// What the store has to say: an error if it knows that a process is gone.
    pub(super) fn check(&self) -> Result<(), Failure> {
        const KEY: &str = "cpu/alive";
        let callbacks = self.lock();
        let callbacks = callbacks.as_ref().ok_or_else(closed)?;
        let Some(try_get) = callbacks.try_get else { return Ok(()) };
        let mut make: PJRT_CallbackError = make_error;
        let mut args = PJRT_KeyValueTryGetCallback_Args::new();
        (args.key, args.key_size) = (KEY.as_ptr().cast(), KEY.len());
        args.callback_error = &raw mut make;
        args.user_arg = callbacks.try_get_arg;
        // SAFETY: as in `get`.
        let answer = unsafe { outcome(try_get(&mut args)) };
        match answer {
            Ok(()) => {
                // SAFETY: the callback succeeded and gave a value, which is freed here.
                drop(unsafe { taken(args.value, args.value_size, args.value_deleter_callback) });
                Ok(())
            }
            Err(failure) if failure.code == PJRT_Error_Code_NOT_FOUND => Ok(()),
            Err(failure) => Err(failure),
        }
    }
}

fn closed() -> Failure {
    Failure::new(PJRT_Error_Code_FAILED_PRECONDITION, "the client is gone")
}

/// # Safety
/// `raw` is null or an error that [`make_error`] made, not used again.
unsafe fn outcome(raw: *mut PJRT_Error) -> Result<(), Failure> {
    if raw.is_null() {
        return Ok(());
    }
    // SAFETY: by the contract above.
    Err(unsafe { Failure::from_raw(raw) })
}

/// Copies a value and gives it back.
///
/// # Safety
/// `value` points to `size` bytes that live until `delete` was called with it.
unsafe fn taken(value: *mut c_char, size: usize, delete: Option<unsafe extern "C" fn(*mut c_char)>) -> Vec<u8> {
    // SAFETY: by the contract above.
    unsafe {
        let copy = bytes(value, size).to_vec();
        if let Some(delete) = delete {
            delete(value);
        }
        copy
    }
}
