//! `shard_map`: a function of one device's parts, run by all devices of a mesh.

use std::panic::Location;
use std::rc::Rc;
use std::sync::Arc;

use crate::Spec;
use crate::control::{batched_body, spread};
use crate::error::{Error, misuse};
use crate::graph::{Graph, Prim, Ref};
use crate::sharding::collective::{Reduction, all_reduced};
use crate::sharding::{
    LogicalAxisRules, Mesh, PartitionSpec, current_rules, lane_axes, with_lane_axes, with_lanes, with_rules,
};
use crate::stack;
use crate::tensor::Tensor;
use crate::transform::{self, Lane, Pull, Source, Split};
use crate::tree::Tree;

/// A graph over one device's parts.
#[derive(Clone, Debug)]
pub(crate) struct Manual {
    pub(crate) body: Graph,
    pub(crate) rules: Rc<LogicalAxisRules>,
    pub(crate) inputs: Vec<PartitionSpec>,
    pub(crate) outputs: Vec<PartitionSpec>,
}

/// Runs `f` on every device of the mesh with its parts of the inputs; the parts of the results make up the results.
///
/// `inputs` and `outputs` say how each tensor is split, in order of the leaves. A result that is not split along an axis
/// must be the same on all devices of that axis. Outer tensors that `f` uses are whole on every device. Collectives such as
/// [`Tensor::all_reduce`] work inside. Without a mesh, `f` runs on the whole inputs.
#[track_caller]
pub fn shard_map<I: Tree, O: Tree>(
    inputs: &I,
    in_shardings: &[PartitionSpec],
    out_shardings: &[PartitionSpec],
    f: impl FnOnce(&I) -> O,
) -> O {
    let at = Location::caller();
    let Some(rules) = current_rules() else { return f(inputs) };
    let specs = inputs.specs();
    if specs.len() != in_shardings.len() {
        misuse(at, format!("shard_map of {} tensors with {} shardings", specs.len(), in_shardings.len()));
    }
    let parts: Vec<Spec> = specs
        .iter()
        .zip(in_shardings)
        .map(|(spec, sharding)| part(&rules.mesh, spec, sharding).unwrap_or_else(|error| misuse(at, error.to_string())))
        .collect();
    let mut result = None;
    let closed = inside(&rules, || {
        stack::closed(&parts, |args| {
            let output = f(&inputs.with_leaves(args));
            let leaves = output.leaves();
            result = Some(output);
            leaves
        })
    });
    let Some(result) = result else { unreachable!("the function was traced") };
    if closed.graph.outputs.len() != out_shardings.len() {
        let (given, made) = (out_shardings.len(), closed.graph.outputs.len());
        misuse(at, format!("shard_map with {given} shardings of results gives {made} tensors"));
    }
    let tensors: Vec<Tensor> = inputs.leaves().into_iter().chain(closed.captured).collect();
    let mut all: Vec<PartitionSpec> = in_shardings.to_vec();
    all.extend(tensors[in_shardings.len()..].iter().map(|outer| PartitionSpec::replicated(outer.rank())));
    let manual = Manual { body: closed.graph, rules, inputs: all, outputs: out_shardings.to_vec() };
    result.with_leaves(push(manual, &tensors, at))
}

/// Traces what runs on one device: the mesh is known to collectives, but nothing is laid out any more.
fn inside<T>(rules: &Rc<LogicalAxisRules>, f: impl FnOnce() -> T) -> T {
    let mesh = Rc::new(rules.mesh.clone());
    crate::sharding::collective::on_device_of(Some(mesh), || with_rules(None, || with_lane_axes(&[], f)))
}

fn part(mesh: &Mesh, spec: &Spec, sharding: &PartitionSpec) -> Result<Spec, Error> {
    Ok(Spec::new(spec.dtype, sharding.part_dims(mesh, &spec.dims)?))
}

pub(super) fn whole(mesh: &Mesh, spec: &Spec, sharding: &PartitionSpec) -> Spec {
    let parts = |axes: &Option<Vec<Arc<str>>>| mesh.size_along(axes.iter().flatten().map(|name| &**name)).unwrap_or(1);
    let dims = spec.dims.iter().zip(&sharding.dims).map(|(&size, axes)| size * parts(axes));
    Spec::new(spec.dtype, dims.collect::<Vec<_>>())
}

fn push(manual: Manual, inputs: &[Tensor], at: &'static Location<'static>) -> Vec<Tensor> {
    let mesh = &manual.rules.mesh;
    for (spec, sharding) in manual.body.output_specs().iter().zip(&manual.outputs) {
        let rank = spec.dims.len();
        let known = sharding.axes().all(|name| mesh.size_of(name).is_some());
        if sharding.dims.len() != rank || !known || sharding.dims.iter().any(Option::is_none) {
            misuse(at, format!("a result of {spec} on each device of {mesh} cannot be a part of {sharding}"));
        }
    }
    let specs: Vec<Spec> =
        manual.body.output_specs().iter().zip(&manual.outputs).map(|(spec, s)| whole(mesh, spec, s)).collect();
    stack::push(Prim::Manual(Rc::new(manual)), &inputs.iter().collect::<Vec<_>>(), specs, at)
}

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
    let both = inside(&manual.rules, || {
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
    let first = inside(&manual.rules, || {
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
    let made = push(forward, ins, at);
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
                    parts.push(transform::with_axis(&spec, 1));
                }
            }
        }
        for &n in &differentiable {
            inputs.push(cts[n].clone().unwrap_or_else(|| results[n].zeros_like()));
            shardings.push(manual.outputs[n].clone());
            parts.push(outputs[n].clone());
        }
        let closed = inside(&manual.rules, || {
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
        for (&n, grad) in wanted.iter().zip(push(backward, &inputs, at)) {
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
    let closed = inside(&manual.rules, || {
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
    let mut outs = push(pushed, &inputs, at);
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
            let spec = if lane.is_batched { transform::with_axis(spec, here) } else { spec.clone() };
            Lane { tensor: Tensor::of(spec), is_batched: lane.is_batched }
        })
        .collect();
    let closed = inside(&manual.rules, || match here {
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
    push(batched, &tensors, at)
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
