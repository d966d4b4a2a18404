//! Higher-order ops: branches, loops and scans over graphs.

use std::collections::BTreeMap;

use tensor::DType;
use trace::Tensor;

use crate::error::Error;
use crate::graph::{Graph, NodeArgument};
use crate::translate::call::{Call, Value};
use crate::translate::mode::{Context, ProgramMode};
use crate::translate::run::{Rules, Translator};
use crate::translate::types::cast;

type Answer = Result<Value, Error>;

fn graph<'g>(call: &Call<'_, 'g>, n: usize) -> Result<&'g Graph, Error> {
    match call.nth(n)? {
        NodeArgument::Graph(_, graph) => Ok(graph),
        _ => Err(Error::damaged(format!("argument {n} is no graph"))),
    }
}

/// Tensors of a list argument; numbers in it become tensors.
fn operands(call: &mut Call<'_, '_>, n: usize) -> Result<Vec<Tensor>, Error> {
    match call.nth(n)? {
        NodeArgument::Tensors(names) => {
            let names = names.iter().flatten();
            names.map(|name| call.translator.tensor(name)).collect()
        }
        NodeArgument::None => Ok(Vec::new()),
        NodeArgument::Ints(values) => values
            .iter()
            .map(|value| Ok(crate::translate::types::Scalar::Int(call.translator.sym_int(value)?).tensor(DType::I64)))
            .collect(),
        NodeArgument::Tensor(name) => Ok(vec![call.translator.tensor(name)?]),
        _ => Err(Error::damaged(format!("argument {n} is no list of tensors"))),
    }
}

/// Runs a graph on tensors.
fn run(
    graph: &Graph,
    symbols: &BTreeMap<String, i64>,
    mode: &ProgramMode,
    inputs: &[Tensor],
) -> Result<Vec<Tensor>, Error> {
    let mut translator = Translator::new(graph, symbols, Context::of(mode.clone()));
    if inputs.len() != graph.inputs.len() {
        let (given, wanted) = (inputs.len(), graph.inputs.len());
        return Err(Error::damaged(format!("an inner graph takes {wanted} inputs and is given {given}")));
    }
    for (input, tensor) in graph.inputs.iter().zip(inputs) {
        if let NodeArgument::Tensor(name) = input {
            translator.bind(name, tensor.clone());
        }
    }
    translator.run()?;
    let mut results = Vec::new();
    for output in &graph.outputs {
        results.extend(match output {
            NodeArgument::Tensors(names) => {
                names.iter().flatten().map(|name| translator.tensor(name)).collect::<Result<Vec<_>, _>>()?
            }
            other => translator.output(other)?.into_iter().collect(),
        });
    }
    for input in &graph.inputs {
        if let NodeArgument::Tensor(name) = input
            && translator.written(name)?.is_some()
        {
            return Err(Error::new("an inner graph writes to its input", "export with `run_decompositions()`"));
        }
    }
    Ok(results)
}

/// Runs graphs where errors cannot be returned, and gives the first of them afterwards.
struct Inner<'g> {
    symbols: &'g BTreeMap<String, i64>,
    mode: ProgramMode,
    failed: std::cell::RefCell<Option<Error>>,
}

impl<'g> Inner<'g> {
    fn of(call: &mut Call<'_, 'g>) -> Inner<'g> {
        let (symbols, mode) = (call.translator.symbols(), call.translator.context.inner_mode());
        Inner { symbols, mode, failed: std::cell::RefCell::new(None) }
    }

    /// The results, or what stands in for them once something failed.
    fn run(&self, graph: &Graph, inputs: &[Tensor], instead: impl FnOnce() -> Vec<Tensor>) -> Vec<Tensor> {
        match run(graph, self.symbols, &self.mode, inputs) {
            Ok(results) => results,
            Err(error) => {
                self.failed.borrow_mut().get_or_insert(error);
                instead()
            }
        }
    }

    fn done(self, results: Vec<Tensor>) -> Answer {
        match self.failed.into_inner() {
            Some(error) => Err(error),
            None => Ok(Value::Several(results.into_iter().map(Value::Tensor).collect())),
        }
    }
}

/// Shapes that a graph's results have, for a branch that failed.
fn stand_ins(call: &Call<'_, '_>) -> Result<Vec<(DType, Vec<usize>)>, Error> {
    call.translator.recorded_results(call.node)
}

fn zeros(shapes: &[(DType, Vec<usize>)]) -> Vec<Tensor> {
    shapes.iter().map(|(dtype, dims)| Tensor::zeros(*dtype, dims)).collect()
}

fn cond(call: &mut Call<'_, '_>) -> Answer {
    let (on_true, on_false) = (graph(call, 1)?, graph(call, 2)?);
    let inputs = operands(call, 3)?;
    let inner = Inner::of(call);
    // A condition on sizes is decided now.
    if let Some(known) = call.translator.scalar(call.nth(0)?)? {
        let chosen = if known.as_f64() != 0.0 { on_true } else { on_false };
        let results = run(chosen, inner.symbols, &inner.mode, &inputs)?;
        return inner.done(results);
    }
    let predicate = cast(&call.subject()?.reshape(&[]), DType::Bool);
    let shapes = stand_ins(call)?;
    let results = trace::cond(
        &predicate,
        &inputs,
        |inputs| inner.run(on_true, inputs, || zeros(&shapes)),
        |inputs| inner.run(on_false, inputs, || zeros(&shapes)),
    );
    inner.done(results)
}

fn while_loop(call: &mut Call<'_, '_>) -> Answer {
    let (condition, body) = (graph(call, 0)?, graph(call, 1)?);
    let (carried, extra) = (operands(call, 2)?, operands(call, 3)?);
    let inner = Inner::of(call);
    let result = trace::while_loop(
        &(carried, extra),
        |(carried, extra)| {
            let inputs = [carried.clone(), extra.clone()].concat();
            let found = inner.run(condition, &inputs, || vec![Tensor::zeros(DType::Bool, &[])]);
            let found = found.into_iter().next().unwrap_or_else(|| Tensor::zeros(DType::Bool, &[]));
            cast(&found.reshape(&[]), DType::Bool)
        },
        |(carried, extra)| {
            let inputs = [carried.clone(), extra.clone()].concat();
            (inner.run(body, &inputs, || carried.clone()), extra.clone())
        },
    );
    inner.done(result.0)
}

/// `scan(combine, init, xs, extra)`: carried values and a slice give the next ones and results to keep.
fn scan(call: &mut Call<'_, '_>) -> Answer {
    let combine = graph(call, 0)?;
    let (init, xs, extra) = (operands(call, 1)?, operands(call, 2)?, operands(call, 3)?);
    let (count, shapes) = (init.len(), stand_ins(call)?);
    let inner = Inner::of(call);
    let ((last, _), kept) = trace::scan(&(init, extra), &xs, None, |(carried, extra), xs| {
        let inputs = [carried.clone(), xs.clone(), extra.clone()].concat();
        let mut results = inner.run(combine, &inputs, || {
            let slices: Vec<_> =
                shapes.iter().skip(count).map(|(d, dims)| (*d, dims.get(1..).unwrap_or_default().to_vec())).collect();
            [carried.clone(), zeros(&slices)].concat()
        });
        let kept = results.split_off(count.min(results.len()));
        ((results, extra.clone()), kept)
    });
    inner.done([last, kept].concat())
}

/// `map_impl(body, xs, extra)`: the body on every slice.
fn map(call: &mut Call<'_, '_>) -> Answer {
    let body = graph(call, 0)?;
    let (xs, extra) = (operands(call, 1)?, operands(call, 2)?);
    let shapes = stand_ins(call)?;
    let inner = Inner::of(call);
    let (_, kept) = trace::scan(&extra, &xs, None, |extra, xs| {
        let inputs = [xs.clone(), extra.clone()].concat();
        let results = inner.run(body, &inputs, || {
            let slices: Vec<_> =
                shapes.iter().map(|(d, dims)| (*d, dims.get(1..).unwrap_or_default().to_vec())).collect();
            zeros(&slices)
        });
        (extra.clone(), results)
    });
    inner.done(kept)
}

/// A graph that runs as it stands; its operands follow it one by one.
fn inlined(call: &mut Call<'_, '_>) -> Answer {
    let at = call.node.inputs.iter().position(|(_, argument)| matches!(argument, NodeArgument::Graph(..)));
    let at = at.ok_or_else(|| Error::damaged("it has no graph"))?;
    let body = graph(call, at)?;
    let mut inputs = Vec::new();
    for n in at + 1..call.node.inputs.len() {
        inputs.extend(operands(call, n)?);
    }
    let inner = Inner::of(call);
    let results = run(body, inner.symbols, &inner.mode, &inputs)?;
    inner.done(results)
}

fn autocast(call: &mut Call<'_, '_>) -> Answer {
    if call.translator.scalar(call.nth(2)?)?.is_some_and(|enabled| enabled.as_f64() != 0.0) {
        return Err(Error::new(
            "its ops would be computed in another type (autocast), which the file does not say of each",
            "convert the model (`model.to(torch.bfloat16)`) in place of autocast, or `run_decompositions()`",
        ));
    }
    inlined(call)
}

pub(super) const RULES: Rules = &[
    ("higher_order.cond", cond),
    ("higher_order.while_loop", while_loop),
    ("higher_order.scan", scan),
    ("higher_order.map_impl", map),
    ("higher_order.wrap_with_set_grad_enabled", inlined),
    ("higher_order.wrap_with_autocast", autocast),
    ("higher_order.wrap", inlined),
    ("higher_order.wrap_activation_checkpoint", inlined),
    ("higher_order.tag_activation_checkpoint", inlined),
];
