//! Gradients compressed between slices: each slice's own, exchanged over the data center's network in fewer bits, with error feedback.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tensor::DType;
use trace::{Key, LogicalAxisRules, Network, PartitionSpec, Tensor, Tree, shard_map, vmap_along};

use crate::optim::accumulated_with;
use crate::quant::{dequantized_rows, quantized_rows};
use crate::strategy::stored_sharding;

/// What gradients are exchanged in between slices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SliceGradientDType {
    /// Half the bytes of `f32`.
    Bf16,
    /// A quarter, with an `f32` scale for each row.
    Int8,
}

/// How gradients are exchanged between slices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SliceGradients {
    /// What they are exchanged in.
    pub dtype: SliceGradientDType,
    /// Slices: devices along the mesh axes between them.
    pub slices: usize,
}

/// Tensors with fewer elements are exchanged as they are: norms and biases, whose bytes are nothing.
const SMALLEST: usize = 4096;

/// Gradients of a step on several slices.
pub(crate) struct Exchanged<P> {
    pub(crate) loss: Tensor,
    pub(crate) grads: P,
    /// What was not sent, of each slice: leaves have an axis of slices first.
    pub(crate) residual: P,
}

/// Mesh axes between slices along which a batch is split, and the slices.
fn slices_of(rules: &LogicalAxisRules) -> (Vec<Arc<str>>, usize) {
    let batch = rules.axes.get("batch");
    let is_between = |axis: &&trace::Axis| {
        axis.network == Network::BetweenSlices && batch.is_some_and(|batch| batch.contains(&axis.name))
    };
    let axes: Vec<&trace::Axis> = rules.mesh.axes().iter().filter(is_between).collect();
    (axes.iter().map(|axis| axis.name.clone()).collect(), axes.iter().map(|axis| axis.size).product())
}

/// Residuals before the first step.
#[track_caller]
pub(crate) fn no_residual<P: Tree>(params: &P, slices: usize) -> P {
    params.map_leaves(|leaf| Tensor::zeros(DType::F32, &[&[slices], leaf.dims()].concat()))
}

/// The mean loss and the gradient of a batch: every slice differentiates its own examples, adds what it did not send before, and
/// sends the sum in fewer bits; what is lost by that is kept for the next step.
#[track_caller]
pub(crate) fn exchanged<P: Tree + Clone, X: Tree + Clone, B: Tree>(
    (params, carried, batch): (&P, &X, &B),
    key: &Key,
    parts: usize,
    residual: &P,
    SliceGradients { dtype, slices }: SliceGradients,
    loss: impl FnOnce(&P, &X, &B, &Key) -> (Tensor, X),
) -> Exchanged<P> {
    let axes = match trace::current_rules().map(|rules| slices_of(&rules)) {
        Some((axes, on_mesh)) if on_mesh == slices => axes,
        Some((_, on_mesh)) => {
            trace::refuse(format!("gradients of {slices} slices on a mesh of {on_mesh}"));
        }
        None => Vec::new(),
    };
    // A slice's examples are those it has: no example moves.
    let apart = batch.map_leaves(|leaf| {
        let Some((first, rest)) = leaf.dims().split_first() else { return leaf.broadcast_to(&[slices]) };
        if !first.is_multiple_of(slices) {
            trace::refuse(format!("a batch of {first} examples on {slices} slices: choose a multiple of the slices"));
        }
        let dims = [&[slices, first / slices], rest].concat();
        along(&leaf.reshape(&dims), &axes)
    });
    let keys = key.stacked(slices);
    let inputs = Examples { batch: apart, key: keys };
    let of_slice = |examples: &Examples<B>| {
        let (value, _, grads) = accumulated_with(params, carried, &examples.batch, &examples.key, parts, loss);
        OfSlice { loss: value.cast(DType::F32), grads }
    };
    let of_slices = vmap_along(&axes, of_slice, &inputs);
    let paths = params.paths();
    let leaves = of_slices.grads.leaves().into_iter().zip(residual.leaves()).zip(&paths);
    let (means, unsent): (Vec<Tensor>, Vec<Tensor>) = trace::scope("slice_gradients", || {
        leaves.map(|((grad, own), path)| exchange(&grad, &own, path, &axes, dtype)).unzip()
    });
    Exchanged {
        loss: of_slices.loss.mean_all(),
        grads: params.with_leaves(means),
        residual: residual.with_leaves(unsent),
    }
}

/// The mean over slices of `[slices, ..]`, and what of the sum with the residual was not sent.
///
/// The exchange is written as collectives of each device's part: left to the partitioner, codes would be widened first, and sums
/// would travel.
#[track_caller]
fn exchange(
    grad: &Tensor,
    residual: &Tensor,
    path: &str,
    axes: &[Arc<str>],
    dtype: SliceGradientDType,
) -> (Tensor, Tensor) {
    let dims = &grad.dims()[1..];
    if dims.iter().product::<usize>() < SMALLEST {
        return (grad.mean(&[0]), residual.clone());
    }
    let whole = grad.cast(DType::F32) + residual;
    let own = trace::current_rules()
        .map_or_else(|| PartitionSpec::replicated(dims.len()), |rules| part_of(&rules, path, dims));
    let mut on_slices = own.clone();
    on_slices.dims.insert(0, Some(axes.to_vec()));
    let over: Vec<&str> = axes.iter().map(|axis| &**axis).collect();
    let gathered = |part: &Tensor| part.all_gather(0, over.as_slice());
    let (mean, unsent) = shard_map(&whole, &[on_slices.clone()], &[own, on_slices], |part| {
        let (sent, received) = match dtype {
            // As bits: what was narrowed on purpose is widened on the other side only.
            SliceGradientDType::Bf16 => {
                let sent = part.cast(DType::BF16);
                let received = gathered(&sent.bitcast(DType::U16)).bitcast(DType::BF16);
                (sent.cast(DType::F32), received.cast(DType::F32))
            }
            SliceGradientDType::Int8 => {
                let rows = quantized_rows(part, DType::I8);
                let received = gathered(&rows.values).cast(DType::F32) * gathered(&rows.scales);
                (dequantized_rows(&rows, DType::F32), received)
            }
        };
        (received.mean(&[0]), part - &sent)
    });
    (mean.cast(grad.dtype()), unsent)
}

/// How a gradient lies on a slice while it is exchanged: as its parameter, and along what axes of the mesh are left, so that
/// every device sends a part of its own.
fn part_of(rules: &LogicalAxisRules, path: &str, dims: &[usize]) -> PartitionSpec {
    let mut sharding = stored_sharding(rules, path, dims);
    for axis in rules.mesh.axes().iter().filter(|axis| axis.network != Network::BetweenSlices && axis.size > 1) {
        if sharding.axes().any(|used| *used == axis.name) {
            continue;
        }
        let fits = |n: &usize| {
            let along = sharding.dims[*n].iter().flatten().map(|name| &**name);
            dims[*n].is_multiple_of(rules.mesh.size_along(along).unwrap_or(1) * axis.size)
        };
        if let Some(n) = (0..dims.len()).find(fits)
            && let Some(along) = &mut sharding.dims[n]
        {
            along.push(axis.name.clone());
        }
    }
    sharding
}

/// With the first axis split along these mesh axes, the others as they are.
#[track_caller]
fn along(tensor: &Tensor, axes: &[Arc<str>]) -> Tensor {
    if trace::current_rules().is_none() {
        return tensor.clone();
    }
    let mut dims = vec![None; tensor.rank()];
    if let Some(first) = dims.first_mut() {
        *first = Some(axes.to_vec());
    }
    tensor.with_sharding_constraint(&PartitionSpec { dims })
}

/// Examples of a slice.
#[derive(Clone, Debug, Tree)]
struct Examples<B: Tree> {
    batch: B,
    key: Key,
}

/// What a slice makes of its examples.
#[derive(Clone, Debug, Tree)]
struct OfSlice<P: Tree> {
    loss: Tensor,
    grads: P,
}
