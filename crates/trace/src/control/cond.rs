//! `cond` and `switch`: one of several functions, chosen by a computed value.

use std::panic::Location;
use std::rc::Rc;

use tensor::DType;

use crate::Spec;
use crate::control::{batched_body, same_leaves, spread};
use crate::error::misuse;
use crate::graph::{Graph, Prim};
use crate::stack::{self, Closed};
use crate::tensor::Tensor;
use crate::transform::{self, Lane, Pull};
use crate::tree::Tree;

/// One of the functions [`switch`] chooses from.
pub type Branch<'a, I, O> = Box<dyn FnOnce(&I) -> O + 'a>;

/// Graphs of the same inputs and outputs, one of which runs.
#[derive(Clone, Debug)]
pub(crate) struct Cond {
    pub(crate) branches: Vec<Graph>,
}

/// Runs `on_true` or `on_false`; only the chosen one runs.
#[track_caller]
pub fn cond<I: Tree, O: Tree>(
    predicate: &Tensor,
    inputs: &I,
    on_true: impl FnOnce(&I) -> O,
    on_false: impl FnOnce(&I) -> O,
) -> O {
    if predicate.dtype() != DType::Bool || predicate.rank() != 0 {
        misuse(Location::caller(), format!("a condition is a boolean scalar, not {}", predicate.spec()));
    }
    let (on_false, on_true) = (Box::new(on_false), Box::new(on_true));
    let branches: Vec<Branch<'_, I, O>> = vec![on_false, on_true];
    choose(&predicate.cast(DType::I32), inputs, branches)
}

/// Runs the branch a computed `i32` names; a number outside runs the last.
#[track_caller]
pub fn switch<I: Tree, O: Tree>(index: &Tensor, inputs: &I, branches: Vec<Branch<'_, I, O>>) -> O {
    if index.dtype() != DType::I32 || index.rank() != 0 {
        misuse(Location::caller(), format!("a branch is chosen by an i32 scalar, not {}", index.spec()));
    }
    choose(index, inputs, branches)
}

#[track_caller]
fn choose<I: Tree, O: Tree>(index: &Tensor, inputs: &I, branches: Vec<Branch<'_, I, O>>) -> O {
    let at = Location::caller();
    let mut result: Option<O> = None;
    let specs = inputs.specs();
    let mut closed: Vec<Closed> = Vec::new();
    for branch in branches {
        closed.push(stack::closed(&specs, |args| {
            let output = branch(&inputs.with_leaves(args));
            let leaves = output.leaves();
            match &result {
                Some(first) => same_leaves(at, "the result of a branch", first, &output),
                None => result = Some(output.shapes()),
            }
            leaves
        }));
    }
    let Some(result) = result else { misuse(at, "switch over no branches") };
    let (tensors, branches) = united(inputs.leaves(), closed);
    let outputs = push(Cond { branches }, index, &tensors, at);
    result.with_leaves(outputs)
}

/// Branches that all take the inputs and everything one of them captured.
fn united(mut tensors: Vec<Tensor>, closed: Vec<Closed>) -> (Vec<Tensor>, Vec<Graph>) {
    let explicit = tensors.len();
    let total: usize = closed.iter().map(|branch| branch.captured.len()).sum();
    let mut graphs = Vec::new();
    let mut first = explicit;
    for mut branch in closed {
        let captured = branch.graph.inputs.split_off(explicit);
        let own = first..first + captured.len();
        let mut captured = captured.into_iter();
        let all: Vec<Tensor> = branch.captured;
        // Inputs of the other branches are taken and not read.
        for n in explicit..explicit + total {
            let input = if own.contains(&n) { captured.next() } else { None };
            branch.graph.inputs.push(input.unwrap_or(crate::graph::Ref(u32::MAX)));
        }
        first = own.end;
        tensors.extend(all);
        graphs.push(branch.graph);
    }
    for graph in &mut graphs {
        for (n, tensor) in tensors.iter().enumerate().skip(explicit) {
            if graph.inputs[n].0 == u32::MAX {
                graph.inputs[n] = graph.value(tensor.spec().clone());
            }
        }
    }
    (tensors, graphs)
}

/// Writes the choice; the node's inputs are the index, then those of the branches.
fn push(cond: Cond, index: &Tensor, tensors: &[Tensor], at: &'static Location<'static>) -> Vec<Tensor> {
    let specs = cond.branches.first().map(Graph::output_specs).unwrap_or_default();
    let inputs: Vec<&Tensor> = std::iter::once(index).chain(tensors).collect();
    stack::push(Prim::Cond(Rc::new(cond)), &inputs, specs, at)
}

/// The choice, and the choice that runs backward: a branch rematerializes what it needs.
pub(crate) fn vjp(
    cond: &Rc<Cond>,
    ins: &[Tensor],
    active: &[bool],
    at: &'static Location<'static>,
) -> (Vec<Tensor>, Pull) {
    let outs = push((**cond).clone(), &ins[0], &ins[1..], at);
    let (cond, ins, active) = (cond.clone(), ins.to_vec(), active[1..].to_vec());
    let pull: Pull = Box::new(move |cts| {
        let given: Vec<usize> = (0..cts.len()).filter(|&n| cts[n].is_some()).collect();
        let wanted: Vec<usize> = (0..active.len()).filter(|&n| active[n]).collect();
        let operands: Vec<Tensor> = ins[1..].iter().chain(cts.iter().flatten()).cloned().collect();
        let specs: Vec<Spec> = operands.iter().map(|operand| operand.spec().clone()).collect();
        let num_inputs = active.len();
        let branches: Vec<Closed> = cond
            .branches
            .iter()
            .map(|branch| {
                stack::closed(&specs, |args| {
                    let (_, tape) = transform::forward(branch, &args[..num_inputs], &active);
                    let mut cts = vec![None; branch.outputs.len()];
                    for (at, &n) in given.iter().enumerate() {
                        cts[n] = Some(args[num_inputs + at].clone());
                    }
                    let grads = tape.backward(cts);
                    wanted.iter().map(|&n| grads[n].clone().unwrap_or_else(|| args[n].zeros_like())).collect()
                })
            })
            .collect();
        let (tensors, branches) = united(operands, branches);
        let grads = push(Cond { branches }, &ins[0], &tensors, at);
        let mut in_cts = vec![None; ins.len()];
        for (&n, grad) in wanted.iter().zip(grads) {
            in_cts[n + 1] = Some(grad);
        }
        in_cts
    });
    (outs, pull)
}

/// The choice with tangents beside the values.
pub(crate) fn jvp(
    cond: &Cond,
    ins: &[Tensor],
    tangents: &[Option<Tensor>],
    at: &'static Location<'static>,
) -> (Vec<Tensor>, Vec<Option<Tensor>>) {
    let active: Vec<usize> = (1..ins.len()).filter(|&n| tangents[n].is_some()).collect();
    let operands: Vec<Tensor> =
        ins[1..].iter().cloned().chain(active.iter().filter_map(|&n| tangents[n].clone())).collect();
    let specs: Vec<Spec> = operands.iter().map(|operand| operand.spec().clone()).collect();
    let num_inputs = ins.len() - 1;
    let flags: Vec<bool> = (1..ins.len()).map(|n| tangents[n].is_some()).collect();
    let num_outputs = cond.branches.first().map_or(0, |branch| branch.outputs.len());
    let is_active: Vec<bool> = (0..num_outputs)
        .map(|n| cond.branches.iter().any(|b| transform::activity(b, &flags)[b.outputs[n].0 as usize]))
        .collect();
    let branches: Vec<Closed> = cond
        .branches
        .iter()
        .map(|branch| {
            stack::closed(&specs, |args| {
                let mut directions = vec![None; num_inputs];
                for (at, &n) in active.iter().enumerate() {
                    directions[n - 1] = Some(args[num_inputs + at].clone());
                }
                let (mut outs, out_tangents) = transform::push_forward(branch, &args[..num_inputs], &directions);
                for n in (0..num_outputs).filter(|&n| is_active[n]) {
                    outs.push(out_tangents[n].clone().unwrap_or_else(|| outs[n].zeros_like()));
                }
                outs
            })
        })
        .collect();
    let (tensors, branches) = united(operands, branches);
    let mut outs = push(Cond { branches }, &ins[0], &tensors, at);
    let mut extra = outs.split_off(num_outputs).into_iter();
    (outs, is_active.into_iter().map(|is_active| if is_active { extra.next() } else { None }).collect())
}

/// The choice for a batch. Where each example chooses for itself, all branches run.
pub(crate) fn batched(cond: &Cond, ins: &[Lane], size: usize, at: &'static Location<'static>) -> Vec<Tensor> {
    let (index, lanes) = (&ins[0], &ins[1..]);
    if !index.is_batched {
        let branches =
            cond.branches.iter().map(|branch| batched_body(branch, lanes, size, |outs| spread(outs, size))).collect();
        let operands = lanes.iter().map(|lane| lane.tensor.clone()).collect();
        let (tensors, branches) = united(operands, branches);
        return push(Cond { branches }, &index.tensor, &tensors, at);
    }
    let mut results: Vec<Vec<Tensor>> =
        cond.branches.iter().map(|branch| spread(transform::batch(branch, lanes, size), size)).collect();
    // A number outside chooses the last.
    let mut chosen = results.pop().unwrap_or_default();
    for (number, branch) in results.iter().enumerate().rev() {
        let is_chosen = index.tensor.equals(&Tensor::scalar(DType::I32, number as f64));
        for (have, other) in chosen.iter_mut().zip(branch) {
            *have = is_chosen.broadcast_along(have.dims(), &[0]).select(other, have);
        }
    }
    chosen
}
