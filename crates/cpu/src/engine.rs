//! A program made ready to run: read, verified, and everything a caller may ask about it known.

mod optimized;
mod parts;
mod shardings;

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use hlo::{ElementType, Func, Module, OpKind, PropagatedShardings, Type, Verified};
use tensor::{DType, Literal};

use crate::error::Error;
use crate::interpret::{GridSize, Interpreter, InterpreterOptions, InterpreterValue, TensorValue, run_each};
use crate::kernels::Cores;
use crate::kernels::isa::CpuIsa;
use crate::kernels::machine::Machine;
use crate::kernels::pool::Pool;
use crate::lower::{self, Donation, Folding, Manual};
use crate::memory::{Arena, Array, byte_count, device_bytes};
use crate::program::describe::program_id;
use crate::program::{ProfiledStep, Program, RecordedBy};
use crate::recorder::{MAX_EVENTS, ProgramDescription, Recording, RunRecorder, Site, StepDescription};
use crate::sharding::Sharding;

/// The CPU as programs use it: its instruction sets, threads and memory. Programs that run at the same time share it.
#[derive(Debug)]
pub struct Cpu {
    cores: Cores,
    memory: Arc<Arena>,
}

impl Cpu {
    /// The CPU with this many threads; `None` for as many as the process may use.
    pub fn new(threads: Option<usize>) -> Arc<Cpu> {
        Cpu::of(Machine::detect(), threads)
    }

    /// The same with no instruction set beyond a tier's; `None` for all there are.
    ///
    /// # Errors
    /// The CPU does not have the tier.
    pub fn with_isa(threads: Option<usize>, isa: Option<CpuIsa>) -> Result<Arc<Cpu>, Error> {
        let machine = isa.map_or_else(|| Ok(Machine::detect()), CpuIsa::machine)?;
        Ok(Cpu::of(machine, threads))
    }

    /// The tier of instruction sets it uses.
    pub fn isa(&self) -> CpuIsa {
        self.cores.machine.tier()
    }

    fn of(machine: Machine, threads: Option<usize>) -> Arc<Cpu> {
        let available = || std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let threads = threads.unwrap_or_else(available).max(1);
        let pool = Pool::new(threads);
        let machine = machine.with_threads(pool.threads());
        Arc::new(Cpu { cores: Cores { machine, pool }, memory: Arena::new() })
    }

    /// Where arrays come from.
    pub fn memory(&self) -> &Arc<Arena> {
        &self.memory
    }
}

/// How a program runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ExecutionMode {
    /// Compiled where it can be: programs with sizes known only at run time are interpreted.
    #[default]
    Compiled,
    /// Op by op, exactly: the reference.
    Interpreted,
}

/// How a program is to be compiled.
#[derive(Clone, Copy, Debug)]
pub struct EngineOptions<'o> {
    /// Devices it runs on.
    pub spread: Spread,
    /// Whether it is compiled at all.
    pub mode: ExecutionMode,
    /// What is done once for all runs.
    pub folding: Folding,
    /// The function that runs; `None` for `main`, or the only one there is.
    pub entry: Option<&'o str>,
    /// Whose shardings may be chosen where the program does not write them.
    pub free: FreeShardings<'o>,
    /// Who computes what of a program for several partitions.
    pub partitions: PartitionRuns,
}

/// Who computes what of a program for several partitions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PartitionRuns {
    /// One run computes for all of them what is written for all of them: they share one machine. Programs that take or return
    /// partial values are run apart.
    #[default]
    Together,
    /// Each runs its own program on its parts and exchanges what it needs of others, as devices of their own would. A program
    /// that cannot be rewritten so is run together.
    Apart,
}

/// Which arguments and results get the shardings that are propagated to them where the program writes none; the others are
/// replicated. One entry stands for all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FreeShardings<'o> {
    /// Of arguments; empty for none.
    pub arguments: &'o [bool],
    /// Of results; empty for all.
    pub results: &'o [bool],
}

impl FreeShardings<'_> {
    fn is_free(list: &[bool], n: usize, unless_written: bool) -> bool {
        match list {
            [] => unless_written,
            [all] => *all,
            list => list.get(n).copied().unwrap_or(false),
        }
    }
}

impl Default for EngineOptions<'_> {
    fn default() -> Self {
        EngineOptions {
            spread: Spread::ONE,
            mode: ExecutionMode::default(),
            folding: Folding::default(),
            entry: None,
            free: FreeShardings::default(),
            partitions: PartitionRuns::default(),
        }
    }
}

/// How a program is spread over devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spread {
    /// Copies that run on different data.
    pub num_replicas: usize,
    /// Devices among which one copy is split.
    pub num_partitions: usize,
}

impl Spread {
    /// One device.
    pub const ONE: Spread = Spread { num_replicas: 1, num_partitions: 1 };

    /// Number of devices.
    pub fn num_devices(self) -> usize {
        self.num_replicas.saturating_mul(self.num_partitions)
    }
}

/// Type of an argument or result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PortType {
    /// An array; a dynamic dimension is `None`.
    Array(DType, Vec<Option<usize>>),
    /// A token: no data. It crosses the edge as an array of no booleans.
    Token,
}

impl PortType {
    fn of(ty: &Type) -> Result<PortType, Error> {
        match ty {
            Type::Tensor(ty) => {
                let ElementType::Plain(dtype) = ty.element else {
                    return Err(Error::Unsupported {
                        what: format!("an argument or result of type {}", Type::Tensor(ty.clone())),
                    });
                };
                Ok(PortType::Array(dtype, ty.dims.iter().map(|&d| usize::try_from(d).ok()).collect()))
            }
            Type::Token => Ok(PortType::Token),
            other => Err(Error::Unsupported { what: format!("an argument or result of type {other}") }),
        }
    }

    /// Whether a value is of this type.
    fn holds(&self, literal: &Literal) -> bool {
        match self {
            PortType::Array(dtype, dims) => {
                let sizes = literal.dims().iter().map(|&size| Some(size));
                let fits = sizes.zip(dims).all(|(size, want)| want.is_none() || *want == size);
                literal.dtype() == *dtype && literal.dims().len() == dims.len() && fits
            }
            PortType::Token => literal.bytes().is_empty(),
        }
    }

    /// Number of dimensions.
    pub fn rank(&self) -> usize {
        match self {
            PortType::Array(_, dims) => dims.len(),
            PortType::Token => 0,
        }
    }

    /// Bytes on the device; `None` where a size is dynamic or too large.
    pub fn bytes(&self) -> Option<usize> {
        match self {
            PortType::Array(dtype, dims) => device_bytes(*dtype, &dims.iter().copied().collect::<Option<Vec<_>>>()?),
            PortType::Token => Some(0),
        }
    }

    /// Bytes on the host, each element in bytes of its own; `None` where a size is dynamic or too large.
    pub(crate) fn host_bytes(&self) -> Option<usize> {
        match self {
            PortType::Array(dtype, dims) => byte_count(*dtype, &dims.iter().copied().collect::<Option<Vec<_>>>()?),
            PortType::Token => Some(0),
        }
    }

    fn tile(&self, sharding: &Sharding) -> Result<PortType, Error> {
        let PortType::Array(dtype, dims) = self else { return Ok(PortType::Token) };
        if sharding.is_replicated() {
            return Ok(self.clone());
        }
        let whole: Option<Vec<usize>> = dims.iter().copied().collect();
        let tile = whole.and_then(|dims| sharding.tile_dims(&dims));
        let tile =
            tile.ok_or_else(|| Error::Unsupported { what: format!("{self:?} split into {:?} tiles", sharding.tiles) })?;
        Ok(PortType::Array(*dtype, tile.into_iter().map(Some).collect()))
    }
}

/// A program ready to run.
#[derive(Clone, Debug)]
pub struct Compiled {
    cpu: Arc<Cpu>,
    /// Why not, where the interpreter runs the module.
    program: Result<Arc<Program>, String>,
    /// Whether one run of the program starts the partitions of its manual parts.
    starts_partitions: bool,
    module: Verified,
    entry: String,
    name: String,
    spread: Spread,
    /// As the whole program has them.
    whole_arguments: Vec<PortType>,
    /// As one device has them.
    arguments: Vec<PortType>,
    results: Vec<PortType>,
    /// As the whole program has them.
    whole_results: Vec<PortType>,
    argument_shardings: Vec<Sharding>,
    result_shardings: Vec<Sharding>,
    /// The same in terms of meshes.
    edges: Option<PropagatedShardings>,
    /// The program of one partition, where it can be written.
    one_partition: OnceLock<Option<Verified>>,
    donated: Vec<Donation>,
    partitioning: Partitioning,
    /// What a profile says of it where it is interpreted.
    interpreted: OnceLock<Arc<ProgramDescription>>,
}

/// What the partitions of a program do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Partitioning {
    /// One run of the whole program; arguments are joined before and results split after it.
    Whole,
    /// The program has parts written for one device: each partition runs the whole program, and those parts on tiles.
    WholeWithManualParts,
    /// The program is written for one device and nothing says how its arguments are split.
    PerDevice,
    /// Each partition runs the program that it was rewritten to for one of them, on its parts.
    Apart,
}

impl Partitioning {
    fn of(module: &hlo::Module, func: &Func) -> Partitioning {
        let has = |wanted: &dyn Fn(OpKind) -> bool| {
            module.funcs.iter().any(|func| func.ops.iter().any(|op| op.kind().is_some_and(wanted)))
        };
        let is_written =
            |attrs: &hlo::Attrs| attrs.get("sdy.sharding").is_some() || attrs.get("mhlo.sharding").is_some();
        let annotated = func.input_attrs.iter().chain(&func.output_attrs).any(is_written);
        if has(&|kind| kind == OpKind::SdyManualComputation) {
            Partitioning::WholeWithManualParts
        } else if !annotated && has(&is_per_device) {
            Partitioning::PerDevice
        } else {
            Partitioning::Whole
        }
    }
}

/// Whether an op shows that a program is written for one device of several. Collectives of Shardy stand in programs for all
/// devices; the two oldest ones sum over replicas, which are programs of their own.
fn is_per_device(kind: OpKind) -> bool {
    let is_old = matches!(kind, OpKind::CollectiveReduce | OpKind::CrossReplicaSum);
    kind == OpKind::PartitionId || kind.is_collective() && kind.is_stablehlo() && !is_old
}

impl Compiled {
    /// Reads, verifies and compiles a program, text or bytecode.
    pub fn compile(cpu: &Arc<Cpu>, program: &[u8], options: &EngineOptions<'_>) -> Result<Compiled, Error> {
        let invalid = |e: hlo::Error| Error::Program { op: "program".into(), message: e.to_string() };
        let module = hlo::verify(hlo::read(program).map_err(invalid)?).map_err(invalid)?;
        Compiled::from_module(cpu, module, options)
    }

    /// Compiles a verified program.
    pub fn from_module(cpu: &Arc<Cpu>, module: Verified, options: &EngineOptions<'_>) -> Result<Compiled, Error> {
        let spread = options.spread;
        let module = match spread.num_partitions {
            2.. if hlo::gspmd::has_local_parts(&module) => {
                hlo::gspmd::with_manual_computations(&module, spread.num_partitions as u64)
                    .map_err(|what| Error::Unsupported { what })?
            }
            _ => module,
        };
        let module = lower::name_composites(module)?;
        let func = match options.entry {
            Some(name) => module.func(name),
            None => module.entry(),
        };
        let func = func.ok_or_else(|| {
            let name = options.entry.unwrap_or("main");
            Error::Program { op: "program".into(), message: format!("there is no @{name}") }
        })?;
        if spread.num_devices() == 0 {
            return Err(Error::Arguments("a program needs a device".into()));
        }
        let ports = |types: &[Type]| types.iter().map(PortType::of).collect::<Result<Vec<_>, _>>();
        let (arguments, results) = (ports(&func.inputs)?, ports(&func.outputs)?);
        let partitioning = Partitioning::of(&module, func);
        let ports = match spread.num_partitions {
            1 => shardings::replicated(&arguments, &results, 1),
            count if partitioning == Partitioning::PerDevice => shardings::replicated(&arguments, &results, count),
            count => shardings::of(&module, func, (&arguments, &results), count, options.free)?,
        };
        let tiles = |ports: &[PortType], shardings: &[Sharding]| {
            ports.iter().zip(shardings).map(|(port, sharding)| port.tile(sharding)).collect::<Result<Vec<_>, _>>()
        };
        let (argument_shardings, result_shardings, edges) = (ports.arguments, ports.results, ports.edges);
        let donated = donations(func);
        let is_partial = argument_shardings.iter().chain(&result_shardings).any(|sharding| sharding.summands > 1);
        let apart = match (is_partial || options.partitions == PartitionRuns::Apart, &edges) {
            (true, Some(edges)) if options.mode == ExecutionMode::Compiled && spread.num_replicas == 1 => {
                compile_apart(cpu, &module, func, edges, (spread.num_partitions, options.folding))
            }
            _ => None,
        };
        let partitioning = if apart.is_some() { Partitioning::Apart } else { partitioning };
        let program = match options.mode {
            _ if apart.is_some() => apart.ok_or_else(String::new),
            ExecutionMode::Compiled => {
                let manual = match partitioning {
                    Partitioning::WholeWithManualParts if spread.num_replicas == 1 && spread.num_partitions > 1 => {
                        Manual::Started { partitions: spread.num_partitions }
                    }
                    _ => Manual::InEveryProcess,
                };
                compile_program(cpu, &module, &func.name, &donated, (options.folding, manual))?
            }
            ExecutionMode::Interpreted => Err("the caller asked for it".into()),
        };
        let starts_partitions = program.as_ref().is_ok_and(|(_, manual)| *manual != Manual::InEveryProcess);
        Ok(Compiled {
            cpu: cpu.clone(),
            program: program.map(|(program, _)| Arc::new(program)),
            starts_partitions,
            entry: func.name.to_string(),
            name: module.name.as_deref().unwrap_or("main").to_string(),
            spread,
            arguments: tiles(&arguments, &argument_shardings)?,
            results: tiles(&results, &result_shardings)?,
            donated,
            partitioning,
            whole_arguments: arguments,
            whole_results: results,
            argument_shardings,
            result_shardings,
            edges,
            one_partition: OnceLock::new(),
            module,
            interpreted: OnceLock::new(),
        })
    }

    /// The module's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The verified program, with ops for the composites that are named after them.
    pub fn module(&self) -> &Verified {
        &self.module
    }

    /// Replicas and partitions.
    pub fn spread(&self) -> Spread {
        self.spread
    }

    /// Arguments as one device has them.
    pub fn arguments(&self) -> &[PortType] {
        &self.arguments
    }

    /// Results as one device has them.
    pub fn results(&self) -> &[PortType] {
        &self.results
    }

    /// How arguments are spread over partitions.
    pub fn argument_shardings(&self) -> &[Sharding] {
        &self.argument_shardings
    }

    /// How results are spread over partitions.
    pub fn result_shardings(&self) -> &[Sharding] {
        &self.result_shardings
    }

    /// Which arguments the program takes over.
    pub fn donated(&self) -> &[Donation] {
        &self.donated
    }

    /// Floating-point operations of one run, as far as the types tell: contractions count two for each product, other
    /// ops one for each element of their results. Loop bodies count once.
    pub fn flops(&self) -> f64 {
        let op_flops = |func: &Func, op: &hlo::Op| -> f64 {
            let elements = |ty: &Type| match ty {
                Type::Tensor(ty) => ty.num_elements().map_or(0.0, |n| n as f64),
                _ => 0.0,
            };
            let results: f64 = op.results().map(|r| elements(func.ty(r))).sum();
            match op.kind() {
                Some(OpKind::DotGeneral | OpKind::Dot) => {
                    let (lhs, rhs) = (elements(func.ty(op.operands[0])), elements(func.ty(op.operands[1])));
                    // m·k · k·n = m·n · k², for each batch.
                    if results > 0.0 { 2.0 * (lhs * rhs * results).sqrt() } else { 0.0 }
                }
                Some(
                    OpKind::Constant
                    | OpKind::Reshape
                    | OpKind::BroadcastInDim
                    | OpKind::Transpose
                    | OpKind::Return
                    | OpKind::FuncReturn,
                ) => 0.0,
                _ => results,
            }
        };
        self.module.funcs.iter().flat_map(|func| func.ops.iter().map(move |op| op_flops(func, op))).sum()
    }

    /// Bytes of working memory that a run takes beside arguments and results; `None` where only the run tells.
    pub fn temporary_bytes(&self) -> Option<usize> {
        self.program.as_ref().ok().map(|program| program.arena_bytes)
    }

    /// Why the interpreter runs the program; `None` where it is compiled.
    pub fn why_interpreted(&self) -> Option<&str> {
        self.program.as_ref().err().map(String::as_str)
    }

    /// Whether a run is a straight line of kernels on one device, which any thread has the stack for.
    pub(crate) fn is_flat(&self) -> bool {
        self.spread == Spread::ONE && self.program.as_ref().is_ok_and(|program| program.is_flat())
    }

    /// Whether each partition runs a program of its own on its parts.
    pub fn runs_apart(&self) -> bool {
        self.partitioning == Partitioning::Apart
    }

    /// The steps of the compiled program, one line each; nothing for one that is interpreted.
    pub fn dump(&self) -> String {
        self.program.as_ref().map_or_else(|_| String::new(), |program| program.dump())
    }

    /// What each step takes in one run on one device, in no order; nothing for a program that is interpreted.
    pub fn profile(&self, arguments: Vec<Array>, options: &InterpreterOptions) -> Result<Vec<ProfiledStep>, Error> {
        let Ok(program) = &self.program else { return Ok(Vec::new()) };
        let recording = Recording::new(MAX_EVENTS);
        let recorded_by = RecordedBy::Recording(&recording);
        program.run(arguments, &self.cpu.cores, &self.cpu.memory, options, None, recorded_by)?;
        Ok(program.profiled(&recording.take()))
    }

    /// Runs on one device with every array of the program in memory of its own, fenced by pages that nobody may touch, and
    /// every kernel twice on memory that held something else: an error says what a step touches beyond what it declares.
    /// `None` for a program that is interpreted. For tests: it is slow.
    #[cfg(unix)]
    #[doc(hidden)]
    pub fn run_guarded(
        &self,
        arguments: Vec<Array>,
        options: &InterpreterOptions,
    ) -> Result<Option<Vec<Literal>>, Error> {
        let Ok(program) = &self.program else { return Ok(None) };
        program.run_guarded(&arguments, &self.cpu.cores, options).map(Some)
    }

    /// Which part of an argument a device has, by `[replica][partition]`: a number that devices with the same part share.
    pub(crate) fn part_of(&self, argument: usize, device: usize) -> usize {
        let partitions = self.spread.num_partitions;
        let sharding = match self.argument_shardings.get(argument) {
            Some(sharding) if partitions > 1 && self.partitioning != Partitioning::PerDevice => sharding,
            _ => return device,
        };
        let (replica, partition) = (device / partitions, device % partitions);
        let place = sharding.partitions.iter().position(|&holder| holder == partition).unwrap_or(0);
        replica * sharding.num_tiles() * sharding.summands + place / sharding.copies().max(1)
    }

    /// One device's part of an argument from its bytes.
    pub(crate) fn argument_from_bytes(&self, argument: usize, bytes: &[u8]) -> Result<Array, Error> {
        let unknown = || Error::Internal("an argument without a static size".into());
        let (dtype, dims) = match self.arguments.get(argument).ok_or_else(unknown)? {
            PortType::Array(dtype, dims) => {
                (*dtype, dims.iter().copied().collect::<Option<Vec<_>>>().ok_or_else(unknown)?)
            }
            PortType::Token => (tensor::DType::Bool, vec![0]),
        };
        Array::from_bytes(&self.cpu.memory, dtype, dims, bytes)
    }

    /// Runs on every device: `arguments` are lists by `[replica][partition]`, flat, and so are the results. Memory of a
    /// donated argument that the caller no longer holds may become that of a result.
    pub fn run(&self, arguments: Vec<Vec<Array>>, options: &InterpreterOptions) -> Result<Vec<Vec<Array>>, Error> {
        let sites: Vec<Site> = (0..arguments.len()).map(|n| Site { device: Some(n as u32), launch: 0 }).collect();
        self.run_at(arguments, options, &sites)
    }

    /// The same, with the place of each device for whoever records it.
    pub(crate) fn run_at(
        &self,
        arguments: Vec<Vec<Array>>,
        options: &InterpreterOptions,
        sites: &[Site],
    ) -> Result<Vec<Vec<Array>>, Error> {
        if arguments.len() != self.spread.num_devices() {
            return Err(Error::Arguments(format!(
                "arguments for {} devices, not {}",
                arguments.len(),
                self.spread.num_devices()
            )));
        }
        if let Some(list) = arguments.iter().find(|list| list.len() != self.whole_arguments.len()) {
            let expected = self.whole_arguments.len();
            return Err(Error::Arguments(format!("{} arguments, but the program takes {expected}", list.len())));
        }
        let partitions = self.spread.num_partitions;
        if matches!(self.partitioning, Partitioning::PerDevice | Partitioning::Apart) {
            return self.run_grid(arguments, partitions, options, sites);
        }
        let grid = if partitions == 1 { arguments } else { self.join(arguments)? };
        let results = self.run_replicas(grid, options, sites)?;
        if partitions == 1 {
            return Ok(results);
        }
        let mut out = Vec::with_capacity(results.len() * partitions);
        for list in results {
            let mut lists = vec![Vec::with_capacity(list.len()); partitions];
            for (array, sharding) in list.into_iter().zip(&self.result_shardings) {
                let parts = parts::split(&self.cpu.memory, array, sharding)?;
                lists.iter_mut().zip(parts).for_each(|(list, part)| list.push(part));
            }
            out.extend(lists);
        }
        Ok(out)
    }

    /// Whole arguments of each replica, from the parts its partitions have.
    fn join(&self, arguments: Vec<Vec<Array>>) -> Result<Vec<Vec<Array>>, Error> {
        let mut lists: Vec<_> = arguments.into_iter().map(Vec::into_iter).collect();
        let mut grid = Vec::with_capacity(self.spread.num_replicas);
        for replica in lists.chunks_mut(self.spread.num_partitions) {
            let join = |sharding: &Sharding| {
                let held: Vec<Array> = replica.iter_mut().filter_map(Iterator::next).collect();
                parts::join(&self.cpu.memory, held, sharding)
            };
            grid.push(self.argument_shardings.iter().map(join).collect::<Result<Vec<_>, Error>>()?);
        }
        Ok(grid)
    }

    fn run_replicas(
        &self,
        grid: Vec<Vec<Array>>,
        options: &InterpreterOptions,
        sites: &[Site],
    ) -> Result<Vec<Vec<Array>>, Error> {
        if self.partitioning != Partitioning::WholeWithManualParts || self.starts_partitions {
            return self.run_grid(grid, 1, options, sites);
        }
        // Outside manual parts every partition computes the same: the first one's results stand for all.
        let partitions = self.spread.num_partitions;
        let grid = grid.into_iter().flat_map(|arguments| vec![arguments; partitions]).collect();
        Ok(self.run_grid(grid, partitions, options, sites)?.into_iter().step_by(partitions).collect())
    }

    fn run_grid(
        &self,
        grid: Vec<Vec<Array>>,
        partitions: usize,
        options: &InterpreterOptions,
        sites: &[Site],
    ) -> Result<Vec<Vec<Array>>, Error> {
        let size = GridSize { replicas: grid.len() / partitions, partitions };
        // A run may stand for several devices: it is at the first of them that this process has.
        let devices = sites.len() / grid.len().max(1);
        let site = |run: usize| {
            let own = sites.iter().skip(run * devices).take(devices).find(|site| site.device.is_some());
            own.copied().unwrap_or_default()
        };
        let Ok(program) = &self.program else {
            let describe = || self.describe_interpreted();
            let mut recorder = RunRecorder::new(&describe, site(0));
            let start = recorder.is_on().then(Instant::now);
            let results = self.interpret(grid, size, options)?;
            if let Some(start) = start {
                recorder.step(0, start, Instant::now());
            }
            return Ok(results);
        };
        let Cpu { cores, memory } = &*self.cpu;
        if grid.len() == 1 {
            return grid
                .into_iter()
                .map(|arguments| program.run(arguments, cores, memory, options, None, RecordedBy::Session(site(0))))
                .collect();
        }
        run_each(size, grid, Vec::new(), |process, arguments| {
            let recorded_by = RecordedBy::Session(site(process.id));
            program.run(arguments, cores, memory, options, Some(process), recorded_by)
        })
    }

    /// What a profile says of a program that is interpreted: one step.
    fn describe_interpreted(&self) -> Arc<ProgramDescription> {
        let describe = || {
            let kernel = format!("interpreter ({})", self.why_interpreted().unwrap_or_default());
            let name = "interpreted.0".to_string();
            let step = StepDescription { name, kernel, category: "custom-call".into(), ..StepDescription::default() };
            Arc::new(ProgramDescription { name: self.name.clone(), id: program_id(), steps: vec![step] })
        };
        self.interpreted.get_or_init(describe).clone()
    }

    fn interpret(
        &self,
        grid: Vec<Vec<Array>>,
        size: GridSize,
        options: &InterpreterOptions,
    ) -> Result<Vec<Vec<Array>>, Error> {
        let values = |list: Vec<Array>| {
            self.whole_arguments.iter().zip(&list).map(|(port, array)| to_value(port, &array.to_literal())).collect()
        };
        let mut grid: Vec<Vec<InterpreterValue>> = grid.into_iter().map(values).collect();
        let interpreter = Interpreter::new(&self.module, options.clone());
        let results = match (grid.len(), grid.pop()) {
            (1, Some(arguments)) => vec![interpreter.run(&self.entry, arguments)?],
            (_, last) => {
                grid.extend(last);
                interpreter.run_grid(size, &self.entry, grid)?
            }
        };
        let array = |(value, port): (&InterpreterValue, &PortType)| {
            let literal = to_literal(value)?;
            if !port.holds(&literal) {
                let message = format!("a result is {} {:?}, not {port:?}", literal.dtype(), literal.dims());
                return Err(Error::Program { op: "return".into(), message });
            }
            Array::from_literal(&self.cpu.memory, &literal)
        };
        let arrays = |list: &Vec<InterpreterValue>| {
            if list.len() != self.whole_results.len() {
                let message = format!("{} results, not {}", list.len(), self.whole_results.len());
                return Err(Error::Program { op: "return".into(), message });
            }
            list.iter().zip(&self.whole_results).map(array).collect()
        };
        results.iter().map(arrays).collect()
    }
}

/// The program rewritten for one partition; `None` where it cannot be.
fn for_one_of(module: &Verified, entry: &str, edges: &PropagatedShardings, num_partitions: usize) -> Option<Verified> {
    // A program that makes the partitioner stop is run as it is.
    catch_unwind(AssertUnwindSafe(|| hlo::partition(module, entry, edges, num_partitions))).ok()?.ok()
}

/// The program that each partition runs on its parts; `None` where it cannot be written or would be interpreted.
fn compile_apart(
    cpu: &Cpu,
    module: &Verified,
    func: &Func,
    edges: &PropagatedShardings,
    (num_partitions, folding): (usize, Folding),
) -> Option<(Program, Manual)> {
    let one = for_one_of(module, &func.name, edges, num_partitions)?;
    let donated = one.func(&func.name).map(donations)?;
    compile_program(cpu, &one, &func.name, &donated, (folding, Manual::InEveryProcess)).ok()?.ok()
}

/// Simplifies and compiles; says why where the program has to be interpreted. Manual parts that cannot be programs of their
/// own are run by whole processes.
fn compile_program(
    cpu: &Cpu,
    module: &Verified,
    entry: &str,
    donated: &[Donation],
    (folding, manual): (Folding, Manual),
) -> Result<Result<(Program, Manual), String>, Error> {
    // A program that makes the compiler stop is refused: the caller goes on.
    let compiled = catch_unwind(AssertUnwindSafe(|| {
        let simplified = lower::simplify(module.clone(), folding)?;
        let simplified = match manual {
            Manual::Started { partitions } => {
                let broken = |error| Error::Internal(format!("uniting partitions broke the program: {error}"));
                let united = hlo::unite(simplified, entry, partitions, lower::KEPT_COMPOSITES).map_err(broken)?;
                lower::simplify(united, folding)?
            }
            Manual::InEveryProcess => simplified,
        };
        let module: Arc<Module> = Arc::new(simplified.into_inner());
        let compile = |manual| {
            let program = lower::compile_for(module.clone(), entry, donated, &cpu.cores.machine, &cpu.memory, manual);
            program.map(|program| (program, manual))
        };
        match compile(manual) {
            Err(Error::Unsupported { .. }) if manual != Manual::InEveryProcess => compile(Manual::InEveryProcess),
            compiled => compiled,
        }
    }));
    let stopped = |panic: Box<dyn Any + Send>| {
        let what = "the compiler stopped; report this program, and interpret it until then";
        Err(panic.downcast::<Error>().map_or_else(|_| Error::Internal(what.into()), |error| *error))
    };
    match compiled.unwrap_or_else(stopped) {
        Ok(program) => Ok(Ok(program)),
        // Sizes known only at run time, tuples, types that no kernel has: the interpreter knows or refuses them.
        Err(Error::Unsupported { what }) => Ok(Err(what)),
        Err(error) => Err(error),
    }
}

fn empty() -> Literal {
    Literal::zeros(DType::Bool, [0]).expect("no bytes always fit")
}

fn to_value(port: &PortType, literal: &Literal) -> InterpreterValue {
    match port {
        PortType::Array(..) => InterpreterValue::Tensor(TensorValue::from_literal(literal)),
        PortType::Token => InterpreterValue::Token,
    }
}

fn to_literal(value: &InterpreterValue) -> Result<Literal, Error> {
    match value {
        InterpreterValue::Tensor(tensor) => tensor.to_literal(),
        InterpreterValue::Token => Ok(empty()),
        _ => Err(Error::Internal("a tuple as a result".into())),
    }
}

fn donations(func: &Func) -> Vec<Donation> {
    let one = |n: usize| {
        let attrs = func.input_attrs.get(n);
        let alias = attrs
            .and_then(|a| a.get("tf.aliasing_output"))
            .and_then(|a| a.as_int())
            .and_then(|n| usize::try_from(n).ok());
        match alias {
            Some(output) => Donation::GivenFor(output),
            None if attrs.and_then(|a| a.get("jax.buffer_donor")).and_then(|a| a.as_bool()) == Some(true) => {
                Donation::Given
            }
            None => Donation::Kept,
        }
    };
    (0..func.inputs.len()).map(one).collect()
}
