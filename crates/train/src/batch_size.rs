//! Batches tried on the device itself: a few steps each, refused by the compiler's plan of memory or by the device.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use compile::CompileError;
use plan::batch_size::{BatchSearch, BatchSizes, Trial, TrialOutcome, search_batch_sizes};
use runtime::{Backend, ErrorClass, Jit, LoadedProgram, Platform, TreeArrays, shapes_of_specs};
use tensor::{Literal, Spec};
use trace::{Donate, Tensor};

use crate::error::Error;
use crate::trainer::{Measures, Task};

/// How steps are measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MeasuredStep {
    /// Steps that are run and not timed.
    pub warm_up: u32,
    /// Steps that are timed; the fastest counts.
    pub timed: u32,
}

impl Default for MeasuredStep {
    fn default() -> MeasuredStep {
        MeasuredStep { warm_up: 1, timed: 3 }
    }
}

type StepJit<S> = Jit<(S, Vec<Tensor>), (S, Measures)>;

/// Where examples come from.
pub struct Samples<'a> {
    /// Types and shapes of the arrays of a batch of so many examples.
    pub specs: &'a dyn Fn(u64) -> Result<Vec<Spec>, Error>,
    /// The arrays. Asked for once the batch is known to fit.
    pub arrays: &'a dyn Fn(u64) -> Result<Vec<Literal>, Error>,
}

/// Runs a few training steps for each batch of the search, on the first device of the backend.
///
/// A batch is refused before it is run where the compiler's plan of its memory is past the budget of the backend. What
/// the device refuses all the same leaves nothing behind: every trial has a state of its own, dropped at its end.
/// `stop` ends the search with [`CompileError::Interrupted`].
pub fn measure_batch_sizes<T: Task + 'static>(
    backend: &Backend,
    task: Arc<T>,
    how: MeasuredStep,
    search: &BatchSearch,
    samples: &Samples<'_>,
    stop: &AtomicBool,
) -> Result<BatchSizes, Error> {
    let structure = trace::shapes_of(&(), |()| task.init())?;
    let theirs = task.clone();
    let mut init = Jit::new(backend, "init", Donate::Nothing, move |(): &()| theirs.init());
    let mut run = |batch: u64| {
        let measured = measure(backend, &task, &structure, &mut init, how, batch, samples, stop);
        // Executables hold memory on some devices; a batch that was tried is not needed again.
        backend.clear_cache();
        match measured {
            Ok(trial) => Ok(trial),
            Err(error) if is_out_of_memory(&error) => Ok(refused(backend, batch, compile::with_causes(&error))),
            Err(error) => Err(error),
        }
    };
    search_batch_sizes(search, &mut run)
}

/// Whether an error says that memory is exhausted.
pub fn is_out_of_memory(error: &Error) -> bool {
    let exhausted = |source: &pjrt::Error| source.code() == Some(pjrt::Code::ResourceExhausted);
    let Error::Runtime(error) = error else { return false };
    match error {
        runtime::Error::Device { source, .. } | runtime::Error::Synchronization { source: Some(source), .. } => {
            exhausted(source)
        }
        runtime::Error::Compilation(CompileError::OutOfMemory(_)) => true,
        runtime::Error::Compilation(CompileError::Refused { code, .. }) => code == "RESOURCE_EXHAUSTED",
        error => error.class() == ErrorClass::OutOfMemory,
    }
}

fn refused(backend: &Backend, batch: u64, why: String) -> Trial {
    let (limit_bytes, outcome) = (limit_bytes(backend), TrialOutcome::TooLarge(why));
    Trial { batch, outcome, needed_bytes: None, limit_bytes, step_seconds: None }
}

#[allow(clippy::too_many_arguments)]
fn measure<T: Task + 'static>(
    backend: &Backend,
    task: &Arc<T>,
    structure: &T::State,
    init: &mut Jit<(), T::State>,
    how: MeasuredStep,
    batch: u64,
    samples: &Samples<'_>,
    stop: &AtomicBool,
) -> Result<Trial, Error> {
    let limit_bytes = limit_bytes(backend);
    let specs = (samples.specs)(batch)?;
    let theirs = task.clone();
    let step = move |(state, batch): &(T::State, Vec<Tensor>)| theirs.step(state, batch);
    let mut step: StepJit<T::State> = Jit::new(backend, "train_step", Donate::First, step);
    let inputs = (structure.clone(), shapes_of_specs(&specs));
    let Some(model) = step.prepare(&inputs, stop)? else { return Err(CompileError::Interrupted.into()) };
    // The host holds the batch too; on the CPU device that is the same memory.
    let sent: u64 = if *backend.platform() == Platform::Cpu { specs.iter().map(Spec::bytes).sum() } else { 0 };
    let needed_bytes = planned_bytes(model).map(|bytes| bytes.saturating_add(sent));
    if let (Some(needed), Some(limit)) = (needed_bytes, limit_bytes)
        && needed > limit
    {
        let why = format!("the compiled step needs {needed} bytes, the budget is {limit}");
        return Ok(Trial { needed_bytes, ..refused(backend, batch, why) });
    }
    let data = (samples.arrays)(batch)?
        .into_iter()
        .map(|array| Ok(Tensor::from(backend.send(&Arc::new(array))?)))
        .collect::<Result<Vec<Tensor>, runtime::Error>>()?;
    let mut state = init.call(())?;
    let mut best = f64::INFINITY;
    for n in 0..how.warm_up.saturating_add(how.timed.max(1)) {
        if stop.load(Ordering::Relaxed) {
            return Err(CompileError::Interrupted.into());
        }
        let started = Instant::now();
        let (next, measures) = step.call((state, data.clone()))?;
        // A measure on the host is a step that is done; asynchronous failures come out here.
        measures.to_literals()?;
        backend.synchronize()?;
        if n >= how.warm_up {
            best = best.min(started.elapsed().as_secs_f64());
        }
        state = next;
    }
    Ok(Trial { batch, outcome: TrialOutcome::Fits, needed_bytes, limit_bytes, step_seconds: Some(best) })
}

/// Bytes a step may take: the budget of the backend; without one, on the CPU device, what the machine has free.
fn limit_bytes(backend: &Backend) -> Option<u64> {
    let budget = backend.memory().limit_bytes();
    budget.or_else(|| (*backend.platform() == Platform::Cpu).then(free_bytes).flatten())
}

/// Memory of the machine that is free, as the kernel says; of a container, what is left of its limit.
fn free_bytes() -> Option<u64> {
    let number = |path: &str| std::fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
    let machine = std::fs::read_to_string("/proc/meminfo").ok().and_then(|text| {
        let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
        Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.saturating_mul(1024))
    });
    let group = number("/sys/fs/cgroup/memory.max")
        .map(|most| most.saturating_sub(number("/sys/fs/cgroup/memory.current").unwrap_or(0)));
    [machine, group].into_iter().flatten().min()
}

/// Memory the compiler plans for a program, where the plugin says it.
fn planned_bytes(model: &LoadedProgram) -> Option<u64> {
    let stats = model.executable().loaded().executable().and_then(|executable| executable.memory_stats()).ok()?;
    let sum = stats.argument_bytes + stats.output_bytes - stats.alias_bytes + stats.temp_bytes;
    u64::try_from(sum).ok().filter(|bytes| *bytes > 0)
}
