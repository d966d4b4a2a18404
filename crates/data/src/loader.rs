//! Batches prepared ahead of the step that needs them, by one or several threads of their own.

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::JoinHandle;

use tensor::Literal;

use super::Dataset;
use super::error::DataError;

/// The arrays of one step.
#[derive(Clone, Debug, PartialEq)]
pub struct Batch {
    /// The step.
    pub step: u64,
    /// Its arrays.
    pub arrays: Vec<Literal>,
}

/// How batches are prepared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoaderOptions {
    /// Batches prepared before they are asked for, at least one for each worker.
    pub ahead: usize,
    /// Threads that prepare batches, at least one. Their number does not change the batches nor their order.
    pub workers: usize,
}

impl Default for LoaderOptions {
    /// Two batches ahead, by one thread.
    fn default() -> LoaderOptions {
        LoaderOptions { ahead: 2, workers: 1 }
    }
}

/// Batches of consecutive steps, prepared ahead. It ends after its last step or after the first error.
///
/// The workers take the steps in turn, each has a queue of its own, and the queues are read in the same turn: so batches come
/// in the order of their steps. Dropping the loader ends its threads, at the latest when the batches being prepared are ready.
#[derive(Debug)]
pub struct Loader {
    /// A queue for each worker; none once it has ended.
    queues: Vec<Receiver<Result<Batch, DataError>>>,
    /// The queue that is read next.
    turn: usize,
    threads: Vec<JoinHandle<()>>,
}

impl Loader {
    /// Prepares these steps in order.
    pub fn start(dataset: Arc<dyn Dataset>, steps: Range<u64>, options: LoaderOptions) -> Result<Loader, DataError> {
        let workers = options.workers.clamp(1, MAX_WORKERS);
        // The one that is being prepared is one of those ahead.
        let waiting = options.ahead.div_ceil(workers).max(1) - 1;
        let mut loader = Loader { queues: Vec::new(), turn: 0, threads: Vec::new() };
        for worker in 0..workers {
            let (sender, queue) = sync_channel(waiting);
            let (dataset, steps) = (dataset.clone(), steps.clone().skip(worker).step_by(workers));
            let prepare = move || {
                for step in steps {
                    let made = catch_unwind(AssertUnwindSafe(|| dataset.batch(step)));
                    let batch = made.unwrap_or(Err(DataError::Panicked { doing: "preparing a batch" }));
                    let failed = batch.is_err();
                    // Nobody waits for it when the loader is gone.
                    if sender.send(batch.map(|arrays| Batch { step, arrays })).is_err() || failed {
                        return;
                    }
                }
            };
            loader.queues.push(queue);
            let thread = std::thread::Builder::new().name(format!("data loader {worker}")).spawn(prepare);
            let thread = thread.map_err(DataError::io("starting a thread of", "the data loader".as_ref()))?;
            loader.threads.push(thread);
        }
        Ok(loader)
    }
}

/// More threads than this are not started.
const MAX_WORKERS: usize = 256;

impl Iterator for Loader {
    type Item = Result<Batch, DataError>;

    fn next(&mut self) -> Option<Self::Item> {
        let batch = self.queues.get(self.turn)?.recv().ok();
        self.turn = (self.turn + 1) % self.queues.len();
        if !matches!(batch, Some(Ok(_))) {
            self.queues.clear();
        }
        batch
    }
}

impl Drop for Loader {
    fn drop(&mut self) {
        // First the queues, so that threads that wait to hand on a batch wake.
        self.queues.clear();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}
