//! Compile a program for a slice with the real compiler: from the cache, or in a child process.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use chips::Slice;
use pjrt::Effort;

use crate::cache::{Cache, CacheEntry, CacheKey, KeyParts, Lock, LockAttempt, Lookup, now_unix};
use crate::devices::{self, Assignment};
use crate::environment::{compiler_environment, this_process};
use crate::error::CompileError;
use crate::optimized::OptimizedProgram;
use crate::plugin_file::PluginFile;
use crate::program::{Partitioner, Program};
use crate::refusal;
use crate::report::{CompileMode, REPORT_VERSION, Report};
use crate::worker::{self, Answer, Request, WorkerCommand, WorkerLimits};

/// Memory that is a plugin's own before it compiles anything, on top of the caller's limit for the backstop.
const BACKSTOP_SLACK_BYTES: u64 = 4 << 30;

/// Whether results are kept and reused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CacheUse {
    /// Look up first, keep afterwards.
    #[default]
    ReadWrite,
    /// Compile anew and keep the result.
    Refresh,
    /// Neither look up nor keep.
    Off,
}

/// What to compile, for what, and how.
#[derive(Clone, Debug)]
pub struct CompileRequest {
    /// The slice.
    pub slice: Slice,
    /// How much of the compiler runs.
    pub mode: CompileMode,
    /// Data-parallel copies; `None` takes what the program says, else 1.
    pub replicas: Option<u32>,
    /// Devices for each copy; `None` takes what the program says, else 1.
    pub partitions: Option<u32>,
    /// Device ids in `[replica][partition]` order; `None` takes the natural order.
    pub device_ids: Option<Vec<i64>>,
    /// Who reads sharding annotations.
    pub partitioner: Partitioner,
    /// Effort spent on run time.
    pub optimization_level: Option<Effort>,
    /// Effort spent on fitting into memory.
    pub memory_fitting_level: Option<Effort>,
    /// SliceCompiler flags.
    pub flags: BTreeMap<String, String>,
    /// Whether results are kept and reused.
    pub cache: CacheUse,
}

impl CompileRequest {
    /// A full compilation with every choice left to the program and the compiler.
    pub fn new(slice: Slice) -> CompileRequest {
        CompileRequest {
            slice,
            mode: CompileMode::Full,
            replicas: None,
            partitions: None,
            device_ids: None,
            partitioner: Partitioner::Auto,
            optimization_level: None,
            memory_fitting_level: None,
            flags: BTreeMap::new(),
            cache: CacheUse::default(),
        }
    }
}

/// A compilation's result and how it came about.
#[derive(Clone, Debug)]
pub struct Compilation {
    /// The result.
    pub entry: Arc<CacheEntry>,
    /// Its content address.
    pub key: CacheKey,
    /// Where it came from and whether it was kept.
    pub origin: Origin,
    /// Things that went wrong without harm: an unreadable cache entry, a cache that cannot be written.
    pub warnings: Vec<String>,
    /// On a miss: the nearest cached entry and what differs from it.
    pub miss: Option<(CacheKey, Vec<String>)>,
    /// Wall-clock time of the whole call.
    pub wall: Duration,
    optimized: OnceLock<Arc<OptimizedProgram>>,
}

impl Compilation {
    /// What the compiler made of the program; `None` where it gave no HLO back. Decoded once: for the report where it was
    /// compiled now, else by the first call.
    pub fn optimized(&self) -> Result<Option<Arc<OptimizedProgram>>, xla::Error> {
        if let Some(optimized) = self.optimized.get() {
            return Ok(Some(Arc::clone(optimized)));
        }
        let decoded = OptimizedProgram::decode(&self.entry.blobs)?;
        Ok(decoded.map(|decoded| Arc::clone(self.optimized.get_or_init(|| Arc::new(decoded)))))
    }
}

/// Where a result came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// From the cache.
    Cached,
    /// Compiled now, and kept.
    Kept,
    /// Compiled now, and not kept.
    Unkept,
}

/// The real compiler of a plugin, behind a cache. Shared by reference: several compilations may run side by side.
#[derive(Debug)]
pub struct SliceCompiler {
    /// The plugin.
    pub plugin: PluginFile,
    /// The cache.
    pub cache: Cache,
    /// How its process is started.
    pub launch: WorkerCommand,
    /// Limits on that process.
    pub limits: WorkerLimits,
}

/// The program with our kernels in place of the composites that stand for them; `None` where nothing changes. What a kernel does
/// not take is compiled as it is, with a warning.
pub fn with_kernels(
    program: &Program,
    target: impl Into<kernel::KernelTarget>,
    warnings: &mut Vec<String>,
) -> Result<Option<Program>, CompileError> {
    let ops = program.module().funcs.iter().flat_map(|func| &func.ops);
    let is_ours = |op: &hlo::Op| {
        op.kind() == Some(hlo::OpKind::Composite)
            && op
                .attr("name")
                .and_then(hlo::Attr::as_str)
                .is_some_and(|name| kernel::kernels::names().any(|n| n == name))
    };
    if !ops.into_iter().any(is_ours) {
        return Ok(None);
    }
    let lowered = kernel::lower(program.verified().clone(), target)
        .map_err(|error| CompileError::Protocol(format!("kernels cannot be put into the program: {error}")))?;
    // What was wanted only where it is faster is as its owner wants it.
    let unwanted = |why: &kernel::Error| matches!(why, kernel::Error::Slower { .. });
    let kept = lowered.kept.iter().filter(|(_, why)| !unwanted(why));
    let mut kept: Vec<String> = kept.map(|(name, why)| format!("{name} is compiled without a kernel: {why}")).collect();
    kept.sort();
    kept.dedup();
    warnings.extend(kept);
    Ok((!lowered.replaced.is_empty()).then(|| Program::from_module(lowered.module)))
}

impl SliceCompiler {
    /// Compiles StableHLO text or bytecode, which is not even read where its result is cached.
    ///
    /// `stop` ends the compilation from another thread or a signal handler. `progress` hears what is being done.
    pub fn compile(
        &self,
        program: &[u8],
        request: &CompileRequest,
        stop: &AtomicBool,
        progress: &mut dyn FnMut(&str),
    ) -> Result<Compilation, CompileError> {
        self.compile_given(Given::Bytes(program), request, stop, progress)
    }

    /// As [`SliceCompiler::compile`], a program that is read and verified already.
    pub fn compile_program(
        &self,
        program: &Program,
        request: &CompileRequest,
        stop: &AtomicBool,
        progress: &mut dyn FnMut(&str),
    ) -> Result<Compilation, CompileError> {
        self.compile_given(Given::Read(program), request, stop, progress)
    }

    fn compile_given(
        &self,
        given: Given<'_>,
        request: &CompileRequest,
        stop: &AtomicBool,
        progress: &mut dyn FnMut(&str),
    ) -> Result<Compilation, CompileError> {
        let started = Instant::now();
        let mut warnings = Vec::new();
        let mut request = request.clone();
        if request.cache == CacheUse::ReadWrite && request.flags.keys().any(|flag| flag.starts_with("xla_dump")) {
            // Whoever asks for dumps wants the compiler to run, not its earlier answer.
            request.cache = CacheUse::Refresh;
        }
        let request = &request;
        let finish = |entry: Arc<CacheEntry>, key, origin, warnings, miss| {
            let optimized = OnceLock::new();
            Ok(Compilation { entry, key, origin, warnings, miss, wall: started.elapsed(), optimized })
        };
        // The same bytes with the same wishes: the program need not even be read.
        let alias = KeyParts::alias(given.bytes(), &self.parts(crate::cache::ProgramParts::default(), request, None));
        let mut looked_up = None;
        if request.cache == CacheUse::ReadWrite
            && let Some(key) = self.cache.alias(&alias)
        {
            match self.cache.get(&key) {
                Lookup::Hit(entry) => return finish(entry, key, Origin::Cached, warnings, None),
                Lookup::Miss(warning) => warnings.extend(warning),
            }
            looked_up = Some(key);
        }

        let program = match given {
            Given::Read(program) => Cow::Borrowed(program),
            Given::Bytes(bytes) => {
                progress("reading the program");
                Cow::Owned(Program::read(bytes.to_vec())?)
            }
        };
        let lowered = with_kernels(&program, request.slice.generation(), &mut warnings)?;
        let program = lowered.as_ref().unwrap_or(&program);
        let assignment = self.assign(program, request)?;
        let unsupported = hlo::unsupported_by_tpu(
            program.verified(),
            hlo::Processes { partitions: assignment.partitions, replicas: assignment.replicas },
        );
        if !unsupported.is_empty() {
            return Err(CompileError::Unsupported(unsupported));
        }
        let parts = self.parts(program.parts(), request, Some((program, &assignment)));
        let key = parts.key();

        let mut miss = None;
        let mut _right_to_compile: Option<Lock> = None;
        if request.cache == CacheUse::ReadWrite {
            // A look-up under the same key was counted above and has missed.
            let lookup = if looked_up == Some(key) { Lookup::Miss(None) } else { self.cache.get(&key) };
            match lookup {
                Lookup::Hit(entry) => {
                    self.cache.set_alias(&alias, &key);
                    return finish(entry, key, Origin::Cached, warnings, None);
                }
                Lookup::Miss(warning) => warnings.extend(warning),
            }
            miss = self.cache.explain_miss(&parts);
            match self.wait_for_turn(&key, stop, progress)? {
                Turn::Mine(lock) => _right_to_compile = lock,
                Turn::Done(entry) => return finish(entry, key, Origin::Cached, warnings, None),
            }
        }

        let (entry, optimized) = self.run(program, request, &assignment, parts, stop, progress)?;
        let entry = Arc::new(entry);
        let finish = |entry, key, origin, warnings, miss| {
            let optimized = optimized.map_or_else(OnceLock::new, |optimized| OnceLock::from(Arc::new(optimized)));
            Ok(Compilation { entry, key, origin, warnings, miss, wall: started.elapsed(), optimized })
        };
        if request.cache == CacheUse::Off {
            return finish(entry, key, Origin::Unkept, warnings, None);
        }
        let refused = self.cache.put(Arc::clone(&entry));
        let origin = if refused.is_some() { Origin::Unkept } else { Origin::Kept };
        warnings.extend(refused);
        self.cache.set_alias(&alias, &key);
        finish(entry, key, origin, warnings, miss)
    }

    fn assign(&self, program: &Program, request: &CompileRequest) -> Result<Assignment, CompileError> {
        let replicas = request.replicas.or(program.replicas()).unwrap_or(1);
        let partitions = request.partitions.or(program.partitions()).unwrap_or(1);
        devices::assign(&request.slice, replicas, partitions, request.device_ids.as_deref())
    }

    /// What the result depends on. Without a program, the wishes as they were given.
    fn parts(
        &self,
        program: crate::cache::ProgramParts,
        request: &CompileRequest,
        resolved: Option<(&Program, &Assignment)>,
    ) -> KeyParts {
        let topology = request.slice.topology_request();
        let bounds = |b: [i64; 3]| format!("{}x{}x{}", b[0], b[1], b[2]);
        let mut target = format!(
            "{} wrap={} hosts={} config={}",
            topology.name,
            bounds(topology.wrap),
            bounds(topology.chips_per_host_bounds),
            topology.chip_config_name
        );
        if topology.num_slices > 1 {
            target.push_str(&format!(" slices={}", topology.num_slices));
        }
        let mut options = BTreeMap::new();
        let mut set = |name: &str, value: String| drop(options.insert(name.to_string(), value));
        set("mode", format!("{:?}", request.mode).to_lowercase());
        let ids = match resolved {
            Some((program, assignment)) => {
                set("replicas", assignment.replicas.to_string());
                set("partitions", assignment.partitions.to_string());
                set("partitioner", partitioner_name(program, request.partitioner).to_string());
                assignment.device_ids.as_ref()
            }
            None => {
                // With the program at hand, the kernels are in it.
                set("kernels", kernel::VERSION.to_string());
                set("replicas", format!("{:?}", request.replicas));
                set("partitions", format!("{:?}", request.partitions));
                set("partitioner", format!("{:?}", request.partitioner));
                request.device_ids.as_ref()
            }
        };
        if let Some(ids) = ids {
            set(
                "devices",
                CacheKey::digest(
                    ids.iter().map(|id| id.to_le_bytes()).collect::<Vec<_>>().iter().map(|b| b.as_slice()),
                )
                .to_string(),
            );
        }
        if let Some(effort) = request.optimization_level {
            set("optimization_level", format!("{effort:?}"));
        }
        if let Some(effort) = request.memory_fitting_level {
            set("memory_fitting_level", format!("{effort:?}"));
        }
        // What the compiler's process inherits, and what it is given: the latter wins.
        let given = self.launch.env.iter().map(|(name, value)| (name.clone(), value.clone()));
        let environment = compiler_environment(this_process().chain(given));
        let (plugin, flags) = (self.plugin.parts.clone(), request.flags.clone());
        KeyParts { program, target, plugin, options, flags, environment }
    }

    /// Waits while another process compiles the same key, and takes its result.
    fn wait_for_turn(
        &self,
        key: &CacheKey,
        stop: &AtomicBool,
        progress: &mut dyn FnMut(&str),
    ) -> Result<Turn, CompileError> {
        let started = Instant::now();
        let mut said = false;
        loop {
            match self.cache.try_lock(key) {
                None => return Ok(Turn::Mine(None)),
                Some(LockAttempt::Held(lock)) => {
                    return Ok(match self.cache.recheck(key) {
                        Some(entry) => Turn::Done(entry),
                        None => Turn::Mine(Some(lock)),
                    });
                }
                Some(LockAttempt::Busy) => {}
            }
            if !said {
                progress("waiting for another process that compiles the same program");
                said = true;
            }
            if stop.load(Ordering::Relaxed) {
                return Err(CompileError::Interrupted);
            }
            if started.elapsed() > self.limits.time {
                return Err(CompileError::Timeout(self.limits.time));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn run(
        &self,
        program: &Program,
        request: &CompileRequest,
        assignment: &Assignment,
        parts: KeyParts,
        stop: &AtomicBool,
        progress: &mut dyn FnMut(&str),
    ) -> Result<(CacheEntry, Option<OptimizedProgram>), CompileError> {
        let topology = request.slice.topology_request();
        let (free_arguments, free_results) = program.unsharded();
        let level = |effort: Option<Effort>| effort.map(|e| e as u8);
        let message = Request::Compile(Box::new(worker::Compile {
            plugin: self.plugin.path.clone(),
            mode: request.mode,
            topology_name: topology.name.clone(),
            chip_config_name: topology.chip_config_name.to_string(),
            chips_per_host_bounds: topology.chips_per_host_bounds,
            wrap: topology.wrap,
            num_slices: topology.num_slices,
            replicas: assignment.replicas,
            partitions: assignment.partitions,
            device_ids: assignment.device_ids.clone(),
            shardy: partitioner_name(program, request.partitioner) == "shardy",
            free_arguments,
            free_results,
            optimization_level: level(request.optimization_level),
            memory_fitting_level: level(request.memory_fitting_level),
            flags: request.flags.clone(),
            data_limit_bytes: self.limits.memory_bytes.map(|bytes| bytes + BACKSTOP_SLACK_BYTES),
        }));
        let mut launch = self.launch.clone();
        for (name, value) in pjrt::libtpu_environment() {
            launch.env.entry(name.to_string()).or_insert(value);
        }
        let output = worker::run(&launch, &self.limits, &message, Some(program.bytes()), stop, progress)?;
        let compiled = match output.answer {
            Answer::Compiled(compiled) => compiled,
            Answer::Failed(failure) => return Err(refusal::classify(failure)),
            Answer::Probed(_) => return Err(CompileError::Protocol("a probe's answer to a compilation".into())),
        };
        progress("reading the result");
        let mut report = Report {
            version: REPORT_VERSION,
            module: parts.program.name.clone(),
            slice: request.slice.to_string(),
            topology: parts.target.clone(),
            devices: compiled.devices,
            replicas: u64::from(assignment.replicas),
            partitions: u64::from(assignment.partitions),
            mode: request.mode,
            plugin: self.plugin.parts.to_string(),
            ..Report::default()
        };
        let optimized = crate::measure::fill(&mut report, &compiled, &output.blobs);
        // A budget given as a flag is the one the compiler checked against.
        let budget_mib = request.flags.get(crate::flags::HBM_LIMIT_MIB).and_then(|text| text.parse::<u64>().ok());
        if let Some(mib) = budget_mib.filter(|mib| *mib > 0) {
            report.memory.limit = mib.saturating_mul(1 << 20);
        }
        let entry = CacheEntry {
            parts,
            compile_seconds: report.compile_seconds,
            report,
            created_unix: now_unix(),
            blobs: output.blobs,
        };
        Ok((entry, optimized))
    }
}

/// A program as it is given.
#[derive(Clone, Copy)]
enum Given<'a> {
    /// Not read yet.
    Bytes(&'a [u8]),
    /// Read and verified: nothing here does so again.
    Read(&'a Program),
}

impl<'a> Given<'a> {
    fn bytes(self) -> &'a [u8] {
        match self {
            Given::Bytes(bytes) => bytes,
            Given::Read(program) => program.bytes(),
        }
    }
}

enum Turn {
    Mine(Option<Lock>),
    Done(Arc<CacheEntry>),
}

fn partitioner_name(program: &Program, wish: Partitioner) -> &'static str {
    match wish {
        Partitioner::Shardy => "shardy",
        Partitioner::Gspmd => "gspmd",
        Partitioner::Auto if program.uses_shardy() => "shardy",
        Partitioner::Auto => "gspmd",
    }
}

/// Asks a plugin what it is, in a process of its own.
pub fn probe(
    plugin: &std::path::Path,
    devices: Devices,
    launch: &WorkerCommand,
    limits: &WorkerLimits,
    stop: &AtomicBool,
) -> Result<worker::PluginProbe, CompileError> {
    let request = Request::Probe { plugin: plugin.to_path_buf(), devices: devices == Devices::Ask };
    let output = worker::run(launch, limits, &request, None, stop, &mut |_| {})?;
    match output.answer {
        Answer::Probed(probe) => Ok(probe),
        Answer::Failed(failure) => Err(refusal::classify(failure)),
        Answer::Compiled(_) => Err(CompileError::Protocol("a compilation's answer to a probe".into())),
    }
}

/// Whether a probe asks the plugin for its devices, which may take hold of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Devices {
    /// Ask.
    Ask,
    /// Leave them alone.
    Leave,
}
