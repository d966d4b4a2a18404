//! Measures every optimizer level on exported models and prints the tables of `docs/optimizer-levels.md`.
//!
//! `cargo run --release -p tpubridge-runtime --example optimizer_levels -- costs|times FOLDER [LIBTPU]`, where FOLDER has programs
//! `NAME.mlir.bc` with their arguments `NAME.npz`, as `benchmarks/cpu/export.py` writes them.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use compile::cache::{Cache, CacheConfig};
use compile::optimize::{ComputePrecision, Level, ProgramOptimizer, TargetInfo};
use compile::worker::{WorkerCommand, WorkerLimits};
use compile::{CompileRequest, PluginFile, Program, SliceCompiler};
use runtime::config::{Config, Mode, Target as Device};
use runtime::optimize::{OptimizationTrial, Optimized, optimize};
use runtime::{Backend, DeviceArray, Error, LoadedProgram, Parameters};
use tensor::Literal;

/// The argument that makes this program the compiler's own process.
const WORKER: &str = "compile-worker";
/// The slice whose compiler is asked.
const SLICE: &str = "v5e-1";
/// What names of arguments begin with that are parameters.
const PARAMETERS: [&str; 4] = ["parameters", "input_weights", "state_weights", "bias"];
/// Rounds of the measurement, at least; in each, every level takes its turn.
const ROUNDS: usize = 15;
/// Seconds each model is measured for, at least.
const SECONDS: f64 = 12.0;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.first().is_some_and(|word| word == WORKER) {
        return compile::worker::serve();
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
    let usage = "give `costs` or `times`, and the folder of the programs";
    let [what, folder, rest @ ..] = arguments else { return Err(usage.into()) };
    let mut programs: Vec<PathBuf> = std::fs::read_dir(folder)?.filter_map(|entry| Some(entry.ok()?.path())).collect();
    programs.retain(|path| path.to_string_lossy().ends_with(".mlir.bc"));
    programs.sort();
    let models = &mut programs.iter().map(|path| Exported::read(path));
    match what.as_str() {
        "costs" => costs(models, rest.first().map(Path::new)),
        "times" => times(models),
        _ => Err(usage.into()),
    }
}

/// A program with its arguments.
struct Exported {
    name: String,
    program: Program,
    samples: Vec<Arc<Literal>>,
    /// How many of its arguments are parameters; they come first.
    parameters: usize,
}

impl Exported {
    fn read(path: &Path) -> Result<Exported, Box<dyn std::error::Error>> {
        let name = path.file_name().map(|name| name.to_string_lossy().replace(".mlir.bc", "")).unwrap_or_default();
        eprintln!("{name}");
        let program = Program::read(std::fs::read(path)?)?;
        let samples = weights::read_npz(&path.with_file_name(format!("{name}.npz")))?;
        let samples = samples.into_iter().map(|(_, literal)| Arc::new(literal)).collect();
        let entry = program.module().entry().ok_or("no entry function")?;
        let is_parameter = |value: &&hlo::Value| match entry.value(**value).loc.as_deref() {
            Some(hlo::Location::Name(name, _)) => PARAMETERS.iter().any(|prefix| name.starts_with(prefix)),
            _ => false,
        };
        let parameters = entry.args().iter().take_while(is_parameter).count();
        Ok(Exported { name, parameters, program, samples })
    }
}

type Models<'a> = &'a mut dyn Iterator<Item = Result<Exported, Box<dyn std::error::Error>>>;

fn costs(models: Models<'_>, libtpu: Option<&Path>) -> Result<(), Box<dyn std::error::Error>> {
    let compiler = match libtpu {
        Some(path) => Some(SliceCompiler {
            plugin: PluginFile::open(path)?,
            cache: Cache::open(&CacheConfig::default())?,
            launch: WorkerCommand::this_program([WORKER])?,
            limits: WorkerLimits::default(),
        }),
        None => None,
    };
    let backend = Backend::auto(&Config::new(Mode::Development).device(Device::Cpu))?;
    // Memory planning is all that is asked for; code generation would take minutes.
    let request = CompileRequest { mode: compile::CompileMode::Quick, ..CompileRequest::new(SLICE.parse()?) };
    println!("| model | level | ops | GFLOP | MB moved | MB HBM (libtpu) | deviation | sensitivity | rewriting, ms |");
    println!("|---|---|---|---|---|---|---|---|---|");
    for model in models {
        let Exported { name, program, samples, parameters } = model?;
        let compiler = compiler.as_ref().map(|compiler| (compiler, &request));
        let trial = OptimizationTrial { samples: &samples, backend: Some(&backend), compiler };
        for level in Level::ALL {
            let optimizer =
                ProgramOptimizer::new(level, TargetInfo::tpu(chips::Generation::V5e), ComputePrecision::Bf16);
            let optimizer = optimizer.parameters((0..parameters).collect::<Vec<_>>());
            match optimize(&optimizer, &program, &trial) {
                Ok(optimized) => println!("{}", cost_row(&name, level, &optimized)),
                Err(Error::Optimization(why)) => println!("| {name} | {} | refused: {why} |||||||", level.name()),
                Err(error) => return Err(error.into()),
            }
        }
    }
    Ok(())
}

fn times(models: Models<'_>) -> Result<(), Box<dyn std::error::Error>> {
    println!("| model | none | conservative | balanced | aggressive | MB of parameters, by level |");
    println!("|---|---|---|---|---|---|");
    for model in models {
        println!("{}", time_row(&model?)?);
    }
    Ok(())
}

fn cost_row(name: &str, level: Level, optimized: &Optimized) -> String {
    let after = &optimized.after;
    let optional = |value: Option<f64>| value.map_or_else(|| "-".to_string(), |value| format!("{:.1}", value / 1e6));
    format!(
        "| {name} | {} | {} | {:.3} | {:.1} | {} | {:.1e} | {} | {:.0} |",
        level.name(),
        after.ops,
        after.flops / 1e9,
        after.bytes / 1e6,
        optional(after.hbm_bytes.map(|bytes| bytes as f64)),
        optimized.deviation.unwrap_or(f64::NAN),
        optimized.sensitivity.map_or_else(|| "-".to_string(), |sensitivity| format!("{sensitivity:.1e}")),
        optimized.seconds * 1e3,
    )
}

/// Median times of every level, taking turns, on the CPU device: programs are rewritten and their parameters sent as a
/// backend of that level does it.
fn time_row(model: &Exported) -> Result<String, Error> {
    let (parameters, inputs) = model.samples.split_at(model.parameters.min(model.samples.len()));
    let parameters = Parameters::leading(parameters.to_vec());
    let program = Arc::new(model.program.clone());
    let (mut models, mut megabytes) = (Vec::new(), Vec::new());
    for level in Level::ALL {
        let config =
            Config::new(Mode::Inference).device(Device::Cpu).optimization(level).precision(ComputePrecision::Bf16);
        let backend = Backend::auto(&config)?;
        let model = backend.prepare_program(&program, &parameters)?;
        megabytes.push(format!("{:.1}", backend.memory_stats().arrays.used_bytes as f64 / 1e6));
        let sent = inputs.iter().map(|sample| backend.send(sample)).collect::<Result<Vec<DeviceArray>, _>>()?;
        models.push((model, sent));
    }
    let mut seconds = vec![Vec::new(); models.len()];
    let once = |(model, sent): &(LoadedProgram, Vec<DeviceArray>)| -> Result<f64, Error> {
        let started = Instant::now();
        model.run(sent)?.iter().try_for_each(|array| array.wait())?;
        Ok(started.elapsed().as_secs_f64())
    };
    for model in &models {
        once(model)?;
    }
    let started = Instant::now();
    for round in 0.. {
        if round >= ROUNDS && started.elapsed().as_secs_f64() > SECONDS {
            break;
        }
        // Every other round backwards: no level always runs behind the same one.
        for turn in 0..models.len() {
            let at = (round + turn) % models.len();
            let at = if round % 2 == 0 { at } else { models.len() - 1 - at };
            seconds[at].push(once(&models[at])?);
        }
    }
    let least_and_median = |times: &mut Vec<f64>| {
        times.sort_by(f64::total_cmp);
        format!("{:.2} / {:.2}", times[0] * 1e3, times[times.len() / 2] * 1e3)
    };
    let digest = |at: usize| models[at].0.executable().program().digest();
    let is_same = |at: usize| at > 0 && digest(at) == digest(at - 1);
    let cells = seconds.iter_mut().enumerate();
    let cells = cells.map(|(at, times)| if is_same(at) { "same".to_string() } else { least_and_median(times) });
    let medians: Vec<String> = cells.collect();
    Ok(format!("| {} | {} | {} |", model.name, medians.join(" | "), megabytes.join(" / ")))
}
