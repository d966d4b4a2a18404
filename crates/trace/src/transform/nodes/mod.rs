//! Derivatives of nodes that own graphs, and how they act on a batch, one kind per file.

pub(crate) mod composite;
pub(crate) mod cond;
pub(crate) mod custom;
pub(crate) mod manual;
pub(crate) mod remat;
pub(crate) mod scan;
pub(crate) mod while_;

use crate::Spec;
use crate::graph::Graph;
use crate::ops::lane::Lane;
use crate::stack::{self, Closed};
use crate::tensor::Tensor;
use crate::transform;

/// Traces a graph for a batch: its inputs are like these lanes; `finish` makes outputs of what the graph gives.
fn batched_body(body: &Graph, lanes: &[Lane], size: usize, finish: impl FnOnce(Vec<Lane>) -> Vec<Tensor>) -> Closed {
    let specs: Vec<Spec> = lanes.iter().map(|lane| lane.tensor.spec().clone()).collect();
    stack::closed(&specs, |args| {
        let inner: Vec<Lane> =
            args.into_iter().zip(lanes).map(|(tensor, lane)| Lane { tensor, is_batched: lane.is_batched }).collect();
        finish(transform::batch(body, &inner, size))
    })
}

/// Every lane with the axis of the batch.
fn spread(lanes: Vec<Lane>, size: usize) -> Vec<Tensor> {
    lanes.iter().map(|lane| lane.spread(size)).collect()
}
