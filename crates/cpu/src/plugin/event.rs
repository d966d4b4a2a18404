//! Events: completion of work in the background, shared by everything that waits for it.
#![allow(unsafe_code)]

use std::sync::{Arc, Condvar, Mutex, PoisonError};

use pjrt_sys::*;

use super::call::{Failure, entries, handles, object, text};

type Outcome = Result<(), Failure>;
type Callback = Box<dyn FnOnce(Outcome) + Send>;

enum State {
    Pending(Vec<Callback>),
    Done(Outcome),
}

/// Something that will have happened. Clones are the same event.
#[derive(Clone)]
pub(crate) struct Event(Arc<(Mutex<State>, Condvar)>);

handles! { PJRT_Event => Event, }

impl Event {
    pub(crate) fn pending() -> Event {
        Event(Arc::new((Mutex::new(State::Pending(Vec::new())), Condvar::new())))
    }

    pub(crate) fn done(outcome: Outcome) -> Event {
        Event(Arc::new((Mutex::new(State::Done(outcome)), Condvar::new())))
    }

    /// Completes the event; the first outcome stays.
    pub(crate) fn set(&self, outcome: Outcome) {
        let (state, changed) = &*self.0;
        let callbacks = {
            let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
            match &mut *state {
                State::Done(_) => return,
                State::Pending(callbacks) => {
                    let callbacks = std::mem::take(callbacks);
                    *state = State::Done(outcome.clone());
                    callbacks
                }
            }
        };
        changed.notify_all();
        for callback in callbacks {
            callback(outcome.clone());
        }
    }

    /// The outcome, if it is known.
    pub(crate) fn outcome(&self) -> Option<Outcome> {
        match &*self.0.0.lock().unwrap_or_else(PoisonError::into_inner) {
            State::Pending(_) => None,
            State::Done(outcome) => Some(outcome.clone()),
        }
    }

    /// Blocks until the outcome is known.
    pub(crate) fn wait(&self) -> Outcome {
        let (state, changed) = &*self.0;
        let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            match &*state {
                State::Done(outcome) => return outcome.clone(),
                State::Pending(_) => state = changed.wait(state).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }

    /// Calls back with the outcome, at once if it is known.
    pub(crate) fn on_ready(&self, callback: Callback) {
        let mut state = self.0.0.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut *state {
            State::Pending(callbacks) => callbacks.push(callback),
            State::Done(outcome) => {
                let outcome = outcome.clone();
                drop(state);
                callback(outcome);
            }
        }
    }

    /// An event of its own for the caller.
    pub(crate) fn into_raw(self) -> *mut PJRT_Event {
        Box::into_raw(Box::new(self)).cast()
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
            drop(Box::from_raw(args.event.cast::<Event>()));
        }
        Ok(())
    }

    fn PJRT_Event_IsReady(args: PJRT_Event_IsReady_Args) {
        args.is_ready = object(args.event)?.outcome().is_some();
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
        if event.outcome().is_some() {
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
