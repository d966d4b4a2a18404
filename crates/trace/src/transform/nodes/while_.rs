//! Tangents of `while_loop`, and the loop for a batch.

use std::panic::Location;

use crate::control::while_loop;
use crate::graph::While;
use crate::ops::lane::Lane;
use crate::tensor::Tensor;
use crate::transform;
use crate::transform::nodes::spread;

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
