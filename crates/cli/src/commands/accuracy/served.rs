//! Rows of inference: the steps of a model as `tpu plan --step decode` and `--step prefill` write them, the fastest of each.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use compile::SliceCompiler;
use plan::accuracy::{InferenceRow, PredictedPrefill, ServedRequest, ServedRow, ServedRows, Serving, served_rows};
use plan::search::{Confirm, Plan, SearchOptions, choice_of, search};
use serde_json::{Map, Value};
use train::{Planned, PlannedStep, PlannedStepKind};

use crate::args::AccuracyArgs;
use crate::failure::{self, Failure};
use crate::progress::Progress;

/// Dimensions of public models, and what rows of others leave out.
const MODELS: &str = include_str!("../../../accuracy/models.json");
const SERVING: &str = include_str!("../../../accuracy/serving.json");

/// Meshes and flags that the compiler is asked about for each step.
const COMPILES: usize = 4;

/// Predicts the rows of inference of a file.
pub(super) struct Predictor<'a> {
    args: &'a AccuracyArgs,
    compiler: &'a SliceCompiler,
    scratch: &'a Path,
    stop: &'a AtomicBool,
    models: Map<String, Value>,
}

/// The rows of inference of a file of measurements.
pub(super) fn rows(measurements: &[u8]) -> Result<ServedRows, Failure> {
    let models = models()?;
    Ok(served_rows(measurements, &Serving::read(SERVING.as_bytes())?, |model| models.contains_key(model))?)
}

fn models() -> Result<Map<String, Value>, Failure> {
    serde_json::from_str(MODELS).map_err(|error| Failure::new(format!("dimensions of models: {error}")))
}

impl<'a> Predictor<'a> {
    pub(super) fn new(
        args: &'a AccuracyArgs,
        compiler: &'a SliceCompiler,
        scratch: &'a Path,
        stop: &'a AtomicBool,
    ) -> Result<Predictor<'a>, Failure> {
        Ok(Predictor { args, compiler, scratch, stop, models: models()? })
    }

    /// The steps of a row.
    pub(super) fn predict(&self, row: &ServedRow) -> Result<InferenceRow, Failure> {
        let config = self.config(row)?;
        let decode = self.fastest(row, &config, PlannedStepKind::Decode, row.positions, row.sequences)?;
        let decode = decode.ok_or_else(|| cannot_be_split(row, row.sequences))?;
        let prefill = row.request.map(|request| self.prefill(row, &config, request)).transpose()?;
        Ok(InferenceRow {
            id: row.id.clone(),
            what: row.what(),
            slice: decode.slice.clone(),
            mesh: choice_of(&decode.candidate).mesh.to_string(),
            sequences: row.sequences,
            step_s: decode.step.seconds,
            low_s: decode.step.low_s,
            high_s: decode.step.high_s,
            tokens_per_s: decode.tokens_per_s,
            hbm_bytes: decode.hbm_bytes,
            hbm_limit_bytes: decode.hbm_limit_bytes,
            prefill,
            published_tokens_per_s: row.published_tokens_per_s,
        })
    }

    /// Reads as few prompts at once as the devices can share, and counts the time of one.
    fn prefill(&self, row: &ServedRow, config: &Path, request: ServedRequest) -> Result<PredictedPrefill, Failure> {
        let step = |prompts| self.fastest(row, config, PlannedStepKind::Prefill, request.prompt, prompts);
        let mut prompts = 1;
        // Where experts are split over the devices, the prompts are too.
        let plan = loop {
            match step(prompts)? {
                Some(plan) => break plan,
                None if prompts < u64::from(row.slice.devices()) => prompts *= 2,
                None => return Err(cannot_be_split(row, prompts)),
            }
        };
        let seconds = plan.step.seconds / prompts as f64;
        Ok(PredictedPrefill { seconds, prompts, output_tokens: request.output })
    }

    /// The fastest step; `None` where no mesh of the slice can share so many sequences.
    fn fastest(
        &self,
        row: &ServedRow,
        config: &Path,
        step: PlannedStepKind,
        positions: usize,
        sequences: u64,
    ) -> Result<Option<Plan>, Failure> {
        let asked = PlannedStep {
            step,
            sequence_length: Some(positions),
            weights: row.weights.iter().map(|word| word.parse()).collect::<Result<_, _>>()?,
            kv_caches: row.kv_cache.iter().map(|word| word.parse()).collect::<Result<_, _>>()?,
            ..PlannedStep::default()
        };
        let planned = Planned::read(config, &asked)?;
        let source = planned.source()?;
        let options = SearchOptions {
            batches: Some(vec![sequences]),
            compiles: COMPILES,
            time: Duration::from_secs(self.args.limit),
            confirm: if self.args.full { Confirm::Best } else { Confirm::No },
            ..SearchOptions::new(vec![row.slice])
        };
        let progress = Progress::start();
        let about = match step {
            PlannedStepKind::Prefill => "prefill",
            _ => "decode",
        };
        let found = search(&source, &options, self.compiler, self.stop, &|now| {
            progress.part(now.done, now.of, &format!("{}, {about}: {}", row.id, now.doing));
        });
        drop(progress);
        let found = match found {
            Err(plan::Error::NoCandidates(_)) => return Ok(None),
            found => found?,
        };
        // On one slice the cheapest plan, which is the first, is the fastest.
        let best = found.best().cloned().ok_or_else(|| {
            let why = found.refused.first().map_or("nothing was compiled", |refused| &refused.why);
            Failure::new(format!("no {about} step of {sequences} sequences: {why}"))
        });
        best.map(Some)
    }

    /// The `config.json` of a row's model.
    fn config(&self, row: &ServedRow) -> Result<PathBuf, Failure> {
        let dims = self.models.get(&row.model).and_then(Value::as_object);
        let dims = dims.ok_or_else(|| Failure::new(format!("the dimensions of {} are not known here", row.model)))?;
        let config = train::published::model(dims).map_err(|why| Failure::new(format!("{}: {why}", row.model)))?;
        let folder = self.scratch.join("models").join(&row.model);
        let path = folder.join("config.json");
        fs::create_dir_all(&folder).map_err(|error| failure::file("making", &folder, error))?;
        fs::write(&path, config.to_string()).map_err(|error| failure::file("writing", &path, error))?;
        Ok(path)
    }
}

fn cannot_be_split(row: &ServedRow, sequences: u64) -> Failure {
    Failure::new(format!("{sequences} sequences of {} cannot be split over {}", row.model, row.slice))
}
