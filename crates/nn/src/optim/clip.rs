//! The global gradient norm, and clipping by it.

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

/// Gradients clipped by global norm: scaled down to `max_norm` where it is exceeded. `norm` is their [`global_norm`].
#[track_caller]
pub fn clipped<P: Tree>(grads: &P, norm: &Tensor, max_norm: f64) -> P {
    let max_norm = Tensor::scalar(DType::F32, max_norm);
    let scale = norm.less_equal(&max_norm).select(&Tensor::ones(DType::F32, &[]), &(&max_norm / norm));
    grads.map_leaves(|leaf| (&leaf.cast(DType::F32) * &scale).cast(leaf.dtype()))
}
