//! `shard_map`: a function of one device's parts, run by all devices of a mesh.

use std::panic::Location;
use std::rc::Rc;

use crate::Spec;
use crate::error::{Error, misuse};
use crate::graph::{Manual, Prim};
use crate::ops::collective::on_device_of;
use crate::sharding::{LogicalAxisRules, Mesh, PartitionSpec, current_rules, with_lane_axes, with_rules};
use crate::stack;
use crate::tensor::Tensor;
use crate::tree::Tree;

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
pub(crate) fn inside<T>(rules: &Rc<LogicalAxisRules>, f: impl FnOnce() -> T) -> T {
    let mesh = Rc::new(rules.mesh.clone());
    on_device_of(Some(mesh), || with_rules(None, || with_lane_axes(&[], f)))
}

fn part(mesh: &Mesh, spec: &Spec, sharding: &PartitionSpec) -> Result<Spec, Error> {
    Ok(Spec::new(spec.dtype, sharding.part_dims(mesh, &spec.dims)?))
}

/// Writes the function, whose results must be parts of what they are said to be.
pub(crate) fn push(manual: Manual, inputs: &[Tensor], at: &'static Location<'static>) -> Vec<Tensor> {
    let mesh = &manual.rules.mesh;
    for (spec, sharding) in manual.body.output_specs().iter().zip(&manual.outputs) {
        let rank = spec.dims.len();
        let known = sharding.axes().all(|name| mesh.size_of(name).is_some());
        if sharding.dims.len() != rank || !known || sharding.dims.iter().any(Option::is_none) {
            misuse(at, format!("a result of {spec} on each device of {mesh} cannot be a part of {sharding}"));
        }
    }
    let specs = manual.results();
    stack::push(Prim::Manual(Rc::new(manual)), &inputs.iter().collect::<Vec<_>>(), specs, at)
}
