//! The length of all gradients together, and clipping by it.

use tensor::DType;
use trace::{Tensor, Tree};

/// The root of the sum of squares of all leaves, `f32`.
#[track_caller]
pub fn global_norm<P: Tree>(grads: &P) -> Tensor {
    trace::scope("global_norm", || {
        let squares = grads.leaves().into_iter().map(|leaf| leaf.cast(DType::F32).square().sum_all());
        squares.fold(Tensor::zeros(DType::F32, &[]), |sum, square| sum + square).sqrt()
    })
}

/// Gradients scaled down to a length where they are longer; `norm` is their [`global_norm`].
#[track_caller]
pub fn clipped<P: Tree>(grads: &P, norm: &Tensor, longest: f64) -> P {
    let longest = Tensor::scalar(DType::F32, longest);
    let scale = norm.less_equal(&longest).select(&Tensor::ones(DType::F32, &[]), &(&longest / norm));
    grads.map_leaves(|leaf| (&leaf.cast(DType::F32) * &scale).cast(leaf.dtype()))
}
