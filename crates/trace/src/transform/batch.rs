//! `vmap`: a function of one example becomes a function of a batch of them.

use std::panic::Location;
use std::rc::Rc;
use std::sync::Arc;

use hlo::{Attrs, OpKind};

use crate::Spec;
use crate::error::misuse;
use crate::graph::{Combine, Graph, Node, Prim};
use crate::line;
use crate::ops::collective::{self, is_collective};
use crate::ops::constraint::constrained;
use crate::ops::lane::{Lane, with_axis};
use crate::ops::{contract, convolve, elementwise, index, order, reduce, shape, window, write};
use crate::sharding::{PartitionSpec, current_rules, lane_axes, with_lane_axes, with_lanes, with_rules};
use crate::stack;
use crate::tensor::Tensor;
use crate::transform::{again, nodes};
use crate::tree::Tree;

/// Runs `f`, written for one example, for a batch: each tensor of the inputs has one example at each position of its first
/// axis, and so has each tensor of the result. Outer tensors that `f` uses are the same for all examples.
#[track_caller]
pub fn vmap<I: Tree, O: Tree>(f: impl FnOnce(&I) -> O, inputs: &I) -> O {
    vmap_axes(f, inputs, &vec![Some(0); inputs.leaves().len()])
}

/// [`vmap`] along other axes: one entry for each tensor of the inputs in order, `None` where all examples have the same.
#[track_caller]
pub fn vmap_axes<I: Tree, O: Tree>(f: impl FnOnce(&I) -> O, inputs: &I, axes: &[Option<isize>]) -> O {
    mapped(f, inputs, axes, &[], Location::caller())
}

/// [`vmap`] of examples that lie along these mesh axes: each device computes its own. Within `f` nothing is split along them
/// any more; whatever `f` lays out, and whatever it runs by [`crate::shard_map`], has them in front. Without a mesh, `vmap`.
#[track_caller]
pub fn vmap_along<I: Tree, O: Tree>(mesh_axes: &[Arc<str>], f: impl FnOnce(&I) -> O, inputs: &I) -> O {
    let axes = vec![Some(0); inputs.leaves().len()];
    let at = Location::caller();
    let Some(around) = current_rules() else { return mapped(f, inputs, &axes, &[], at) };
    let parts = around.mesh.size_along(mesh_axes.iter().map(|axis| &**axis));
    let size = inputs.specs().iter().find_map(|spec| spec.dims.first().copied()).unwrap_or(0);
    match parts {
        Some(parts) if size.is_multiple_of(parts.max(1)) => {}
        _ => {
            let names = mesh_axes.join("+");
            misuse(at, format!("{size} examples cannot lie along {names} of the mesh {}", around.mesh));
        }
    }
    with_rules(Some(Rc::new(around.without(mesh_axes))), || mapped(f, inputs, &axes, mesh_axes, at))
}

/// `vmap` at a line of the user's, which is that of the ops around those of `f`.
fn mapped<I: Tree, O: Tree>(
    f: impl FnOnce(&I) -> O,
    inputs: &I,
    axes: &[Option<isize>],
    mesh_axes: &[Arc<str>],
    at: &'static Location<'static>,
) -> O {
    let before = line::of(at);
    let (leaves, paths) = (inputs.leaves(), inputs.paths());
    if leaves.len() != axes.len() {
        misuse(at, format!("vmap over {} tensors with {} axes", leaves.len(), axes.len()));
    }
    let mut size: Option<usize> = None;
    let mut lanes = Vec::new();
    let mut specs = Vec::new();
    for ((leaf, axis), path) in leaves.iter().zip(axes).zip(&paths) {
        let Some(axis) = axis else {
            lanes.push(Lane::shared(leaf.clone()));
            specs.push(leaf.spec().clone());
            continue;
        };
        let examples = leaf.dim(*axis);
        if size.is_some_and(|size| size != examples) {
            let size = size.unwrap_or(0);
            misuse(at, format!("vmap over {size} examples: axis {axis} of `{path}` is that of {}", leaf.spec()));
        }
        size = Some(examples);
        let moved = leaf.move_axis(*axis, 0);
        specs.push(Spec::new(leaf.dtype(), &moved.dims()[1..]));
        lanes.push(Lane::batched(moved));
    }
    let Some(size) = size else { misuse(at, "vmap over no axis: nothing says how many examples there are") };
    drop(before);
    let mut result = None;
    let closed = stack::closed(&specs, |args| {
        let output = f(&inputs.with_leaves(args));
        let leaves = output.leaves();
        result = Some(output.shapes());
        leaves
    });
    lanes.extend(closed.captured.into_iter().map(Lane::shared));
    let outputs = with_lane_axes(mesh_axes, || batch(&closed.graph, &lanes, size));
    let Some(result) = result else { unreachable!("the function was traced") };
    let _line = line::of(at);
    result.with_leaves(outputs.iter().map(|lane| lane.spread(size)).collect::<Vec<_>>())
}

/// Runs a graph for a batch. What depends on a batched input is batched.
pub(crate) fn batch(graph: &Graph, lanes: &[Lane], size: usize) -> Vec<Lane> {
    let mut values: Vec<Option<Lane>> = vec![None; graph.specs.len()];
    for (input, lane) in graph.inputs.iter().zip(lanes) {
        values[input.0 as usize] = Some(lane.clone());
    }
    let get = |values: &[Option<Lane>], at: crate::tensor::Ref| match &values[at.0 as usize] {
        Some(lane) => lane.clone(),
        None => unreachable!("nodes come after what they read"),
    };
    for node in &graph.nodes {
        let ins: Vec<Lane> = node.inputs.iter().map(|&input| get(&values, input)).collect();
        let is_batched = ins.iter().any(|lane| lane.is_batched);
        let outs = if is_batched {
            stack::on_behalf_of(node, || batch_node(graph, node, &ins, size))
        } else {
            again(graph, node, &ins.iter().map(|lane| lane.tensor.clone()).collect::<Vec<_>>())
        };
        for (result, tensor) in node.results().zip(outs) {
            values[result.0 as usize] = Some(Lane { tensor, is_batched });
        }
    }
    graph.outputs.iter().map(|&output| get(&values, output)).collect()
}

/// Results of a node with a batched input; all have the axis of the batch.
fn batch_node(graph: &Graph, node: &Node, ins: &[Lane], size: usize) -> Vec<Tensor> {
    match &node.prim {
        Prim::Scan(scan) => nodes::scan::batched(scan, ins, size, node.at),
        Prim::While(looped) => nodes::while_::batched(looped, ins, size),
        Prim::Cond(cond) => nodes::cond::batched(cond, ins, size, node.at),
        Prim::Remat(remat) => nodes::remat::batched(remat, ins, size, node.at),
        Prim::Custom(custom) => nodes::custom::batched(custom, ins, size, node.at),
        Prim::Stop | Prim::Named(_) | Prim::Moved(_) | Prim::Ordered => {
            let inputs: Vec<Tensor> = ins.iter().map(|lane| lane.spread(size)).collect();
            let specs = inputs.iter().map(|input| input.spec().clone()).collect();
            stack::push(node.prim.clone(), &inputs.iter().collect::<Vec<_>>(), specs, node.at)
        }
        Prim::Shard(sharding) => {
            let axes = lane_axes();
            if axes.is_empty() {
                let mut dims = vec![None];
                dims.extend(sharding.dims.iter().cloned());
                return vec![constrained(&ins[0].tensor, &PartitionSpec { dims })];
            }
            let Some(sharding) = with_lanes(sharding, &axes) else {
                misuse(node.at, format!("{sharding} is split along {}, as the examples of vmap are", axes.join("+")));
            };
            vec![constrained(&ins[0].tensor, &sharding)]
        }
        Prim::Composite(composite) => nodes::composite::batched(composite, ins, size),
        Prim::Manual(manual) => nodes::manual::batched(manual, ins, size, node.at),
        Prim::Op { kind, attrs, combine } => {
            let specs = node.results().map(|result| with_axis(graph.spec(result), size)).collect();
            batch_op(node, (*kind, attrs, *combine), ins, size, specs)
        }
    }
}

fn batch_op(
    node: &Node,
    (kind, attrs, combine): (OpKind, &Attrs, Option<Combine>),
    ins: &[Lane],
    size: usize,
    results: Vec<Spec>,
) -> Vec<Tensor> {
    let all = || ins.iter().map(|lane| lane.spread(size)).collect::<Vec<_>>();
    let put = |inputs: Vec<Tensor>, attrs: Attrs| {
        write((kind, attrs, combine), &inputs.iter().collect::<Vec<_>>(), Some(results.clone()))
    };
    match kind {
        OpKind::Fft | OpKind::Cholesky | OpKind::TriangularSolve => put(all(), attrs.clone()),
        // Each value has a type of its own.
        OpKind::OptimizationBarrier => put(all(), attrs.clone()),
        OpKind::Pad if ins[1].is_batched => vec![shape::batched_pad(attrs, ins, size)],
        OpKind::Pad => put(vec![ins[0].spread(size), ins[1].tensor.clone()], shape::batched(kind, attrs, size)),
        OpKind::Reshape
        | OpKind::Transpose
        | OpKind::BroadcastInDim
        | OpKind::Slice
        | OpKind::Concatenate
        | OpKind::Reverse => put(all(), shape::batched(kind, attrs, size)),
        OpKind::Sort => put(all(), order::batched(attrs)),
        kind if is_collective(kind) => collective::batched((kind, attrs, combine), ins, results),
        OpKind::Reduce | OpKind::ReduceWindow => {
            // The second half is what the reductions start from, which are constants.
            let (tensors, starts) = ins.split_at(ins.len() / 2);
            let mut inputs: Vec<Tensor> = tensors.iter().map(|lane| lane.spread(size)).collect();
            inputs.extend(starts.iter().map(|lane| lane.tensor.clone()));
            let attrs = if kind == OpKind::Reduce { reduce::batched(attrs) } else { window::batched(attrs) };
            put(inputs, attrs)
        }
        OpKind::SelectAndScatter => {
            put(vec![ins[0].spread(size), ins[1].spread(size), ins[2].tensor.clone()], window::batched(attrs))
        }
        OpKind::DotGeneral => vec![contract::batched(attrs, ins, results[0].dtype)],
        OpKind::Convolution => vec![convolve::batched(attrs, ins, size)],
        OpKind::Gather | OpKind::Scatter | OpKind::DynamicSlice | OpKind::DynamicUpdateSlice => {
            vec![index::batched((kind, attrs, combine), ins, size)]
        }
        _ if elementwise::is_elementwise(kind) => put(all(), attrs.clone()),
        _ => misuse(node.at, format!("{} has no batching rule: keep it out of vmap", kind.name())),
    }
}
