//! Gradient accumulation: a batch in parts, so that the activations of one part only are in memory.

use tensor::DType;
use trace::{Key, Tensor, Tree, scan, value_and_grad_with};

/// The mean loss and mean gradient over `parts` equal parts of a batch, one after the other; leaves of the batch are split
/// along their first axis. Sums are `f32`. Each part has a key of its own.
#[track_caller]
pub fn accumulated<P: Tree + Clone, B: Tree>(
    params: &P,
    batch: &B,
    key: &Key,
    parts: usize,
    loss: impl FnOnce(&P, &B, &Key) -> Tensor,
) -> (Tensor, P) {
    let loss = |params: &P, (): &(), batch: &B, key: &Key| (loss(params, batch, key), ());
    let (value, (), grads) = accumulated_with(params, &(), batch, key, parts, loss);
    (value, grads)
}

/// [`accumulated`] of a loss that also changes what the model carries, from part to part; no gradient passes through that.
#[track_caller]
pub fn accumulated_with<P: Tree + Clone, X: Tree + Clone, B: Tree>(
    params: &P,
    carried: &X,
    batch: &B,
    key: &Key,
    parts: usize,
    loss: impl FnOnce(&P, &X, &B, &Key) -> (Tensor, X),
) -> (Tensor, X, P) {
    if parts <= 1 {
        return value_and_grad_with(|params| loss(params, carried, batch, key), params);
    }
    let split = batch.map_leaves(|leaf| {
        let mut dims = leaf.dims().to_vec();
        match dims.first_mut() {
            // What does not divide is refused by the reshape, at the caller's line.
            Some(first) => *first /= parts,
            None => return leaf.broadcast_to(&[parts]),
        }
        dims.insert(0, parts);
        // Each part is spread over all devices, as the batch was.
        let logical_axes = [&["parts", "batch"][..], &vec![""; dims.len().saturating_sub(2)]].concat();
        leaf.reshape(&dims).with_logical_axes(&logical_axes)
    });
    let sums = params.map_leaves(|leaf| Tensor::zeros(DType::F32, leaf.dims()));
    let init = (Tensor::zeros(DType::F32, &[]), carried.clone(), sums);
    let xs = (split, key.stacked(parts));
    let ((total, carried, sums), ()) = scan(&init, &xs, None, |(total, carried, sums), (batch, key)| {
        let (value, carried, grads) = value_and_grad_with(|params| loss(params, carried, batch, key), params);
        let sums = sums.zip(&grads, |sum, grad| sum + &grad.cast(DType::F32));
        ((total + &value.cast(DType::F32), carried, sums), ())
    });
    let share = (parts as f64).recip();
    (&total * share, carried, sums.zip(params, |sum, param| (sum * share).cast(param.dtype())))
}
