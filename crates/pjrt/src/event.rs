//! Events: completion of asynchronous work, as something to wait for and as a future.
#![allow(unsafe_code)]

use std::ffi::c_void;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

use pjrt_sys::*;

use crate::api::Api;
use crate::error::Error;
use crate::handle::ClientHandle;

/// Work that will have been done. Wait for it with [`Event::wait`], or await it as a future in any executor.
///
/// The future ends once; polling it again afterwards answers the same success, or the same failure read anew.
pub struct Event {
    raw: Raw,
    waiting: Option<Arc<Mutex<Waiting>>>,
}

/// The C event and what it needs.
struct Raw {
    api: Arc<Api>,
    raw: NonNull<PJRT_Event>,
    /// Clients do not like to end before their events.
    _client: Arc<ClientHandle>,
}

/// What poll and callback share. It holds nothing of the plugin, so that the callback, which runs on a thread of the
/// plugin, never ends a client.
#[derive(Default)]
struct Waiting {
    ready: bool,
    waker: Option<Waker>,
}

// SAFETY: events exist to be signalled on one thread and observed on another; the interface lets every function on them
// be called from any thread.
unsafe impl Send for Raw {}
// SAFETY: as for `Send`; the state behind an event is synchronized by the plugin.
unsafe impl Sync for Raw {}

impl Drop for Raw {
    fn drop(&mut self) {
        let mut args = PJRT_Event_Destroy_Args::new();
        args.event = self.raw.as_ptr();
        // Nothing can be done about a failure to free.
        // SAFETY: this handle owns the event.
        let _ = unsafe { self.api.call(slot::PJRT_Event_Destroy, &mut args) };
    }
}

impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Event").field("raw", &self.raw.raw).finish()
    }
}

impl Event {
    /// Takes ownership of an event a call answered. `None` if it is null.
    pub(crate) fn owned(client: &Arc<ClientHandle>, raw: *mut PJRT_Event) -> Option<Self> {
        let raw = NonNull::new(raw)?;
        Some(Self { raw: Raw { api: client.api.clone(), raw, _client: client.clone() }, waiting: None })
    }

    /// Whether the work is done, well or badly.
    pub fn is_ready(&self) -> Result<bool, Error> {
        let mut args = PJRT_Event_IsReady_Args::new();
        args.event = self.raw.raw.as_ptr();
        // SAFETY: the event is alive.
        unsafe { self.raw.api.call(slot::PJRT_Event_IsReady, &mut args)? };
        Ok(args.is_ready)
    }

    /// Blocks until the work is done, and says how it went.
    pub fn wait(&self) -> Result<(), Error> {
        let mut args = PJRT_Event_Await_Args::new();
        args.event = self.raw.raw.as_ptr();
        // SAFETY: the event is alive.
        unsafe { self.raw.api.call(slot::PJRT_Event_Await, &mut args) }
    }

    /// Runs something when the work is done, on a thread of the plugin or, if it is done already, on this one.
    ///
    /// A panic in `then` is caught and dropped: it must not reach the plugin.
    pub fn on_ready(&self, then: impl FnOnce(Result<(), Error>) + Send + 'static) -> Result<(), Error> {
        let callback = Box::new(Callback { api: self.raw.api.clone(), then: Box::new(then) });
        let user_arg = Box::into_raw(callback);
        let mut args = PJRT_Event_OnReady_Args::new();
        args.event = self.raw.raw.as_ptr();
        args.callback = Some(run_callback);
        args.user_arg = user_arg.cast();
        // SAFETY: the event is alive; the callback takes the box it is given, once.
        let result = unsafe { self.raw.api.call(slot::PJRT_Event_OnReady, &mut args) };
        if result.is_err() {
            // SAFETY: the callback was not registered, so the box is still ours.
            drop(unsafe { Box::from_raw(user_arg) });
        }
        result
    }

    /// Keeps something alive until the work is done.
    pub(crate) fn keep_until_ready(&self, kept: impl Send + 'static) {
        let kept = Arc::new(Mutex::new(Some(kept)));
        let until = kept.clone();
        let registered = self.on_ready(move |_| drop(until.lock().unwrap_or_else(PoisonError::into_inner).take()));
        // Without a callback, waiting is the only way to know; and if that fails too, never freeing is the only safe one.
        if registered.is_err() && !self.is_certainly_done() {
            std::mem::forget(kept);
        }
    }

    /// Waits, and says whether the work is known to be over.
    fn is_certainly_done(&self) -> bool {
        let _ = self.wait();
        self.is_ready().unwrap_or(false)
    }

    /// How the work went. To be called only when it is done.
    fn error(&self) -> Result<(), Error> {
        let mut args = PJRT_Event_Error_Args::new();
        args.event = self.raw.raw.as_ptr();
        // SAFETY: the event is alive and ready.
        unsafe { self.raw.api.call(slot::PJRT_Event_Error, &mut args) }
    }
}

impl Future for Event {
    type Output = Result<(), Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match self.is_ready() {
            Ok(true) => return Poll::Ready(self.error()),
            Ok(false) => {}
            Err(error) => return Poll::Ready(Err(error)),
        }
        if let Some(waiting) = &self.waiting {
            let mut waiting = waiting.lock().unwrap_or_else(PoisonError::into_inner);
            if !waiting.ready {
                waiting.waker = Some(context.waker().clone());
                return Poll::Pending;
            }
            drop(waiting);
            return Poll::Ready(self.error());
        }
        let waiting = Arc::new(Mutex::new(Waiting { ready: false, waker: Some(context.waker().clone()) }));
        let signalled = waiting.clone();
        let registered = self.on_ready(move |_| {
            let mut waiting = signalled.lock().unwrap_or_else(PoisonError::into_inner);
            waiting.ready = true;
            let waker = waiting.waker.take();
            drop(waiting);
            if let Some(waker) = waker {
                waker.wake();
            }
        });
        match registered {
            Ok(()) => {
                self.waiting = Some(waiting);
                Poll::Pending
            }
            Err(error) => Poll::Ready(Err(error)),
        }
    }
}

/// What the plugin hands back to [`run_callback`].
struct Callback {
    api: Arc<Api>,
    then: Box<dyn FnOnce(Result<(), Error>) + Send>,
}

unsafe extern "C" fn run_callback(error: *mut PJRT_Error, user_arg: *mut c_void) {
    // SAFETY: `user_arg` is the box `on_ready` gave, and the plugin calls back once.
    let callback = unsafe { Box::from_raw(user_arg.cast::<Callback>()) };
    let _ = catch_unwind(AssertUnwindSafe(move || {
        let Callback { api, then } = *callback;
        // SAFETY: the error, if any, passes to the callback.
        then(unsafe { api.check("PJRT_Event_OnReady", error) });
    }));
}
