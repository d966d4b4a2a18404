//! Nodes whose inputs are all known are computed while the model is translated: shapes, mostly.

use std::sync::Arc;

use cpu::interpret::{Interpreter, InterpreterOptions};
use tensor::Literal;
use trace::{Donate, Tensor};

use crate::call::Call;
use crate::error::Error;
use crate::ops::Rule;

/// Values that are computed here at most; what is larger is left to the program.
const ELEMENTS: usize = 1 << 16;
/// Steps that one node may take here.
const STEPS: u64 = 1 << 20;

/// The results of a node, known where its inputs are.
pub(crate) fn folded(rule: Rule, call: &Call<'_>) -> Result<Vec<Tensor>, Error> {
    let is_known = |tensor: &Tensor| tensor.host_value().is_some() && tensor.num_elements() <= ELEMENTS;
    let all_known = !call.inputs.is_empty() && call.inputs.iter().flatten().all(is_known);
    if !all_known {
        return trace::scope(call.op, || rule(call));
    }
    match computed(rule, call)? {
        Some(values) => Ok(values.into_iter().map(|value| Tensor::on_host(Arc::new(value))).collect()),
        None => trace::scope(call.op, || rule(call)),
    }
}

/// Runs a node on the interpreter; nothing where that takes too long or too much.
fn computed(rule: Rule, call: &Call<'_>) -> Result<Option<Vec<Literal>>, Error> {
    let mut outcome = Ok(());
    let traced = trace::trace("node", &Vec::<Tensor>::new(), Donate::Nothing, |_| {
        rule(call).unwrap_or_else(|error| {
            outcome = Err(error);
            Vec::new()
        })
    });
    outcome?;
    let (function, results) = traced?;
    if results.iter().any(|result| result.num_elements() > ELEMENTS) {
        return Ok(None);
    }
    let options =
        InterpreterOptions { max_steps: Some(STEPS), max_elements: Some(4 * ELEMENTS as u64), ..Default::default() };
    let run = Interpreter::new(&function.module, options).run("main", Vec::new());
    let Ok(values) = run else { return Ok(None) };
    Ok(values.iter().map(|value| value.tensor().ok()?.to_literal().ok()).collect())
}
