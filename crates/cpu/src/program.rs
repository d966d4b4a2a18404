//! A compiled program: steps over slots of memory, planned before anything runs.
#![allow(unsafe_code)]

mod bounds;
pub(crate) mod describe;
#[cfg(unix)]
pub(crate) mod guarded;

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use hlo::{Module, OpId};
use tensor::DType;

use crate::error::Error;
use crate::footprint::Footprint;
use crate::interpret::{InterpreterOptions, Process};
use crate::kernels::Cores;
use crate::kernels::machine::FlushDenormals;
use crate::memory::{Arena, Array, Storage};
use crate::recorder::{ProgramDescription, Recording, RunRecorder, Site};

/// Pointers of one step that fit without allocating.
const INLINE_POINTERS: usize = 24;

/// A piece of memory that holds a value: an index into the table of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Slot(pub(crate) u32);

impl Slot {
    fn index(self) -> usize {
        self.0 as usize
    }
}

/// Work on memory, made for fixed shapes.
pub(crate) trait Kernel: Send + Sync {
    /// What it does, for profiles and dumps.
    fn name(&self) -> String;

    /// Whether output `output` may lie in the memory of input `input`, which nobody needs afterwards.
    fn may_share(&self, _input: usize, _output: usize) -> bool {
        false
    }

    /// Whether the output is the input, so that nothing is left to do where they share memory.
    fn is_identity(&self) -> bool {
        false
    }

    /// What it touches of each input and output, from the numbers that drive its loops; `None` where they contradict each
    /// other or are too large. The program runs only if every array has this much.
    fn footprint(&self) -> Option<Footprint>;

    /// Whether the one output is a part of the first input, which is only read: nothing is copied, and steps that read the
    /// output read it there. The footprint's output is then a run of the bytes read of that input.
    fn is_part(&self) -> bool {
        false
    }

    /// Bytes from the start of the first input to the part, for a kernel that [`Kernel::is_part`].
    ///
    /// # Safety
    /// As [`Kernel::run`].
    unsafe fn part(&self, _inputs: &[*const u8]) -> Option<isize> {
        None
    }

    /// Whether two outputs may be the same memory.
    fn outputs_may_share(&self, _one: usize, _other: usize) -> bool {
        false
    }

    /// Takes out work on one input alone that stays the same from run to run, so that it can be done once. From then on the
    /// kernel expects the result of that work in the place of the input. `fixed_bytes` says how large such an input is.
    fn prepare(&mut self, _fixed_bytes: &dyn Fn(usize) -> Option<usize>) -> Option<Preparation> {
        None
    }

    /// Whether it may nest as deeply as the program is written: it then needs the stack of the thread of its device.
    fn is_deep(&self) -> bool {
        false
    }

    /// Does the work.
    ///
    /// # Safety
    /// Every pointer is valid for the bytes of its slot, which has those of the footprint; outputs overlap nothing, except
    /// inputs as `may_share` and outputs as `outputs_may_share` allow.
    unsafe fn run(&self, inputs: &[*const u8], outputs: &[*mut u8], run: &mut Run<'_>) -> Result<(), Error>;
}

/// Work of a kernel on one of its inputs.
pub(crate) struct Preparation {
    pub(crate) input: usize,
    /// Bytes of what it makes.
    pub(crate) bytes: usize,
    /// From the input to what it becomes.
    pub(crate) kernel: Box<dyn Kernel>,
}

/// One step of a program.
pub(crate) struct Step {
    pub(crate) inputs: Vec<Slot>,
    pub(crate) outputs: Vec<Slot>,
    pub(crate) work: Work,
    /// Ops of the program that it computes, or is needed for.
    pub(crate) ops: Vec<OpId>,
    /// Its number among the steps of a program, with those inside of loops and branches, once all are known.
    pub(crate) id: u32,
}

impl Step {
    pub(crate) fn new(inputs: Vec<Slot>, outputs: Vec<Slot>, work: Work, ops: Vec<OpId>) -> Step {
        Step { inputs, outputs, work, ops, id: 0 }
    }

    /// The steps inside, block by block.
    pub(crate) fn blocks(&self) -> Vec<&[Step]> {
        match &self.work {
            Work::Kernel(_) => Vec::new(),
            Work::While(inner) => vec![&inner.condition, &inner.body],
            Work::Case(case) => case.branches.iter().map(Vec::as_slice).collect(),
        }
    }
}

/// Numbers steps from `next` on, in program order; the number after the last.
pub(crate) fn number(steps: &mut [Step], mut next: u32) -> u32 {
    for step in steps {
        step.id = next;
        next += 1;
        match &mut step.work {
            Work::Kernel(_) => {}
            Work::While(inner) => {
                next = number(&mut inner.condition, next);
                next = number(&mut inner.body, next);
            }
            Work::Case(case) => next = case.branches.iter_mut().fold(next, |next, branch| number(branch, next)),
        }
    }
    next
}

/// What a step does.
pub(crate) enum Work {
    Kernel(Box<dyn Kernel>),
    While(Box<While>),
    Case(Box<Case>),
}

/// A loop: its carried values stay in the slots of the step's outputs.
pub(crate) struct While {
    pub(crate) condition: Vec<Step>,
    /// One boolean.
    pub(crate) answer: Slot,
    pub(crate) body: Vec<Step>,
    /// After the body, the two slots change places; they have this many bytes. When the loop is over, the value lies in
    /// the place planned for the first.
    pub(crate) rotate: Vec<(Slot, Slot, usize)>,
}

/// A choice of steps.
pub(crate) struct Case {
    pub(crate) index: Slot,
    pub(crate) selector: Selector,
    pub(crate) branches: Vec<Vec<Step>>,
}

/// How a value chooses a branch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Selector {
    /// A boolean: the first branch if true.
    Boolean,
    /// An i32; one that names no branch takes the last.
    Index,
}

/// Where a slot lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// In argument `n`, which is only read.
    Argument(usize),
    /// In argument `n`, which the program may write to.
    OwnedArgument(usize),
    /// In argument `n`, which is only read, where a step says.
    Part(usize),
    /// In constant `n`.
    Constant(usize),
    /// In the working memory, at this offset.
    Arena(usize),
    /// In result `n`.
    Result(usize),
}

/// A result of the program.
#[derive(Clone, Debug)]
pub(crate) struct ResultPort {
    pub(crate) dtype: DType,
    pub(crate) dims: Vec<usize>,
    /// The argument whose memory it takes over.
    pub(crate) argument: Option<usize>,
}

/// A compiled program.
pub(crate) struct Program {
    /// The program as it was simplified: what ops without a kernel are read from.
    pub(crate) module: Arc<Module>,
    pub(crate) slots: Vec<Place>,
    /// Bytes of each slot.
    pub(crate) slot_bytes: Vec<usize>,
    pub(crate) constants: Vec<Storage>,
    pub(crate) steps: Vec<Step>,
    pub(crate) results: Vec<ResultPort>,
    /// Bytes of arguments, as the program reads them.
    pub(crate) argument_bytes: Vec<usize>,
    /// Arguments whose memory the program writes to.
    pub(crate) owned: Vec<bool>,
    /// Bytes of working memory.
    pub(crate) arena_bytes: usize,
    /// Name of the function that runs.
    pub(crate) entry: String,
    /// What a profile says of it, once one was asked for.
    pub(crate) description: OnceLock<Arc<ProgramDescription>>,
}

impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Program({} steps, {} bytes of working memory)", self.steps.len(), self.arena_bytes)
    }
}

/// What steps may use while they run.
pub(crate) struct Run<'r> {
    pub(crate) cores: &'r Cores,
    pub(crate) options: &'r InterpreterOptions,
    pub(crate) process: Option<Arc<Process>>,
    pub(crate) module: &'r Module,
    table: Vec<*mut u8>,
    steps: u64,
    /// `None` for a run that is not recorded, whoever asks.
    recorder: Option<RunRecorder<'r>>,
}

/// What one step of a program took in a run.
#[derive(Clone, Debug, PartialEq)]
pub struct ProfiledStep {
    /// What it does.
    pub name: String,
    /// How often it ran.
    pub count: u64,
    /// Time of all its runs.
    pub total: Duration,
}

/// Who records a run.
#[derive(Clone, Copy, Debug)]
pub(crate) enum RecordedBy<'r> {
    /// The session of the process, if one is on. The run is at this place.
    Session(Site),
    /// This one.
    Recording(&'r Arc<Recording>),
}

impl Program {
    /// Runs the program. An argument nobody else holds may become a result.
    pub(crate) fn run(
        &self,
        arguments: Vec<Array>,
        cores: &Cores,
        memory: &Arc<Arena>,
        options: &InterpreterOptions,
        process: Option<Arc<Process>>,
        recorded_by: RecordedBy<'_>,
    ) -> Result<Vec<Array>, Error> {
        if arguments.len() != self.argument_bytes.len()
            || arguments.iter().zip(&self.argument_bytes).any(|(array, &bytes)| array.storage().size() != bytes)
        {
            return Err(Error::Arguments("the arguments have other sizes than the program's".into()));
        }
        let limit = options.max_bytes.unwrap_or(u64::MAX);
        if self.arena_bytes as u64 > limit {
            return Err(Error::Exhausted(format!(
                "the program needs {} bytes of working memory, more than {limit}",
                self.arena_bytes
            )));
        }
        let mut owned: Vec<Option<Storage>> = Vec::new();
        owned.resize_with(arguments.len(), || None);
        let mut kept = Vec::with_capacity(arguments.len());
        for (n, array) in arguments.into_iter().enumerate() {
            if !self.owned[n] {
                kept.push(Some(array.aligned(memory)?));
                continue;
            }
            // The caller may still hold what it said it gives: then the program works on a copy.
            owned[n] = Some(match array.into_own_storage() {
                Ok(storage) => storage,
                Err(array) => {
                    let mut storage = memory.allocate(array.storage().size())?;
                    storage.fill(array.storage().bytes());
                    storage
                }
            });
            kept.push(None);
        }
        let mut results = Vec::with_capacity(self.results.len());
        for port in &self.results {
            let bytes = crate::memory::device_bytes(port.dtype, &port.dims)
                .ok_or_else(|| Error::Exhausted("a result is too large".into()))?;
            results.push(match port.argument {
                Some(_) => None,
                None => Some(memory.allocate(bytes)?),
            });
        }
        let arena = memory.allocate(self.arena_bytes)?;
        let address = |place: &Place| match *place {
            Place::Argument(n) | Place::Part(n) => {
                kept[n].as_ref().map_or(std::ptr::null_mut(), |array| array.storage().pointer())
            }
            Place::OwnedArgument(n) => owned[n].as_ref().map_or(std::ptr::null_mut(), Storage::pointer),
            Place::Constant(n) => self.constants[n].pointer(),
            // SAFETY: the check of the program found every slot that is used within the arena; others are at its start.
            Place::Arena(offset) => unsafe { arena.pointer().add(offset) },
            Place::Result(n) => results[n].as_ref().map_or(std::ptr::null_mut(), Storage::pointer),
        };
        let table = self.slots.iter().map(address).collect();
        let describe = || self.describe();
        let recorder = match recorded_by {
            RecordedBy::Session(site) => RunRecorder::new(&describe, site),
            RecordedBy::Recording(recording) => RunRecorder::into(&describe, recording),
        };
        let mut run = Run { cores, options, process, module: &self.module, table, steps: 0, recorder: Some(recorder) };
        {
            let _flush = FlushDenormals::new();
            catch_unwind(AssertUnwindSafe(|| run.block(&self.steps))).unwrap_or_else(|p| Err(Error::raised(p)))?;
        }
        drop(run);
        let mut arrays = Vec::with_capacity(results.len());
        for (port, storage) in self.results.iter().zip(results) {
            let storage = match port.argument {
                Some(n) => owned[n].take(),
                None => storage,
            };
            let storage = storage.ok_or_else(|| Error::Internal("a result without memory".into()))?;
            arrays.push(Array::new(port.dtype, port.dims.clone(), Arc::new(storage)));
        }
        Ok(arrays)
    }

    /// Whether it is a straight line of kernels that any thread has the stack for.
    pub(crate) fn is_flat(&self) -> bool {
        self.steps.iter().all(|step| matches!(&step.work, Work::Kernel(kernel) if !kernel.is_deep()))
    }

    /// The steps, one line each.
    pub(crate) fn dump(&self) -> String {
        let mut out = String::new();
        dump_steps(&self.steps, 0, &mut out);
        out
    }
}

fn dump_steps(steps: &[Step], depth: usize, out: &mut String) {
    use fmt::Write;
    for step in steps {
        let list = |slots: &[Slot]| slots.iter().map(|s| format!("%{}", s.0)).collect::<Vec<_>>().join(", ");
        let _ = write!(out, "{:indent$}{} = ", "", list(&step.outputs), indent = 2 * depth);
        match &step.work {
            Work::Kernel(kernel) => {
                let _ = writeln!(out, "{}({})", kernel.name(), list(&step.inputs));
            }
            Work::While(body) => {
                let _ = writeln!(out, "while({})", list(&step.inputs));
                dump_steps(&body.condition, depth + 1, out);
                let _ = writeln!(out, "{:indent$}do (%{})", "", body.answer.0, indent = 2 * depth);
                dump_steps(&body.body, depth + 1, out);
            }
            Work::Case(case) => {
                let _ = writeln!(out, "case(%{})", case.index.0);
                for branch in &case.branches {
                    let _ = writeln!(out, "{:indent$}branch", "", indent = 2 * depth);
                    dump_steps(branch, depth + 1, out);
                }
            }
        }
    }
}

impl Run<'_> {
    fn block(&mut self, steps: &[Step]) -> Result<(), Error> {
        for step in steps {
            self.poll()?;
            let start = self.recorder.as_mut().and_then(|recorder| recorder.enter(step.id));
            self.work(step)?;
            if let (Some(start), Some(recorder)) = (start, &mut self.recorder) {
                recorder.step(step.id, start, Instant::now());
            }
        }
        Ok(())
    }

    fn work(&mut self, step: &Step) -> Result<(), Error> {
        match &step.work {
            Work::Kernel(kernel) => self.kernel(step, &**kernel),
            Work::While(body) => self.repeat(body),
            Work::Case(case) => {
                let at = self.table[case.index.index()];
                let last = case.branches.len() - 1;
                let taken = match case.selector {
                    // SAFETY: the slot holds one boolean, written by an earlier step.
                    Selector::Boolean => usize::from(unsafe { *at } == 0),
                    // SAFETY: the slot holds one i32, written by an earlier step; slots are aligned.
                    Selector::Index => usize::try_from(unsafe { *at.cast::<i32>() }).unwrap_or(last).min(last),
                };
                self.block(&case.branches[taken])
            }
        }
    }

    fn kernel(&mut self, step: &Step, kernel: &dyn Kernel) -> Result<(), Error> {
        let (count_in, count_out) = (step.inputs.len(), step.outputs.len());
        if kernel.is_part() {
            let inputs: Vec<*const u8> = step.inputs.iter().map(|slot| self.table[slot.index()].cast_const()).collect();
            // SAFETY: as below.
            let start =
                unsafe { kernel.part(&inputs) }.ok_or_else(|| Error::Internal("a part without a start".into()))?;
            self.table[step.outputs[0].index()] = inputs[0].cast_mut().wrapping_offset(start);
            return Ok(());
        }
        if count_in <= INLINE_POINTERS && count_out <= INLINE_POINTERS {
            let mut inputs = [std::ptr::null::<u8>(); INLINE_POINTERS];
            let mut outputs = [std::ptr::null_mut::<u8>(); INLINE_POINTERS];
            for (to, slot) in inputs.iter_mut().zip(&step.inputs) {
                *to = self.table[slot.index()];
            }
            for (to, slot) in outputs.iter_mut().zip(&step.outputs) {
                *to = self.table[slot.index()];
            }
            // SAFETY: the table has an address for every slot, of memory as large as the planner says.
            return unsafe { kernel.run(&inputs[..count_in], &outputs[..count_out], self) };
        }
        let inputs: Vec<*const u8> = step.inputs.iter().map(|slot| self.table[slot.index()].cast_const()).collect();
        let outputs: Vec<*mut u8> = step.outputs.iter().map(|slot| self.table[slot.index()]).collect();
        // SAFETY: as above.
        unsafe { kernel.run(&inputs, &outputs, self) }
    }

    fn repeat(&mut self, body: &While) -> Result<(), Error> {
        let mut is_swapped = false;
        loop {
            self.block(&body.condition)?;
            // SAFETY: the slot holds one boolean, written by the condition.
            if unsafe { *self.table[body.answer.index()] } == 0 {
                break;
            }
            self.block(&body.body)?;
            self.poll()?;
            for (slot, next, _) in &body.rotate {
                self.table.swap(slot.index(), next.index());
            }
            is_swapped = !is_swapped;
        }
        if is_swapped {
            for (slot, next, bytes) in &body.rotate {
                self.table.swap(slot.index(), next.index());
                let (to, from) = (self.table[slot.index()], self.table[next.index()]);
                // SAFETY: two slots of this many bytes, which do not overlap.
                unsafe { std::ptr::copy_nonoverlapping(from, to, *bytes) };
            }
        }
        Ok(())
    }

    /// Steps so far.
    pub(crate) fn steps(&self) -> u64 {
        self.steps
    }

    /// Fails when the caller asked to stop or the limit on steps is reached.
    fn poll(&mut self) -> Result<(), Error> {
        self.steps += 1;
        if self.options.max_steps.is_some_and(|limit| self.steps > limit) {
            return Err(Error::Exhausted(format!("more than {} steps were executed", self.steps - 1)));
        }
        match &self.options.stop {
            Some(stop) if stop.load(std::sync::atomic::Ordering::Relaxed) => Err(Error::Interrupted),
            _ => Ok(()),
        }
    }
}
