//! How long and how often: the settings of a training.

use std::path::PathBuf;

use weights::{Keep, Protection};

use super::profiles::ProfileOptions;
use crate::data::LoaderOptions;
use crate::telemetry::TrainTelemetry;

/// Settings of a training.
#[derive(Clone, Debug)]
pub struct TrainOptions {
    /// Steps in all, those of earlier runs included.
    pub steps: u64,
    /// Steps between two records of metrics.
    pub log_every: u64,
    /// Steps between two evaluations; `None` for none but the one at the end.
    pub eval_every: Option<u64>,
    /// Batches of an evaluation.
    pub eval_batches: u64,
    /// Where checkpoints go: a path or an address of an object store; `None` for no checkpoints.
    pub checkpoints: Option<String>,
    /// Steps between two checkpoints; one more is saved at the end.
    pub save_every: Option<u64>,
    /// Checkpoints that are kept.
    pub keep: Keep,
    /// How checkpoints are encrypted and signed.
    pub protection: Protection,
    /// Folder of metrics; `None` for none.
    pub metrics: Option<PathBuf>,
    /// Folder of goodput, a file for each process; `None` for none.
    pub goodput: Option<PathBuf>,
    /// What the training tells of itself.
    pub telemetry: TrainTelemetry,
    /// What is profiled.
    pub profile: ProfileOptions,
    /// How batches are prepared.
    pub loader: LoaderOptions,
    /// Peak operations per second of one device, for MFU; `None` for what is known of the device.
    pub peak_flops: Option<f64>,
    /// What belongs to the training and must be the same when it is resumed: the configuration of model and optimizer.
    pub description: serde_json::Value,
}

impl TrainOptions {
    /// So many steps, a record every 10, no evaluation, no checkpoints, no metrics.
    pub fn new(steps: u64) -> TrainOptions {
        TrainOptions {
            steps,
            log_every: 10,
            eval_every: None,
            eval_batches: 8,
            checkpoints: None,
            save_every: None,
            keep: Keep::newest(3),
            protection: Protection::default(),
            metrics: None,
            goodput: None,
            telemetry: TrainTelemetry::default(),
            profile: ProfileOptions::default(),
            loader: LoaderOptions::default(),
            peak_flops: None,
            description: serde_json::Value::Null,
        }
    }
}
