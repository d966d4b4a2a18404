//! A composite for a batch.

use crate::graph::Composite;
use crate::ops::lane::Lane;
use crate::tensor::Tensor;
use crate::transform::nodes::{batched_body, spread};
use crate::transform::replay;

/// The function for a batch, which nobody knows by that name any more.
pub(crate) fn batched(composite: &Composite, ins: &[Lane], size: usize) -> Vec<Tensor> {
    let lanes: Vec<Lane> = ins.to_vec();
    let closed = batched_body(&composite.body, &lanes, size, |outs| spread(outs, size));
    let tensors: Vec<Tensor> = ins.iter().map(|lane| lane.tensor.clone()).chain(closed.captured).collect();
    replay(&closed.graph, &tensors)
}
