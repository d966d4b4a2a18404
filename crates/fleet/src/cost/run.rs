//! The cost of a training from its folder: the goodput its processes kept, the devices it ran on, and a price.

use std::fmt;
use std::path::Path;

use chips::{Generation, PriceKind};
use telemetry::{GoodputHistory, TrainingRecord};

use super::CostRecord;

/// A run whose last line is older than this has ended.
const LIVE_SECONDS: f64 = 60.0;

/// What a chip-hour costs.
#[derive(Clone, Debug, PartialEq)]
pub enum RunPrice {
    /// As the tables of `chips` have it.
    Published {
        /// Under these terms.
        kind: PriceKind,
        /// In this region; without one, where it is lowest.
        region: Option<String>,
    },
    /// US dollars for one chip for one hour.
    Given(f64),
}

/// Why a run has no cost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunPriceError {
    /// The folder is not that of a training, or its records cannot be read.
    NoRun {
        /// The folder.
        folder: String,
        /// What is missing.
        missing: &'static str,
    },
    /// There is no price for its devices.
    NoPrice {
        /// The folder.
        folder: String,
        /// The devices.
        device: String,
    },
}

impl RunPriceError {
    /// What helps.
    pub fn remedy(&self) -> &'static str {
        match self {
            RunPriceError::NoRun { .. } => "give the folder of a `tpu train` run on this machine (train.folder)",
            RunPriceError::NoPrice { .. } => "give dollars for a chip-hour with --price, or another --region",
        }
    }
}

impl fmt::Display for RunPriceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RunPriceError::NoRun { folder, missing } => write!(f, "{folder} has no {missing}"),
            RunPriceError::NoPrice { folder, device } => write!(f, "{folder} ran on {device}, which has no such price"),
        }
    }
}

impl std::error::Error for RunPriceError {}

impl CostRecord {
    /// The cost of a training: all chips, from its first start to its last line at `now_seconds` (since 1970).
    ///
    /// Wasted are the steps that were done again, the time between attempts, and reading checkpoints.
    pub fn of_run(folder: &Path, price: &RunPrice, now_seconds: f64) -> Result<CostRecord, RunPriceError> {
        let shown = folder.display().to_string();
        let missing = |missing: &'static str| RunPriceError::NoRun { folder: shown.clone(), missing };
        let history = GoodputHistory::read(&folder.join("goodput").join("0.jsonl"));
        let history = history.map_err(|_| missing("goodput/0.jsonl"))?;
        let goodput = history.goodput().ok_or_else(|| missing("attempt in goodput/0.jsonl"))?;
        let training = TrainingRecord::read(folder).ok_or_else(|| missing("record of what is trained"))?;
        let generation = Generation::ALL.iter().find(|generation| generation.device_kind() == training.device);
        let per_chip = generation.map_or(1, |generation| u64::from(generation.spec().cores.devices_per_chip.value));
        let chips = training.devices.div_ceil(per_chip.max(1));
        let (usd_per_chip_hour, price_date) = match price {
            RunPrice::Given(usd) => (*usd, None),
            RunPrice::Published { kind, region } => {
                let found = generation.and_then(|generation| generation.spec().price(*kind, region.as_deref()));
                let device = training.device.clone();
                let found = found.ok_or(RunPriceError::NoPrice { folder: shown.clone(), device })?;
                (found.usd_per_chip_hour, Some(found.date.to_string()))
            }
        };
        let usd_per_hour = usd_per_chip_hour * chips as f64;
        let wasted_seconds = goodput.lost_seconds + goodput.restart_seconds + goodput.badput.restore_seconds;
        let is_running = history.last_seconds().is_some_and(|last| now_seconds - last < LIVE_SECONDS)
            && history.last_step().is_some_and(|step| step < training.steps);
        let job = folder.file_name().map_or(shown, |name| name.to_string_lossy().into_owned());
        // What was predicted, for the steps that were asked for.
        let planned = training.predicted_step_seconds.map(|seconds| seconds * training.steps as f64);
        Ok(CostRecord {
            is_running,
            attempts: goodput.attempts,
            planned_usd: planned.map(|seconds| usd_per_hour * seconds / 3600.0),
            usd: usd_per_hour * goodput.elapsed_seconds / 3600.0,
            wasted_usd: usd_per_hour * wasted_seconds / 3600.0,
            usd_per_hour: if is_running { usd_per_hour } else { 0.0 },
            slice_seconds: goodput.elapsed_seconds.round() as u64,
            tokens: training.tokens_per_step.zip(history.last_step()).map(|(tokens, step)| tokens.saturating_mul(step)),
            goodput: Some(goodput.ratio()),
            price_date,
            ..CostRecord::new(&job)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use telemetry::{Attempt, GoodputFile, Spent, TRAINING_RECORD_VERSION};

    fn training(device: &str, devices: u64) -> TrainingRecord {
        TrainingRecord {
            version: TRAINING_RECORD_VERSION,
            device: device.into(),
            platform: "tpu".into(),
            devices,
            processes: 1,
            precision: "bf16".into(),
            is_bf16_faster: None,
            peak_flops: None,
            memory_bytes_per_second: None,
            batch_size: 8,
            tokens_per_step: Some(1000),
            steps: 100,
            save_every: None,
            data_workers: 1,
            predicted_step_seconds: Some(36.0),
        }
    }

    #[test]
    fn a_run_is_billed_from_its_first_start_to_its_last_line() {
        let folder = tempfile::tempdir().unwrap();
        let run = folder.path().join("tiny");
        training("TPU v6 lite", 4).write(&run).unwrap();
        let spent =
            |step_seconds: f64, restore_seconds: f64| Spent { step_seconds, restore_seconds, ..Spent::default() };
        let mut file = GoodputFile::open(&run.join("goodput/0.jsonl"));
        // Ten steps of 360 s; then 600 s of nothing, 120 s of reading, and eight steps from step 5 on.
        file.write(&Attempt::new(1000.0, 0, 10, spent(3600.0, 0.0)));
        file.write(&Attempt::new(5200.0, 5, 13, spent(2880.0, 120.0)));
        let price = RunPrice::Published { kind: PriceKind::OnDemand, region: Some("us-east5".into()) };
        let cost = CostRecord::of_run(&run, &price, 1e9).unwrap();
        // Four chips at $2.70, 7,200 s in all; 1,800 s of steps done again, 600 s between, 120 s of reading.
        assert_eq!((cost.job.as_str(), cost.usd, cost.slice_seconds), ("tiny", 21.6, 7200));
        assert!((cost.wasted_usd - 10.8 * (1800.0 + 600.0 + 120.0) / 3600.0).abs() < 1e-9, "{}", cost.wasted_usd);
        assert_eq!((cost.tokens, cost.attempts, cost.is_running), (Some(13_000), 2, false));
        assert_eq!((cost.planned_usd, cost.price_date.as_deref()), (Some(10.8), Some("2026-08-22")));
        assert_eq!(cost.goodput, Some((1800.0 + 2880.0) / 7200.0));
        // It goes on as long as it writes.
        let now = CostRecord::of_run(&run, &RunPrice::Given(1.0), 8210.0).unwrap();
        assert_eq!((now.is_running, now.usd_per_hour, now.usd, now.price_date), (true, 4.0, 8.0, None));
    }

    #[test]
    fn a_folder_without_a_run_or_a_price_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let price = RunPrice::Published { kind: PriceKind::Spot, region: None };
        let error = |run: &Path| CostRecord::of_run(run, &price, 0.0).unwrap_err().to_string();
        assert!(error(folder.path()).contains("goodput/0.jsonl"));
        let mut file = GoodputFile::open(&folder.path().join("goodput/0.jsonl"));
        assert!(error(folder.path()).contains("attempt"));
        file.write(&Attempt::new(0.0, 0, 1, Spent { step_seconds: 1.0, ..Spent::default() }));
        assert!(error(folder.path()).contains("what is trained"));
        training("a toaster", 1).write(folder.path()).unwrap();
        assert!(error(folder.path()).contains("a toaster"));
        assert_eq!(CostRecord::of_run(folder.path(), &RunPrice::Given(3600.0), 0.0).unwrap().usd, 1.0);
    }
}
