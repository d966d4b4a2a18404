//! Gradients compressed between slices: each slice's own, exchanged over the data center's network in fewer bits, with error feedback.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tensor::DType;
use trace::{Key, LogicalAxisRules, Network, PartitionSpec, Tensor, Tree, vmap_along};

use crate::optim::accumulated_with;
use crate::quant::quantized_rows;

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
    let mut residuals = residual.leaves().into_iter();
    let mut unsent = Vec::new();
    let grads = trace::scope("slice_gradients", || {
        of_slices.grads.map_leaves(|grad| {
            let own = residuals.next().unwrap_or_else(|| grad.zeros_like());
            let (mean, rest) = exchange(grad, &own, &axes, dtype);
            unsent.push(rest);
            mean
        })
    });
    Exchanged { loss: of_slices.loss.mean_all(), grads, residual: residual.with_leaves(unsent) }
}

/// The mean over slices of `[slices, ..]`, and what of the sum with the residual was not sent.
#[track_caller]
fn exchange(grad: &Tensor, residual: &Tensor, axes: &[Arc<str>], dtype: SliceGradientDType) -> (Tensor, Tensor) {
    let slices = grad.dim(0);
    if grad.num_elements() / slices.max(1) < SMALLEST {
        return (grad.mean(&[0]), residual.clone());
    }
    let whole = grad.cast(DType::F32) + residual;
    let whole = along(&whole, axes);
    let received = match dtype {
        // As bits: what was narrowed on purpose is widened on the other side only.
        SliceGradientDType::Bf16 => {
            let bits = gathered(&whole.cast(DType::BF16).bitcast(DType::U16), axes);
            bits.bitcast(DType::BF16).cast(DType::F32)
        }
        SliceGradientDType::Int8 => {
            let rows = quantized_rows(&whole, DType::I8);
            gathered(&rows.values, axes).cast(DType::F32) * gathered(&rows.scales, axes)
        }
    };
    let unsent = along(&(whole - &received), axes);
    (received.mean(&[0]).cast(grad.dtype()), unsent)
}

/// With the first axis split along these mesh axes, the others as they are.
#[track_caller]
fn along(tensor: &Tensor, axes: &[Arc<str>]) -> Tensor {
    constrained(tensor, axes.to_vec())
}

/// With the whole first axis on every device: what is sent is the type of the tensor.
#[track_caller]
fn gathered(tensor: &Tensor, axes: &[Arc<str>]) -> Tensor {
    constrained(&along(tensor, axes), Vec::new())
}

#[track_caller]
fn constrained(tensor: &Tensor, first: Vec<Arc<str>>) -> Tensor {
    if trace::current_rules().is_none() {
        return tensor.clone();
    }
    let mut dims = vec![None; tensor.rank()];
    if let Some(axis) = dims.first_mut() {
        *axis = Some(first);
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
