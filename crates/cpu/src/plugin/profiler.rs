//! The profiler extension: sessions that record what the devices of the process do, and give it as an XSpace.
#![allow(unsafe_code)]

use std::ffi::c_int;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pjrt_sys::extensions::profiler::*;
use pjrt_sys::{PJRT_Error_Code_FAILED_PRECONDITION, PJRT_Extension_Base};

use super::call::{Failure, Shared, enter, handles, object};
use crate::recorder::{MAX_EVENTS, Recording};

/// A session of a client.
pub(crate) struct Session(Mutex<State>);

enum State {
    Ready,
    Recording(Arc<Recording>),
    Stopped(Arc<Recording>),
    /// What was recorded, kept as long as the session: callers may point to it.
    Collected(Vec<u8>),
}

impl Session {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if let State::Recording(recording) = &*self.state() {
            recording.turn_off();
        }
    }
}

handles! { PLUGIN_Profiler => Session, }

fn wrong_state(what: &str) -> Failure {
    Failure::new(PJRT_Error_Code_FAILED_PRECONDITION, what)
}

/// Runs an entry point of the profiler, whose errors are of their own type.
///
/// # Safety
/// As [`enter`].
unsafe fn run<A: Copy>(args: *mut A, body: impl FnOnce(&mut A) -> Result<(), Failure>) -> *mut PLUGIN_Profiler_Error {
    // SAFETY: the caller's promise.
    let error = unsafe { enter(args, body) };
    if error.is_null() {
        return std::ptr::null_mut();
    }
    // SAFETY: `enter` made it, and nobody else has it.
    Box::into_raw(Box::new(unsafe { Failure::from_raw(error) })).cast()
}

/// Declares entry points of the profiler. Their bodies run inside [`run`].
macro_rules! calls {
    ($(fn $name:ident($args:ident: $ty:ty) $body:block)*) => {$(
        #[doc = concat!("Entry point `", stringify!($name), "` of the profiler.\n\n# Safety\nThe table's contract.")]
        #[allow(unused_unsafe)]
        unsafe extern "C" fn $name(args: *mut $ty) -> *mut PLUGIN_Profiler_Error {
            // SAFETY: the caller keeps the C header's contract: its struct begins with its size, handles in it are live
            // objects of this profiler, and pointers reach as far as the sizes beside them say.
            unsafe { run(args, |$args: &mut $ty| $body) }
        }
    )*};
}

calls! {
    fn error_get_code(args: PLUGIN_Profiler_Error_GetCode_Args) {
        let failure = args.error.cast::<Failure>().as_ref().ok_or_else(|| Failure::invalid("the error is null"))?;
        args.code = failure.code as c_int;
        Ok(())
    }

    fn create(args: PLUGIN_Profiler_Create_Args) {
        // Options say how closely hosts and devices are looked at; there is one way here.
        args.profiler = Box::into_raw(Box::new(Session(Mutex::new(State::Ready)))).cast();
        Ok(())
    }

    fn destroy(args: PLUGIN_Profiler_Session_Args) {
        if !args.profiler.is_null() {
            drop(Box::from_raw(args.profiler.cast::<Session>()));
        }
        Ok(())
    }

    fn start(args: PLUGIN_Profiler_Session_Args) {
        let mut state = object(args.profiler)?.state();
        if !matches!(*state, State::Ready) {
            return Err(wrong_state("the profiler was started before; make a new session"));
        }
        let recording = Recording::new(MAX_EVENTS);
        if !recording.turn_on() {
            return Err(wrong_state("another profiling session is on in this process; one records at a time"));
        }
        *state = State::Recording(recording);
        Ok(())
    }

    fn stop(args: PLUGIN_Profiler_Session_Args) {
        let mut state = object(args.profiler)?.state();
        let State::Recording(recording) = &*state else {
            return Err(wrong_state("the profiler is not on"));
        };
        recording.turn_off();
        *state = State::Stopped(recording.clone());
        Ok(())
    }

    fn collect_data(args: PLUGIN_Profiler_CollectData_Args) {
        let mut state = object(args.profiler)?.state();
        if let State::Stopped(recording) = &*state {
            let space = crate::profile::space(recording.take(), recording.began_unix_ns);
            *state = State::Collected(space.to_bytes());
        }
        let State::Collected(data) = &*state else {
            return Err(wrong_state("the profiler has not been stopped"));
        };
        // The first call asks for the size; the second brings memory for it.
        if !args.buffer.is_null() {
            if args.buffer_size_in_bytes < data.len() {
                return Err(Failure::invalid(format!("{} bytes for a profile of {}", args.buffer_size_in_bytes, data.len())));
            }
            std::ptr::copy_nonoverlapping(data.as_ptr(), args.buffer, data.len());
        }
        args.buffer_size_in_bytes = data.len();
        Ok(())
    }
}

/// # Safety
/// The table's contract.
unsafe extern "C" fn error_destroy(args: *mut PLUGIN_Profiler_Error_Destroy_Args) {
    // SAFETY: the caller passes its arguments, and an error of this profiler or null, which it does not use again.
    unsafe {
        if let Some(args) = args.as_ref()
            && !args.error.is_null()
        {
            drop(Box::from_raw(args.error.cast::<Failure>()));
        }
    }
}

/// # Safety
/// The table's contract.
unsafe extern "C" fn error_message(args: *mut PLUGIN_Profiler_Error_Message_Args) {
    // SAFETY: the caller passes its arguments, and an error of this profiler or null.
    unsafe {
        if let Some(args) = args.as_mut()
            && let Some(failure) = args.error.cast::<Failure>().as_ref()
        {
            args.message = failure.message.as_ptr().cast();
            args.message_size = failure.message.len();
        }
    }
}

static API: Shared<PLUGIN_Profiler_Api> = Shared(PLUGIN_Profiler_Api {
    struct_size: size_of::<PLUGIN_Profiler_Api>(),
    private: std::ptr::null_mut(),
    error_destroy: Some(error_destroy),
    error_message: Some(error_message),
    error_get_code: Some(error_get_code),
    create: Some(create),
    destroy: Some(destroy),
    start: Some(start),
    stop: Some(stop),
    collect_data: Some(collect_data),
});

/// The extension; it leads to no other.
pub(super) static PROFILER: Shared<PJRT_Profiler_Extension> = Shared(PJRT_Profiler_Extension {
    base: PJRT_Extension_Base {
        struct_size: PJRT_Profiler_Extension::STRUCT_SIZE,
        r#type: PJRT_Profiler_Extension::TYPE,
        next: std::ptr::null_mut(),
    },
    profiler_api: (&raw const API.0).cast_mut(),
    traceme_context_id: 0,
});
