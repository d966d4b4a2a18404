//! `tpu train`: train a model described by a file, with checkpoints; run again, it goes on where it ended.

mod alarms;
mod answers;
mod collector;
mod find_batch;
mod notice;
mod processes;
mod supervise;

use std::collections::BTreeMap;
use std::io::{IsTerminal, Write};
use std::path::Path;
use std::time::Instant;

use runtime::Backend;
use runtime::mesh::site_of;
use serde::Serialize;
use serde_json::Value;
use train::trainer::{Ended, Measured, SPOT_NOTICE_SECONDS, StopTime, TrainEvent};
use train::{MeshChoice, Training};

use self::alarms::Alarms;
use self::answers::Answers;
use self::collector::Collector;
use self::notice::Notices;
use super::run::{isolate_again, isolate_again_among, must_isolate};
use crate::args::TrainArgs;
use crate::child;
use crate::commands;
use crate::commands::compile::write_file;
use crate::failure::{self, Answer, Failure};
use crate::log;
use crate::output::Output;

/// What `--json` prints.
#[derive(Serialize)]
struct Record {
    version: u32,
    device: String,
    platform: String,
    parameters: u64,
    first_step: u64,
    step: u64,
    ended: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    loss: Option<f64>,
    /// What was measured on validation data.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    evaluation: BTreeMap<String, f64>,
    step_seconds: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    tokens_per_second: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mfu: Option<f64>,
    /// Of the first device, at most, since the process began.
    #[serde(skip_serializing_if = "Option::is_none")]
    peak_memory_bytes: Option<i64>,
    compilations: usize,
    seconds: f64,
    /// From a request to stop to a checkpoint that is safe, as it was told.
    #[serde(skip_serializing_if = "Option::is_none")]
    stop_seconds: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    checkpoints: Option<String>,
}

pub(crate) fn run(args: &TrainArgs, output: &Output) -> Result<Answer, Failure> {
    child::end_with_parent()?;
    let slice = args.slice.as_ref().map(|slice| slice.parse::<chips::Slice>()).transpose()?;
    let choice = MeshChoice {
        axes: args.mesh.clone(),
        strategy: args.strategy.clone(),
        microbatches: args.microbatches,
        devices: slice.map(|slice| usize::try_from(slice.devices()).unwrap_or(usize::MAX)),
    };
    let address = args.profiler.as_ref().map(|address| format!("profile.address=\"{address}\""));
    let with = [&args.with[..], &key_settings(args)?, address.as_slice()].concat();
    let training = Training::read(&args.file, &with, &choice)?.in_folder(args.folder.clone());
    let mut device = commands::config::as_written(&args.config, args.device.as_deref())?;
    let together = processes::configured(args)?;
    if supervise::is_supervisor(args.restarts) {
        if together.is_some() {
            return Err(Failure::new("--restarts is for a training in one process").hint(
                "let the launcher of the processes start all of them again: they go on from the newest checkpoint",
            ));
        }
        return supervise::run(args.restarts, &training, output);
    }
    if let Some(devices) = processes::devices_here(training.rules(), together.as_ref())? {
        device = device.cpu_devices(devices);
    }
    // The TPU compiler has a process of its own in any case.
    if args.slice.is_none() && must_isolate(&device.device)? {
        return match &together {
            Some(together) => isolate_again_among(&device, together),
            None => isolate_again(),
        };
    }
    if args.find_batch {
        return find_batch::run(args, &training, &device, output);
    }
    if let Some(file) = &args.export {
        return export(args, &training, file, output);
    }
    let alerts = alarms::read(args, &training)?;
    let session = together.as_ref().map(processes::join).transpose()?;
    let backend = match &session {
        None => Backend::auto(&device)?,
        Some(session) => Backend::in_session(session, &device)?,
    };
    let _metrics = commands::runtime_metrics::serve(
        &args.telemetry,
        &backend,
        Box::new({
            let telemetry = training.telemetry().clone();
            move || telemetry.gather()
        }),
    )?;
    let checkpoints = training.options().checkpoints;
    let stop = crate::stop::on_signal();
    let notices = Notices::wait(args.preemption_notice, &stop);
    let answers = Answers::start(args.metrics.as_deref(), &training, backend.rank())?;
    let collector = Collector::start(args.otlp.as_deref(), &training, backend.rank())?;
    let alarms = Alarms::start(&alerts, &training, backend.rank(), answers.address(), &stop);
    let started = Instant::now();
    let mut shown = Shown::new(training.config().train.steps);
    let trained = training.run(&backend, &stop, &mut |event| shown.hear(event));
    if let (Err(_), Some(session)) = (&trained, &session) {
        session.abandon();
    }
    let stopped_by = alarms.stopped_by().map(|alert| format!("alert {alert}"));
    drop(alarms);
    drop(answers);
    if let (Err(error), Some(_)) = (&trained, &collector) {
        log::send(&format!("error: {error}"), &[]);
    }
    let trained = trained?;
    shown.end();
    if let Some(session) = session {
        // All have heard that the last checkpoint is complete when they come here.
        session.finish()?;
    }
    let last = trained.last.clone().unwrap_or_default();
    let notice = notices.heard().filter(|_| trained.ended == Ended::Stopped);
    let record = Record {
        version: 1,
        device: backend.device().kind.clone(),
        platform: backend.platform().to_string(),
        parameters: trained.parameters,
        first_step: trained.first_step,
        step: trained.step,
        ended: match trained.ended {
            Ended::Finished => "finished",
            Ended::Stopped if notice.is_some() => "preempted",
            Ended::Stopped => "stopped",
            Ended::Diverged { .. } => "diverged",
        },
        loss: last.loss(),
        evaluation: shown.evaluation.clone(),
        step_seconds: last.step_seconds,
        tokens_per_second: last.tokens_per_second,
        mfu: last.mfu,
        peak_memory_bytes: backend.memory_stats().device_peak_bytes,
        compilations: trained.compilations,
        seconds: started.elapsed().as_secs_f64(),
        stop_seconds: shown.stop_seconds,
        checkpoints,
    };
    output.record(&record, || text(&record))?;
    match trained.ended {
        Ended::Diverged { step } => {
            log::say(&format!("the loss is NaN or infinite since step {step}; the last good checkpoint was kept"));
            log::say("hint: lower the learning rate, set train.max_grad_norm, or use run.precision = \"f32\"");
            Ok(Answer::No)
        }
        Ended::Finished => Ok(Answer::Yes),
        Ended::Stopped => {
            let why = notice.map(|notice| notice.to_string()).or(stopped_by);
            let why = why.map_or_else(String::new, |why| format!("{why}: "));
            let saved = if record.checkpoints.is_some() { "the state is saved" } else { "nothing is saved" };
            log::say(&format!("{why}stopped after step {}, {saved}", record.step));
            log::say("hint: run the same command again to resume, on this machine or another");
            Ok(Answer::Preempted)
        }
    }
}

/// The options of checkpoints' keys as settings of the file. Their paths are relative to this folder, not to the file's.
fn key_settings(args: &TrainArgs) -> Result<Vec<String>, Failure> {
    let absolute = |path: &Path| {
        let path = std::path::absolute(path).map_err(|error| failure::file("finding", path, error))?;
        Ok::<_, Failure>(path.to_string_lossy().into_owned())
    };
    let text = |text: String| toml::Value::String(text).to_string();
    let mut settings = Vec::new();
    if let Some(source) = &args.keys.encryption_key {
        let source = match source.strip_prefix("file:") {
            Some(path) => format!("file:{}", absolute(Path::new(path))?),
            None => source.clone(),
        };
        settings.push(format!("train.encryption_key={}", text(source)));
    }
    if let Some(path) = &args.signing_key {
        settings.push(format!("train.signing_key={}", text(absolute(path)?)));
    }
    if !args.keys.trusted_key.is_empty() {
        let given = |key: &String| if Path::new(key).exists() { absolute(Path::new(key)) } else { Ok(key.clone()) };
        let keys = args.keys.trusted_key.iter().map(given).collect::<Result<Vec<_>, _>>()?;
        settings.push(format!("train.trusted_keys=[{}]", keys.into_iter().map(text).collect::<Vec<_>>().join(", ")));
    }
    Ok(settings)
}

/// Writes the training step as a program.
fn export(args: &TrainArgs, training: &Training, file: &Path, output: &Output) -> Result<Answer, Failure> {
    let slice = args.slice.as_ref().map(|slice| slice.parse::<chips::Slice>()).transpose()?;
    let site = slice.as_ref().map(site_of).unwrap_or_default();
    let (program, parameters) = training.export(&site)?;
    write_file(file, program.bytes())?;
    let slice = slice.map_or_else(|| slice_of_the_mesh(training), |slice| slice.to_string());
    let file = file.display().to_string();
    let text = format!("training step of {parameters} parameters in {file}\nnext: tpu fit {file} --slice {slice}\n");
    output.record(&serde_json::json!({ "version": 1, "parameters": parameters, "program": file }), || text)?;
    Ok(Answer::Yes)
}

/// A slice with the devices of the mesh.
fn slice_of_the_mesh(training: &Training) -> String {
    let mesh = training.rules().map(|rules| &rules.logical_axes().mesh);
    let (slices, devices) = mesh.map_or((1, 8), |mesh| (mesh.num_slices().max(1), mesh.num_devices()));
    let times = if slices > 1 { format!("{slices}x") } else { String::new() };
    format!("{times}v6e-{}", devices / slices)
}

fn text(record: &Record) -> String {
    let mut text = format!(
        "{} parameters on {} ({})\nsteps {} to {}, {} in {:.1} s\n",
        record.parameters, record.device, record.platform, record.first_step, record.step, record.ended, record.seconds
    );
    if let Some(loss) = record.loss {
        text.push_str(&format!("loss {loss:.4}"));
        if let Some(validation) = record.evaluation.get("loss") {
            text.push_str(&format!(", validation {validation:.4}"));
        }
        if let Some(accuracy) = record.evaluation.get("accuracy") {
            text.push_str(&format!(", {:.1} % right", accuracy * 100.0));
        }
        text.push('\n');
    }
    if let Some(rate) = record.tokens_per_second {
        text.push_str(&format!("{:.1} ms a step, {rate:.0} tokens/s", record.step_seconds * 1e3));
        if let Some(mfu) = record.mfu {
            text.push_str(&format!(", MFU {:.1} %", mfu * 100.0));
        }
        text.push('\n');
    }
    if let Some(folder) = &record.checkpoints {
        text.push_str(&format!("checkpoints in {folder}\n"));
    }
    text
}

/// Progress on standard error: a bar on a terminal, lines elsewhere.
struct Shown {
    steps: u64,
    is_terminal: bool,
    evaluation: BTreeMap<String, f64>,
    stop_seconds: Option<f64>,
}

impl Shown {
    fn new(steps: u64) -> Shown {
        let is_terminal = std::io::stderr().is_terminal() && log::is_human();
        Shown { steps, is_terminal, evaluation: BTreeMap::new(), stop_seconds: None }
    }

    fn say(&self, line: &str) {
        self.say_with(line, &[]);
    }

    fn say_with(&self, line: &str, known: &[(String, Value)]) {
        if self.is_terminal {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
        log::say_with(line, known);
    }

    fn hear(&mut self, event: &TrainEvent) {
        match event {
            TrainEvent::Compiling(what) if self.is_terminal => {
                let _ = write!(std::io::stderr(), "\r\x1b[Kcompiling {what} …");
            }
            TrainEvent::TookOver(run) => {
                self.say(&format!("took the checkpoints over from {run}, which had not ended: it can save no more"))
            }
            TrainEvent::Resumed(step) => self.say(&format!("resuming from step {step}")),
            TrainEvent::Damaged(step, message) => {
                self.say(&format!("warning: the checkpoint of step {step} is damaged: {message}"))
            }
            TrainEvent::Step(measured) => self.step(measured),
            TrainEvent::Evaluated(measured) => {
                self.evaluation = measured.values.clone();
                let values: Vec<String> =
                    measured.values.iter().map(|(name, value)| format!("{name} {value:.4}")).collect();
                let line = format!("step {}: validation {}", measured.step, values.join(", "));
                self.say_with(&line, &known(measured, "evaluation_"));
            }
            TrainEvent::Stopping { process, step } => {
                self.say(&format!("process {process} was asked to stop: all processes stop after step {step}"))
            }
            TrainEvent::SaveFailed(message) => {
                self.say(&format!("warning: saving a checkpoint failed: {message}"));
                self.say("hint: training goes on and saves again; until then the last checkpoint counts");
            }
            TrainEvent::SaveWarning(message) => self.say(&format!("warning: {message}")),
            TrainEvent::ProfilerAt(address) => {
                self.say(&format!("profiler at {address}: tpu profile {address} --steps 5"))
            }
            TrainEvent::Profiled { path, steps } => {
                self.say(&format!("profile of {} steps: {}", steps.len(), path.display()))
            }
            TrainEvent::ProfileFailed(message) => self.say(&format!("warning: no profile: {message}")),
            TrainEvent::StopTime(time) => self.stop_time(time),
            _ => {}
        }
    }

    fn step(&self, measured: &Measured) {
        let mut line = format!("step {}/{}", measured.step, self.steps);
        for (name, value) in &measured.values {
            line.push_str(&match name.as_str() {
                "learning_rate" => format!("  lr {value:.2e}"),
                _ => format!("  {name} {value:.4}"),
            });
        }
        line.push_str(&format!("  {:.1} ms/step", measured.step_seconds * 1e3));
        if let Some(rate) = measured.tokens_per_second {
            line.push_str(&format!("  {rate:.0} tokens/s"));
        }
        if let Some(mfu) = measured.mfu {
            line.push_str(&format!("  MFU {:.1} %", mfu * 100.0));
        }
        if self.is_terminal {
            let filled = (measured.step * 20 / self.steps.max(1)) as usize;
            let bar: String = (0..20).map(|n| if n < filled { '█' } else { '░' }).collect();
            let left = (self.steps - measured.step.min(self.steps)) as f64 * measured.step_seconds;
            let _ = write!(std::io::stderr(), "\r\x1b[K{bar} {line}  {left:.0} s left");
            log::send(&line, &known(measured, ""));
        } else {
            self.say_with(&line, &known(measured, ""));
        }
    }

    /// How long a stop takes, with what to change if a spot machine is gone by then.
    fn stop_time(&mut self, time: &StopTime) {
        self.stop_seconds = Some(time.seconds());
        let how = if time.is_measured { "measured" } else { "estimated" };
        let takes = format!(
            "a stop takes up to {:.1} s: {} steps of {:.2} s and a save of {:.1} s ({how})",
            time.seconds(),
            time.steps,
            time.step_seconds,
            time.save_seconds
        );
        if !time.is_over_notice() {
            return self.say(&takes);
        }
        self.say(&format!("warning: {takes}; a spot machine ends {SPOT_NOTICE_SECONDS:.0} s after its notice"));
        let shorter = match time.save_seconds > time.seconds() / 2.0 {
            true => "save to a faster or nearer place (train.folder), or use an optimizer with less state",
            false => "make steps shorter: a smaller train.batch_size, or more devices",
        };
        self.say(&format!("hint: {shorter}; a lower train.save_every bounds what is lost"));
    }

    fn end(&self) {
        if self.is_terminal {
            let _ = writeln!(std::io::stderr());
        }
    }
}

/// What was measured, for a record of the log.
fn known(measured: &Measured, prefix: &str) -> Vec<(String, Value)> {
    let mut known: Vec<(String, Value)> = vec![("step".into(), measured.step.into())];
    known.extend(measured.values.iter().map(|(name, value)| (format!("{prefix}{name}"), (*value).into())));
    known.push(("step_seconds".into(), measured.step_seconds.into()));
    known.extend(measured.tokens_per_second.map(|rate| ("tokens_per_second".into(), rate.into())));
    known.extend(measured.mfu.map(|mfu| ("mfu".into(), mfu.into())));
    known
}
