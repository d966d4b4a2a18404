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

/// The field of what a model carries whose leaves are overwritten with their gradients: the backward pass says what they are next.
/// So does the history of delayed scaling, which is known in the backward pass only.
pub const OVERWRITE_WITH_GRADIENT: &str = "overwrite_with_gradient";

/// The loss, what is carried on, and the gradient.
#[track_caller]
fn differentiated<P: Tree + Clone, X: Tree + Clone>(
    params: &P,
    carried: &X,
    loss: impl FnOnce(&P, &X) -> (Tensor, X),
) -> (Tensor, X, P) {
    let is_overwritten = |path: &String| path.split('.').any(|word| word == OVERWRITE_WITH_GRADIENT);
    let overwritten: Vec<bool> = carried.paths().iter().map(is_overwritten).collect();
    if !overwritten.contains(&true) {
        return value_and_grad_with(|params| loss(params, carried), params);
    }
    let with = |tree: &X, leaves: &[Tensor]| {
        let (mut leaves, mut flags) = (leaves.iter(), overwritten.iter());
        tree.map_leaves(|leaf| match flags.next() {
            Some(true) => leaves.next().unwrap_or(leaf).clone(),
            _ => leaf.clone(),
        })
    };
    let chosen = carried.leaves().into_iter().zip(&overwritten).filter(|(_, is)| **is).map(|(leaf, _)| leaf);
    let at = (params.clone(), chosen.collect::<Vec<Tensor>>());
    let (value, next, (grads, leaves)) =
        value_and_grad_with(|(params, leaves)| loss(params, &with(carried, leaves)), &at);
    (value, with(&next, &leaves), grads)
}

/// [`accumulated`] of a loss that also changes what the model carries, from part to part; no gradient passes through that,
/// but see [`OVERWRITE_WITH_GRADIENT`].
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
        return differentiated(params, carried, |params, carried| loss(params, carried, batch, key));
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
        let (value, carried, grads) =
            differentiated(params, carried, |params, carried| loss(params, carried, batch, key));
        let sums = sums.zip(&grads, |sum, grad| sum + &grad.cast(DType::F32));
        ((total + &value.cast(DType::F32), carried, sums), ())
    });
    let share = (parts as f64).recip();
    (&total * share, carried, sums.zip(params, |sum, param| (sum * share).cast(param.dtype())))
}
