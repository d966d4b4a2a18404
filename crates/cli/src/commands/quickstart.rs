//! `tpu quickstart`: find the device, train a small network on it, and ask the TPU compiler about it if it is there.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use compile::cache::Cache;
use compile::worker::WorkerLimits;
use compile::{Compilation, CompileRequest, PluginFile, Program, SliceCompiler};
use runtime::{Backend, DeviceArray, Input, Parameters, Spec};
use serde::Serialize;
use tensor::{DType, Literal};

use super::run::{isolate_again, must_isolate};
use crate::args::{CacheFolderArgs, QuickstartArgs};
use crate::failure::{Answer, Failure};
use crate::output::Output;
use crate::progress::Progress;
use crate::{commands, human, plugins};

/// The program: one step of training.
const STEP: &str = include_str!("fit_sine.mlir");

/// Slice that is compiled for when none is asked for.
const DEFAULT_SLICE: &str = "v5e-4";

/// Steps of training.
const STEPS: usize = 2000;

/// What `--json` prints.
#[derive(Serialize)]
struct Record {
    version: u32,
    device: String,
    platform: String,
    chosen: String,
    compile_seconds: f64,
    steps: usize,
    seconds_per_step: f64,
    first_loss: f32,
    last_loss: f32,
    #[serde(skip_serializing_if = "Option::is_none")]
    slice: Option<SliceRecord>,
    #[serde(skip_serializing_if = "Option::is_none")]
    no_slice: Option<String>,
}

#[derive(Serialize)]
struct SliceRecord {
    name: String,
    fits: bool,
    headroom_bytes: i64,
    report: compile::Report,
    #[serde(skip)]
    table: String,
}

pub(crate) fn run(args: &QuickstartArgs, output: &Output) -> Result<Answer, Failure> {
    let mut config = commands::config::resolve(&args.config, args.device.as_deref())?.config;
    config.slice = match &args.slice {
        Some(slice) => Some(slice.parse()?),
        None => Some(config.slice.map_or_else(|| DEFAULT_SLICE.parse(), Ok)?),
    };
    let request = config.compile_request().map_err(runtime::Error::from)?;
    if must_isolate(&config.device)? {
        return isolate_again();
    }
    let progress = Progress::start();
    progress.step("finding the device");
    let backend = Backend::auto(&config)?;
    progress.step("training");
    let trained = train(&backend)?;
    progress.step("asking the TPU compiler");
    let name = request.slice.to_string();
    let asked = ask(&request);
    drop(progress);
    let (slice, no_slice) = match asked {
        Ok(compilation) => {
            let report = compilation.entry.report.clone();
            let table = commands::compile::table(&compilation);
            let (fits, headroom_bytes) = (report.headroom() >= 0, report.headroom());
            (Some(SliceRecord { name, fits, headroom_bytes, report, table }), None)
        }
        Err(why) => (None, Some(why)),
    };
    let record = Record {
        version: 1,
        device: backend.device().kind.clone(),
        platform: backend.platform().to_string(),
        chosen: backend.choice().to_string(),
        compile_seconds: trained.compile_seconds,
        steps: STEPS,
        seconds_per_step: trained.seconds / STEPS as f64,
        first_loss: trained.first_loss,
        last_loss: trained.last_loss,
        slice,
        no_slice,
    };
    output.record(&record, || text(&record))?;
    Ok(Answer::Yes)
}

struct Trained {
    compile_seconds: f64,
    seconds: f64,
    first_loss: f32,
    last_loss: f32,
}

/// Trains a network to compute a sine. Its parameters stay on the device, each step taking the memory of the last.
fn train(backend: &Backend) -> Result<Trained, Failure> {
    let program = Arc::new(Program::read(STEP.as_bytes().to_vec()).map_err(runtime::Error::from)?);
    let model = backend.prepare_program(&program, &Parameters::none())?;
    let specs: Vec<Spec> = model.inputs().map(|port| port.spec.clone()).collect();
    let (state, x) = specs.split_at(specs.len() - 1);
    let weight = |(n, spec): (usize, &Spec)| literal(spec, |at| ((at * 7 + n * 3) % 13) as f32 / 13.0 - 0.5);
    let send = |literal: Literal| backend.send(&Arc::new(literal));
    let mut state = state.iter().enumerate().map(|spec| send(weight(spec))).collect::<Result<Vec<DeviceArray>, _>>()?;
    let x = send(literal(&x[0], |at| at as f32 / 256.0 * 6.0 - 3.0))?;
    let mut losses = [0.0; 2];
    let started = Instant::now();
    for step in 0..STEPS {
        let mut inputs: Vec<Input> = state.into_iter().map(Input::Donate).collect();
        inputs.push(Input::Keep(x.clone()));
        state = model.run(&inputs)?;
        let loss = state.pop().ok_or_else(|| Failure::new("the program gave no loss"))?;
        if step == 0 || step + 1 == STEPS {
            let bytes = loss.to_host()?.into_bytes();
            losses[usize::from(step > 0)] = f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        }
    }
    backend.synchronize()?;
    let [first_loss, last_loss] = losses;
    let compile_seconds = model.executable().compile_seconds();
    Ok(Trained { compile_seconds, seconds: started.elapsed().as_secs_f64(), first_loss, last_loss })
}

fn literal(spec: &Spec, value: impl Fn(usize) -> f32) -> Literal {
    let bytes = (0..spec.num_elements()).flat_map(|at| value(at).to_le_bytes()).collect();
    Literal::new(DType::F32, spec.dims.clone(), bytes)
        .unwrap_or_else(|| unreachable!("the program's arguments are f32"))
}

/// What the TPU compiler makes of the step; the error says why it was not asked.
fn ask(request: &CompileRequest) -> Result<Compilation, String> {
    let plugin =
        plugins::tpu(None).map_err(|_| "the TPU compiler is not installed; `tpu setup` gets it".to_string())?;
    let compiler = SliceCompiler {
        plugin: PluginFile::open(&plugin).map_err(|error| error.to_string())?,
        cache: Cache::open(&commands::cache::config(&CacheFolderArgs::default())).map_err(|error| error.to_string())?,
        launch: plugins::launch().map_err(|_| "this program's own file is not found".to_string())?,
        limits: WorkerLimits::default(),
    };
    let compiled = compiler.compile(STEP.as_bytes(), request, &AtomicBool::new(false), &mut |_| {});
    compiled.map_err(|error| error.to_string())
}

fn text(record: &Record) -> String {
    let mut text = format!("device    {} ({})\n          {}\n", record.device, record.platform, record.chosen);
    text.push_str(&format!(
        "trained   a network that computes sines: {} steps of {:.1} µs, loss {:.4} -> {:.6}\n",
        record.steps,
        record.seconds_per_step * 1e6,
        record.first_loss,
        record.last_loss
    ));
    text.push_str(&format!("compiled  in {}\n", human::seconds(record.compile_seconds)));
    if let Some(slice) = &record.slice {
        text.push_str(&format!("\nthe same step on {}, by the real TPU compiler:\n{}", slice.name, slice.table));
    }
    if let Some(why) = &record.no_slice {
        text.push_str(&format!("slice     {why}\n"));
    }
    text.push_str("\nnext      tpu run PROGRAM, tpu compile PROGRAM --slice v5e-16, tpu --help\n");
    text
}
