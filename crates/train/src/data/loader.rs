//! Batches prepared ahead of the step that needs them, in a thread of their own.

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

/// Batches of consecutive steps, prepared ahead. It ends after its last step or after the first error.
///
/// Dropping it ends its thread, at the latest when the batch being prepared is ready.
#[derive(Debug)]
pub struct Loader {
    /// `None` once it has ended.
    batches: Option<Receiver<Result<Batch, DataError>>>,
    thread: Option<JoinHandle<()>>,
}

impl Loader {
    /// Prepares these steps in order, up to `ahead` (at least one) before they are asked for.
    pub fn start(dataset: Arc<dyn Dataset>, steps: Range<u64>, ahead: usize) -> Result<Loader, DataError> {
        // The one that is being prepared is one of those ahead.
        let (sender, batches) = sync_channel(ahead.max(1) - 1);
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
        let thread = std::thread::Builder::new().name("data loader".into()).spawn(prepare);
        let thread = thread.map_err(DataError::io("starting the thread of", "the data loader".as_ref()))?;
        Ok(Loader { batches: Some(batches), thread: Some(thread) })
    }
}

impl Iterator for Loader {
    type Item = Result<Batch, DataError>;

    fn next(&mut self) -> Option<Self::Item> {
        let batch = self.batches.as_ref()?.recv().ok();
        if !matches!(batch, Some(Ok(_))) {
            self.batches = None;
        }
        batch
    }
}

impl Drop for Loader {
    fn drop(&mut self) {
        // First the channel, so that a thread that waits to hand on a batch wakes.
        self.batches = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
