//! `tpu compile`: what the real compiler says of a program on a slice.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::path::Path;
use std::time::Duration;

use compile::cache::Cache;
use compile::worker::{Chatter, WorkerLimits};
use compile::{
    CacheUse, Compilation, CompileMode, CompileRequest, Origin, OutOfMemory, Partitioner, PluginFile, Report,
    SliceCompiler, blob,
};
use pjrt::Effort;
use runtime::config::Config;
use serde::Serialize;

use crate::args::{CompileArgs, CompilerArgs, EffortArg, Emit, PartitionerArg};
use crate::failure::{self, Answer, Failure};
use crate::output::{Align, Output, Table};
use crate::progress::Progress;
use crate::{commands, human, imported, plugins, stop};

/// What `--json` prints.
#[derive(Serialize)]
struct Record<'a> {
    version: u32,
    fits: bool,
    cached: bool,
    key: String,
    wall_seconds: f64,
    headroom_bytes: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    miss: Option<Miss<'a>>,
    warnings: &'a [String],
    report: &'a Report,
}

#[derive(Serialize)]
struct Miss<'a> {
    nearest: String,
    differences: &'a [String],
}

/// What `--json` prints when the program does not fit.
#[derive(Serialize)]
struct TooLarge<'a> {
    version: u32,
    fits: bool,
    slice: String,
    out_of_memory: &'a OutOfMemory,
}

pub(crate) fn run(args: &CompileArgs, output: &Output) -> Result<Answer, Failure> {
    let config = commands::config::resolve(&args.compiler.config, None)?.config;
    let request = request(&args.compiler, &config, if args.quick { CompileMode::Quick } else { CompileMode::Full })?;
    let program = read_input(&args.file)?;
    let compiler = compiler(&args.compiler, &config)?;
    let stop = stop::on_signal();
    let progress = Progress::start();
    let result = compiler.compile(&program, &request, &stop, &mut |step| progress.step(step));
    drop(progress);
    let compilation = match result {
        Ok(compilation) => compilation,
        Err(compile::CompileError::OutOfMemory(oom)) => return too_large(&request, &oom, output),
        Err(error) => return Err(error.into()),
    };
    for warning in &compilation.warnings {
        eprintln!("warning: {warning}");
    }
    if let Some(path) = &args.out {
        write_executable(&compilation, path)?;
    }
    let report = &compilation.entry.report;
    match args.emit {
        Some(emit) => {
            output.text(&emitted(emit, &compilation, &program)?)?;
            eprint!("{}", table(&compilation));
        }
        None => {
            let record = Record {
                version: 1,
                fits: report.headroom() >= 0,
                cached: compilation.origin == Origin::Cached,
                key: compilation.key.to_string(),
                wall_seconds: compilation.wall.as_secs_f64(),
                headroom_bytes: report.headroom(),
                miss: compilation
                    .miss
                    .as_ref()
                    .map(|(key, differences)| Miss { nearest: key.to_string(), differences }),
                warnings: &compilation.warnings,
                report,
            };
            output.record(&record, || table(&compilation))?;
        }
    }
    Ok(if report.headroom() >= 0 { Answer::Yes } else { Answer::No })
}

/// The compiler that the command line and the configuration ask for.
pub(crate) fn compiler(args: &CompilerArgs, config: &Config) -> Result<SliceCompiler, Failure> {
    let plugin = plugins::tpu(args.plugin.plugin.as_deref())?;
    let mut launch = plugins::launch()?;
    if args.verbose {
        launch.chatter = Chatter::Show;
    }
    Ok(SliceCompiler {
        plugin: PluginFile::open(&plugin)?,
        cache: Cache::open(&commands::cache::config(&args.cache))?,
        launch,
        limits: limits(args, config)?,
    })
}

/// Compiler flags from `NAME=VALUE`.
pub(crate) fn named_flags(flags: &[String]) -> Result<BTreeMap<String, String>, Failure> {
    let split = |flag: &String| {
        let (name, value) = flag
            .trim_start_matches('-')
            .split_once('=')
            .ok_or_else(|| Failure::new(format!("--flag {flag} has no value")).hint("write it as --flag NAME=VALUE"))?;
        Ok((name.to_string(), value.to_string()))
    };
    flags.iter().map(split).collect()
}

/// What the configuration asks for, with what the command line says in its place.
pub(crate) fn request(args: &CompilerArgs, config: &Config, mode: CompileMode) -> Result<CompileRequest, Failure> {
    let mut config = config.clone();
    if let Some(slice) = &args.slice {
        config.slice = Some(slice.parse()?);
    }
    let wanted = config.compile_request().map_err(runtime::Error::from)?;
    let mut flags = wanted.flags.clone();
    flags.extend(named_flags(&args.flags)?);
    let effort = |e: EffortArg| match e {
        EffortArg::O0 => Effort::O0,
        EffortArg::O1 => Effort::O1,
        EffortArg::O2 => Effort::O2,
        EffortArg::O3 => Effort::O3,
    };
    Ok(CompileRequest {
        mode,
        replicas: args.replicas,
        partitions: args.partitions,
        device_ids: args.devices.clone(),
        partitioner: match args.partitioner {
            PartitionerArg::Auto => Partitioner::Auto,
            PartitionerArg::Shardy => Partitioner::Shardy,
            PartitionerArg::Gspmd => Partitioner::Gspmd,
        },
        optimization_level: args.optimization_level.map(effort).or(wanted.optimization_level),
        memory_fitting_level: args.memory_fitting_level.map(effort).or(wanted.memory_fitting_level),
        flags,
        cache: match (args.no_cache, args.refresh) {
            (true, _) => CacheUse::Off,
            (false, true) => CacheUse::Refresh,
            (false, false) => wanted.cache,
        },
        ..wanted
    })
}

fn limits(args: &CompilerArgs, config: &Config) -> Result<WorkerLimits, Failure> {
    let time = match args.compilation_timeout_seconds {
        Some(seconds) => Duration::try_from_secs_f64(seconds)
            .map_err(|_| Failure::new("--compilation-timeout-seconds must be a positive number"))?,
        None => config.compilation_timeout_seconds.get(),
    };
    let memory_bytes = match args.memory_limit {
        None => None,
        Some(gib) if gib > 0.0 && gib.is_finite() => Some((gib * (1u64 << 30) as f64) as u64),
        Some(_) => return Err(Failure::new("--memory-limit must be a positive number of GiB")),
    };
    Ok(WorkerLimits { time, memory_bytes })
}

/// Reads a program: a file, or standard input for `-`. Programs of PyTorch and ONNX are translated.
pub(crate) fn read_input(path: &Path) -> Result<Vec<u8>, Failure> {
    if let Some(format) = imported::format(path) {
        return imported::program(path, format);
    }
    if path == Path::new("-") {
        let mut bytes = Vec::new();
        std::io::stdin().read_to_end(&mut bytes).map_err(|e| failure::file("cannot read", path, e))?;
        return Ok(bytes);
    }
    std::fs::read(path).map_err(|e| failure::file("cannot read", path, e))
}

/// Writes a file whole or not at all.
pub(crate) fn write_file(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let failed = |e| failure::file("cannot write", path, e);
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // Readable by whom the user's umask lets, as any file that a command writes.
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o666);
    let mut file = tempfile::Builder::new().permissions(mode).tempfile_in(folder).map_err(failed)?;
    file.write_all(bytes).and_then(|()| file.as_file().sync_all()).map_err(failed)?;
    file.persist(path).map_err(|e| failed(e.error))?;
    Ok(())
}

fn write_executable(compilation: &Compilation, path: &Path) -> Result<(), Failure> {
    let bytes = compilation.entry.blob(blob::EXECUTABLE).ok_or_else(|| {
        Failure::new("there is no executable to write").hint("--quick stops before one is made; leave it out")
    })?;
    write_file(path, bytes)
}

fn emitted(emit: Emit, compilation: &Compilation, program: &[u8]) -> Result<String, Failure> {
    match emit {
        Emit::Stablehlo => Ok(::hlo::text::print(&::hlo::read(program)?)),
        Emit::Hlo => {
            let entry = &compilation.entry;
            let module = match (entry.blob(blob::HLO), entry.blob(blob::HLO_ZSTD)) {
                (Some(bytes), _) => ::xla::HloModule::from_hlo_with_config(bytes),
                (None, Some(bytes)) => ::xla::HloModule::from_zstd(bytes),
                (None, None) => return Err(Failure::new("the compiler gave no optimized program")),
            };
            Ok(module.map_err(Failure::new)?.to_string())
        }
    }
}

fn too_large(request: &CompileRequest, oom: &OutOfMemory, output: &Output) -> Result<Answer, Failure> {
    let record = TooLarge { version: 1, fits: false, slice: request.slice.to_string(), out_of_memory: oom };
    output.record(&record, || {
        let figures = match (oom.needed_bytes, oom.available_bytes) {
            (Some(needed), Some(available)) => {
                format!("needs {}, has {}", human::bytes(needed), human::bytes(available))
            }
            _ => oom.message.clone(),
        };
        format!("does not fit into {} of one device of {}: {figures}\n", oom.space, request.slice)
    })?;
    eprintln!("{}", oom.message);
    eprintln!("hint: a larger slice, more partitions, a smaller batch, rematerialization or donated arguments");
    Ok(Answer::No)
}

pub(crate) fn table(compilation: &Compilation) -> String {
    let report = &compilation.entry.report;
    let memory = &report.memory;
    let mut text = format!(
        "{} on {} ({}), {} devices: {} replicas × {} partitions, {}\n\n",
        report.module, report.slice, report.topology, report.devices, report.replicas, report.partitions, report.plugin
    );
    let mut hbm = Table::new(&[Align::Left, Align::Right, Align::Right]);
    hbm.row(["HBM per device", "", "of limit"]);
    let mut add = |name: &str, bytes: Option<u64>| {
        if let Some(bytes) = bytes {
            hbm.row([name.to_string(), human::bytes(bytes), human::percent(bytes, memory.limit)]);
        }
    };
    add("arguments", Some(memory.arguments));
    add("outputs", Some(memory.outputs));
    add("  of these in place of arguments", Some(memory.aliased).filter(|b| *b > 0));
    add("temporaries", Some(memory.temporaries));
    add("constants", memory.constants.filter(|b| *b > 0));
    add("code", memory.code);
    add("total", Some(memory.total));
    add("limit", Some(memory.limit));
    text.push_str(&hbm.render());
    let verdict = if report.headroom() >= 0 { "fits" } else { "does not fit" };
    let room = human::bytes(report.headroom().unsigned_abs());
    let word = if report.headroom() >= 0 { "free" } else { "too much" };
    text.push_str(&format!("  {verdict}: {room} {word}\n"));
    if let Some(host) = memory.host_temporaries.filter(|b| *b > 0) {
        text.push_str(&format!("  host memory for temporaries: {}\n", human::bytes(host)));
    }

    let mut work = Table::new(&[Align::Left, Align::Right]);
    let mut add = |name: &str, value: Option<String>| {
        if let Some(value) = value {
            work.row([name.to_string(), value]);
        }
    };
    add("matrix FLOPs per device and step", report.dot_flops.map(human::count));
    add("FLOPs as the compiler counts (loop bodies once)", report.compiler_flops.map(human::count));
    add("bytes accessed as the compiler counts", report.bytes_accessed.map(|b| human::bytes(b as u64)));
    add("executable", report.executable_bytes.map(human::bytes));
    add("compile time", Some(human::seconds(report.compile_seconds)));
    if !work.is_empty() {
        text.push('\n');
        text.push_str(&work.render());
    }

    text.push('\n');
    if report.collectives.is_empty() {
        text.push_str("  no collectives\n");
    } else {
        let mut table = Table::new(&[Align::Left, Align::Right, Align::Right, Align::Right, Align::Right]);
        table.row(["collective", "instructions", "executions", "bytes per device", "group"]);
        for c in &report.collectives {
            table.row([
                c.kind.clone(),
                c.instructions.to_string(),
                c.executions.to_string(),
                human::bytes(c.bytes),
                c.group_size.to_string(),
            ]);
        }
        text.push_str(&table.render());
    }
    if !report.largest_buffers.is_empty() {
        let mut table = Table::new(&[Align::Right, Align::Left, Align::Left]);
        table.row(["largest", "buffers", ""]);
        for b in report.largest_buffers.iter().take(6) {
            table.row([human::bytes(b.bytes), b.instruction.clone(), b.source.clone().unwrap_or_default()]);
        }
        text.push('\n');
        text.push_str(&table.render());
    }
    for note in &report.notes {
        text.push_str(&format!("  note: {note}\n"));
    }
    let key = &compilation.key.to_string()[..12];
    text.push_str(&match compilation.origin {
        Origin::Cached => format!("\n  cache: hit {key} in {}\n", human::seconds(compilation.wall.as_secs_f64())),
        Origin::Kept => format!("\n  cache: miss, kept as {key}\n"),
        Origin::Unkept => "\n  cache: not kept\n".into(),
    });
    if let Some((nearest, differences)) = &compilation.miss {
        text.push_str(&format!("  nearest entry {}: ", &nearest.to_string()[..12]));
        let shown: Vec<&str> = differences.iter().take(4).map(String::as_str).collect();
        text.push_str(&shown.join("; "));
        if differences.len() > 4 {
            text.push_str(&format!("; and {} more", differences.len() - 4));
        }
        text.push('\n');
    }
    text
}
