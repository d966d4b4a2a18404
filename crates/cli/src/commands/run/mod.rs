//! `tpu run`: run a program on a device; print, save, compare or time its results.

mod bench;
mod compare;
mod inputs;
mod isolate;
mod show;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use compile::Program;
use runtime::config::Target;
use runtime::{Backend, DeviceArray, Parameters, debug};
use serde::Serialize;
use tensor::Literal;

use crate::args::RunArgs;
use crate::commands::compile::read_input;
use crate::commands::{config, runtime_metrics};
use crate::failure::{Answer, Failure};
use crate::imported::{self, Imported};
use crate::output::Output;
use crate::progress::Progress;

pub(crate) use isolate::{again as isolate_again, again_among as isolate_again_among, must_isolate};

/// What `--json` prints.
#[derive(Serialize)]
struct Record {
    version: u32,
    device: String,
    platform: String,
    chosen: String,
    compile_seconds: f64,
    results: Vec<show::Summary>,
    #[serde(skip_serializing_if = "Option::is_none")]
    comparison: Option<compare::Comparison>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bench: Option<bench::Timing>,
}

pub(crate) fn run(args: &RunArgs, output: &Output) -> Result<Answer, Failure> {
    let config = config::as_written(&args.config, args.device.as_deref())?;
    if must_isolate(&config.device)? {
        return isolate::again();
    }
    let mut imported = match imported::format(&args.file) {
        Some(format) => Some(Imported::open(&args.file, format, inputs::named(&args.inputs)?)?),
        None => None,
    };
    let bytes = match &mut imported {
        Some(imported) => imported.program()?,
        None => read_input(&args.file)?,
    };
    let program = Arc::new(Program::read(bytes).map_err(runtime::Error::from)?);
    let progress = Progress::start();
    progress.step("finding the device");
    let backend = Backend::auto(&config)?;
    let _metrics = runtime_metrics::serve(&args.telemetry, &backend, Box::new(Vec::new))?;
    progress.step("compiling");
    let model = backend.prepare_program(&program, &Parameters::none())?;
    let ports: Vec<_> = model.inputs().cloned().collect();
    let literals = match &imported {
        Some(imported) => inputs::with_weights(imported, args.seed, &ports)?,
        None => inputs::load(&args.inputs, args.seed, &ports)?,
    };
    if args.steps {
        drop(progress);
        return steps(&program, &literals, output);
    }
    progress.step("running");
    let sent = literals.iter().map(|literal| backend.send(literal)).collect::<Result<Vec<_>, _>>()?;
    let results = host(&model.run(&sent)?)?;
    let names: Vec<String> = model.executable().signature().results.iter().map(|port| port.name.clone()).collect();
    if let Some(path) = &args.out {
        save(path, &names, &results)?;
    }
    let comparison = match &args.expect {
        Some(path) => Some(compare::with(path, &names, &results, args.tolerance)?),
        None => None,
    };
    let bench = match args.bench {
        true => {
            progress.step("timing");
            Some(bench::run(&backend, &model, &sent, args.seconds)?)
        }
        false => None,
    };
    if let Some(path) = backend.finish_profile()? {
        eprintln!("profile: {}", path.display());
    }
    drop(progress);
    let record = Record {
        version: 1,
        device: backend.device().kind.clone(),
        platform: backend.platform().to_string(),
        chosen: backend.choice().to_string(),
        compile_seconds: model.executable().compile_seconds(),
        results: names.iter().zip(&results).map(|(name, literal)| show::summary(name, literal)).collect(),
        comparison,
        bench,
    };
    output.record(&record, || text(&record))?;
    let agrees = record.comparison.as_ref().is_none_or(|comparison| comparison.agrees);
    Ok(if agrees { Answer::Yes } else { Answer::No })
}

fn host(arrays: &[DeviceArray]) -> Result<Vec<Literal>, Failure> {
    Ok(arrays.iter().map(DeviceArray::to_host).collect::<Result<Vec<_>, _>>()?)
}

fn save(path: &Path, names: &[String], results: &[Literal]) -> Result<(), Failure> {
    let saved = if path.extension().is_some_and(|extension| extension == "npz") {
        let arrays: BTreeMap<String, Literal> = names.iter().cloned().zip(results.iter().cloned()).collect();
        weights::write_npz(path, &arrays)
    } else {
        weights::write(path, names.iter().map(String::as_str).zip(results), &BTreeMap::new())
    };
    Ok(saved.map_err(runtime::Error::from)?)
}

/// Prints every value the program computes, op by op.
fn steps(program: &Program, inputs: &[Arc<Literal>], output: &Output) -> Result<Answer, Failure> {
    let (sender, steps) = std::sync::mpsc::channel();
    debug::interpret(program, inputs, move |step| drop(sender.send(step)))?;
    for step in steps {
        for literal in &step.results {
            output.text(&format!("{:<32} {}\n", step.op, show::line(literal, &step.location)))?;
        }
    }
    Ok(Answer::Yes)
}

fn text(record: &Record) -> String {
    let mut text = format!("device    {} ({})\n          {}\n", record.device, record.platform, record.chosen);
    text.push_str(&format!("compiled  in {}\n", crate::human::seconds(record.compile_seconds)));
    text.push_str("results\n");
    text.push_str(&show::table(&record.results));
    if let Some(comparison) = &record.comparison {
        text.push_str(&comparison.text());
    }
    if let Some(bench) = &record.bench {
        text.push_str(&bench.text());
    }
    text
}

/// Whether the built-in CPU device is certain to be taken.
pub(crate) fn is_built_in(target: &Target) -> bool {
    *target == Target::Cpu
}
