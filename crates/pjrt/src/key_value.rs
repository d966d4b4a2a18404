//! The key-value store through which the processes of one client find each other.
#![allow(unsafe_code)]

use std::collections::TryReserveError;
use std::ffi::{c_char, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use pjrt_sys::*;

use crate::api::chars;
use crate::error::Code;

/// A store shared by all processes of a program. Its functions are called from threads of the plugin, at any time while
/// the client lives.
pub trait KeyValueStore: Send + Sync {
    /// The value of a key; waits until there is one or the time is over.
    fn get(&self, key: &str, timeout: Duration) -> Result<Vec<u8>, KeyValueError>;

    /// The value of a key if there is one now.
    fn try_get(&self, key: &str) -> Result<Option<Vec<u8>>, KeyValueError>;

    /// Sets the value of a key.
    fn put(&self, key: &str, value: &[u8]) -> Result<(), KeyValueError>;
}

/// Why a [`KeyValueStore`] could not answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyValueError {
    /// What kind of failure.
    pub code: Code,
    /// What happened.
    pub message: String,
}

impl KeyValueError {
    /// A failure with a code.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }
}

impl std::fmt::Display for KeyValueError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "key-value store: {}: {}", self.code, self.message)
    }
}

impl std::error::Error for KeyValueError {}

impl From<TryReserveError> for KeyValueError {
    fn from(error: TryReserveError) -> Self {
        Self::new(Code::ResourceExhausted, error.to_string())
    }
}

/// A store at a fixed address, as callbacks need it.
pub(crate) struct PinnedStore(Box<Arc<dyn KeyValueStore>>);

impl PinnedStore {
    pub(crate) fn new(store: Arc<dyn KeyValueStore>) -> Self {
        Self(Box::new(store))
    }

    /// Enters the callbacks into the arguments of a client. `self` must outlive the client.
    pub(crate) fn register(&self, args: &mut PJRT_Client_Create_Args) {
        let user_arg: *mut c_void = (&raw const *self.0).cast_mut().cast();
        args.kv_get_callback = Some(get);
        args.kv_get_user_arg = user_arg;
        args.kv_try_get_callback = Some(try_get);
        args.kv_try_get_user_arg = user_arg;
        args.kv_put_callback = Some(put);
        args.kv_put_user_arg = user_arg;
    }
}

unsafe extern "C" fn get(args: *mut PJRT_KeyValueGetCallback_Args) -> *mut PJRT_Error {
    // SAFETY: the plugin gives arguments that live for the call; `user_arg` is the store.
    let (args, store) = unsafe { (&mut *args, store((*args).user_arg)) };
    let result = guard(|| {
        // SAFETY: the key is as long as stated.
        let key = unsafe { key(args.key, args.key_size)? };
        store.get(key, Duration::from_millis(u64::try_from(args.timeout_in_ms).unwrap_or(0)))
    });
    match result.and_then(|value| lend(&value)) {
        Ok((data, size)) => {
            (args.value, args.value_size) = (data, size);
            args.value_deleter_callback = Some(free_value);
            std::ptr::null_mut()
        }
        // SAFETY: the plugin gives a way to make errors.
        Err(error) => unsafe { fail(args.callback_error, &error) },
    }
}

unsafe extern "C" fn try_get(args: *mut PJRT_KeyValueTryGetCallback_Args) -> *mut PJRT_Error {
    // SAFETY: the plugin gives arguments that live for the call; `user_arg` is the store.
    let (args, store) = unsafe { (&mut *args, store((*args).user_arg)) };
    let result = guard(|| {
        // SAFETY: the key is as long as stated.
        let key = unsafe { key(args.key, args.key_size)? };
        store.try_get(key)?.ok_or_else(|| KeyValueError::new(Code::NotFound, format!("no value for {key}")))
    });
    match result.and_then(|value| lend(&value)) {
        Ok((data, size)) => {
            (args.value, args.value_size) = (data, size);
            args.value_deleter_callback = Some(free_value);
            std::ptr::null_mut()
        }
        // SAFETY: the plugin gives a way to make errors.
        Err(error) => unsafe { fail(args.callback_error, &error) },
    }
}

unsafe extern "C" fn put(args: *mut PJRT_KeyValuePutCallback_Args) -> *mut PJRT_Error {
    // SAFETY: the plugin gives arguments that live for the call; `user_arg` is the store.
    let (args, store) = unsafe { (&*args, store((*args).user_arg)) };
    let result = guard(|| {
        // SAFETY: key and value are as long as stated.
        let (key, value) = unsafe { (key(args.key, args.key_size)?, slice(args.value, args.value_size)) };
        store.put(key, value)
    });
    match result {
        Ok(()) => std::ptr::null_mut(),
        // SAFETY: the plugin gives a way to make errors.
        Err(error) => unsafe { fail(args.callback_error, &error) },
    }
}

/// # Safety
/// `user_arg` is what [`PinnedStore::register`] gave, and the store is alive.
unsafe fn store<'a>(user_arg: *mut c_void) -> &'a dyn KeyValueStore {
    // SAFETY: as the caller promises.
    unsafe { &**user_arg.cast::<Arc<dyn KeyValueStore>>() }
}

/// Runs a function of the store; a panic becomes an error, because it must not reach the plugin.
fn guard<T>(run: impl FnOnce() -> Result<T, KeyValueError>) -> Result<T, KeyValueError> {
    catch_unwind(AssertUnwindSafe(run))
        .unwrap_or_else(|_| Err(KeyValueError::new(Code::Internal, "the key-value store panicked")))
}

/// # Safety
/// `data` is null or points to `size` bytes that live as long as the answer is used.
unsafe fn slice<'a>(data: *const c_char, size: usize) -> &'a [u8] {
    match data.is_null() {
        true => &[],
        // SAFETY: as the caller promises.
        false => unsafe { std::slice::from_raw_parts(data.cast(), size) },
    }
}

/// # Safety
/// As for [`slice`].
unsafe fn key<'a>(data: *const c_char, size: usize) -> Result<&'a str, KeyValueError> {
    // SAFETY: as the caller promises.
    std::str::from_utf8(unsafe { slice(data, size) })
        .map_err(|_| KeyValueError::new(Code::InvalidArgument, "the key is not UTF-8"))
}

/// Copies a value into memory that the plugin gives back through [`free_value`], which learns no size.
fn lend(value: &[u8]) -> Result<(*mut c_char, usize), KeyValueError> {
    // SAFETY: `malloc` takes any size; one byte at least, so that null always means failure.
    let data = unsafe { libc::malloc(value.len().max(1)) }.cast::<u8>();
    if data.is_null() {
        return Err(KeyValueError::new(Code::ResourceExhausted, "out of memory"));
    }
    // SAFETY: the new memory has room for the value and overlaps nothing.
    unsafe { std::ptr::copy_nonoverlapping(value.as_ptr(), data, value.len()) };
    Ok((data.cast(), value.len()))
}

unsafe extern "C" fn free_value(value: *mut c_char) {
    // SAFETY: the value came from `lend`, and the plugin gives it back once.
    unsafe { libc::free(value.cast()) };
}

/// # Safety
/// `make` is null or points to the function that the plugin gives for making errors.
unsafe fn fail(make: *mut PJRT_CallbackError, error: &KeyValueError) -> *mut PJRT_Error {
    if make.is_null() {
        return std::ptr::null_mut();
    }
    // SAFETY: as the caller promises; the message is borrowed for the call.
    unsafe { (*make)(error.code.number(), chars(error.message.as_bytes()), error.message.len()) }
}
