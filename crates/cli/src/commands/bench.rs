//! `tpu bench`: how fast a model answers, beside what is predicted for a slice.

use std::path::Path;
use std::time::Duration;

use compile::cache::Cache;
use compile::worker::WorkerLimits;
use compile::{PluginFile, SliceCompiler};
use infer::{Benchmark, BenchmarkOptions, Engine, InferenceOptions, Percentiles};
use plan::search::{SearchOptions, search};
use runtime::Backend;
use serde::Serialize;
use train::{Planned, PlannedStep, PlannedStepKind};

use crate::args::BenchArgs;
use crate::commands;
use crate::commands::generate;
use crate::commands::run::{isolate_again, must_isolate};
use crate::failure::{Answer, Failure};
use crate::output::{Align, Output, Table};
use crate::progress::Progress;
use crate::{plugins, stop};

/// Tokens of a prompt that are read before others are decoded again.
const PREFILL_CHUNK: usize = 512;
/// Compilations for a prediction at most.
const COMPILES: usize = 4;
/// Time for them.
const COMPILE_TIME: Duration = Duration::from_secs(600);

/// What `--json` prints.
#[derive(Serialize)]
struct Record {
    version: u32,
    folder: String,
    device: String,
    #[serde(flatten)]
    measured: Benchmark,
    #[serde(skip_serializing_if = "Option::is_none")]
    predicted: Option<Prediction>,
    /// The file of the profile that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    profile: Option<String>,
}

/// What is predicted for decoding as many sequences at once.
#[derive(Serialize)]
struct Prediction {
    slice: String,
    /// Seconds of a step that decodes one token of every sequence.
    tpot_seconds: f64,
    low_seconds: f64,
    high_seconds: f64,
    /// Tokens a second while nothing but decoding happens.
    output_tokens_per_second: f64,
    /// Measured time of a token over that.
    measured_over_predicted: f64,
}

pub(crate) fn run(args: &BenchArgs, output: &Output) -> Result<Answer, Failure> {
    let device = generate::device_config(&args.model)?;
    if must_isolate(&device.device)? {
        return isolate_again();
    }
    let source = generate::open(&args.folder, &args.model)?;
    let length = args.input_length + args.output_length;
    let most = source.max_positions();
    if length > most {
        return Err(Failure::new(format!(
            "{length} tokens of prompt and answer are over the model's {most} positions"
        ))
        .hint("lower --input-length or --output-length"));
    }
    let options = BenchmarkOptions {
        concurrency: args.concurrency,
        input_length: args.input_length,
        output_length: args.output_length,
        requests: args.requests.unwrap_or(4 * args.concurrency),
    };
    let engine = InferenceOptions {
        rows: args.concurrency.max(1),
        max_length: length.max(2),
        prefill_chunk: PREFILL_CHUNK.min(args.input_length.max(1)),
        ..generate::engine_options(&args.model)?
    };
    let backend = Backend::auto(&device)?;
    let progress = Progress::start();
    progress.step(&format!("loading {}", args.folder));
    let mut engine = Engine::load(&backend, &source, &engine)?;
    let mut profiled = Ok(());
    let measured = engine.benchmark(options, &mut |done, all| {
        progress.step(&format!("{done} of {all} requests, {} at once", options.concurrency));
        // All that warm up are done.
        if done == options.concurrency && args.profile.is_some() {
            profiled = backend.profiler().start();
        }
    })?;
    let profile = match &args.profile {
        Some(folder) => {
            profiled?;
            backend.synchronize()?;
            backend.profiler().finish()?.map(|profile| profile.write(folder, "bench")).transpose()?
        }
        None => None,
    };
    drop(engine);
    let predicted = args.slice.as_deref().map(|slice| predict(args, slice, &measured, &progress)).transpose()?;
    drop(progress);
    let device = backend.device().kind.clone();
    let profile = profile.map(|path| path.display().to_string());
    let record = Record { version: 1, folder: args.folder.clone(), device, measured, predicted, profile };
    output.record(&record, || text(&record))?;
    Ok(Answer::Yes)
}

/// What the TPU compiler and the estimator say of a decode step on a slice.
fn predict(args: &BenchArgs, slice: &str, measured: &Benchmark, progress: &Progress) -> Result<Prediction, Failure> {
    let config = Path::new(&args.folder).join("config.json");
    let asked = PlannedStep {
        step: PlannedStepKind::Decode,
        sequence_length: Some(args.input_length + args.output_length),
        precisions: vec![args.model.precision],
        ..PlannedStep::default()
    };
    let planned = Planned::read(&config, &asked)?;
    let compiler = SliceCompiler {
        plugin: PluginFile::open(&plugins::tpu(args.plugin.as_deref())?)?,
        cache: Cache::open(&commands::cache::config(&args.cache))?,
        launch: plugins::launch()?,
        limits: WorkerLimits { time: COMPILE_TIME, memory_bytes: None },
    };
    let options = SearchOptions {
        batches: Some(vec![args.concurrency as u64]),
        compiles: COMPILES,
        time: COMPILE_TIME,
        ..SearchOptions::new(vec![slice.parse()?])
    };
    let stop = stop::on_signal();
    let found = search(&planned.source()?, &options, &compiler, &stop, &|now| {
        progress.step(&format!("predicting for {slice}: {} of {} compiled", now.done, now.of));
    })?;
    let best = found.best().ok_or_else(|| {
        Failure::new(format!("the decode step of {} sequences does not fit {slice}", args.concurrency))
            .hint("give a larger --slice, or lower --concurrency")
    })?;
    Ok(Prediction {
        slice: best.slice.clone(),
        tpot_seconds: best.step.seconds,
        low_seconds: best.step.low_s,
        high_seconds: best.step.high_s,
        output_tokens_per_second: best.tokens_per_s,
        measured_over_predicted: measured.tpot_seconds.p50 / best.step.seconds,
    })
}

fn text(record: &Record) -> String {
    let Benchmark { options, seconds, compiled, .. } = &record.measured;
    let mut text = format!(
        "{} requests of {} and {} tokens, {} at once, on {}: {seconds:.2} s\n",
        options.requests, options.input_length, options.output_length, options.concurrency, record.device
    );
    text.push_str(&format!(
        "  {:.2} requests/s, {:.1} tokens/s of answers, {:.1} tokens/s in all\n\n",
        record.measured.requests_per_second,
        record.measured.output_tokens_per_second,
        record.measured.total_tokens_per_second
    ));
    let mut table = Table::new(&[Align::Left, Align::Right, Align::Right, Align::Right, Align::Right, Align::Right]);
    table.row(["milliseconds", "mean", "p50", "p90", "p95", "p99"]);
    let mut row = |name: &str, of: &Percentiles| {
        let numbers = [of.mean, of.p50, of.p90, of.p95, of.p99].map(|seconds| format!("{:.2}", seconds * 1e3));
        let [mean, p50, p90, p95, p99] = numbers;
        table.row([name.to_string(), mean, p50, p90, p95, p99]);
    };
    row("time to the first token", &record.measured.ttft_seconds);
    row("time of each further token", &record.measured.tpot_seconds);
    row("whole request", &record.measured.latency_seconds);
    text.push_str(&table.render());
    if let Some(predicted) = &record.predicted {
        text.push_str(&format!(
            "\npredicted for {}: {:.2} ms a token ({:.2} to {:.2}), {:.0} tokens/s; measured is {:.2} times that\n",
            predicted.slice,
            predicted.tpot_seconds * 1e3,
            predicted.low_seconds * 1e3,
            predicted.high_seconds * 1e3,
            predicted.output_tokens_per_second,
            predicted.measured_over_predicted
        ));
    }
    if let Some(profile) = &record.profile {
        text.push_str(&format!("\nprofile: {profile}\n"));
    }
    if *compiled > 0 {
        text.push_str(&format!("warning: {compiled} programs were compiled meanwhile\n"));
    }
    text
}
