//! The edge: entry points that never unwind, errors as the table hands them out, and reading what a caller passes.
#![allow(unsafe_code)]

use std::ffi::{c_char, c_void};
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;

use pjrt_sys::*;

use crate::error::Error;

/// Why a call failed, in the table's terms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) code: PJRT_Error_Code,
    pub(crate) message: String,
}

impl Failure {
    pub(crate) fn new(code: PJRT_Error_Code, message: impl Into<String>) -> Failure {
        Failure { code, message: message.into() }
    }

    pub(crate) fn invalid(message: impl Into<String>) -> Failure {
        Failure::new(PJRT_Error_Code_INVALID_ARGUMENT, message)
    }

    pub(crate) fn unimplemented(message: impl Into<String>) -> Failure {
        Failure::new(PJRT_Error_Code_UNIMPLEMENTED, message)
    }

    pub(crate) fn internal(message: impl Into<String>) -> Failure {
        Failure::new(PJRT_Error_Code_INTERNAL, message)
    }

    /// What a panic becomes at the edge.
    pub(crate) fn from_panic(payload: &(dyn std::any::Any + Send)) -> Failure {
        let text =
            payload.downcast_ref::<&str>().copied().or_else(|| payload.downcast_ref::<String>().map(String::as_str));
        Failure::internal(format!("internal error: {}", text.unwrap_or("a panic without a message")))
    }

    /// Takes a failure back that [`into_raw`](Self::into_raw) handed out.
    ///
    /// # Safety
    /// `raw` came from `into_raw` and is not used again.
    pub(crate) unsafe fn from_raw(raw: *mut PJRT_Error) -> Failure {
        // SAFETY: by the contract above.
        unsafe { Box::from_raw(raw.cast::<ErrorObject>()) }.failure
    }

    /// Hands the failure to the caller, who frees it with `PJRT_Error_Destroy`.
    pub(crate) fn into_raw(self) -> *mut PJRT_Error {
        Box::into_raw(Box::new(ErrorObject { head: PJRT_Error { vtable: &ERROR_FUNCTIONS.0 }, failure: self })).cast()
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        let code = match error {
            Error::Program { .. } | Error::Arguments(_) => PJRT_Error_Code_INVALID_ARGUMENT,
            Error::Unsupported { .. } => PJRT_Error_Code_UNIMPLEMENTED,
            Error::Check { .. } => PJRT_Error_Code_FAILED_PRECONDITION,
            Error::Exhausted(_) => PJRT_Error_Code_RESOURCE_EXHAUSTED,
            Error::Interrupted => PJRT_Error_Code_CANCELLED,
            Error::Internal(_) => PJRT_Error_Code_INTERNAL,
        };
        Failure::new(code, error.to_string())
    }
}

/// An error as newer clients expect it: the function table first.
#[repr(C)]
struct ErrorObject {
    head: PJRT_Error,
    failure: Failure,
}

/// Makes a table with pointers shareable.
pub(super) struct Shared<T>(pub(super) T);

// SAFETY: only used for tables that nobody writes after they are made.
unsafe impl<T> Sync for Shared<T> {}
// SAFETY: as for `Sync`.
unsafe impl<T> Send for Shared<T> {}

static ERROR_FUNCTIONS: Shared<PJRT_Error_FunctionTable> = Shared(PJRT_Error_FunctionTable {
    struct_size: PJRT_Error_FunctionTable::STRUCT_SIZE,
    instance_size: size_of::<PJRT_Error>(),
    extension_start: ptr::null_mut(),
    destroy: Some(error_destroy),
    message: Some(error_message),
    get_code: Some(error_code),
    for_each_payload: Some(error_payloads),
});

/// # Safety
/// `error` is null or came from `Failure::into_raw` and is not used again.
unsafe extern "C" fn error_destroy(error: *mut PJRT_Error) {
    if !error.is_null() {
        // SAFETY: by the contract above.
        drop(unsafe { Box::from_raw(error.cast::<ErrorObject>()) });
    }
}

/// # Safety
/// `error` came from `Failure::into_raw`; the two places may be written.
unsafe extern "C" fn error_message(error: *const PJRT_Error, message: *mut *const c_char, size: *mut usize) {
    // SAFETY: by the contract above.
    unsafe {
        let text = &(*error.cast::<ErrorObject>()).failure.message;
        *message = text.as_ptr().cast();
        *size = text.len();
    }
}

/// # Safety
/// `error` came from `Failure::into_raw`.
unsafe extern "C" fn error_code(error: *const PJRT_Error) -> PJRT_Error_Code {
    // SAFETY: by the contract above.
    unsafe { (*error.cast::<ErrorObject>()).failure.code }
}

/// Errors of this device have no payloads.
unsafe extern "C" fn error_payloads(_: *const PJRT_Error, _: PJRT_Error_PayloadVisitor, _: *mut c_void) {}

/// Entry point `PJRT_Error_Destroy`.
///
/// # Safety
/// The table's contract.
pub(super) unsafe extern "C" fn PJRT_Error_Destroy(args: *mut PJRT_Error_Destroy_Args) {
    if !args.is_null() {
        // SAFETY: the caller passes its arguments, and an error of this plugin or null.
        unsafe { error_destroy((*args).error) };
    }
}

/// Entry point `PJRT_Error_Message`.
///
/// # Safety
/// The table's contract.
pub(super) unsafe extern "C" fn PJRT_Error_Message(args: *mut PJRT_Error_Message_Args) {
    // SAFETY: the caller passes its arguments and an error of this plugin.
    unsafe { error_message((*args).error, &raw mut (*args).message, &raw mut (*args).message_size) };
}

/// Runs an entry point on a copy of the arguments as long as we know them: a caller's struct may end earlier, and what
/// it lacks reads as zero. Results are copied back as far as its struct reaches. A panic becomes an error.
///
/// # Safety
/// `args` is null or points to an argument struct of type `A` that begins with its size in bytes; all that is in it is
/// as the C header says.
pub(super) unsafe fn enter<A: Copy>(args: *mut A, body: impl FnOnce(&mut A) -> Result<(), Failure>) -> *mut PJRT_Error {
    let ran = catch_unwind(AssertUnwindSafe(|| {
        if args.is_null() {
            return Err(Failure::invalid("the arguments are null"));
        }
        // SAFETY: argument structs begin with their size.
        let stated = unsafe { args.cast::<usize>().read() };
        if stated < size_of::<usize>() {
            return Err(Failure::invalid(format!("an argument struct of {stated} bytes")));
        }
        let known = stated.min(size_of::<A>());
        let mut copy = MaybeUninit::<A>::zeroed();
        // SAFETY: `known` bytes are readable there, and writable in `copy`.
        unsafe { ptr::copy_nonoverlapping(args.cast::<u8>(), copy.as_mut_ptr().cast::<u8>(), known) };
        // SAFETY: integers, pointers, nullable functions and flags; the caller filled the first `known` bytes.
        let copy = unsafe { copy.assume_init_mut() };
        let result = body(copy);
        // SAFETY: the caller lets us write the `known` bytes of its struct.
        unsafe { ptr::copy_nonoverlapping((&raw const *copy).cast::<u8>(), args.cast::<u8>(), known) };
        result
    }));
    match ran {
        Ok(Ok(())) => ptr::null_mut(),
        Ok(Err(failure)) => failure.into_raw(),
        Err(payload) => Failure::from_panic(&*payload).into_raw(),
    }
}

/// Declares entry points. Their bodies run inside [`enter`].
macro_rules! entries {
    ($(fn $name:ident($args:ident: $ty:ty) $body:block)*) => {$(
        #[doc = concat!("Entry point `", stringify!($name), "`.\n\n# Safety\nThe table's contract.")]
        #[allow(unused_unsafe)]
        pub(super) unsafe extern "C" fn $name(args: *mut $ty) -> *mut pjrt_sys::PJRT_Error {
            // SAFETY: the caller keeps the C header's contract: its struct begins with its size, handles in it are live
            // objects of this plugin, and pointers reach as far as the sizes beside them say.
            unsafe { $crate::plugin::call::enter(args, |$args: &mut $ty| $body) }
        }
    )*};
}
pub(super) use entries;

entries! {
    fn PJRT_Error_GetCode(args: PJRT_Error_GetCode_Args) {
        if args.error.is_null() {
            return Err(Failure::invalid("the error is null"));
        }
        args.code = error_code(args.error);
        Ok(())
    }

    fn PJRT_Error_ForEachPayload(args: PJRT_Error_ForEachPayload_Args) {
        let _ = args;
        Ok(())
    }
}

/// A C type that stands for one of our objects.
pub(super) trait Handle {
    /// What is behind the pointer.
    type Object;
}

macro_rules! handles {
    ($($raw:ty => $object:ty,)*) => {$(
        impl $crate::plugin::call::Handle for $raw {
            type Object = $object;
        }
    )*};
}
pub(super) use handles;

/// The object behind a handle.
///
/// # Safety
/// `raw` is null or points to a live object of this plugin.
pub(super) unsafe fn object<'a, H: Handle>(raw: *const H) -> Result<&'a H::Object, Failure> {
    // SAFETY: by the contract above.
    unsafe { raw.cast::<H::Object>().as_ref() }.ok_or_else(|| Failure::invalid("a handle is null"))
}

/// A list the caller passes; empty where the pointer is null.
///
/// # Safety
/// `data` is null or points to `len` readable values.
pub(super) unsafe fn list<'a, T>(data: *const T, len: usize) -> &'a [T] {
    if data.is_null() || len == 0 {
        return &[];
    }
    // SAFETY: by the contract above.
    unsafe { std::slice::from_raw_parts(data, len) }
}

/// Bytes the caller passes.
///
/// # Safety
/// `data` is null or points to `len` readable bytes.
pub(super) unsafe fn bytes<'a>(data: *const c_char, len: usize) -> &'a [u8] {
    // SAFETY: by the contract above.
    unsafe { list(data.cast(), len) }
}

/// Text the caller passes.
///
/// # Safety
/// As for [`bytes`].
pub(super) unsafe fn text(data: *const c_char, len: usize) -> String {
    // SAFETY: by the contract above.
    String::from_utf8_lossy(unsafe { bytes(data, len) }).into_owned()
}

/// Writes a string that lives elsewhere into two places of the arguments.
macro_rules! give_text {
    ($args:ident.$data:ident, $size:ident = $text:expr) => {{
        let text: &str = $text;
        $args.$data = text.as_ptr().cast();
        $args.$size = text.len();
        Ok(())
    }};
}
pub(super) use give_text;

/// Bytes handed out with a deleter: the box is the backing object.
pub(super) struct Backing(pub(super) Vec<u8>);

/// Frees a [`Backing`].
///
/// # Safety
/// `raw` is null or is a backing of this plugin, not used again.
pub(super) unsafe extern "C" fn free_backing<T>(raw: *mut T) {
    if !raw.is_null() {
        // SAFETY: by the contract above.
        drop(unsafe { Box::from_raw(raw.cast::<Backing>()) });
    }
}

/// Hands bytes out with a backing and its deleter.
macro_rules! give_bytes {
    ($args:ident.$backing:ident, $deleter:ident = $bytes:expr) => {{
        let backing = Box::new($crate::plugin::call::Backing($bytes));
        $args.serialized_bytes = backing.0.as_ptr().cast();
        $args.serialized_bytes_size = backing.0.len();
        $args.$backing = Box::into_raw(backing).cast();
        $args.$deleter = Some($crate::plugin::call::free_backing);
        Ok(())
    }};
}
pub(super) use give_bytes;

#[cfg(test)]
mod tests {
    use super::*;

    /// An argument struct with a field that a caller of an older header does not have.
    #[repr(C)]
    #[derive(Clone, Copy)]
    struct Args {
        struct_size: usize,
        old: usize,
        new: usize,
    }

    fn code_of(error: *mut PJRT_Error) -> PJRT_Error_Code {
        // SAFETY: an error of ours, read once and freed.
        unsafe {
            let code = error_code(error);
            error_destroy(error);
            code
        }
    }

    #[test]
    fn a_shorter_struct_is_neither_read_nor_written_past_its_end() {
        let mut args = Args { struct_size: 16, old: 7, new: 99 };
        // SAFETY: a struct that begins with its size.
        let error = unsafe {
            enter(&raw mut args, |args: &mut Args| {
                assert_eq!((args.old, args.new), (7, 0));
                (args.old, args.new) = (8, 1);
                Ok(())
            })
        };
        assert!(error.is_null());
        assert_eq!((args.old, args.new), (8, 99));
    }

    #[test]
    fn panics_and_nonsense_become_errors() {
        let mut args = Args { struct_size: 24, old: 0, new: 0 };
        // SAFETY: a struct that begins with its size, or null.
        unsafe {
            let error = enter(&raw mut args, |_| panic!("on purpose"));
            assert_eq!(code_of(error), PJRT_Error_Code_INTERNAL);
            let error = enter(std::ptr::null_mut::<Args>(), |_| Ok(()));
            assert_eq!(code_of(error), PJRT_Error_Code_INVALID_ARGUMENT);
            args.struct_size = 3;
            let error = enter(&raw mut args, |_| Ok(()));
            assert_eq!(code_of(error), PJRT_Error_Code_INVALID_ARGUMENT);
            PJRT_Error_Destroy(&mut PJRT_Error_Destroy_Args::new());
        }
    }
}
