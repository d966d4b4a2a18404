//! One question, one answer: does a program fit a slice, what fills it, how long is a step, what does it cost.

use std::sync::atomic::AtomicBool;

use chips::Slice;
use compile::{CompileError, CompileMode, CompileRequest, OutOfMemory, Program, Report, SliceCompiler};
use serde::Serialize;

use crate::advice::{Advice, advise};
use crate::batch;
use crate::compiled::{Compiled, Driver, Outcome};
use crate::cost::{BilledStep, RunCost, RunLength, Tariff, positive};
use crate::error::Error;
use crate::estimate::{Estimate, Workload, apart};
use crate::memory::{MemoryBreakdown, ProgramArgument, arguments};
use crate::pictures::Pictures;

/// What to ask.
#[derive(Clone, Debug)]
pub struct FitRequest {
    /// Slice, devices and flags. The quick mode answers in seconds; the full one adds the compiler's own cycle estimates.
    pub compile: CompileRequest,
    /// The batch of a program that leaves it open: the unknown leading sizes of its arguments.
    pub batch: Option<u64>,
    /// What a step is.
    pub workload: Workload,
    /// How long a run is.
    pub run: RunLength,
    /// Which price counts.
    pub tariff: Tariff,
    /// Whether the answer has pictures.
    pub draw: Draw,
}

/// Whether pictures are drawn, which takes a simulation and a walk through the buffers more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Draw {
    /// No; [`Fit::pictures`] is empty.
    #[default]
    Nothing,
    /// For a page.
    Pictures,
}

impl FitRequest {
    /// A quick compilation for a slice, nothing else said.
    pub fn new(slice: Slice) -> FitRequest {
        FitRequest {
            compile: CompileRequest { mode: CompileMode::Quick, ..CompileRequest::new(slice) },
            batch: None,
            workload: Workload::default(),
            run: RunLength::Unknown,
            tariff: Tariff::default(),
            draw: Draw::Nothing,
        }
    }

    /// Refuses what makes no sense before anything is compiled.
    pub(crate) fn check(&self) -> Result<(), Error> {
        if let Some(tokens) = self.workload.tokens_per_step {
            positive("tokens per step", tokens)?;
        }
        if let Some(flops) = self.workload.model_flops_per_step {
            positive("model FLOPs per step", flops)?;
        }
        self.tariff.check(&self.compile.slice)?;
        let step = BilledStep { seconds: 1.0, tokens: self.workload.tokens_per_step };
        RunCost::of(&self.compile.slice, step, self.run, &self.tariff).map(drop)
    }
}

/// Whether it fits, by the compiler's own word.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Verdict {
    /// The compiler's answer.
    pub fits: bool,
    /// The memory it is about: `HBM`, or `VMEM` if that overflowed.
    pub space: String,
    /// Bytes needed, as far as the compiler says.
    pub needed_bytes: Option<u64>,
    /// Bytes there are.
    pub limit_bytes: Option<u64>,
    /// The operation that asked for too much vector memory.
    pub operation: Option<String>,
    /// What the compiler said where it does not fit.
    pub message: Option<String>,
}

impl Verdict {
    /// With figures in place of those that the compiler's message rounds, where they agree.
    fn exact(mut self, total: u64, limit: u64) -> Verdict {
        let is_rounded = |said: Option<u64>, exact: u64| said.is_none_or(|said| said.abs_diff(exact) * 100 <= exact);
        if is_rounded(self.needed_bytes, total) && is_rounded(self.limit_bytes, limit) {
            (self.needed_bytes, self.limit_bytes) = (Some(total), Some(limit));
        }
        self
    }
}

/// The answer for one program on one slice.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Fit {
    /// Module name.
    pub module: String,
    /// Slice, in canonical form.
    pub slice: String,
    /// Devices of the slice.
    pub devices: u64,
    /// Devices each copy of the program is partitioned over.
    pub partitions: u64,
    /// Copies of the program.
    pub replicas: u64,
    /// How much of the compiler ran.
    pub mode: CompileMode,
    /// The compiler.
    pub plugin: String,
    /// Whether the compiler's answer came from the cache.
    pub cached: bool,
    /// Whether it fits.
    pub verdict: Verdict,
    /// What fills device memory.
    pub memory: Option<MemoryBreakdown>,
    /// How long a step takes; of a program that does not fit, how long it would take.
    pub estimate: Option<Estimate>,
    /// What it costs.
    pub cost: Option<RunCost>,
    /// What would make it faster, most first.
    pub advice: Vec<Advice>,
    /// What was assumed.
    pub notes: Vec<String>,
    /// What only a page shows, if it was asked for.
    #[serde(skip)]
    pub pictures: Pictures,
}

/// Asks the real compiler, and reads its answer.
///
/// `stop` ends the compilation from another thread or a signal handler. `progress` hears what is being done.
pub fn fit(
    compiler: &SliceCompiler,
    program: &[u8],
    request: &FitRequest,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(&str),
) -> Result<Fit, Error> {
    request.check()?;
    let program = read(program)?;
    let program = fixed(&program, request.batch)?.unwrap_or(program);
    let mut driver = Driver { compiler, stop, progress };
    fit_program(&mut driver, &program, request)
}

/// Reads a program that has an entry function.
pub(crate) fn read(bytes: &[u8]) -> Result<Program, Error> {
    let program = match Program::read(bytes.to_vec()) {
        Ok(program) => program,
        Err(CompileError::Program(error)) => return Err(error.into()),
        Err(error) => return Err(error.into()),
    };
    if program.module().entry().is_none() {
        return Err(Error::no_entry(program.module()));
    }
    Ok(program)
}

/// A program that leaves its batch open, made for the one that is asked for; `None` where nothing is open.
pub(crate) fn fixed(program: &Program, batch: Option<u64>) -> Result<Option<Program>, Error> {
    match (batch::is_symbolic(program), batch) {
        (false, _) => Ok(None),
        (true, None) => Err(Error::BatchUnknown),
        (true, Some(batch)) => batch::with_batch(program, batch).map(Some),
    }
}

pub(crate) fn fit_program(driver: &mut Driver<'_>, program: &Program, request: &FitRequest) -> Result<Fit, Error> {
    let arguments = arguments(program.module());
    match driver.compile(program, &request.compile)? {
        Outcome::Fits(compiled) => {
            let limit = compiled.report.memory.limit;
            let total = compiled.report.memory.total;
            let verdict = Verdict {
                // The compiler refuses what does not fit, so that it answered is its verdict, unless it was told to go on.
                fits: total <= limit || !request.compile.flags.contains_key(GO_ON_FLAG),
                space: "HBM".into(),
                needed_bytes: Some(total),
                limit_bytes: Some(limit),
                operation: None,
                message: None,
            };
            answer(program, request, &compiled, &arguments, verdict)
        }
        Outcome::TooLarge(oom) => {
            let limit = hbm_limit(&request.compile);
            let verdict = Verdict {
                fits: false,
                space: oom.space.clone(),
                needed_bytes: oom.needed_bytes,
                limit_bytes: oom.available_bytes,
                operation: refused_operation(&oom),
                message: Some(oom.message.clone()),
            };
            match past_the_limit(driver, program, request, &oom)? {
                Some((mut compiled, how)) => {
                    compiled.report.memory.limit = limit;
                    let verdict =
                        if oom.space == "HBM" { verdict.exact(compiled.report.memory.total, limit) } else { verdict };
                    let mut fit = answer(program, request, &compiled, &arguments, verdict)?;
                    fit.mode = request.compile.mode;
                    fit.notes.insert(0, how);
                    Ok(fit)
                }
                None => Ok(refused(program, request, verdict)),
            }
        }
    }
}

/// The budget that a request gives the compiler.
pub(crate) fn hbm_limit(request: &CompileRequest) -> u64 {
    let told = request.flags.get(HBM_BUDGET_FLAG).and_then(|mib| mib.parse::<u64>().ok()).filter(|mib| *mib > 0);
    told.map_or_else(|| request.slice.usable_hbm_bytes_per_device(), |mib| mib.saturating_mul(1 << 20))
}

const HBM_BUDGET_FLAG: &str = "xla_tpu_max_hbm_size_mib";
/// Vector memory that one operation may use.
pub(crate) const VMEM_LIMIT_FLAG: &str = "xla_tpu_scoped_vmem_limit_kib";

/// Makes the compiler go on with a program that is too large. (A budget above what the chip has is not taken.)
const GO_ON_FLAG: &str = "xla_tpu_no_crash_on_oom";

/// Compiles a program that is too large as far as its memory plan. Vector memory overflows later than that, in code
/// generation, so there the quick compilation gives the plan as it is.
fn past_the_limit(
    driver: &mut Driver<'_>,
    program: &Program,
    request: &FitRequest,
    oom: &OutOfMemory,
) -> Result<Option<(Box<Compiled>, String)>, Error> {
    (driver.progress)("it does not fit: compiling again to see what fills it");
    let mut compile = CompileRequest { mode: CompileMode::Quick, ..request.compile.clone() };
    let how = if oom.space == "HBM" {
        compile.flags.insert(GO_ON_FLAG.into(), "true".into());
        format!(
            "the compiler's refusal has no breakdown; this one is of the same compilation made to go on ({GO_ON_FLAG})"
        )
    } else {
        "vector memory overflowed in code generation; memory and time are of the quick compilation before that".into()
    };
    match driver.compile(program, &compile) {
        Ok(Outcome::Fits(compiled)) => Ok(Some((compiled, how))),
        Ok(Outcome::TooLarge(_)) => Ok(None),
        Err(error @ Error::Compile(CompileError::Interrupted)) => Err(error),
        // Beyond the limit the compiler may do anything, crash included: then there is no breakdown.
        Err(Error::Compile(_)) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The operation that asked for too much vector memory, from the compiler's message: `… for %NAME = SHAPE …`.
fn refused_operation(oom: &OutOfMemory) -> Option<String> {
    let (_, rest) = oom.message.split_once("on stack for ")?;
    let operation = rest.split(", metadata=").next().unwrap_or(rest).split(". Scoped").next().unwrap_or(rest);
    let field = |name: &str| rest.split_once(name).map(|(_, value)| value.split(['"', ' ', '}']).next().unwrap_or(""));
    let place = match (field("source_file=\""), field("source_line=")) {
        (Some(file), Some(line)) if !file.is_empty() => format!(", {file}:{line}"),
        _ => String::new(),
    };
    let name =
        field("op_name=\"").filter(|name| !name.is_empty()).map_or_else(String::new, |name| format!(" ({name})"));
    Some(format!("{}{name}{place}", operation.chars().take(MAX_OPERATION).collect::<String>()))
}

/// Characters of an operation that a report quotes.
const MAX_OPERATION: usize = 300;

fn answer(
    program: &Program,
    request: &FitRequest,
    compiled: &Compiled,
    arguments: &[ProgramArgument],
    verdict: Verdict,
) -> Result<Fit, Error> {
    let slice = &request.compile.slice;
    let report: &Report = &compiled.report;
    let devices = device_numbers(slice, request.compile.device_ids.as_deref());
    let estimate = Estimate::of(compiled.module(), slice, &devices, &request.workload);
    let step = BilledStep { seconds: estimate.step.seconds, tokens: request.workload.tokens_per_step };
    let cost = RunCost::of(slice, step, request.run, &request.tariff)?;
    let memory = MemoryBreakdown::of(compiled.module(), compiled.buffers(), report, arguments);
    let advice = advise(program, compiled.module(), slice, &estimate, arguments);
    let mut notes: Vec<String> = compiled.warnings.iter().chain(&report.notes).cloned().collect();
    if compiled.buffers().is_none() {
        notes.push("the compiler gives no buffers here: temporaries are one sum".into());
    }
    if let Some(quick) = &compiled.beside {
        let quick = Estimate::of(&quick.module, slice, &devices, &request.workload);
        notes.extend(apart(&quick.shares, &estimate.shares));
    }
    Ok(Fit {
        module: report.module.clone(),
        slice: report.slice.clone(),
        devices: u64::from(slice.devices()),
        partitions: report.partitions,
        replicas: report.replicas,
        mode: report.mode,
        plugin: report.plugin.clone(),
        cached: compiled.is_cached,
        verdict,
        memory: Some(memory),
        estimate: Some(estimate),
        cost: Some(cost),
        advice,
        notes,
        pictures: match request.draw {
            Draw::Nothing => Pictures::default(),
            Draw::Pictures => Pictures::of(compiled.module(), compiled.buffers(), slice, &devices),
        },
    })
}

fn refused(program: &Program, request: &FitRequest, verdict: Verdict) -> Fit {
    let slice = &request.compile.slice;
    Fit {
        module: program.name().to_string(),
        slice: slice.to_string(),
        devices: u64::from(slice.devices()),
        partitions: u64::from(request.compile.partitions.or(program.partitions()).unwrap_or(1)),
        replicas: u64::from(request.compile.replicas.or(program.replicas()).unwrap_or(1)),
        mode: request.compile.mode,
        plugin: String::new(),
        cached: false,
        verdict,
        memory: None,
        estimate: None,
        cost: None,
        advice: Vec::new(),
        notes: vec!["the compiler gives no breakdown of this program".into()],
        pictures: Pictures::default(),
    }
}

/// Positions of devices in the slice, from the compiler's ids; empty for the natural order.
pub(crate) fn device_numbers(slice: &Slice, ids: Option<&[i64]>) -> Vec<u64> {
    let per_slice = u64::from(slice.devices_per_slice());
    let number = |&id: &i64| {
        let id = u64::try_from(id).unwrap_or(0);
        match id / Slice::DEVICE_ID_STRIDE {
            0 => id,
            group => (group - 1) * per_slice + id % Slice::DEVICE_ID_STRIDE,
        }
    };
    ids.map_or_else(Vec::new, |ids| ids.iter().map(number).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_ids_are_positions() {
        let slice: Slice = "2xv5e-4".parse().unwrap();
        assert_eq!(device_numbers(&slice, Some(&[100_000, 100_003, 200_000, 200_003])), [0, 3, 4, 7]);
        assert_eq!(device_numbers(&"v5e-4".parse().unwrap(), Some(&[0, 1, 3, 2])), [0, 1, 3, 2]);
        assert!(device_numbers(&slice, None).is_empty());
    }

    #[test]
    fn a_program_without_entry_is_refused() {
        let text = "func.func @f(%x: tensor<f32>) -> tensor<f32> { return %x : tensor<f32> }
                    func.func @g(%x: tensor<f32>) -> tensor<f32> { return %x : tensor<f32> }";
        match read(text.as_bytes()) {
            Err(error @ Error::NoEntry { .. }) => assert!(error.remedy().contains("@f, @g"), "{}", error.remedy()),
            other => panic!("{:?}", other.map(|program| program.name().to_string())),
        }
    }

    #[test]
    fn the_operation_without_vector_memory_is_named() {
        let message = "E1001: CompileTimeScopedVmemOom:\nRan out of memory in memory space vmem while allocating on stack for \
                       %fusion = f32[256,4096]{1,0} fusion(%a, %b), kind=kOutput, calls=%c, metadata={op_name=\"jit(f)/dot\" \
                       source_file=\"step.py\" source_line=5}. Scoped allocation with size 128.0K and limit 100.0K exceeded";
        let oom = OutOfMemory {
            space: "VMEM".into(),
            needed_bytes: Some(128 << 10),
            available_bytes: Some(100 << 10),
            message: message.into(),
        };
        assert_eq!(
            refused_operation(&oom).unwrap(),
            "%fusion = f32[256,4096]{1,0} fusion(%a, %b), kind=kOutput, calls=%c (jit(f)/dot), step.py:5"
        );
    }

    #[test]
    fn zero_tokens_are_refused() {
        let mut request = FitRequest::new("v5e-4".parse().unwrap());
        request.workload.tokens_per_step = Some(0.0);
        assert!(matches!(request.check(), Err(Error::NotPositive { what: "tokens per step", .. })));
    }
}
