//! `tpu train --find-batch`: the largest batch that fits and the fastest, by the TPU compiler for a slice, or measured here.

use std::path::Path;

use compile::cache::Cache;
use compile::worker::WorkerLimits;
use compile::{PluginFile, SliceCompiler};
use plan::batch_size::{BatchSizes, SearchEnd, Trial, TrialOutcome};
use runtime::Backend;
use runtime::config::Config;
use serde::Serialize;
use train::{Training, TriedOn};

use crate::args::{CacheFolderArgs, TrainArgs};
use crate::failure::{Answer, Failure};
use crate::output::{Align, Output, Table};
use crate::progress::Progress;
use crate::{commands, human, plugins, stop};

/// What `--json` prints.
#[derive(Serialize)]
struct Record {
    version: u32,
    /// The device, or the slice.
    on: String,
    /// `compiled` or `measured`.
    how: &'static str,
    chips: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    mesh: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    headroom: Option<f64>,
    tokens_per_example: f64,
    #[serde(flatten)]
    sizes: BatchSizes,
    /// The setting to use, if any batch fits.
    #[serde(skip_serializing_if = "Option::is_none")]
    setting: Option<String>,
    /// The command with that setting.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

/// Tries batches of a training.
pub(super) fn run(args: &TrainArgs, training: &Training, device: &Config, output: &Output) -> Result<Answer, Failure> {
    let asked = match &args.slice {
        Some(slice) => compiled(training, device, slice)?,
        None => measured(training, device)?,
    };
    let chosen = asked.sizes.fastest.map(|batch| format!("train.batch_size={batch}"));
    let next = chosen.as_ref().map(|chosen| command(args, chosen));
    let record = Record { setting: chosen, next, ..asked };
    output.record(&record, || text(&record))?;
    if record.sizes.largest.is_none() {
        eprintln!(
            "hint: rematerialize more (run.remat = \"full\"), use run.precision = \"mixed\", shorten the sequence, \
                   or choose a larger slice; `tpu train … --export` and `tpu explain` say what fills the memory"
        );
        return Ok(Answer::No);
    }
    Ok(Answer::Yes)
}

/// By quick compilations for a slice.
fn compiled(training: &Training, device: &Config, slice: &str) -> Result<Record, Failure> {
    let mut config = device.clone();
    config.slice = Some(slice.parse()?);
    let request = config.compile_request().map_err(runtime::Error::from)?;
    let compiler = SliceCompiler {
        plugin: PluginFile::open(&plugins::tpu(None)?)?,
        cache: Cache::open(&commands::cache::config(&CacheFolderArgs::default()))?,
        launch: plugins::launch()?,
        limits: WorkerLimits { time: config.compilation_timeout_seconds.get(), ..WorkerLimits::default() },
    };
    let progress = Progress::start();
    let found =
        training.find_batch(&TriedOn::Slice(&compiler, request), &stop::on_signal(), &mut |step| progress.step(step));
    drop(progress);
    let found = found?;
    let mut record = Record::new("compiled", found.sizes);
    record.tokens_per_example = found.tokens_per_example;
    let own = training.rules().map(|rules| rules.logical_axes().mesh.to_string());
    if let Some(plan) = found.plan {
        record.mesh = own.or_else(|| plan.mesh.filter(|mesh| mesh.devices() > 1).map(|mesh| mesh.to_string()));
        record.on = plan.slice;
        record.chips = plan.chips;
        record.headroom = Some(plan.headroom);
    }
    Ok(record)
}

/// By a few steps of each on the device that is here.
fn measured(training: &Training, device: &Config) -> Result<Record, Failure> {
    let backend = Backend::auto(device)?;
    let progress = Progress::start();
    let found = training.find_batch(&TriedOn::Device(&backend), &stop::on_signal(), &mut |step| progress.step(step));
    drop(progress);
    let found = found?;
    let on = format!("{} ({})", backend.device().kind, backend.platform());
    Ok(Record { on, tokens_per_example: found.tokens_per_example, ..Record::new("measured", found.sizes) })
}

impl Record {
    fn new(how: &'static str, sizes: BatchSizes) -> Record {
        Record {
            version: 1,
            on: String::new(),
            how,
            chips: 1,
            mesh: None,
            headroom: None,
            tokens_per_example: 1.0,
            sizes,
            setting: None,
            next: None,
        }
    }
}

/// The same command with the batch to use, and without the question.
fn command(args: &TrainArgs, chosen: &str) -> String {
    let quoted = |path: &Path| path.display().to_string();
    let mut words = vec!["tpu train".to_string(), quoted(&args.file)];
    if let Some(folder) = &args.folder {
        words.push(format!("--folder {folder}"));
    }
    if let Some(mesh) = &args.mesh {
        words.push(format!("--mesh {mesh}"));
    }
    if let Some(strategy) = &args.strategy {
        words.push(format!("--strategy {strategy}"));
    }
    let others = args.with.iter().filter(|change| !change.starts_with("train.batch_size"));
    words.extend(others.map(|change| format!("--with '{change}'")));
    words.push(format!("--with {chosen}"));
    if let Some(device) = &args.device {
        words.push(format!("-d {device}"));
    }
    words.join(" ")
}

fn text(record: &Record) -> String {
    let mut text = format!("batches of a training step, {} on {}", record.how, record.on);
    if let Some(mesh) = &record.mesh {
        text.push_str(&format!(", split {mesh}"));
    }
    if let Some(headroom) = record.headroom {
        text.push_str(&format!(", {:.0} % of memory kept free", headroom * 100.0));
    }
    text.push('\n');
    let has_chips = record.chips > 1;
    let mut table = Table::new(&[Align::Right, Align::Right, Align::Right, Align::Right, Align::Right, Align::Left]);
    let rate = if has_chips { "tokens/s and chip" } else { "tokens/s" };
    table.row(["batch", "memory", "of limit", "step", rate, ""]);
    for trial in &record.sizes.trials {
        table.row(line(record, trial));
    }
    text.push_str(&table.render());
    let larger = match record.sizes.ended {
        SearchEnd::Memory => "larger batches do not fit",
        SearchEnd::Flat => "larger batches were not tried: they bring no speed",
        SearchEnd::Largest => "larger ones were not asked for",
        SearchEnd::Trials => "larger batches were not tried: enough were",
    };
    match (&record.sizes.largest, &record.sizes.fastest, &record.next) {
        (Some(largest), Some(fastest), Some(next)) => {
            text.push_str(&format!("largest {largest} ({larger}), fastest {fastest}\nnext: {next}\n"));
        }
        _ => text.push_str("no batch fits\n"),
    }
    text
}

fn line(record: &Record, trial: &Trial) -> [String; 6] {
    let none = || "-".to_string();
    let rate = trial.examples_per_second().map(|rate| rate * record.tokens_per_example / record.chips.max(1) as f64);
    let mark = match &trial.outcome {
        TrialOutcome::Fits if Some(trial.batch) == record.sizes.fastest => "fastest".to_string(),
        TrialOutcome::Fits => String::new(),
        TrialOutcome::TooLarge(_) => "does not fit".to_string(),
        TrialOutcome::Failed(why) => format!("failed: {}", why.lines().next().unwrap_or_default()),
    };
    [
        trial.batch.to_string(),
        trial.needed_bytes.map_or_else(none, human::bytes),
        trial.needed_bytes.zip(trial.limit_bytes).map_or_else(none, |(needed, limit)| human::percent(needed, limit)),
        trial.step_seconds.filter(|_| trial.fits()).map_or_else(none, commands::fit::seconds),
        rate.map_or_else(none, |rate| format!("{rate:.0}")),
        mark,
    ]
}
