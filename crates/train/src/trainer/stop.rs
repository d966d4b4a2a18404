//! Stopping: a request to one process ends all of them after the same launch.
//!
//! Processes launch the same programs in the same order: training steps, and batches of evaluation. A launch needs all of them,
//! so all must stop after the same one. A thread of each process waits for a request, its own or another's. Then it
//! holds back the next launch here, tells how many there were, and hears the same from the others: the largest number
//! is where all stop. No process is past it, and none waits for a launch of one that stopped before. The thread answers while
//! a launch waits for its partners, so that nothing waits in a circle.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use runtime::Error;
use runtime::distributed::Session;

/// How often the thread looks for a request to this process, and whether the training has ended.
const LOOK: Duration = Duration::from_millis(200);

/// When a training stops.
pub(super) struct StopGate<'a> {
    /// The request to this process.
    asked: &'a AtomicBool,
    /// Of several processes.
    together: Option<Together<'a>>,
}

struct Together<'a> {
    session: &'a Session,
    work: String,
    state: Mutex<State>,
    /// No launch follows.
    is_over: AtomicBool,
    /// The training has ended here.
    is_closed: AtomicBool,
}

#[derive(Default)]
struct State {
    launches: u64,
    /// Whether the others know the number of launches, which stays until the last one is known.
    is_told: bool,
    /// The last launch, and the process that was asked to stop.
    last: Option<(u64, usize)>,
    failed: Option<Error>,
}

impl<'a> StopGate<'a> {
    /// Runs a training that stops when `asked` is set, in this process or in another of the session.
    pub(super) fn run<R>(
        asked: &'a AtomicBool,
        session: Option<&'a Session>,
        train: impl FnOnce(&StopGate<'a>) -> R,
    ) -> R {
        let together = session.map(|session| Together {
            session,
            work: session.next_work(),
            state: Mutex::default(),
            is_over: AtomicBool::new(false),
            is_closed: AtomicBool::new(false),
        });
        let gate = StopGate { asked, together };
        std::thread::scope(|scope| {
            if let Some(together) = &gate.together {
                scope.spawn(|| together.watch(asked));
            }
            // However the training ends, the thread must.
            let _closing = Closing(gate.together.as_ref());
            train(&gate)
        })
    }

    /// Whether the next launch is made, and counts it.
    pub(super) fn go_on(&self) -> Result<bool, Error> {
        let Some(together) = &self.together else { return Ok(!self.asked.load(Ordering::Relaxed)) };
        let mut state = together.lock();
        if let Some(error) = state.failed.take() {
            return Err(error);
        }
        if state.last.is_some_and(|(last, _)| state.launches >= last) {
            return Ok(false);
        }
        state.launches += 1;
        Ok(true)
    }

    /// Set when no launch follows: what is compiled for one is of no use any more.
    pub(super) fn is_over(&self) -> &AtomicBool {
        self.together.as_ref().map_or(self.asked, |together| &together.is_over)
    }

    /// Set when this process may end by itself, before it has launched anything that others wait for.
    pub(super) fn alone(&self) -> &AtomicBool {
        static NEVER: AtomicBool = AtomicBool::new(false);
        self.together.as_ref().map_or(self.asked, |_| &NEVER)
    }

    /// The process that was asked to stop, where all have agreed on it.
    pub(super) fn asked_process(&self) -> Option<usize> {
        self.together.as_ref()?.lock().last.map(|(_, process)| process)
    }
}

/// Ends the thread of a training, and tells the others how far it came, for those that agree later.
struct Closing<'a, 'b>(Option<&'b Together<'a>>);

impl Drop for Closing<'_, '_> {
    fn drop(&mut self) {
        let Some(together) = self.0 else { return };
        together.is_closed.store(true, Ordering::Relaxed);
        // Where nobody can be told, somebody is gone, and nobody waits.
        let _ = together.tell(&mut together.lock());
    }
}

impl Together<'_> {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self, state: &mut State) -> Result<(), Error> {
        if state.is_told {
            return Ok(());
        }
        state.is_told = true;
        self.session.tell(&self.launches_of(self.session.config().process_id), state.launches.to_string().as_bytes())
    }

    fn watch(&self, asked: &AtomicBool) {
        // Told once, with the number of the process that was asked.
        let asked_name = format!("{}/stop", self.work);
        let mut is_told = false;
        while !self.is_closed.load(Ordering::Relaxed) {
            if asked.load(Ordering::Relaxed) && !is_told {
                is_told = true;
                // The first one counts: another process may have been asked too.
                let _ = self.session.tell(&asked_name, self.session.config().process_id.to_string().as_bytes());
            }
            match self.session.hear_within(&asked_name, LOOK) {
                Ok(None) => {}
                Ok(Some(process)) => return self.agree(number(&process)),
                Err(error) => {
                    self.lock().failed = Some(error);
                    return;
                }
            }
        }
    }

    /// Holds back launches until the last one is known.
    fn agree(&self, asked: Option<u64>) {
        let mut state = self.lock();
        match self.last_launch(&mut state) {
            Ok(last) => {
                state.last = Some((last, asked.and_then(|process| usize::try_from(process).ok()).unwrap_or_default()));
                self.is_over.store(state.launches >= last, Ordering::Relaxed);
            }
            Err(error) => state.failed = Some(error),
        }
    }

    fn launches_of(&self, process: usize) -> String {
        format!("{}/launches/{process}", self.work)
    }

    fn last_launch(&self, state: &mut State) -> Result<u64, Error> {
        self.tell(state)?;
        let mut last = state.launches;
        let config = self.session.config();
        for process in (0..config.processes).filter(|process| *process != config.process_id) {
            let heard = self.session.hear(&self.launches_of(process))?;
            let launches = number(&heard).ok_or_else(|| {
                Error::Distributed(format!("process {process} says of its launches what this release does not know"))
            })?;
            last = last.max(launches);
        }
        Ok(last)
    }
}

fn number(text: &[u8]) -> Option<u64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}
