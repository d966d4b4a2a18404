//! Where those who ask for profiles and the training meet.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use runtime::Profile;
use telemetry::grpc::{GrpcCode, GrpcStatus};
use tokio::sync::oneshot;

/// What comes of a request.
pub(crate) type Outcome = Result<Profile, GrpcStatus>;

/// A request for a profile of the next steps.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) steps: u64,
    /// Closed once nobody waits for it any more.
    pub(crate) answer: oneshot::Sender<Outcome>,
}

/// Requests for profiles of steps, and what the training tells of itself.
#[derive(Debug, Default)]
pub(crate) struct CaptureDesk {
    is_asked: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    asked: Option<Asked>,
    is_closed: bool,
    status: String,
}

impl CaptureDesk {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks for a profile of steps. One request waits at a time.
    pub(super) fn ask(&self, steps: u64) -> Result<oneshot::Receiver<Outcome>, GrpcStatus> {
        let mut state = self.lock();
        if state.is_closed {
            return Err(ended());
        }
        // A request that nobody waits for is none.
        if state.asked.as_ref().is_some_and(|asked| !asked.answer.is_closed()) {
            return Err(GrpcStatus::new(
                GrpcCode::AlreadyExists,
                "another profile of steps was asked for; ask again after it",
            ));
        }
        let (answer, outcome) = oneshot::channel();
        state.asked = Some(Asked { steps, answer });
        self.is_asked.store(true, Ordering::Relaxed);
        Ok(outcome)
    }

    /// Whether someone may have asked: all that the training looks at between two steps.
    pub(crate) fn is_asked(&self) -> bool {
        self.is_asked.load(Ordering::Relaxed)
    }

    /// Takes the request, if somebody still waits for it.
    pub(crate) fn take(&self) -> Option<Asked> {
        let mut state = self.lock();
        self.is_asked.store(false, Ordering::Relaxed);
        state.asked.take().filter(|asked| !asked.answer.is_closed())
    }

    /// No request is served any more. Who waits is told.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        state.is_closed = true;
        if let Some(asked) = state.asked.take() {
            let _ = asked.answer.send(Err(ended()));
        }
    }

    /// Tells how the training goes.
    pub(crate) fn tell(&self, status: String) {
        self.lock().status = status;
    }

    pub(super) fn status(&self) -> String {
        self.lock().status.clone()
    }
}

/// What who asks too late is told.
fn ended() -> GrpcStatus {
    GrpcStatus::new(GrpcCode::Aborted, "the training has ended before the profile was recorded")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_request_waits_and_one_that_is_given_up_makes_room() {
        let desk = CaptureDesk::default();
        assert!(!desk.is_asked() && desk.take().is_none());
        let first = desk.ask(5).unwrap();
        assert!(desk.is_asked());
        assert_eq!(desk.ask(1).unwrap_err().code, GrpcCode::AlreadyExists);
        drop(first);
        let second = desk.ask(2).unwrap();
        assert_eq!(desk.take().unwrap().steps, 2);
        assert!(!desk.is_asked());
        drop(second);
        drop(desk.ask(3).unwrap());
        assert!(desk.take().is_none());
        let mut last = desk.ask(4).unwrap();
        desk.close();
        assert_eq!(last.try_recv().unwrap().unwrap_err().code, GrpcCode::Aborted);
        assert_eq!(desk.ask(1).unwrap_err().code, GrpcCode::Aborted);
    }
}
