//! What a training tells while it runs, and how it ended.

use std::collections::BTreeMap;

/// What was measured over the steps since the last record.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Measured {
    /// The step just done, counted from 1.
    pub step: u64,
    /// Scalars of that step by name.
    pub values: BTreeMap<String, f64>,
    /// Mean seconds of a step since the last record.
    pub step_seconds: f64,
    /// Tokens per second, if a batch is counted in them.
    pub tokens_per_second: Option<f64>,
    /// MFU: operations of the model over the peak rate of all devices, if both are known.
    pub mfu: Option<f64>,
}

impl Measured {
    /// The loss.
    pub fn loss(&self) -> Option<f64> {
        self.values.get("loss").copied()
    }
}

/// Something that happened.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum TrainEvent {
    /// A program is being compiled: `init`, `step` or `evaluate`.
    Compiling(&'static str),
    /// The training goes on from this step.
    Resumed(u64),
    /// Newer checkpoints were passed over: the step, and what is wrong with it.
    Damaged(u64, String),
    /// A record.
    Step(Measured),
    /// An evaluation.
    Evaluated(Measured),
    /// A checkpoint of this step is being written.
    Saving(u64),
    /// A checkpoint could not be written; training goes on.
    SaveFailed(String),
}

/// How a training ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// All steps are done.
    Finished,
    /// It was asked to stop; the state is saved if there are checkpoints.
    Stopped,
    /// The loss is NaN or infinite since this step; the last good checkpoint stays.
    Diverged {
        /// The step whose measures are not finite.
        step: u64,
    },
}
