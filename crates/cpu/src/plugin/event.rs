//! Events: completion of work in the background, shared by everything that waits for it.
#![allow(unsafe_code)]

use std::ops::Deref;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};

use pjrt_sys::*;

use super::call::{Failure, entries, handles, object, text};

type Outcome = Result<(), Failure>;
type Callback = Box<dyn FnOnce(Outcome) + Send>;

/// Something that will have happened. Clones are the same event.
#[derive(Clone)]
pub(crate) struct Event(Arc<State>);

/// What the clones of an event share.
pub(crate) struct State {
    /// Written once, with `pending` locked.
    outcome: OnceLock<Outcome>,
    pending: Mutex<Pending>,
    changed: Condvar,
}

/// Who is to be told.
#[derive(Default)]
struct Pending {
    callbacks: Vec<Callback>,
    /// Threads that sleep until `changed`. Most events have none, and waking nobody is a call of the system all the same.
    sleepers: usize,
}

handles! { PJRT_Event => State, }

impl Deref for Event {
    type Target = State;

    fn deref(&self) -> &State {
        &self.0
    }
}

impl Event {
    fn new(outcome: OnceLock<Outcome>) -> Event {
        Event(Arc::new(State { outcome, pending: Mutex::default(), changed: Condvar::new() }))
    }

    pub(crate) fn pending() -> Event {
        Event::new(OnceLock::new())
    }

    pub(crate) fn done(outcome: Outcome) -> Event {
        Event::new(OnceLock::from(outcome))
    }

    /// A share of the event for the caller.
    pub(crate) fn into_raw(self) -> *mut PJRT_Event {
        Arc::into_raw(self.0).cast_mut().cast()
    }
}

impl State {
    fn lock(&self) -> MutexGuard<'_, Pending> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Completes the event; the first outcome stays.
    pub(crate) fn set(&self, outcome: Outcome) {
        let (callbacks, has_sleepers) = {
            let mut pending = self.lock();
            if self.outcome.set(outcome.clone()).is_err() {
                return;
            }
            (std::mem::take(&mut pending.callbacks), pending.sleepers > 0)
        };
        if has_sleepers {
            self.changed.notify_all();
        }
        for callback in callbacks {
            callback(outcome.clone());
        }
    }

    /// The outcome, if it is known.
    pub(crate) fn outcome(&self) -> Option<Outcome> {
        self.outcome.get().cloned()
    }

    /// Whether the outcome is known.
    pub(crate) fn is_done(&self) -> bool {
        self.outcome.get().is_some()
    }

    /// Blocks until the outcome is known.
    pub(crate) fn wait(&self) -> Outcome {
        if let Some(outcome) = self.outcome.get() {
            return outcome.clone();
        }
        let mut pending = self.lock();
        loop {
            if let Some(outcome) = self.outcome.get() {
                return outcome.clone();
            }
            pending.sleepers += 1;
            pending = self.changed.wait(pending).unwrap_or_else(PoisonError::into_inner);
            pending.sleepers -= 1;
        }
    }

    /// Calls back with the outcome, at once if it is known.
    pub(crate) fn on_ready(&self, callback: Callback) {
        if self.outcome.get().is_none() {
            let mut pending = self.lock();
            if self.outcome.get().is_none() {
                return pending.callbacks.push(callback);
            }
        }
        callback(self.wait());
    }
}

/// A pointer of the caller's that travels to the thread which completes the event.
struct UserArgument(*mut std::ffi::c_void);

// SAFETY: the table lets callbacks run on any thread, so the caller's argument may travel.
unsafe impl Send for UserArgument {}

impl UserArgument {
    fn get(&self) -> *mut std::ffi::c_void {
        self.0
    }
}

entries! {
    fn PJRT_Event_Destroy(args: PJRT_Event_Destroy_Args) {
        if !args.event.is_null() {
            drop(Arc::from_raw(args.event.cast::<State>().cast_const()));
        }
        Ok(())
    }

    fn PJRT_Event_IsReady(args: PJRT_Event_IsReady_Args) {
        args.is_ready = object(args.event)?.is_done();
        Ok(())
    }

    fn PJRT_Event_Error(args: PJRT_Event_Error_Args) {
        match object(args.event)?.outcome() {
            Some(outcome) => outcome,
            None => Err(Failure::new(PJRT_Error_Code_FAILED_PRECONDITION, "the event is not ready")),
        }
    }

    fn PJRT_Event_Await(args: PJRT_Event_Await_Args) {
        object(args.event)?.wait()
    }

    fn PJRT_Event_OnReady(args: PJRT_Event_OnReady_Args) {
        let callback = args.callback.ok_or_else(|| Failure::invalid("the callback is null"))?;
        let user = UserArgument(args.user_arg);
        object(args.event)?.on_ready(Box::new(move |outcome| {
            let error = outcome.err().map_or(std::ptr::null_mut(), Failure::into_raw);
            // SAFETY: the caller registered this function for this argument; it takes the error over.
            unsafe { callback(error, user.get()) };
        }));
        Ok(())
    }

    fn PJRT_Event_Create(args: PJRT_Event_Create_Args) {
        args.event = Event::pending().into_raw();
        Ok(())
    }

    fn PJRT_Event_Set(args: PJRT_Event_Set_Args) {
        let event = object(args.event)?;
        if event.is_done() {
            return Err(Failure::new(PJRT_Error_Code_FAILED_PRECONDITION, "the event is already set"));
        }
        event.set(outcome_of(args.error_code, text(args.error_message, args.error_message_size)));
        Ok(())
    }
}

/// A code and message of the caller's as an outcome.
pub(super) fn outcome_of(code: PJRT_Error_Code, message: String) -> Outcome {
    if code == PJRT_Error_Code_OK { Ok(()) } else { Err(Failure::new(code, message)) }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn everyone_is_told_the_first_outcome() {
        for threads in [0, 1, 3] {
            let (event, called) = (Event::pending(), Arc::new(AtomicUsize::new(0)));
            let tell = |event: &Event| {
                let called = called.clone();
                event.on_ready(Box::new(move |outcome| {
                    assert_eq!(outcome, Ok(()));
                    called.fetch_add(1, Ordering::SeqCst);
                }));
            };
            tell(&event);
            std::thread::scope(|scope| {
                for _ in 0..threads {
                    scope.spawn(|| assert_eq!(event.wait(), Ok(())));
                }
                assert!(!event.is_done());
                event.set(Ok(()));
                event.set(Err(Failure::internal("late")));
            });
            tell(&event);
            assert_eq!((event.outcome(), event.wait()), (Some(Ok(())), Ok(())));
            assert_eq!(called.load(Ordering::SeqCst), 2);
        }
    }
}
