//! Measures every optimizer level on exported models and prints the tables of `docs/optimizer-levels.md`.
//!
//! `cargo run --release -p runtime --example optimizer_levels -- FOLDER [LIBTPU]`, where FOLDER has programs `NAME.mlir.bc`
//! with their arguments `NAME.npz`, as `benchmarks/cpu/export.py` writes them.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use runtime::cache::{Cache, CacheConfig};
use runtime::config::{Config, Mode, Precision, Target as Device};
use runtime::optimize::{Level, Optimized, Optimizer, Target, Trial};
use runtime::worker::{Launch, Limits};
use runtime::{Backend, CompileRequest, DeviceArray, Error, Model, Parameters, PluginFile, Program, SliceCompiler};
use tensor::Literal;

/// The argument that makes this program the compiler's own process.
const WORKER: &str = "compile-worker";
/// The slice whose compiler is asked.
const SLICE: &str = "v5e-1";
/// Rounds of the measurement; in each, every level takes its turn.
const ROUNDS: usize = 15;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.first().is_some_and(|word| word == WORKER) {
        return runtime::worker::serve();
    }
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}

fn run(arguments: &[String]) -> Result<(), Box<dyn std::error::Error>> {
    let folder = arguments.first().ok_or("give the folder of the programs")?;
    let compiler = match arguments.get(1) {
        Some(path) => Some(SliceCompiler {
            plugin: PluginFile::open(Path::new(path))?,
            cache: Cache::open(&CacheConfig::default()),
            launch: Launch::this_program([WORKER])?,
            limits: Limits::default(),
        }),
        None => None,
    };
    let mut programs: Vec<PathBuf> = std::fs::read_dir(folder)?.filter_map(|entry| Some(entry.ok()?.path())).collect();
    programs.retain(|path| path.to_string_lossy().ends_with(".mlir.bc"));
    programs.sort();
    let backend = Backend::auto(&Config::new(Mode::Development).device(Device::Cpu))?;
    // Memory planning is all that is asked for; code generation would take minutes.
    let request = CompileRequest { mode: runtime::Mode::Quick, ..CompileRequest::new(SLICE.parse()?) };
    let (mut costs, mut times) = (String::new(), String::new());
    for path in &programs {
        let name = path.file_name().map(|name| name.to_string_lossy().replace(".mlir.bc", "")).unwrap_or_default();
        eprintln!("{name}");
        let program = Program::read(std::fs::read(path)?)?;
        let samples = weights::read_npz(&path.with_file_name(format!("{name}.npz")))?;
        let samples: Vec<Arc<Literal>> = samples.into_iter().map(|(_, literal)| Arc::new(literal)).collect();
        let trial = Trial {
            samples: &samples,
            backend: Some(&backend),
            compiler: compiler.as_ref().map(|compiler| (compiler, &request)),
        };
        for level in Level::ALL {
            let optimizer = Optimizer::new(level, Target::tpu(chips::Generation::V5e), Precision::Bf16);
            costs += &match optimizer.optimize(&program, &trial) {
                Ok(optimized) => cost_row(&name, level, &optimized),
                Err(Error::Optimization(why)) => format!("| {name} | {} | refused: {why} |||||||\n", level.name()),
                Err(error) => return Err(error.into()),
            };
        }
        times += &time_row(&name, &backend, &program, &samples)?;
    }
    print!("{}", page(&costs, &times));
    Ok(())
}

fn cost_row(name: &str, level: Level, optimized: &Optimized) -> String {
    let after = &optimized.after;
    let optional = |value: Option<f64>| value.map_or_else(|| "-".to_string(), |value| format!("{:.1}", value / 1e6));
    format!(
        "| {name} | {} | {} | {:.3} | {:.1} | {} | {} | {:.1e} | {:.0} |\n",
        level.name(),
        after.ops,
        after.flops / 1e9,
        after.bytes / 1e6,
        optional(after.accessed_bytes),
        optional(after.hbm_bytes.map(|bytes| bytes as f64)),
        optimized.deviation.unwrap_or(f64::NAN),
        optimized.seconds * 1e3,
    )
}

/// Median times of every level, taking turns, rewritten for the CPU device.
fn time_row(name: &str, backend: &Backend, program: &Program, samples: &[Arc<Literal>]) -> Result<String, Error> {
    let sent = samples.iter().map(|sample| backend.send(sample)).collect::<Result<Vec<DeviceArray>, _>>()?;
    let mut models = Vec::new();
    for level in Level::ALL {
        let optimizer = Optimizer::new(level, Target::of(backend), Precision::Bf16);
        let optimized = optimizer.optimize(program, &Trial::default())?;
        models.push(backend.prepare_model(&Arc::new(optimized.program), &Parameters::none())?);
    }
    let mut seconds = vec![Vec::new(); models.len()];
    let once = |model: &Model| -> Result<f64, Error> {
        let started = Instant::now();
        model.run(&sent)?.iter().try_for_each(|array| array.wait())?;
        Ok(started.elapsed().as_secs_f64())
    };
    for model in &models {
        once(model)?;
    }
    for round in 0..ROUNDS {
        for turn in 0..models.len() {
            let at = (round + turn) % models.len();
            seconds[at].push(once(&models[at])?);
        }
    }
    let median = |times: &mut Vec<f64>| {
        times.sort_by(f64::total_cmp);
        format!("{:.2}", times[times.len() / 2] * 1e3)
    };
    let medians: Vec<String> = seconds.iter_mut().map(median).collect();
    Ok(format!("| {name} | {} |\n", medians.join(" | ")))
}

fn page(costs: &str, times: &str) -> String {
    let tolerances = Level::ALL.map(|level| format!("{} {:.0e}", level.name(), level.tolerance())).join(", ");
    format!(
        "# Optimizer levels, measured

Written by `cargo run --release -p runtime --example optimizer_levels`; the models are those of `benchmarks/cpu/export.py`,
with precision bf16. What the levels do is in `docs/guide/optimize.md`.

Deviation is the largest difference to the program as exported, as a share of the largest element of each result, on the
CPU device. Allowed: {tolerances}.

## Rewritten for a TPU v5e
Operations and bytes are counts on the program (`hlo::cost`); accessed bytes and HBM are libtpu's for one {SLICE} chip.

| model | level | ops | GFLOP | MB moved | MB accessed (libtpu) | MB HBM (libtpu) | deviation | rewriting, ms |
|---|---|---|---|---|---|---|---|---|
{costs}
## Rewritten for the CPU device
Median milliseconds of {ROUNDS} runs, the levels taking turns. bf16 is used where the processor multiplies it itself and each
converted element enters enough products.

| model | none | conservative | balanced | aggressive |
|---|---|---|---|---|
{times}"
    )
}
