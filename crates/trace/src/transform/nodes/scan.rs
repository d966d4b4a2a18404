//! Derivatives of `scan`, and the loop for a batch.

use std::panic::Location;

use crate::Spec;
use crate::control::{push_scan, scan_directed};
use crate::graph::{Direction, Scan};
use crate::ops::lane::{Lane, with_axis};
use crate::stack;
use crate::tensor::Tensor;
use crate::transform::{self, Pull, Source, Split};

/// Which carried values change with active inputs: found by repeating until nothing is added.
fn active_carries(scan: &Scan, active: &[bool]) -> Vec<bool> {
    let mut flags = active.to_vec();
    loop {
        let reached = transform::activity(&scan.body, &flags);
        let mut is_same = true;
        for n in 0..scan.carries {
            let now = reached[scan.body.outputs[n].0 as usize];
            if now && !flags[scan.consts + n] {
                flags[scan.consts + n] = true;
                is_same = false;
            }
        }
        if is_same {
            return flags;
        }
    }
}

/// Indices of what is marked.
fn marked(flags: &[bool]) -> Vec<usize> {
    (0..flags.len()).filter(|&n| flags[n]).collect()
}

/// The loop as run when its derivative is wanted, and the loop that runs backward.
pub(crate) fn vjp(scan: &Scan, ins: &[Tensor], active: &[bool], at: &'static Location<'static>) -> (Vec<Tensor>, Pull) {
    let flags = active_carries(scan, active);
    let reached = transform::activity(&scan.body, &flags);
    let (consts, carries) = (scan.consts, scan.carries);
    let num_inputs = scan.body.inputs.len();
    let num_outputs = scan.body.outputs.len();
    let outputs_active: Vec<bool> = (0..num_outputs)
        .map(|n| if n < carries { flags[consts + n] } else { reached[scan.body.outputs[n].0 as usize] })
        .collect();
    let active_outputs = marked(&outputs_active);
    let wanted = marked(&flags);
    let mut specs: Vec<Spec> = scan.body.inputs.iter().map(|&input| scan.body.spec(input).clone()).collect();
    specs.extend(active_outputs.iter().map(|&n| scan.body.spec(scan.body.outputs[n]).clone()));

    // One step forward and backward as one graph, cut in two afterwards.
    let joint = stack::closed(&specs, |args| {
        let (outs, tape) = transform::forward(&scan.body, &args[..num_inputs], &flags);
        let mut cts = vec![None; num_outputs];
        for (at, &n) in active_outputs.iter().enumerate() {
            cts[n] = Some(args[num_inputs + at].clone());
        }
        let in_cts = tape.backward(cts);
        let mut outputs = outs;
        for &n in &wanted {
            outputs.push(in_cts[n].clone().unwrap_or_else(|| args[n].zeros_like()));
        }
        outputs
    });
    // Known: the body's inputs and what rules captured; not known: the cotangents.
    let captured = joint.captured.len();
    let unknown_from = num_inputs..num_inputs + active_outputs.len();
    let split = Split::of(joint.graph, unknown_from.clone(), num_outputs, &|position| match position {
        _ if position < consts || position >= unknown_from.end => Source::Same,
        _ if position < consts + carries => Source::Carried,
        _ => Source::Slice,
    });

    // What the backward step needs of each forward step.
    let position = |value| split.forward.inputs.iter().position(|&input| input == value);
    let forward_inputs = num_inputs + captured;
    let mut kept_consts = Vec::new();
    let mut kept_slices = Vec::new();
    let mut kept_stacks = Vec::new();
    for (n, &value) in split.residuals.iter().enumerate() {
        match position(value) {
            Some(at) if at < consts || (num_inputs..forward_inputs).contains(&at) => kept_consts.push((n, at)),
            Some(at) if at >= consts + carries => kept_slices.push((n, at)),
            _ => kept_stacks.push((n, value)),
        }
    }
    let mut body = split.forward.clone();
    // Constants first: the body's own, then those that rules captured.
    let own = body.inputs.split_off(consts);
    let (inner, extra) = own.split_at(num_inputs - consts);
    body.inputs.extend(extra);
    body.inputs.extend(inner);
    body.outputs.truncate(num_outputs);
    body.outputs.extend(kept_stacks.iter().map(|&(_, value)| value));
    body.prune();
    let forward_scan =
        Scan { body, consts: consts + captured, carries, length: scan.length, direction: scan.direction };
    let mut inputs: Vec<Tensor> = ins[..consts].to_vec();
    inputs.extend(joint.captured.iter().cloned());
    inputs.extend(ins[consts..].iter().cloned());
    let outs = push_scan(forward_scan, &inputs, at);
    let stacks: Vec<Tensor> = outs[num_outputs..].to_vec();
    let results: Vec<Tensor> = outs[..num_outputs].to_vec();

    let known: Vec<Tensor> = ins.iter().chain(&joint.captured).cloned().collect();
    let (length, direction) = (scan.length, scan.direction.opposite());
    let result_specs: Vec<Spec> = results.iter().map(|result| result.spec().clone()).collect();
    let pull: Pull = Box::new(move |cts: &[Option<Tensor>]| {
        let given = |n: usize| match &cts[n] {
            Some(ct) => ct.clone(),
            None => Tensor::zeros(result_specs[n].dtype, &result_specs[n].dims),
        };
        let (ct_carries, ct_results): (Vec<usize>, Vec<usize>) = active_outputs.iter().partition(|&&n| n < carries);
        let wanted_consts: Vec<usize> = wanted.iter().copied().filter(|&n| n < consts).collect();
        let wanted_slices: Vec<usize> = wanted.iter().copied().filter(|&n| n >= consts + carries).collect();
        let init: Vec<Tensor> =
            ct_carries.iter().map(|&n| given(n)).chain(wanted_consts.iter().map(|&n| known[n].zeros_like())).collect();
        let slices: Vec<Tensor> = kept_slices
            .iter()
            .map(|&(_, at)| known[at].clone())
            .chain(stacks.iter().cloned())
            .chain(ct_results.iter().map(|&n| given(n)))
            .collect();
        let (carry, stacked) = scan_backward(&init, &slices, length, direction, |carry, slice| {
            let mut residuals: Vec<Option<Tensor>> = vec![None; split.residuals.len()];
            for &(n, at) in &kept_consts {
                residuals[n] = Some(known[at].clone());
            }
            let places = kept_slices.iter().map(|&(n, _)| n).chain(kept_stacks.iter().map(|&(n, _)| n));
            for (n, tensor) in places.zip(slice) {
                residuals[n] = Some(tensor.clone());
            }
            let mut inputs: Vec<Tensor> = residuals.into_iter().flatten().collect();
            let mut of_results = slice[kept_slices.len() + kept_stacks.len()..].iter();
            let mut of_carries = carry.iter();
            for &n in &active_outputs {
                inputs.extend(if n < carries { of_carries.next() } else { of_results.next() }.cloned());
            }
            let grads = transform::replay(&split.backward, &inputs);
            let at_wanted = |n: usize| wanted.iter().position(|&w| w == n).map(|at| grads[at].clone());
            let next: Vec<Tensor> = ct_carries
                .iter()
                .filter_map(|&n| at_wanted(consts + n))
                .chain(wanted_consts.iter().enumerate().filter_map(|(at, &n)| {
                    let grad = at_wanted(n)?;
                    Some(&carry[ct_carries.len() + at] + &grad)
                }))
                .collect();
            let of_slices: Vec<Tensor> = wanted_slices.iter().filter_map(|&n| at_wanted(n)).collect();
            (next, of_slices)
        });
        let mut in_cts = vec![None; num_inputs];
        for (&n, ct) in ct_carries.iter().zip(&carry) {
            in_cts[consts + n] = Some(ct.clone());
        }
        for (&n, ct) in wanted_consts.iter().zip(&carry[ct_carries.len()..]) {
            in_cts[n] = Some(ct.clone());
        }
        for (&n, ct) in wanted_slices.iter().zip(&stacked) {
            in_cts[n] = Some(ct.clone());
        }
        in_cts
    });
    (results, pull)
}

fn scan_backward(
    init: &[Tensor],
    slices: &[Tensor],
    length: usize,
    direction: Direction,
    f: impl FnOnce(&[Tensor], &[Tensor]) -> (Vec<Tensor>, Vec<Tensor>),
) -> (Vec<Tensor>, Vec<Tensor>) {
    scan_directed(&init.to_vec(), &slices.to_vec(), Some(length), direction, |carry, slice| f(carry, slice))
}

/// The loop with tangents carried beside the values.
pub(crate) fn jvp(
    scan: &Scan,
    ins: &[Tensor],
    tangents: &[Option<Tensor>],
    at: &'static Location<'static>,
) -> (Vec<Tensor>, Vec<Option<Tensor>>) {
    let flags = active_carries(scan, &tangents.iter().map(Option::is_some).collect::<Vec<_>>());
    let reached = transform::activity(&scan.body, &flags);
    let (consts, carries) = (scan.consts, scan.carries);
    let num_outputs = scan.body.outputs.len();
    let active = marked(&flags);
    let active_results: Vec<usize> =
        (carries..num_outputs).filter(|&n| reached[scan.body.outputs[n].0 as usize]).collect();
    let num_inputs = scan.body.inputs.len();
    let in_group =
        |range: std::ops::Range<usize>| active.iter().copied().filter(move |n| range.contains(n)).collect::<Vec<_>>();
    let groups = [0..consts, consts..consts + carries, consts + carries..num_inputs];
    let [active_consts, active_carries, active_slices] = groups.clone().map(in_group);
    // Inputs: constants and their tangents, carried values and theirs, slices and theirs.
    let order: Vec<(usize, bool)> = groups
        .iter()
        .zip([&active_consts, &active_carries, &active_slices])
        .flat_map(|(range, active)| range.clone().map(|n| (n, false)).chain(active.iter().map(|&n| (n, true))))
        .collect();
    let specs: Vec<Spec> = order.iter().map(|&(n, _)| scan.body.spec(scan.body.inputs[n]).clone()).collect();
    let mut closed = stack::closed(&specs, |args| {
        let mut values = vec![None; num_inputs];
        let mut directions = vec![None; num_inputs];
        for (&(n, is_tangent), arg) in order.iter().zip(&args) {
            if is_tangent { directions[n] = Some(arg.clone()) } else { values[n] = Some(arg.clone()) }
        }
        let values: Vec<Tensor> = values.into_iter().flatten().collect();
        let (outs, out_tangents) = transform::push_forward(&scan.body, &values, &directions);
        let tangent = |n: usize| out_tangents[n].clone().unwrap_or_else(|| outs[n].zeros_like());
        let mut outputs: Vec<Tensor> = outs[..carries].to_vec();
        outputs.extend(active_carries.iter().map(|&n| tangent(n - consts)));
        outputs.extend(outs[carries..].iter().cloned());
        outputs.extend(active_results.iter().map(|&n| tangent(n)));
        outputs
    });
    let explicit = closed.graph.inputs.len() - closed.captured.len();
    closed.graph.inputs.rotate_left(explicit);
    let both = Scan {
        body: closed.graph,
        consts: closed.captured.len() + consts + active_consts.len(),
        carries: carries + active_carries.len(),
        length: scan.length,
        direction: scan.direction,
    };
    let inputs: Vec<Tensor> = closed
        .captured
        .into_iter()
        .chain(order.iter().map(|&(n, is_tangent)| match (&tangents[n], is_tangent) {
            (Some(tangent), true) => tangent.clone(),
            (None, true) => ins[n].zeros_like(),
            (_, false) => ins[n].clone(),
        }))
        .collect();
    let results = push_scan(both, &inputs, at);
    let mut outs = results[..carries].to_vec();
    let first_result = carries + active_carries.len();
    outs.extend(results[first_result..first_result + num_outputs - carries].iter().cloned());
    let mut out_tangents = vec![None; num_outputs];
    for (at, &n) in active_carries.iter().enumerate() {
        out_tangents[n - consts] = Some(results[carries + at].clone());
    }
    for (at, &n) in active_results.iter().enumerate() {
        out_tangents[n] = Some(results[first_result + num_outputs - carries + at].clone());
    }
    (outs, out_tangents)
}

/// The loop for a batch.
pub(crate) fn batched(scan: &Scan, ins: &[Lane], size: usize, at: &'static Location<'static>) -> Vec<Tensor> {
    let (consts, carries) = (scan.consts, scan.carries);
    let mut flags: Vec<bool> = ins.iter().map(|lane| lane.is_batched).collect();
    let reached = loop {
        let reached = scan.body.reached_from(&flags);
        let before = flags.clone();
        for n in 0..carries {
            flags[consts + n] |= reached[scan.body.outputs[n].0 as usize];
        }
        if flags == before {
            break reached;
        }
    };
    let is_batched = |n: usize| if n < carries { flags[consts + n] } else { reached[scan.body.outputs[n].0 as usize] };
    // Slices are cut along the first axis: the batch goes behind it.
    let tensors: Vec<Tensor> = ins
        .iter()
        .enumerate()
        .map(|(n, lane)| match (flags[n], n >= consts + carries) {
            (true, true) => lane.tensor.move_axis(0, 1),
            (true, false) => lane.spread(size),
            (false, _) => lane.tensor.clone(),
        })
        .collect();
    let specs: Vec<Spec> = scan
        .body
        .inputs
        .iter()
        .zip(&flags)
        .map(|(&input, &flag)| {
            let spec = scan.body.spec(input);
            if flag { with_axis(spec, size) } else { spec.clone() }
        })
        .collect();
    let mut closed = stack::closed(&specs, |args| {
        let lanes: Vec<Lane> =
            args.into_iter().zip(&flags).map(|(tensor, &is_batched)| Lane { tensor, is_batched }).collect();
        let outs = transform::batch(&scan.body, &lanes, size);
        let out = |(n, lane): (usize, Lane)| if is_batched(n) { lane.spread(size) } else { lane.tensor };
        outs.into_iter().enumerate().map(out).collect()
    });
    let captured = closed.captured.len();
    closed.graph.inputs.rotate_left(specs.len());
    let looped = Scan { body: closed.graph, consts: consts + captured, ..*scan };
    let inputs: Vec<Tensor> = closed.captured.into_iter().chain(tensors).collect();
    let outputs = push_scan(looped, &inputs, at);
    outputs
        .into_iter()
        .enumerate()
        .map(|(n, tensor)| match (is_batched(n), n < carries) {
            (true, true) => tensor,
            (true, false) => tensor.move_axis(1, 0),
            (false, _) => Lane::shared(tensor).spread(size),
        })
        .collect()
}
