//! `while_loop`: a loop whose length is computed; it has tangents, but no backward pass.

use std::panic::Location;
use std::rc::Rc;

use tensor::DType;

use crate::control::{same_leaves, spread};
use crate::error::misuse;
use crate::graph::{Graph, Prim};
use crate::stack;
use crate::tensor::Tensor;
use crate::transform::{self, Lane};
use crate::tree::Tree;

/// A loop: while the condition of what is carried holds, the body runs. Both take constants first.
#[derive(Clone, Debug)]
pub(crate) struct While {
    pub(crate) condition: Graph,
    pub(crate) condition_consts: usize,
    pub(crate) body: Graph,
    pub(crate) body_consts: usize,
}

/// Runs `body` on what is carried as long as `condition` holds.
///
/// Memory for a backward pass would grow with the number of iterations, which is not known: use [`crate::scan`] where a
/// gradient is wanted.
#[track_caller]
pub fn while_loop<C: Tree>(init: &C, condition: impl FnOnce(&C) -> Tensor, body: impl FnOnce(&C) -> C) -> C {
    let at = Location::caller();
    let specs = init.specs();
    let mut condition = stack::closed(&specs, |args| {
        let holds = condition(&init.with_leaves(args));
        if holds.dtype() != DType::Bool || holds.rank() != 0 {
            misuse(at, format!("a condition is a boolean scalar, not {}", holds.spec()));
        }
        vec![holds]
    });
    let mut body = stack::closed(&specs, |args| {
        let carry = init.with_leaves(args);
        let next = body(&carry);
        same_leaves(at, "what a loop carries", &carry, &next);
        next.leaves()
    });
    condition.graph.inputs.rotate_left(specs.len());
    body.graph.inputs.rotate_left(specs.len());
    let looped = While {
        condition: condition.graph,
        condition_consts: condition.captured.len(),
        body: body.graph,
        body_consts: body.captured.len(),
    };
    let inputs: Vec<Tensor> = condition.captured.into_iter().chain(body.captured).chain(init.leaves()).collect();
    let outputs = push(looped, &inputs, at);
    init.with_leaves(outputs)
}

/// Writes the loop; the node's inputs are the constants of the condition, of the body, and what is carried.
fn push(looped: While, inputs: &[Tensor], at: &'static Location<'static>) -> Vec<Tensor> {
    let specs = looped.body.output_specs();
    stack::push(Prim::While(Rc::new(looped)), &inputs.iter().collect::<Vec<_>>(), specs, at)
}

/// The loop with tangents carried beside the values.
pub(crate) fn jvp(
    looped: &While,
    ins: &[Tensor],
    tangents: &[Option<Tensor>],
    at: &'static Location<'static>,
) -> (Vec<Tensor>, Vec<Option<Tensor>>) {
    let (outer, consts) = (looped.condition_consts, looped.body_consts);
    let carries = looped.body.outputs.len();
    let mut flags: Vec<bool> = tangents[outer..].iter().map(Option::is_some).collect();
    loop {
        let reached = transform::activity(&looped.body, &flags);
        let mut is_same = true;
        for n in 0..carries {
            if reached[looped.body.outputs[n].0 as usize] && !flags[consts + n] {
                flags[consts + n] = true;
                is_same = false;
            }
        }
        if is_same {
            break;
        }
    }
    let active: Vec<usize> = (0..carries).filter(|&n| flags[consts + n]).collect();
    let carried: Vec<Tensor> = ins[outer + consts..]
        .iter()
        .cloned()
        .chain(active.iter().map(|&n| {
            let at = outer + consts + n;
            tangents[at].clone().unwrap_or_else(|| ins[at].zeros_like())
        }))
        .collect();
    let condition_inputs = ins[..outer].to_vec();
    let body_inputs = ins[outer..outer + consts].to_vec();
    let body_tangents = tangents[outer..outer + consts].to_vec();
    let _ = at;
    let results = while_loop(
        &carried,
        |carried| {
            let inputs: Vec<Tensor> = condition_inputs.iter().chain(&carried[..carries]).cloned().collect();
            transform::replay(&looped.condition, &inputs)[0].clone()
        },
        |carried| {
            let inputs: Vec<Tensor> = body_inputs.iter().chain(&carried[..carries]).cloned().collect();
            let mut directions = body_tangents.clone();
            directions.resize(consts + carries, None);
            for (at, &n) in active.iter().enumerate() {
                directions[consts + n] = Some(carried[carries + at].clone());
            }
            let (mut outs, out_tangents) = transform::push_forward(&looped.body, &inputs, &directions);
            for &n in &active {
                outs.push(out_tangents[n].clone().unwrap_or_else(|| outs[n].zeros_like()));
            }
            outs
        },
    );
    let mut out_tangents = vec![None; carries];
    for (at, &n) in active.iter().enumerate() {
        out_tangents[n] = Some(results[carries + at].clone());
    }
    (results[..carries].to_vec(), out_tangents)
}

/// The loop for a batch. Where examples differ in their number of iterations, it runs until the last has ended, and those that
/// have ended keep their values.
pub(crate) fn batched(looped: &While, ins: &[Lane], size: usize) -> Vec<Tensor> {
    let (outer, consts) = (looped.condition_consts, looped.body_consts);
    let carries = looped.body.outputs.len();
    let (condition_lanes, rest) = ins.split_at(outer);
    let (body_lanes, carried) = rest.split_at(consts);
    let mut flags: Vec<bool> = carried.iter().map(|lane| lane.is_batched).collect();
    let with_flags = |lanes: &[Lane], flags: &[bool]| {
        lanes.iter().map(|lane| lane.is_batched).chain(flags.iter().copied()).collect::<Vec<bool>>()
    };
    loop {
        let before = flags.clone();
        let reached = looped.body.reached_from(&with_flags(body_lanes, &flags));
        for (flag, output) in flags.iter_mut().zip(&looped.body.outputs) {
            *flag |= reached[output.0 as usize];
        }
        let ends = looped.condition.reached_from(&with_flags(condition_lanes, &flags));
        if looped.condition.outputs.iter().any(|output| ends[output.0 as usize]) {
            flags.fill(true);
        }
        if flags == before {
            break;
        }
    }
    let start: Vec<Tensor> = carried
        .iter()
        .zip(&flags)
        .map(|(lane, &is_batched)| if is_batched { lane.spread(size) } else { lane.tensor.clone() })
        .collect();
    let lanes_of = |consts: &[Lane], carried: &[Tensor]| {
        let carried = carried.iter().zip(&flags).map(|(t, &is_batched)| Lane { tensor: t.clone(), is_batched });
        consts.iter().cloned().chain(carried).collect::<Vec<Lane>>()
    };
    let holds = |carried: &[Tensor]| {
        transform::batch(&looped.condition, &lanes_of(condition_lanes, carried), size).swap_remove(0)
    };
    let results = while_loop(
        &start,
        |carried| {
            let holds = holds(carried);
            if holds.is_batched { holds.tensor.any(&[0]) } else { holds.tensor }
        },
        |carried| {
            let next = transform::batch(&looped.body, &lanes_of(body_lanes, carried), size);
            let goes_on = holds(carried);
            (0..carries)
                .map(|n| {
                    let next = if flags[n] { next[n].spread(size) } else { next[n].tensor.clone() };
                    if goes_on.is_batched {
                        goes_on.tensor.broadcast_along(next.dims(), &[0]).select(&next, &carried[n])
                    } else {
                        next
                    }
                })
                .collect()
        },
    );
    let lanes = results.into_iter().zip(&flags).map(|(tensor, &is_batched)| Lane { tensor, is_batched });
    spread(lanes.collect(), size)
}
