//! Saving beside training: a thread that writes snapshots while the next steps run.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use super::saver::{SaveReport, Saver};
use super::snapshot::Snapshot;
use crate::error::Error;

/// Reports that are kept for [`AsyncSaver::completed`]; of more, the oldest are forgotten.
const MAX_REPORTS: usize = 1024;

/// What happens to a snapshot while an earlier one is still being written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenBusy {
    /// The caller waits until the earlier one is complete. At most one snapshot is held in memory.
    Wait,
    /// The caller goes on; the snapshot is written next, unless a newer one replaces it before its turn. At most two
    /// snapshots are held in memory.
    Replace,
}

/// Saves snapshots in the background, one at a time.
///
/// An error of a save is returned by the next call, once. Dropping the saver waits for the save under way and for the one
/// that waits; only [`AsyncSaver::finish`] also tells how they went.
#[derive(Debug)]
pub struct AsyncSaver {
    shared: Arc<Shared>,
    when_busy: WhenBusy,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    waiting: Option<Snapshot>,
    is_saving: bool,
    is_closed: bool,
    error: Option<Error>,
    reports: VecDeque<SaveReport>,
}

impl AsyncSaver {
    /// Starts the thread.
    pub fn new(saver: Saver, when_busy: WhenBusy) -> Result<AsyncSaver, Error> {
        let shared = Arc::new(Shared::default());
        let theirs = shared.clone();
        let thread = std::thread::Builder::new().name("checkpoints".into()).spawn(move || theirs.run(saver));
        let thread = thread.map_err(|source| Error::Thread { doing: "saving checkpoints", source: Some(source) })?;
        Ok(AsyncSaver { shared, when_busy, thread: Some(thread) })
    }

    /// Hands a snapshot over and returns, at once unless an earlier one is being written and [`WhenBusy::Wait`] was
    /// chosen. Gives the step of a snapshot that was replaced, which will never be written.
    ///
    /// If an earlier save failed, its error is returned and this snapshot is **not** taken: call again to go on.
    pub fn save(&self, snapshot: Snapshot) -> Result<Option<u64>, Error> {
        let mut state = self.shared.lock();
        if self.when_busy == WhenBusy::Wait {
            state = self.shared.wait_while(state, |state| state.is_busy());
        }
        if let Some(error) = state.error.take() {
            return Err(error);
        }
        let replaced = state.waiting.replace(snapshot);
        self.shared.changed.notify_all();
        Ok(replaced.map(|snapshot| snapshot.step))
    }

    /// The error of an earlier save, if there is one that was not yet returned.
    pub fn take_error(&self) -> Option<Error> {
        self.shared.lock().error.take()
    }

    /// Whether a snapshot is being written or waits for it.
    pub fn is_busy(&self) -> bool {
        self.shared.lock().is_busy()
    }

    /// Reports of saves that were completed since the last call.
    pub fn completed(&self) -> Vec<SaveReport> {
        self.shared.lock().reports.drain(..).collect()
    }

    /// Waits until everything handed over is written.
    pub fn wait(&self) -> Result<(), Error> {
        let mut state = self.shared.wait_while(self.shared.lock(), |state| state.is_busy());
        state.error.take().map_or(Ok(()), Err)
    }

    /// Waits until everything handed over is written or has failed; how it went is told by the other functions.
    pub fn wait_idle(&self) {
        drop(self.shared.wait_while(self.shared.lock(), |state| state.is_busy()));
    }

    /// Waits until everything handed over is written, and ends the thread. Gives the reports not yet taken.
    pub fn finish(mut self) -> Result<Vec<SaveReport>, Error> {
        self.close();
        self.wait()?;
        Ok(self.completed())
    }

    fn close(&mut self) {
        self.shared.lock().is_closed = true;
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            // Panics are caught inside and reported as errors.
            let _ = thread.join();
        }
    }
}

impl Drop for AsyncSaver {
    fn drop(&mut self) {
        self.close();
    }
}

impl State {
    fn is_busy(&self) -> bool {
        self.is_saving || self.waiting.is_some()
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait_while<'a>(
        &self,
        state: MutexGuard<'a, State>,
        condition: impl Fn(&State) -> bool,
    ) -> MutexGuard<'a, State> {
        self.changed.wait_while(state, |state| condition(state)).unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self, mut saver: Saver) {
        loop {
            let mut state = self.wait_while(self.lock(), |state| state.waiting.is_none() && !state.is_closed);
            let Some(snapshot) = state.waiting.take() else { return };
            state.is_saving = true;
            drop(state);
            let saved = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| saver.save(snapshot)));
            let saved = saved.unwrap_or(Err(Error::Thread { doing: "saving checkpoints", source: None }));
            let mut state = self.lock();
            state.is_saving = false;
            match saved {
                Ok(report) => {
                    if state.reports.len() == MAX_REPORTS {
                        state.reports.pop_front();
                    }
                    state.reports.push_back(report);
                }
                // The first error is the one to see: later ones often follow from it.
                Err(error) => {
                    state.error.get_or_insert(error);
                }
            }
            self.changed.notify_all();
        }
    }
}
