//! `tpu accuracy`: published measurements of TPU runs against what is predicted for the same runs.

mod served;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use compile::cache::Cache;
use compile::worker::WorkerLimits;
use compile::{CompileMode, PluginFile, SliceCompiler};
use plan::accuracy::{
    Comparison, FitSample, InferenceRow, MicroRows, Results, RunRecord, ServedRows, compare, leave_one_out, micro_rows,
    page, sample,
};
use serde::Serialize;
use serde_json::Value;

use crate::args::{AccuracyArgs, FrontEnd};
use crate::failure::{self, Answer, Failure};
use crate::output::Output;
use crate::progress::Progress;
use crate::{commands, plugins, stop};

/// The exporter: runs that were measured become programs. Python and JAX, since the measured models were written in it.
const EXPORTER: &[(&str, &str)] = &[
    ("attention.py", include_str!("../../accuracy/attention.py")),
    ("decoder.py", include_str!("../../accuracy/decoder.py")),
    ("export.py", include_str!("../../accuracy/export.py")),
    ("flops.py", include_str!("../../accuracy/flops.py")),
    ("layers.py", include_str!("../../accuracy/layers.py")),
    ("layout.py", include_str!("../../accuracy/layout.py")),
    ("models.json", include_str!("../../accuracy/models.json")),
    ("models.py", include_str!("../../accuracy/models.py")),
    ("moe.py", include_str!("../../accuracy/moe.py")),
    ("program.py", include_str!("../../accuracy/program.py")),
    ("quantize.py", include_str!("../../accuracy/quantize.py")),
    ("recipes.json", include_str!("../../accuracy/recipes.json")),
    ("rows.py", include_str!("../../accuracy/rows.py")),
    ("slices.py", include_str!("../../accuracy/slices.py")),
];

/// How programs of our own front end differ from those that were measured.
const OURS: &str = "written by our own front end, not MaxText: the dimensions, mesh, batch and kept values of the run; our attention \
                    kernels; the loss in pieces; moments of the optimizer in the type of the parameters; `fsdp_transpose` as `fsdp`; compiled by libtpu 0.0.51 with the \
                    recipe's flags";

/// What `--json` prints.
#[derive(Serialize)]
struct Rows<'a> {
    version: u32,
    rows: Vec<Line<'a>>,
    inference: &'a [InferenceRow],
    summary: Option<String>,
}

/// What one run of the command predicts.
#[derive(Default)]
struct Predictions {
    training: Vec<Comparison>,
    inference: Vec<InferenceRow>,
    /// Whether some row of inference could not be predicted.
    is_incomplete: bool,
}

/// The rows of a file that are asked for.
struct Asked {
    has_training: bool,
    micro: MicroRows,
    served: ServedRows,
}

#[derive(Serialize)]
struct Line<'a> {
    id: &'a str,
    slice: &'a str,
    measured_s: Option<f64>,
    predicted_s: Option<f64>,
    error: Option<f64>,
    failure: Option<&'a str>,
}

pub(crate) fn run(args: &AccuracyArgs, output: &Output) -> Result<Answer, Failure> {
    if let Some(path) = &args.profile {
        return commands::calibrate::compare(path, args, output);
    }
    let mut results = kept(args)?;
    let predictions = match &args.file {
        Some(file) => predict_file(args, file, &mut results)?,
        None => Predictions::default(),
    };
    let text = page(&results);
    if let Some(path) = &args.out {
        commands::compile::write_file(path, text.as_bytes())?;
    }
    let summary = text.lines().last().map(str::to_string);
    let rows = predictions.training.iter().map(line).collect();
    let record = Rows { version: 1, rows, inference: &predictions.inference, summary };
    output.record(&record, || text)?;
    let is_whole = predictions.training.iter().all(|comparison| comparison.prediction.is_ok());
    Ok(if is_whole && !predictions.is_incomplete { Answer::Yes } else { Answer::No })
}

/// Reads a file of measurements; every name that is asked for is there.
fn asked(args: &AccuracyArgs, file: &Path) -> Result<Asked, Failure> {
    let measurements = fs::read(file).map_err(|error| failure::file("reading", file, error))?;
    let mut asked =
        Asked { has_training: false, micro: micro_rows(&measurements)?, served: served::rows(&measurements)? };
    let json: Value = serde_json::from_slice(&measurements).map_err(|error| Failure::new(error.to_string()))?;
    let rows = json.get("rows").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let text = |row: &Value, key: &str| row.get(key).and_then(Value::as_str).unwrap_or_default().to_string();
    let ids: Vec<String> = rows.iter().map(|row| text(row, "id")).collect();
    if let Some(id) = args.only.iter().find(|id| !ids.contains(id)) {
        let message = format!("{} has no row {id}", file.display());
        return Err(Failure::new(message).hint(format!("its rows are {}", ids.join(", "))));
    }
    let is_asked = |id: &String| args.only.is_empty() || args.only.contains(id);
    asked.has_training = rows.iter().any(|row| text(row, "kind") == "train" && is_asked(&text(row, "id")));
    asked.served.known.retain(|row| is_asked(&row.id));
    asked.served.unknown.retain(|(id, _)| is_asked(id));
    Ok(asked)
}

/// Predictions of earlier runs, if a file of them is named and there.
fn kept(args: &AccuracyArgs) -> Result<Results, Failure> {
    let name = match args.front_end {
        FrontEnd::Jax => "jax",
        FrontEnd::Rust => "rust",
    };
    let Some(path) = args.results.as_deref().filter(|path| path.exists() || args.file.is_none()) else {
        return Ok(Results::new(name));
    };
    let results = Results::read(&fs::read(path).map_err(|error| failure::file("reading", path, error))?)?;
    if args.file.is_some() && results.front_end != name {
        let message = format!("{} has predictions of the front end {}", path.display(), results.front_end);
        return Err(Failure::new(message).hint("give --front-end, or another file of results"));
    }
    Ok(results)
}

/// Predicts the rows of a file of measurements, and keeps what was predicted.
fn predict_file(args: &AccuracyArgs, file: &Path, results: &mut Results) -> Result<Predictions, Failure> {
    let asked = asked(args, file)?;
    let plugin = plugins::tpu(args.plugin.plugin.as_deref())?;
    let compiler = SliceCompiler {
        plugin: PluginFile::open(&plugin)?,
        cache: Cache::open(&commands::cache::config(&args.cache))?,
        launch: plugins::launch()?,
        limits: WorkerLimits { time: Duration::from_secs(args.limit), memory_bytes: None },
    };
    let scratch = tempfile::tempdir().map_err(|error| Failure::new(format!("no folder for programs: {error}")))?;
    let folder = args.programs.clone().unwrap_or_else(|| scratch.path().join("programs"));
    let stop = stop::on_signal();
    let mut predictions = Predictions::default();
    let mut samples = Vec::new();
    if asked.has_training {
        export(args, file, scratch.path(), &folder)?;
        (predictions.training, samples) = predict_all(args, &compiler, &folder, &stop)?;
    }
    // Single ops and steps of inference are the same in both records: they stand in that of JAX.
    let is_jax = args.front_end == FrontEnd::Jax;
    let micro = if is_jax { asked.micro } else { MicroRows::default() };
    results.add(&predictions.training, &micro);
    if is_jax {
        let predictor = served::Predictor::new(args, &compiler, scratch.path(), &stop)?;
        for row in &asked.served.known {
            match predictor.predict(row) {
                Ok(predicted) => predictions.inference.push(predicted),
                Err(failure) => {
                    stopped(&stop)?;
                    eprintln!("{}:", row.id);
                    failure.print();
                    predictions.is_incomplete = true;
                }
            }
        }
        results.add_inference(&predictions.inference);
        results.leave_out(&asked.served.unknown);
    }
    if args.leave_one_out && asked.has_training {
        let progress = Progress::start();
        results.held_out =
            Some(leave_one_out(&samples, |step| progress.step(&format!("leaving families out: {step}"))));
    }
    if let Some(path) = &args.results {
        commands::compile::write_file(path, results.to_json().as_bytes())?;
    }
    Ok(predictions)
}

/// An error where a signal asked for the end.
fn stopped(stop: &AtomicBool) -> Result<(), Failure> {
    if stop.load(Ordering::Relaxed) {
        return Err(Failure::new("stopped").hint("what was compiled is kept: the next run goes on from there"));
    }
    Ok(())
}

fn line(comparison: &Comparison) -> Line<'_> {
    Line {
        id: &comparison.record.id,
        slice: &comparison.record.slice,
        measured_s: comparison.record.measured_step_s,
        predicted_s: comparison.prediction.as_ref().ok().map(|prediction| prediction.estimate.step.seconds),
        error: comparison.error(),
        failure: comparison.prediction.as_ref().err().map(String::as_str),
    }
}

/// Writes the programs of the measured runs that are not there yet.
fn export(args: &AccuracyArgs, file: &Path, scratch: &Path, folder: &Path) -> Result<(), Failure> {
    let exporter = scratch.join("exporter");
    for folder in [&exporter, folder] {
        fs::create_dir_all(folder).map_err(|error| failure::file("making", folder, error))?;
    }
    for (name, text) in EXPORTER {
        let path = exporter.join(name);
        fs::write(&path, text).map_err(|error| failure::file("writing", &path, error))?;
    }
    let python = args.python.clone().or_else(|| std::env::var_os("TPUBRIDGE_PYTHON").map(PathBuf::from));
    let python = python.unwrap_or_else(|| PathBuf::from("python3"));
    let mut command = Command::new(&python);
    command.arg(exporter.join("export.py")).arg(file).arg(folder);
    // Slices are described by this program.
    if let Ok(this) = std::env::current_exe() {
        command.env("TPU", this);
    }
    if !args.only.is_empty() {
        command.arg("--only").args(&args.only);
    }
    // Whatever the exporter says is talk; this command's answer is the table.
    let status = command.stdin(Stdio::null()).stdout(Stdio::from(std::io::stderr())).status();
    let status = status.map_err(|error| {
        Failure::new(format!("{} cannot be run: {error}", python.display()))
            .hint("--python names an interpreter that has jax and libtpu")
    })?;
    match status.code() {
        Some(0) => Ok(()),
        Some(1) => {
            eprintln!("warning: some rows could not be exported; their reasons are above");
            Ok(())
        }
        _ => Err(Failure::new("the programs of the measured runs could not be exported")
            .hint("--python names an interpreter that has jax and libtpu: pip install jax==0.10.2 libtpu==0.0.51")),
    }
}

fn predict_all(
    args: &AccuracyArgs,
    compiler: &SliceCompiler,
    folder: &Path,
    stop: &AtomicBool,
) -> Result<(Vec<Comparison>, Vec<FitSample>), Failure> {
    let mut records: Vec<PathBuf> = fs::read_dir(folder)
        .map_err(|error| failure::file("reading", folder, error))?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "json"))
        .collect();
    records.sort();
    let mode = if args.full { CompileMode::Full } else { CompileMode::Quick };
    let (mut comparisons, mut samples) = (Vec::new(), Vec::new());
    let count = records.len();
    for (index, path) in records.iter().enumerate() {
        let json = fs::read(path).map_err(|error| failure::file("reading", path, error))?;
        // Other files of the folder, such as reports of a check, are no records.
        let Ok(mut record) = RunRecord::read(&json) else { continue };
        if !args.only.is_empty() && !args.only.contains(&record.id) {
            continue;
        }
        let program = match args.front_end {
            FrontEnd::Jax => {
                let program = path.with_file_name(&record.program);
                fs::read(&program).map_err(|error| failure::file("reading", &program, error))?
            }
            FrontEnd::Rust => match train::published::program_of(&record) {
                Ok(program) => {
                    record.approximations = vec![OURS.into()];
                    program.bytes().to_vec()
                }
                Err(why) => {
                    eprintln!("{}: left out: {why}", record.id);
                    continue;
                }
            },
        };
        let progress = Progress::start();
        let about = format!("{} of {count}, {}", index + 1, record.id);
        let kept = record.clone();
        comparisons.push(compare(compiler, record, &program, mode, stop, &mut |step| {
            progress.step(&format!("{about}: {step}"))
        }));
        if args.leave_one_out
            && kept.measured_step_s.is_some()
            && comparisons.last().is_some_and(|last| last.prediction.is_ok())
        {
            samples.push(sample(compiler, &kept, &program, mode, stop, &mut |step| progress.step(step))?);
        }
        drop(progress);
        stopped(stop)?;
        if let Some(comparison) = comparisons.last() {
            match (&comparison.prediction, comparison.error()) {
                (Ok(_), Some(error)) => eprintln!("{}: {:+.1} %", comparison.record.id, error * 100.0),
                (Err(why), _) => eprintln!("{}: {why}", comparison.record.id),
                _ => {}
            }
        }
    }
    Ok((comparisons, samples))
}
