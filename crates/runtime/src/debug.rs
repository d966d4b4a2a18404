//! Finding out what a program does: op by op on the CPU, with every value in sight, and the first one that is not finite.

use std::sync::{Arc, Mutex, PoisonError};

use compile::{CompileError, Program};
use cpu::interpret::{Elements, Interpreter, InterpreterOptions, InterpreterValue, OpWatch, TensorValue};
use hlo::{Func, Op};
use tensor::Literal;

use crate::error::{Error, ValidationError};

/// A value that an op computed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The op, as in `stablehlo.add`.
    pub op: String,
    /// Where the op is in the source, if the program says so.
    pub location: String,
    /// Its results that are arrays.
    pub results: Vec<Literal>,
}

/// What is looked for in results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NonFiniteCheck {
    /// NaN.
    pub nan: bool,
    /// Infinities.
    pub infinity: bool,
}

/// The first value that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The op that computed it.
    pub op: String,
    /// Where the op is in the source.
    pub location: String,
    /// What it is.
    pub found: &'static str,
    /// Where in the result, as a flat index.
    pub index: usize,
    /// Sizes of the result.
    pub shape: Vec<i64>,
}

/// Runs a program op by op, exactly as the specification says, and shows every step to `see`.
pub fn interpret(
    program: &Program,
    inputs: &[Arc<Literal>],
    see: impl FnMut(Step) + Send + 'static,
) -> Result<Vec<Literal>, Error> {
    let see = Mutex::new(see);
    let watch = OpWatch::new(move |_, op, results| {
        let literals = results.iter().filter_map(|value| value.tensor().ok()?.to_literal().ok());
        let step = Step { op: op.name.as_str().to_string(), location: location(op), results: literals.collect() };
        see.lock().unwrap_or_else(PoisonError::into_inner)(step);
        Ok(())
    });
    run(program, inputs, watch)
}

/// Runs a program op by op and names the op that made the first value that is not finite.
pub fn find_not_finite(
    program: &Program,
    inputs: &[Arc<Literal>],
    check: NonFiniteCheck,
) -> Result<Option<Fault>, Error> {
    let found: Arc<Mutex<Option<Fault>>> = Arc::default();
    let note = Arc::clone(&found);
    let watch = OpWatch::new(move |_: &Func, op: &Op, results: &[InterpreterValue]| {
        let mut note = note.lock().unwrap_or_else(PoisonError::into_inner);
        if note.is_none() && !is_constant(op) {
            *note = results.iter().find_map(|value| fault(op, value.tensor().ok()?, check));
        }
        Ok(())
    });
    run(program, inputs, watch)?;
    let fault = found.lock().unwrap_or_else(PoisonError::into_inner).take();
    Ok(fault)
}

fn run(program: &Program, inputs: &[Arc<Literal>], watch: OpWatch) -> Result<Vec<Literal>, Error> {
    let entry = program.module().entry().ok_or_else(|| ValidationError::Other("there is no entry function".into()))?;
    let name = entry.name.clone();
    let arguments = inputs.iter().map(|literal| InterpreterValue::Tensor(TensorValue::from_literal(literal))).collect();
    let options = InterpreterOptions { watch: Some(watch), ..InterpreterOptions::default() };
    let failed = |error: cpu::Error| {
        Error::Compilation(CompileError::Refused { code: "INTERPRETER".into(), message: error.to_string() })
    };
    let results = Interpreter::new(program.verified(), options).run(&name, arguments).map_err(failed)?;
    let literal = |value: InterpreterValue| value.tensor().and_then(TensorValue::to_literal).map_err(failed);
    results.into_iter().map(literal).collect()
}

/// Masks and neutral elements of reductions are constants of infinity on purpose.
fn is_constant(op: &Op) -> bool {
    op.kind() == Some(hlo::OpKind::Constant)
}

fn fault(op: &Op, tensor: &TensorValue, check: NonFiniteCheck) -> Option<Fault> {
    let wrong = |x: f64| {
        if check.nan && x.is_nan() { Some("NaN") } else { (check.infinity && x.is_infinite()).then_some("infinity") }
    };
    let (index, found) = match &tensor.elements {
        Elements::Float(values) => values.iter().enumerate().find_map(|(n, x)| Some((n, wrong(*x)?)))?,
        Elements::Complex(values) => {
            values.iter().enumerate().find_map(|(n, x)| Some((n, wrong(x.re).or_else(|| wrong(x.im))?)))?
        }
        _ => return None,
    };
    let (op_name, location) = (op.name.as_str().to_string(), location(op));
    Some(Fault { op: op_name, location, found, index, shape: tensor.dims().to_vec() })
}

fn location(op: &Op) -> String {
    match op.loc.as_deref().and_then(|location| location.file_position()) {
        Some((file, line, column)) => format!("{file}:{line}:{column}"),
        None => "an unknown place".to_string(),
    }
}
