//! Derivatives of `shard_map`, and the function for a batch.

use std::panic::Location;
use std::rc::Rc;
use std::sync::Arc;

use crate::Spec;
use crate::control::{inside_shard_map, push_manual};
use crate::error::misuse;
use crate::graph::{Graph, Manual};
use crate::ops::collective::{Reduction, all_reduced};
use crate::ops::lane::{Lane, with_axis};
use crate::sharding::{Mesh, PartitionSpec, lane_axes, with_lanes};
use crate::stack;
use crate::tensor::{Ref, Tensor};
use crate::transform::nodes::{batched_body, spread};
use crate::transform::{self, Pull, Source, Split};

/// Mesh axes that a sharding does not use.
fn unused(mesh: &Mesh, sharding: &PartitionSpec) -> Vec<Arc<str>> {
    let names = mesh.axes().iter().map(|axis| axis.name.clone());
    names.filter(|name| !sharding.axes().any(|used| used == name)).collect()
}

/// The function as run when its derivative is wanted: values the backward pass needs stay on their devices.
///
/// The gradient of what is whole on several devices is the sum over them; a result that is whole on several devices counts
/// once, so each device starts from its share of the cotangent.
pub(crate) fn vjp(
    manual: &Rc<Manual>,
    ins: &[Tensor],
    active: &[bool],
    at: &'static Location<'static>,
) -> (Vec<Tensor>, Pull) {
    let mesh = manual.rules.mesh.clone();
    let body = &manual.body;
    let outputs = body.output_specs();
    let wanted: Vec<usize> = (0..ins.len()).filter(|&n| active[n]).collect();
    let mut specs: Vec<Spec> = body.inputs.iter().map(|&input| body.spec(input).clone()).collect();
    let num_inputs = specs.len();
    let differentiable: Vec<usize> =
        (0..outputs.len()).filter(|&n| outputs[n].dtype.is_float() || outputs[n].dtype.is_complex()).collect();
    specs.extend(differentiable.iter().map(|&n| outputs[n].clone()));
    let both = inside_shard_map(&manual.rules, || {
        stack::closed(&specs, |args| {
            let (ins, cts) = args.split_at(num_inputs);
            let (outs, tape) = transform::forward(body, ins, active);
            let mut all: Vec<Option<Tensor>> = vec![None; outs.len()];
            for (&n, ct) in differentiable.iter().zip(cts) {
                let copies = mesh.size_along(unused(&mesh, &manual.outputs[n]).iter().map(|name| &**name)).unwrap_or(1);
                all[n] = Some(if copies > 1 { ct * (1.0 / copies as f64) } else { ct.clone() });
            }
            let grads = tape.backward(all);
            let of = |&n: &usize| {
                let grad = grads[n].clone().unwrap_or_else(|| ins[n].zeros_like());
                all_reduced(&grad, &unused(&mesh, &manual.inputs[n]), Reduction::Sum)
            };
            outs.into_iter().chain(wanted.iter().map(of)).collect()
        })
    });
    let split = Split::of(both.graph, num_inputs..num_inputs + differentiable.len(), outputs.len(), &|_| Source::Slice);
    // What the backward half needs: inputs are read again, other values leave the first half as one row for each device.
    let everywhere: Vec<Arc<str>> = mesh.axes().iter().map(|axis| axis.name.clone()).collect();
    let is_input = |value: &Ref| split.forward.inputs.iter().position(|input| input == value);
    let kept: Vec<(usize, Ref)> =
        split.residuals.iter().copied().enumerate().filter(|(_, value)| is_input(value).is_none()).collect();
    let first = inside_shard_map(&manual.rules, || {
        stack::closed(&specs[..num_inputs], |args| {
            let made = transform::replay(&split.forward, &args);
            let (outs, residuals) = made.split_at(outputs.len());
            outs.iter().cloned().chain(kept.iter().map(|&(n, _)| residuals[n].expand(0))).collect()
        })
    });
    let row = |rank: usize| {
        let mut sharding = PartitionSpec::replicated(rank + 1);
        sharding.dims[0] = Some(everywhere.clone());
        sharding
    };
    let rows: Vec<PartitionSpec> = kept.iter().map(|(_, value)| row(split.forward.spec(*value).dims.len())).collect();
    let forward = Manual {
        body: first.graph,
        rules: manual.rules.clone(),
        inputs: manual.inputs.clone(),
        outputs: manual.outputs.iter().cloned().chain(rows.iter().cloned()).collect(),
    };
    let made = push_manual(forward, ins, at);
    let (outs, residuals) = made.split_at(outputs.len());
    let (outs, residuals) = (outs.to_vec(), residuals.to_vec());
    let (manual, ins, results) = (manual.clone(), ins.to_vec(), outs.clone());
    let pull: Pull = Box::new(move |cts| {
        let mut inputs = Vec::new();
        let mut shardings = Vec::new();
        let mut parts = Vec::new();
        let mut rows = residuals.iter().zip(&rows);
        for value in &split.residuals {
            let spec = split.forward.spec(*value).clone();
            match split.forward.inputs.iter().position(|input| input == value) {
                Some(n) => {
                    inputs.push(ins[n].clone());
                    shardings.push(manual.inputs[n].clone());
                    parts.push(spec);
                }
                None => {
                    let Some((residual, row)) = rows.next() else { unreachable!("one row for each residual") };
                    inputs.push(residual.clone());
                    shardings.push(row.clone());
                    parts.push(with_axis(&spec, 1));
                }
            }
        }
        for &n in &differentiable {
            inputs.push(cts[n].clone().unwrap_or_else(|| results[n].zeros_like()));
            shardings.push(manual.outputs[n].clone());
            parts.push(outputs[n].clone());
        }
        let closed = inside_shard_map(&manual.rules, || {
            stack::closed(&parts, |args| {
                let squeezed: Vec<Tensor> = args
                    .iter()
                    .enumerate()
                    .map(|(n, arg)| match split.residuals.get(n) {
                        Some(value) => arg.reshape(&split.forward.spec(*value).dims),
                        None => arg.clone(),
                    })
                    .collect();
                transform::replay(&split.backward, &squeezed)
            })
        });
        let outputs = wanted.iter().map(|&n| manual.inputs[n].clone()).collect();
        let backward = Manual { body: closed.graph, rules: manual.rules.clone(), inputs: shardings, outputs };
        let mut grads: Vec<Option<Tensor>> = vec![None; ins.len()];
        for (&n, grad) in wanted.iter().zip(push_manual(backward, &inputs, at)) {
            grads[n] = Some(grad);
        }
        grads
    });
    (outs, pull)
}

/// The function with tangents.
pub(crate) fn jvp(
    manual: &Rc<Manual>,
    ins: &[Tensor],
    given: &[Option<Tensor>],
    at: &'static Location<'static>,
) -> (Vec<Tensor>, Vec<Option<Tensor>>) {
    let body = &manual.body;
    let with: Vec<usize> = (0..ins.len()).filter(|&n| given[n].is_some()).collect();
    let mut specs: Vec<Spec> = body.inputs.iter().map(|&input| body.spec(input).clone()).collect();
    specs.extend(with.iter().map(|&n| body.spec(body.inputs[n]).clone()));
    let mut moves = Vec::new();
    let closed = inside_shard_map(&manual.rules, || {
        stack::closed(&specs, |args| {
            let (values, tangents) = args.split_at(ins.len());
            let mut given = vec![None; values.len()];
            for (&n, tangent) in with.iter().zip(tangents) {
                given[n] = Some(tangent.clone());
            }
            let (mut outs, tangents) = transform::push_forward(body, values, &given);
            moves = (0..tangents.len()).filter(|&n| tangents[n].is_some()).collect();
            outs.extend(tangents.into_iter().flatten());
            outs
        })
    });
    let pick = |list: &[PartitionSpec], at: &[usize]| at.iter().map(|&n| list[n].clone()).collect::<Vec<_>>();
    let pushed = Manual {
        body: closed.graph,
        rules: manual.rules.clone(),
        inputs: [manual.inputs.clone(), pick(&manual.inputs, &with)].concat(),
        outputs: [manual.outputs.clone(), pick(&manual.outputs, &moves)].concat(),
    };
    let inputs: Vec<Tensor> = ins.iter().cloned().chain(given.iter().flatten().cloned()).collect();
    let mut outs = push_manual(pushed, &inputs, at);
    let moved = outs.split_off(manual.outputs.len());
    let mut tangents = vec![None; outs.len()];
    for (n, tangent) in moves.into_iter().zip(moved) {
        tangents[n] = Some(tangent);
    }
    (outs, tangents)
}

/// The function for a batch: every device has all examples of its parts, or its own where examples lie along mesh axes.
pub(crate) fn batched(manual: &Rc<Manual>, ins: &[Lane], size: usize, at: &'static Location<'static>) -> Vec<Tensor> {
    let body = &manual.body;
    let axes = lane_axes();
    let parts = manual.rules.mesh.size_along(axes.iter().map(|axis| &**axis)).unwrap_or(1);
    let here = size / parts.max(1);
    let lanes: Vec<Lane> = ins
        .iter()
        .zip(&body.inputs)
        .map(|(lane, &input)| {
            let spec = body.spec(input);
            let spec = if lane.is_batched { with_axis(spec, here) } else { spec.clone() };
            Lane { tensor: Tensor::of(spec), is_batched: lane.is_batched }
        })
        .collect();
    let closed = inside_shard_map(&manual.rules, || match here {
        1 => for_one(body, &lanes),
        _ => batched_body(body, &lanes, here, |outs| spread(outs, here)),
    });
    let with_row = |sharding: &PartitionSpec| match with_lanes(sharding, &axes) {
        Some(sharding) => sharding,
        None => misuse(at, format!("{sharding} is split along {}, as the examples of vmap are", axes.join("+"))),
    };
    let inputs = manual.inputs.iter().zip(ins).map(|(sharding, lane)| match lane.is_batched {
        true => with_row(sharding),
        false => sharding.clone(),
    });
    let outer = closed.captured.iter().map(|outer| PartitionSpec::replicated(outer.rank()));
    let batched = Manual {
        body: closed.graph,
        rules: manual.rules.clone(),
        inputs: inputs.chain(outer).collect(),
        outputs: manual.outputs.iter().map(with_row).collect(),
    };
    let tensors: Vec<Tensor> = ins.iter().map(|lane| lane.tensor.clone()).chain(closed.captured).collect();
    push_manual(batched, &tensors, at)
}

/// The function for a batch of one: as it is, so that composites keep their names.
fn for_one(body: &Graph, lanes: &[Lane]) -> stack::Closed {
    let specs: Vec<Spec> = lanes.iter().map(|lane| lane.tensor.spec().clone()).collect();
    stack::closed(&specs, |args| {
        let one = |(arg, lane): (Tensor, &Lane)| if lane.is_batched { arg.squeeze(0) } else { arg };
        let inputs: Vec<Tensor> = args.into_iter().zip(lanes).map(one).collect();
        transform::replay(body, &inputs).iter().map(|out| out.expand(0)).collect()
    })
}
