//! Running functions and regions: the environment of values, calls, limits.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use hlo::{Func, Module, Op, OpId, OpKind, OpName, Region, TensorType, Type, Verified};

use super::process::{self, GridSize, Process, Program};
use super::value::{InterpreterValue, TensorValue, fits};
use super::{dispatch, positions};
use crate::error::Error;

/// Calls and regions nest at most this deep.
const MAX_DEPTH: usize = 400;
/// Bytes of live values where the options do not say.
const DEFAULT_MAX_BYTES: u64 = 8 << 30;

/// Limits and hooks of a run.
#[derive(Clone, Debug, Default)]
pub struct InterpreterOptions {
    /// Ops executed at most; `None` for no limit. Bounds loops that never end.
    pub max_steps: Option<u64>,
    /// Elements one tensor may have at most; `None` for 2^28.
    pub max_elements: Option<u64>,
    /// Bytes the values alive at one time may take at most, in the interpreter's wide form; `None` for 8 GiB.
    pub max_bytes: Option<u64>,
    /// Set from another thread to stop.
    pub stop: Option<Arc<AtomicBool>>,
    /// Takes what `interpreter.print` prints; `None` drops it.
    pub print: Option<fn(&str)>,
    /// Sees the results of every op.
    pub watch: Option<OpWatch>,
}

/// Somebody who sees the results of every op, and may end the run by an error.
#[derive(Clone)]
pub struct OpWatch(Arc<Watcher>);

type Watcher = dyn Fn(&Func, &Op, &[InterpreterValue]) -> Result<(), Error> + Send + Sync;

impl OpWatch {
    /// Calls a function with every op and its results, in the order in which they are computed.
    pub fn new(
        watcher: impl Fn(&Func, &Op, &[InterpreterValue]) -> Result<(), Error> + Send + Sync + 'static,
    ) -> OpWatch {
        OpWatch(Arc::new(watcher))
    }
}

impl std::fmt::Debug for OpWatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Watch")
    }
}

impl InterpreterOptions {
    /// Elements one tensor may have at most.
    pub(crate) fn element_limit(&self) -> u64 {
        self.max_elements.unwrap_or(1 << 28)
    }
}

/// Runs a verified module.
#[derive(Clone, Debug)]
pub struct Interpreter<'m> {
    module: &'m Module,
    options: InterpreterOptions,
}

impl<'m> Interpreter<'m> {
    /// An interpreter of a module.
    pub fn new(module: &'m Verified, options: InterpreterOptions) -> Self {
        Interpreter { module, options }
    }

    /// Runs a function.
    pub fn run(&self, func: &str, arguments: Vec<InterpreterValue>) -> Result<Vec<InterpreterValue>, Error> {
        Run::new(self.module, &self.options, None).call(func, arguments)
    }

    /// Runs a function as every process of a grid at the same time, and gives the results of each process in the order
    /// of replicas, then partitions. `arguments` has one list for each process.
    pub fn run_grid(
        &self,
        size: GridSize,
        func: &str,
        arguments: Vec<Vec<InterpreterValue>>,
    ) -> Result<Vec<Vec<InterpreterValue>>, Error> {
        let programs = arguments.into_iter().map(|arguments| Program { func: func.to_string(), arguments }).collect();
        process::run_processes(self.module, &self.options, size, programs, Vec::new())
    }
}

/// One op of a function on values given by hand. `draws` tells apart the runs of an op that draws random numbers.
pub(crate) fn evaluate(
    module: &Module,
    op: (&str, OpId),
    values: Vec<(hlo::Value, InterpreterValue)>,
    options: &InterpreterOptions,
    process: Option<Arc<Process>>,
    draws: u64,
) -> Result<Vec<InterpreterValue>, Error> {
    let mut run = Run::new(module, options, process);
    run.draws = draws;
    let func = module.func(op.0).ok_or_else(|| Error::Internal(format!("there is no function @{}", op.0)))?;
    let mut frame = Frame { func, values: vec![None; func.values.len()], bytes: 0 };
    for (id, value) in values {
        run.store(&mut frame, id, value)?;
    }
    run.op(&mut frame, func.op(op.1))
}

/// The processes that a process meets in a collective op which combines replicas and partitions, in their order.
pub(crate) fn collective_group(
    module: &Module,
    op: (&str, OpId),
    options: &InterpreterOptions,
    process: Option<Arc<Process>>,
) -> Result<Vec<usize>, Error> {
    let func = module.func(op.0).ok_or_else(|| Error::Internal(format!("there is no function @{}", op.0)))?;
    let mut frame = Frame { func, values: Vec::new(), bytes: 0 };
    let mut run = Run::new(module, options, process);
    super::collectives::combined_group(&Context { run: &mut run, frame: &mut frame, op: func.op(op.1) })
}

/// One run: what is shared by all its functions.
pub(crate) struct Run<'r> {
    pub(crate) module: &'r Module,
    pub(crate) options: &'r InterpreterOptions,
    /// What `interpreter.probe` recorded, in order.
    pub(crate) probes: Vec<(String, TensorValue)>,
    steps: u64,
    depth: usize,
    draws: u64,
    live_bytes: u64,
    /// The process of a grid that this run is; `None` where it runs alone.
    pub(crate) process: Option<Arc<Process>>,
}

impl<'r> Run<'r> {
    pub(crate) fn new(module: &'r Module, options: &'r InterpreterOptions, process: Option<Arc<Process>>) -> Self {
        Run { module, options, probes: Vec::new(), steps: 0, depth: 0, draws: 0, live_bytes: 0, process }
    }

    /// Calls a function by name.
    pub(crate) fn call(
        &mut self,
        name: &str,
        arguments: Vec<InterpreterValue>,
    ) -> Result<Vec<InterpreterValue>, Error> {
        let module = self.module;
        let func = module.func(name).ok_or_else(|| Error::Arguments(format!("there is no function @{name}")))?;
        let body = func.body.ok_or_else(|| Error::Unsupported { what: format!("@{name}, which has no body") })?;
        if arguments.len() != func.inputs.len() {
            return Err(Error::Arguments(format!(
                "@{name} takes {} arguments, not {}",
                func.inputs.len(),
                arguments.len()
            )));
        }
        for (n, (value, ty)) in arguments.iter().zip(&func.inputs).enumerate() {
            if !fits(value, ty) {
                return Err(Error::Arguments(format!("argument {n} of @{name} is not a {ty}")));
            }
        }
        let mut frame = Frame { func, values: vec![None; func.values.len()], bytes: 0 };
        let results = self.region(&mut frame, body, arguments)?;
        self.live_bytes -= frame.bytes;
        Ok(results)
    }

    /// Stores a value of a frame, within the limit on memory.
    fn store(&mut self, frame: &mut Frame<'r>, id: hlo::Value, value: InterpreterValue) -> Result<(), Error> {
        let slot = &mut frame.values[id.0 as usize];
        let (before, after) = (slot.as_ref().map_or(0, InterpreterValue::bytes), value.bytes());
        self.live_bytes = self.live_bytes - before + after;
        frame.bytes = frame.bytes - before + after;
        let limit = self.options.max_bytes.unwrap_or(DEFAULT_MAX_BYTES);
        if self.live_bytes > limit {
            return Err(Error::Exhausted(format!("the values of the program take more than {limit} bytes")));
        }
        *slot = Some(value);
        Ok(())
    }

    /// Runs a region and gives what its terminator returns.
    pub(crate) fn region(
        &mut self,
        frame: &mut Frame<'r>,
        region: Region,
        arguments: Vec<InterpreterValue>,
    ) -> Result<Vec<InterpreterValue>, Error> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(Error::Exhausted(format!("calls and regions nest deeper than {MAX_DEPTH}")));
        }
        let func = frame.func;
        let data = func.region(region);
        for (&arg, value) in data.args.iter().zip(arguments) {
            self.store(frame, arg, value)?;
        }
        let mut returned = Vec::new();
        for &id in &data.ops {
            let op = func.op(id);
            self.step()?;
            if is_terminator(op) {
                returned = op.operands.iter().map(|&v| frame.value(v).cloned()).collect::<Result<_, _>>()?;
                break;
            }
            let results = self.op(frame, op)?;
            if results.len() != op.num_results as usize {
                return Err(Error::Internal(format!("{} gave {} results", op.name.as_str(), results.len())));
            }
            if let Some(OpWatch(watcher)) = &self.options.watch {
                watcher(func, op, &results)?;
            }
            for (value, result) in op.results().zip(results) {
                if !fits(&result, func.ty(value)) {
                    return Err(Error::Program {
                        op: op.name.as_str().to_string(),
                        message: format!("the result is not a {}", func.ty(value)),
                    });
                }
                self.store(frame, value, result)?;
            }
        }
        self.depth -= 1;
        Ok(returned)
    }

    fn op(&mut self, frame: &mut Frame<'r>, op: &'r Op) -> Result<Vec<InterpreterValue>, Error> {
        let limit = self.options.element_limit();
        for value in op.results() {
            if let Some(ty) = frame.func.ty(value).as_tensor()
                && ty.is_static()
                && ty.num_elements().is_none_or(|n| n > limit)
            {
                return Err(Error::Exhausted(format!("a {} has more than {limit} elements", frame.func.ty(value))));
            }
        }
        match &op.name {
            OpName::Known(kind) => match dispatch::eval(*kind) {
                Some(eval) => eval(&mut Context { run: self, frame, op }),
                None => Err(Error::Unsupported { what: op.name.as_str().to_string() }),
            },
            // What a mixed program leaves where two dialects meet: the value as it is.
            OpName::Extern(name) if &**name == "builtin.unrealized_conversion_cast" => {
                op.operands.iter().map(|&v| frame.value(v).cloned()).collect()
            }
            OpName::Extern(name) => Err(Error::Unsupported { what: format!("`{name}`, an op of another dialect") }),
        }
    }

    fn step(&mut self) -> Result<(), Error> {
        self.steps += 1;
        if self.options.max_steps.is_some_and(|limit| self.steps > limit) {
            return Err(Error::Exhausted(format!("more than {} ops were executed", self.steps - 1)));
        }
        self.poll()
    }

    /// A number no other draw of this run has had.
    pub(crate) fn draws(&mut self) -> u64 {
        self.draws += 1;
        self.draws
    }

    /// Fails when the caller asked to stop; long ops call it once in a while.
    pub(crate) fn poll(&self) -> Result<(), Error> {
        match &self.options.stop {
            Some(stop) if stop.load(Ordering::Relaxed) => Err(Error::Interrupted),
            _ => Ok(()),
        }
    }
}

fn is_terminator(op: &Op) -> bool {
    matches!(op.kind(), Some(hlo::OpKind::Return | hlo::OpKind::FuncReturn | hlo::OpKind::SdyReturn))
}

/// The values of one call of a function.
pub(crate) struct Frame<'r> {
    pub(crate) func: &'r Func,
    values: Vec<Option<InterpreterValue>>,
    bytes: u64,
}

impl Frame<'_> {
    fn value(&self, value: hlo::Value) -> Result<&InterpreterValue, Error> {
        self.values[value.0 as usize].as_ref().ok_or_else(|| Error::Internal(format!("value {} is not set", value.0)))
    }
}

/// What an op's meaning may use: its operands, attributes, result types, and its regions as functions.
pub(crate) struct Context<'c, 'r> {
    pub(crate) run: &'c mut Run<'r>,
    pub(crate) frame: &'c mut Frame<'r>,
    pub(crate) op: &'r Op,
}

impl<'r> Context<'_, 'r> {
    /// Operand `n`.
    pub(crate) fn value(&self, n: usize) -> Result<&InterpreterValue, Error> {
        let id = self.op.operands.get(n).ok_or_else(|| Error::Internal(format!("operand {n} is missing")))?;
        self.frame.value(*id)
    }

    /// Operand `n` as a tensor.
    pub(crate) fn tensor(&self, n: usize) -> Result<&TensorValue, Error> {
        self.value(n)?.tensor()
    }

    /// All operands, cloned.
    pub(crate) fn values(&self) -> Result<Vec<InterpreterValue>, Error> {
        (0..self.op.operands.len()).map(|n| self.value(n).cloned()).collect()
    }

    /// Type written for result `n`.
    pub(crate) fn result_type(&self, n: usize) -> &'r Type {
        self.frame.func.ty(hlo::Value(self.op.first_result.0 + n as u32))
    }

    /// Tensor type written for result `n`; its sizes may be unknown.
    pub(crate) fn result_tensor(&self, n: usize) -> Result<&'r TensorType, Error> {
        self.result_type(n).as_tensor().ok_or_else(|| Error::Internal(format!("result {n} is no tensor")))
    }

    /// Which op this is.
    pub(crate) fn kind(&self) -> Result<OpKind, Error> {
        self.op.kind().ok_or_else(|| Error::Internal("an op of another dialect".into()))
    }

    /// Number of elements of a shape that became known only now, if within the limit of the run.
    pub(crate) fn count(&self, dims: &[i64]) -> Result<usize, Error> {
        if dims.iter().any(|&d| d < 0) {
            return self.fail(format!("the result has sizes {dims:?}"));
        }
        positions::count(self, dims)
    }

    /// Runs region `n` of the op.
    pub(crate) fn region(
        &mut self,
        n: usize,
        arguments: Vec<InterpreterValue>,
    ) -> Result<Vec<InterpreterValue>, Error> {
        let region = *self.op.regions.get(n).ok_or_else(|| Error::Internal(format!("region {n} is missing")))?;
        self.run.region(self.frame, region, arguments)
    }

    /// An error of the program at this op.
    pub(crate) fn fail<T>(&self, message: impl Into<String>) -> Result<T, Error> {
        Err(Error::Program { op: self.op.name.as_str().to_string(), message: message.into() })
    }
}

/// The meaning of an op.
pub(crate) type Eval = fn(&mut Context<'_, '_>) -> Result<Vec<InterpreterValue>, Error>;
