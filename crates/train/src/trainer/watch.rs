//! What a training tells while it runs, and how it ended.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;

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
    /// The checkpoints were those of a run that had not ended, as far as can be told. It can save no more.
    TookOver(String),
    /// The training goes on from this step.
    Resumed(u64),
    /// Newer checkpoints were passed over: the step, and what is wrong with it.
    Damaged(u64, String),
    /// Several processes stop together after this step.
    Stopping {
        /// The process that was asked to.
        process: usize,
        /// The last step.
        step: u64,
    },
    /// A record.
    Step(Measured),
    /// An evaluation.
    Evaluated(Measured),
    /// A checkpoint of this step is being written.
    Saving(u64),
    /// A checkpoint of this step is complete.
    Saved {
        /// Its step.
        step: u64,
        /// Seconds it took, the copy from the device included.
        seconds: f64,
        /// Bytes of the checkpoint.
        size_bytes: u64,
        /// Steps whose checkpoints were deleted, now that this one is complete.
        deleted: Vec<u64>,
    },
    /// A checkpoint could not be written; training goes on, and the next one is tried.
    SaveFailed(String),
    /// A checkpoint is complete, but something beside it went wrong: what was to be deleted was not, say.
    SaveWarning(String),
    /// Profiles can be asked for at this address.
    ProfilerAt(SocketAddr),
    /// A profile of a window of steps was written.
    Profiled {
        /// The file.
        path: PathBuf,
        /// Its steps.
        steps: Vec<u64>,
    },
    /// A profile could not be recorded or written; training goes on.
    ProfileFailed(String),
    /// How long a stop takes. Told once two steps are done, and again if a save takes so much longer than it was estimated that
    /// the time of a spot machine is not enough.
    StopTime(StopTime),
}

/// Seconds between the preemption notice of a spot machine and its end.
pub const SPOT_NOTICE_SECONDS: f64 = 30.0;

/// How long it takes from a request to stop to a checkpoint that is safe.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StopTime {
    /// Steps that may be under way.
    pub steps: u64,
    /// Seconds of one of them.
    pub step_seconds: f64,
    /// Seconds of a save.
    pub save_seconds: f64,
    /// Whether a checkpoint was saved; else its seconds are estimated from a small file written to the same place.
    pub is_measured: bool,
}

impl StopTime {
    /// Seconds in all.
    pub fn seconds(&self) -> f64 {
        self.steps as f64 * self.step_seconds + self.save_seconds
    }

    /// Whether a spot machine is gone before the checkpoint is safe.
    pub fn is_over_notice(&self) -> bool {
        self.seconds() > SPOT_NOTICE_SECONDS
    }
}

/// How a training ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// All steps are done.
    Finished,
    /// It was asked to stop; the state is saved if there are checkpoints.
    Stopped,
    /// The loss, or another measure, is NaN or infinite since this step; the last good checkpoint stays.
    Diverged {
        /// The step whose measures are not finite.
        step: u64,
    },
}
