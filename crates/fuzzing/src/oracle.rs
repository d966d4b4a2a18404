//! Compiles a program, runs it in fenced memory and by the interpreter, and says whether anything is wrong.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use cpu::interpret::InterpreterOptions;
use cpu::{Array, Compiled, Cpu, Donation, EngineOptions, Error, ExecutionMode, Folding, PortType};
use hlo::{Attr, Dense, DenseData, Func, Module, Op, Verified};
use tensor::{DType, Literal, encode_float};

use crate::agreement::{Level, difference, far_difference, levels, loosest, numbers};
use crate::numbers::{Look, Numbers, hash};

/// Bytes that the arguments, the results, and the working memory of a program may have each.
const MAX_BYTES: usize = 1 << 20;
/// Elements that all values of a program may have together.
const MAX_ELEMENTS: u64 = 1 << 19;
/// Elements that all windows of an op may have together.
const MAX_WINDOWED: u64 = 1 << 24;
/// Bytes of text of a program.
const MAX_TEXT: usize = 1 << 17;

/// How far results may be off.
#[derive(Clone, Debug, PartialEq)]
pub enum Allowed {
    /// Each result by this much.
    Within(Vec<f64>),
    /// As the ops of the program tell.
    AsOpsTell,
}

/// A program and what it is given.
#[derive(Clone, Debug)]
pub struct Subject {
    /// The program.
    pub text: String,
    /// Its arguments; `None` for some that fit.
    pub arguments: Option<Vec<Literal>>,
    /// How far its results may be off.
    pub allowed: Allowed,
}

impl Subject {
    /// A program on arguments that fit.
    pub fn of(text: impl Into<String>) -> Subject {
        Subject { text: text.into(), arguments: None, allowed: Allowed::AsOpsTell }
    }
}

/// What a run showed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Agreed {
    /// Whether kernels ran it, in fenced memory too; else the interpreter ran all of it.
    pub is_compiled: bool,
    /// Results that were compared with the interpreter's.
    pub compared: usize,
    /// Results that the specification leaves open, or that the last bit of a float decides.
    pub open: usize,
}

/// What became of a program.
#[derive(Clone, Debug, PartialEq)]
pub enum FuzzVerdict {
    /// Not a program: the parser or the verifier refuses it.
    Refused,
    /// Too large to be run here, or it ran into a limit.
    Limited,
    /// The device refuses it, or it fails in both engines.
    Failed,
    /// It ran to its end, and the results are as they should be.
    Agreed(Agreed),
    /// Something is wrong.
    Wrong(String),
}

/// Devices that programs are run on: one thread, and two.
#[derive(Debug)]
pub struct Bench {
    devices: [Arc<Cpu>; 2],
    /// Ends the program that runs.
    stop: Arc<AtomicBool>,
}

impl Default for Bench {
    fn default() -> Self {
        Bench::new()
    }
}

/// What a run may take: the generator bounds the programs that come with their arguments.
fn limits(subject: &Subject, stop: &Arc<AtomicBool>) -> InterpreterOptions {
    let stop = Some(stop.clone());
    if subject.arguments.is_some() {
        return InterpreterOptions { max_steps: Some(10_000_000), stop, ..InterpreterOptions::default() };
    }
    InterpreterOptions {
        max_steps: Some(20_000),
        max_elements: Some(MAX_ELEMENTS),
        max_bytes: Some(64 << 20),
        stop,
        ..InterpreterOptions::default()
    }
}

/// Why a program is given up: a limit, a refusal, or something wrong.
enum Stop {
    Limited,
    Failed(Error),
    Wrong(String),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Stop {
        match error {
            Error::Exhausted(_) | Error::Interrupted => Stop::Limited,
            Error::Internal(what) => Stop::Wrong(what),
            other => Stop::Failed(other),
        }
    }
}

impl Bench {
    /// Devices of this machine.
    pub fn new() -> Bench {
        Bench { devices: [1, 2].map(|threads| Cpu::new(Some(threads))), stop: Arc::default() }
    }

    /// Ends the program that is judged, when set from another thread: it counts as over a limit.
    pub fn stop(&self) -> &Arc<AtomicBool> {
        &self.stop
    }

    /// Judges a program; a panic is something wrong.
    pub fn judge(&self, subject: &Subject) -> FuzzVerdict {
        // Folding takes work from the kernels: both ways are looked at.
        let is_folded = hash(subject.text.as_bytes()).is_multiple_of(3);
        self.judge_folded(subject, if is_folded { Folding::Constants } else { Folding::Nothing })
    }

    /// As [`Bench::judge`], with this much done once for all runs.
    pub fn judge_folded(&self, subject: &Subject, folding: Folding) -> FuzzVerdict {
        self.stop.store(false, Ordering::Relaxed);
        catch_unwind(AssertUnwindSafe(|| self.verdict(subject, folding))).unwrap_or_else(|panic| {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
            FuzzVerdict::Wrong(format!("panic: {text}"))
        })
    }

    fn verdict(&self, subject: &Subject, folding: Folding) -> FuzzVerdict {
        if subject.text.len() > MAX_TEXT {
            return FuzzVerdict::Limited;
        }
        let Ok(module) = hlo::read(subject.text.as_bytes()).and_then(hlo::verify) else { return FuzzVerdict::Refused };
        let seed = hash(subject.text.as_bytes());
        let cpu = &self.devices[usize::from(seed.is_multiple_of(8))];
        match self.run_both(cpu, &module, folding, subject, seed) {
            Ok(agreed) => FuzzVerdict::Agreed(agreed),
            Err(Stop::Limited) => FuzzVerdict::Limited,
            Err(Stop::Failed(_)) => FuzzVerdict::Failed,
            Err(Stop::Wrong(what)) => FuzzVerdict::Wrong(what),
        }
    }

    fn run_both(
        &self,
        cpu: &Arc<Cpu>,
        module: &Verified,
        folding: Folding,
        subject: &Subject,
        seed: u64,
    ) -> Result<Agreed, Stop> {
        let of = |mode: ExecutionMode| {
            Compiled::from_module(cpu, module.clone(), &EngineOptions { mode, folding, ..EngineOptions::default() })
        };
        let reference = of(ExecutionMode::Interpreted)?;
        let compiled = match of(ExecutionMode::Compiled) {
            Err(Error::Program { op, message }) => {
                return Err(Stop::Wrong(format!("only the compiler refuses: {op}: {message}")));
            }
            other => other?,
        };
        // The verifier should have known.
        if let Some(why) = compiled.why_interpreted().filter(|why| why.contains("does not fit")) {
            return Err(Stop::Wrong(format!("not compiled: {why}")));
        }
        if subject.arguments.is_none() && !is_small(module, &compiled) {
            return Err(Stop::Limited);
        }
        let literals = match &subject.arguments {
            Some(literals) => literals.clone(),
            None => some_arguments(&compiled, seed).ok_or(Stop::Limited)?,
        };
        let limits = limits(subject, &self.stop);
        let dump = || compiled.dump();
        let got = run(cpu, &compiled, &literals, &limits);
        let expected = run(cpu, &reference, &literals, &limits);
        let (got, expected) = match (got, expected) {
            (Ok(got), Ok(expected)) => (got, expected),
            (Err(Stop::Wrong(what)), _) | (_, Err(Stop::Wrong(what))) => {
                return Err(Stop::Wrong(format!("{what}\n{}", dump())));
            }
            (Err(Stop::Limited), _) | (_, Err(Stop::Limited)) => return Err(Stop::Limited),
            (Err(Stop::Failed(error)), Err(Stop::Failed(_))) => return Err(Stop::Failed(error)),
            // What the device lacks, the interpreter may have; checks have tolerances.
            (Err(Stop::Failed(error @ (Error::Unsupported { .. } | Error::Check { .. }))), _) => {
                return Err(Stop::Failed(error));
            }
            (Err(Stop::Failed(error)), Ok(_)) => {
                return Err(Stop::Wrong(format!("only the compiled program fails: {error}\n{}", dump())));
            }
            // An op that fails and that no result needs is not compiled.
            (Ok(_), Err(Stop::Failed(error))) => return Err(Stop::Failed(error)),
        };
        let mut agreed = Agreed { is_compiled: compiled.why_interpreted().is_none(), ..Agreed::default() };
        if got.len() != expected.len() {
            return Err(Stop::Wrong(format!("{} results, {} interpreted", got.len(), expected.len())));
        }
        let levels = if subject.allowed == Allowed::AsOpsTell { levels(compiled.module()) } else { Vec::new() };
        for (n, (a, b)) in got.iter().zip(&expected).enumerate() {
            let level = levels.get(n).copied().unwrap_or(Level::Open);
            let found = match &subject.allowed {
                Allowed::Within(bounds) => difference(a, b, bounds[n]),
                // What is below the normal range is zero to kernels.
                Allowed::AsOpsTell if level <= Level::Same => difference(a, b, f64::from(f32::MIN_POSITIVE)),
                Allowed::AsOpsTell if level == Level::Close => far_difference(a, b, loosest(module))
                    .filter(|(at, _)| self.is_steady(&reference, cpu, &literals, &expected, a, n, *at, &limits)),
                Allowed::AsOpsTell => {
                    agreed.open += 1;
                    // Types and sizes are never open.
                    let is_same = (a.dtype(), a.dims()) == (b.dtype(), b.dims());
                    if is_same { continue } else { difference(a, b, 0.0) }
                }
            };
            if let Some((_, what)) = found {
                return Err(Stop::Wrong(format!("result {n}: {what}\n{}", dump())));
            }
            agreed.compared += 1;
        }
        Ok(agreed)
    }

    /// Whether an element stays where it is when arguments and constants change by little: only then must two engines agree
    /// on it.
    #[allow(clippy::too_many_arguments)]
    fn is_steady(
        &self,
        reference: &Compiled,
        cpu: &Arc<Cpu>,
        literals: &[Literal],
        expected: &[Literal],
        got: &Literal,
        result: usize,
        at: usize,
        limits: &InterpreterOptions,
    ) -> bool {
        let element = |literal: &Literal| numbers(literal).and_then(|numbers| numbers.get(at).copied());
        let (Some(expected), Some(got)) = (element(&expected[result]), element(got)) else { return true };
        let mut choices = Numbers::new(at as u64);
        for _ in 0..4 {
            let moved: Vec<Literal> = literals.iter().map(|literal| nudge(literal, &mut choices)).collect();
            let options = EngineOptions { mode: ExecutionMode::Interpreted, ..EngineOptions::default() };
            let Some(module) = nudge_constants(reference.module(), &mut choices) else { return false };
            let Ok(program) = Compiled::from_module(cpu, module, &options) else { return false };
            let Ok(results) = run(cpu, &program, &moved, limits) else { return false };
            match results.get(result).and_then(element) {
                Some(other) if other.is_finite() && (other - expected).abs() * 64.0 < (got - expected).abs() => {}
                _ => return false,
            }
        }
        true
    }
}

/// The same numbers, each changed in its last bits.
fn nudge(literal: &Literal, choices: &mut Numbers) -> Literal {
    let part = literal.dtype().complex_part().unwrap_or(literal.dtype());
    let Some(values) = numbers(literal).filter(|_| part.is_float()) else { return literal.clone() };
    let bits = match part {
        DType::F64 => 40,
        DType::F32 => 18,
        DType::F16 => 9,
        DType::BF16 => 7,
        DType::F8E3M4 => 4,
        DType::F6E3M2FN | DType::F8E5M2 | DType::F8E5M2FNUZ => 2,
        DType::F4E2M1FN => 1,
        _ => 3,
    };
    let bytes = values
        .iter()
        .flat_map(|value| {
            let moved = value * (1.0 + f64::from(choices.between(-1, 1) as i32) * f64::from(-bits).exp2());
            encode_float(part, moved).unwrap_or(0).to_le_bytes()[..part.size_bytes()].to_vec()
        })
        .collect();
    Literal::new(literal.dtype(), literal.dims(), bytes).unwrap_or_else(|| literal.clone())
}

/// The same program with every float of its constants changed in its last bits, repeated ones each on its own.
fn nudge_constants(module: &Module, choices: &mut Numbers) -> Option<Verified> {
    let mut module = module.clone();
    for op in module.funcs.iter_mut().flat_map(|func| &mut func.ops) {
        let Some(Attr::Dense(dense)) = op.attr("value") else { continue };
        let Some(dtype) = dense.ty.element.plain().filter(|dtype| dtype.is_float() || dtype.is_complex()) else {
            continue;
        };
        let dims: Vec<usize> = dense.ty.dims.iter().map(|&size| usize::try_from(size).ok()).collect::<Option<_>>()?;
        let bytes = match &dense.data {
            DenseData::Splat(one) => one.repeat(dims.iter().product()),
            DenseData::Elements(all) => all.to_vec(),
            DenseData::Strings(_) => continue,
        };
        let moved = nudge(&Literal::new(dtype, dims, bytes)?, choices);
        let dense = Dense::from_elements(dense.ty.clone(), moved.bytes().to_vec())?;
        op.attrs.set("value", Attr::Dense(dense.into()));
    }
    hlo::verify(module).ok()
}

/// Whether a program may be run: its memory and the interpreter's work are bounded.
fn is_small(module: &Module, compiled: &Compiled) -> bool {
    let bytes = |ports: &[PortType]| ports.iter().try_fold(0usize, |sum, port| sum.checked_add(port.bytes()?));
    let fits = |ports: &[PortType]| bytes(ports).is_some_and(|n| n <= MAX_BYTES);
    let elements = module.funcs.iter().flat_map(|func| &func.values).try_fold(0u64, |sum, value| {
        let count = value.ty.as_tensor().map_or(Some(0), |ty| if ty.is_static() { ty.num_elements() } else { Some(1) });
        sum.checked_add(count?)
    });
    fits(compiled.arguments())
        && fits(compiled.results())
        && compiled.temporary_bytes().is_none_or(|n| n <= 16 * MAX_BYTES)
        && elements.is_some_and(|n| n <= MAX_ELEMENTS)
        && module
            .funcs
            .iter()
            .all(|func| func.ops.iter().all(|op| windowed(func, op).is_some_and(|n| n <= MAX_WINDOWED)))
}

/// Elements that the windows of an op have together; `None` for too many to count.
fn windowed(func: &Func, op: &Op) -> Option<u64> {
    let Some(Attr::DenseArray(_, window)) = op.attr("window_dimensions") else { return Some(0) };
    let elements = |value| func.ty(value).as_tensor().and_then(|ty| ty.num_elements()).unwrap_or(1);
    let places = op.operands.iter().copied().chain(op.results()).map(elements).max().unwrap_or(1);
    window.iter().try_fold(places, |all, &size| all.checked_mul(size.unsigned_abs()))
}

fn some_arguments(compiled: &Compiled, seed: u64) -> Option<Vec<Literal>> {
    let mut choices = Numbers::new(seed);
    let mut one = |port: &PortType| match port {
        PortType::Array(dtype, dims) => {
            let dims: Vec<usize> = dims.iter().copied().collect::<Option<_>>()?;
            let look = choices.pick(&[Look::Quarters, Look::Quarters, Look::Special, Look::Positive, Look::Any]);
            let narrow = dtype.bits() == 8 && dtype.is_float();
            Some(choices.literal(*dtype, &dims, if narrow { Look::Quarters } else { look }))
        }
        PortType::Token => Literal::zeros(DType::Bool, [0]),
    };
    compiled.arguments().iter().map(&mut one).collect()
}

/// Runs a program; a compiled one twice more, of which once in fenced memory, with the same results to the last bit.
fn run(
    cpu: &Arc<Cpu>,
    compiled: &Compiled,
    literals: &[Literal],
    limits: &InterpreterOptions,
) -> Result<Vec<Literal>, Stop> {
    let arrays =
        || literals.iter().map(|literal| Array::from_literal(cpu.memory(), literal)).collect::<Result<Vec<_>, _>>();
    let arguments = arrays()?;
    // Arguments that are not donated must come out as they went in.
    let donated = compiled.donated();
    let kept: Vec<Option<Array>> = arguments
        .iter()
        .enumerate()
        .map(|(n, array)| (donated.get(n) == Some(&Donation::Kept)).then(|| array.clone()))
        .collect();
    let results = compiled.run(vec![arguments], limits)?.remove(0);
    for (array, literal) in kept.iter().zip(literals) {
        if array.as_ref().is_some_and(|array| array.bytes() != literal.bytes()) {
            return Err(Stop::Wrong("an argument was overwritten".into()));
        }
    }
    if compiled.why_interpreted().is_none() {
        let draws = draws(compiled.module());
        let same = |what: &str, again: &[Literal]| {
            let differs = again.len() != results.len()
                || again.iter().zip(&results).any(|(a, b)| a.dtype() != b.dtype() || *a.bytes() != *b.bytes());
            if differs && !draws { Err(Stop::Wrong(format!("{what} gives something else"))) } else { Ok(()) }
        };
        // A second run finds memory that the first one used.
        let again = compiled.run(vec![arrays()?], limits)?.remove(0);
        same("a second run", &again.iter().map(Array::to_literal).collect::<Vec<_>>())?;
        #[cfg(unix)]
        if let Some(guarded) = compiled.run_guarded(arrays()?, limits)? {
            same("a run in fenced memory", &guarded)?;
        }
    }
    Ok(results.iter().map(Array::to_literal).collect())
}

/// Whether two runs may differ: what `rng` draws is left to the implementation.
fn draws(module: &Module) -> bool {
    module.funcs.iter().flat_map(|func| &func.ops).any(|op| op.kind() == Some(hlo::OpKind::Rng))
}
