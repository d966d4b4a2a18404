//! `tpu train --find-batch`: the largest batch that fits and the fastest, by the TPU compiler for a slice, or measured here.

use std::path::Path;
use std::sync::Arc;

use nn::Placement;
use plan::{BatchPlan, BatchRequest, Split};
use runtime::batch_size::{
    BatchSearch, BatchSizes, Growth, MeasuredStep, Outcome, Samples, SearchEnd, Trial, measure_batch_sizes,
};
use runtime::cache::Cache;
use runtime::config::Config;
use runtime::data::Dataset;
use runtime::mesh::site_of;
use runtime::trainer::Task;
use runtime::worker::Limits;
use runtime::{Backend, PluginFile, SliceCompiler, ValidationError};
use serde::Serialize;
use tensor::{Literal, Spec};
use trace::Tree;

use super::Setting;
use super::data::Datasets;
use super::mesh::{self, step_program};
use super::task::ModelTask;
use crate::args::CacheFolderArgs;
use crate::commands;
use crate::failure::{Answer, Failure};
use crate::output::{Align, Table};
use crate::progress::Progress;
use crate::{human, plugins, stop};

/// Speed that a doubled batch must bring on this machine for larger ones to be tried.
const WORTHWHILE: f64 = 0.05;
/// Largest batch measured here: its examples are made on the host.
const LARGEST_MEASURED: u64 = 1 << 16;
/// Batches of data that fill a large sample, again and again.
const DISTINCT_BATCHES: u64 = 64;

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
pub(super) fn run<M: Tree + Clone + 'static, X: Tree + Clone + 'static>(
    setting: &Setting<'_>,
    datasets: &Datasets,
    task: ModelTask<M, X>,
) -> Result<Answer, Failure> {
    let data = &datasets.training;
    let batch = setting.config.train.batch as u64;
    let tokens_per_example = task.tokens_per_step as f64 / batch.max(1) as f64;
    let parts = setting.config.train.accumulate.max(1) as u64;
    let search = BatchSearch { multiple_of: parts, ..BatchSearch::from_batch(batch) };
    // What the data cannot fill is no answer.
    let examples = [data, &datasets.evaluation].map(|data| data.batches_per_epoch().map(|n| n.saturating_mul(batch)));
    let search = BatchSearch { largest: examples.into_iter().flatten().fold(search.largest, u64::min), ..search };
    let asked = match &setting.args.slice {
        Some(slice) => compiled(setting, slice, search, data, &task)?,
        None => measured(setting, search, data, task)?,
    };
    let best = asked.sizes.fastest;
    let chosen = best.map(|batch| format!("train.batch={batch}"));
    let next = chosen.as_ref().map(|chosen| command(setting, chosen));
    let record = Record { tokens_per_example, setting: chosen, next, ..asked };
    setting.output.record(&record, || text(&record))?;
    if record.sizes.largest.is_none() {
        eprintln!(
            "hint: recompute more (run.remat = \"nothing\"), use run.precision = \"mixed\", shorten the sequence, \
                   or choose a larger slice; `tpu train … --export` and `tpu explain` say what fills the memory"
        );
        return Ok(Answer::No);
    }
    Ok(Answer::Yes)
}

/// By quick compilations for a slice.
fn compiled<M: Tree + Clone + 'static, X: Tree + Clone + 'static>(
    setting: &Setting<'_>,
    slice: &str,
    search: BatchSearch,
    data: &Arc<dyn Dataset>,
    task: &ModelTask<M, X>,
) -> Result<Record, Failure> {
    let mut config: Config = setting.device.clone();
    config.slice = Some(slice.parse()?);
    let compile = config.compile_request().map_err(runtime::Error::from)?;
    let compiler = SliceCompiler {
        plugin: PluginFile::open(&plugins::tpu(None)?)?,
        cache: Cache::open(&commands::cache::config(&CacheFolderArgs::default())),
        launch: plugins::launch()?,
        limits: Limits { time: config.compilation_timeout_seconds.get(), ..Limits::default() },
    };
    let state = trace::shapes_of(&(), |()| task.init()).map_err(runtime::Error::from)?;
    let leaves = state.specs().len();
    let first = data.specs();
    let placement = setting.placement.as_ref();
    let site = site_of(&compile.slice);
    let split = match placement {
        Some(placement) => {
            placement.check(&mesh::parameters(task)?, &[], &site).map_err(|error| mesh::hinted(&error))?;
            Split::AsWritten(parts(placement))
        }
        None => Split::ByRule,
    };
    let mut program = |batch: u64| Ok(step_program(task, placement, &rows(&first, batch)?, &site)?.0);
    let request = BatchRequest { search, split, ..BatchRequest::new(compile, search.first, leaves) };
    let stop = stop::on_signal();
    let progress = Progress::start();
    let plan = plan::find_batch_size(&compiler, &request, &mut program, &stop, &mut |step| progress.step(step));
    drop(progress);
    let BatchPlan { slice, chips, mesh, headroom, sizes } = plan?;
    let own = placement.map(|placement| placement.layout().mesh.to_string());
    let mesh = own.or_else(|| mesh.filter(|mesh| mesh.devices() > 1).map(|mesh| mesh.to_string()));
    Ok(Record { on: slice, chips, mesh, headroom: Some(headroom), ..Record::new("compiled", sizes) })
}

/// Parts that a mesh cuts a batch into.
fn parts(placement: &Placement) -> u64 {
    let layout = placement.layout();
    let axes = layout.meanings.get("batch").into_iter().flatten().map(|axis| &**axis);
    layout.mesh.size_along(axes).unwrap_or(1) as u64
}

/// By a few steps of each on the device that is here.
fn measured<M: Tree + Clone + 'static, X: Tree + Clone + 'static>(
    setting: &Setting<'_>,
    search: BatchSearch,
    data: &Arc<dyn Dataset>,
    task: ModelTask<M, X>,
) -> Result<Record, Failure> {
    let backend = Backend::auto(&setting.device)?;
    let largest = search.largest.min(LARGEST_MEASURED);
    let search = BatchSearch { growth: Growth::UntilFlat(WORTHWHILE), largest, ..search };
    let stop = stop::on_signal();
    let progress = Progress::start();
    let known = data.specs();
    let samples = Samples {
        specs: &|batch| {
            progress.step(&format!("measuring steps of {batch} examples"));
            rows(&known, batch)
        },
        arrays: &|batch| sampled(data, batch),
    };
    let found = measure_batch_sizes(&backend, Arc::new(task), MeasuredStep::default(), &search, &samples, &stop);
    drop(progress);
    let on = format!("{} ({})", backend.device().kind, backend.platform());
    Ok(Record { on, ..Record::new("measured", found?) })
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

/// The arrays of a batch, for another number of examples.
fn rows(specs: &[Spec], batch: u64) -> Result<Vec<Spec>, runtime::Error> {
    let of = |spec: &Spec| {
        let mut dims = spec.dims.clone();
        let first = dims.first_mut().zip(usize::try_from(batch).ok());
        let (first, size) = first.ok_or_else(|| ValidationError::Other(format!("{spec} has no batch")))?;
        *first = size;
        Ok(Spec::new(spec.dtype, dims))
    };
    specs.iter().map(of).collect()
}

/// So many examples of the data, some of them again where there are very many.
fn sampled(data: &Arc<dyn Dataset>, batch: u64) -> Result<Vec<Literal>, runtime::Error> {
    let specs = rows(&data.specs(), batch)?;
    let mut arrays: Vec<Vec<u8>> = vec![Vec::new(); specs.len()];
    let wanted: Vec<usize> = specs.iter().map(|spec| usize::try_from(spec.bytes()).unwrap_or(usize::MAX)).collect();
    let mut step = 0;
    while arrays.iter().zip(&wanted).any(|(array, wanted)| array.len() < *wanted) {
        for ((array, part), wanted) in arrays.iter_mut().zip(data.batch(step % DISTINCT_BATCHES)?).zip(&wanted) {
            let bytes = part.into_bytes();
            if bytes.is_empty() {
                return Err(ValidationError::Other("a batch of the data is empty".into()).into());
            }
            let room = wanted.saturating_sub(array.len());
            array.extend_from_slice(bytes.get(..room.min(bytes.len())).unwrap_or_default());
        }
        step += 1;
    }
    let literal = |(spec, bytes): (&Spec, Vec<u8>)| {
        Literal::new(spec.dtype, spec.dims.clone(), bytes)
            .ok_or_else(|| ValidationError::Other(format!("the data do not fill {spec}")).into())
    };
    specs.iter().zip(arrays).map(literal).collect()
}

/// The same command with the batch to use, and without the question.
fn command(setting: &Setting<'_>, chosen: &str) -> String {
    let quoted = |path: &Path| path.display().to_string();
    let mut words = vec!["tpu train".to_string(), quoted(&setting.args.file)];
    if let Some(folder) = &setting.args.folder {
        words.push(format!("--folder {folder}"));
    }
    if let Some(mesh) = &setting.args.mesh {
        words.push(format!("--mesh {mesh}"));
    }
    if let Some(strategy) = &setting.args.strategy {
        words.push(format!("--strategy {strategy}"));
    }
    let others = setting.args.with.iter().filter(|change| !change.starts_with("train.batch="));
    words.extend(others.map(|change| format!("--with '{change}'")));
    words.push(format!("--with {chosen}"));
    if let Some(device) = &setting.args.device {
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
        Outcome::Fits if Some(trial.batch) == record.sizes.fastest => "fastest".to_string(),
        Outcome::Fits => String::new(),
        Outcome::TooLarge(_) => "does not fit".to_string(),
        Outcome::Failed(why) => format!("failed: {}", why.lines().next().unwrap_or_default()),
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
