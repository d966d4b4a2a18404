//! Derivatives of `cond` and `switch`, and the choice for a batch.

use std::panic::Location;
use std::rc::Rc;

use tensor::DType;

use crate::Spec;
use crate::control::{push_cond, united_branches};
use crate::graph::Cond;
use crate::ops::lane::Lane;
use crate::stack::{self, Closed};
use crate::tensor::Tensor;
use crate::transform::nodes::{batched_body, spread};
use crate::transform::{self, Pull};

/// The choice, and the choice that runs backward: a branch rematerializes what it needs.
pub(crate) fn vjp(
    cond: &Rc<Cond>,
    ins: &[Tensor],
    active: &[bool],
    at: &'static Location<'static>,
) -> (Vec<Tensor>, Pull) {
    let outs = push_cond((**cond).clone(), &ins[0], &ins[1..], at);
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
        let (tensors, branches) = united_branches(operands, branches);
        let grads = push_cond(Cond { branches }, &ins[0], &tensors, at);
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
    let (tensors, branches) = united_branches(operands, branches);
    let mut outs = push_cond(Cond { branches }, &ins[0], &tensors, at);
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
        let (tensors, branches) = united_branches(operands, branches);
        return push_cond(Cond { branches }, &index.tensor, &tensors, at);
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
