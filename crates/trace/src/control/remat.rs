//! `checkpoint`: rematerialization. Values are recomputed for the backward pass instead of being saved.

use std::panic::Location;
use std::rc::Rc;

use crate::graph::{Prim, Remat, RematPolicy};
use crate::stack;
use crate::tensor::Tensor;
use crate::tree::Tree;

/// Rematerialization (gradient checkpointing): runs `f`, and in the backward pass runs it again instead of saving its values, except
/// what the policy saves.
///
/// The second run reads its inputs through an optimization barrier together with the gradients, so that no compiler can
/// join it with the first one.
#[track_caller]
pub fn checkpoint<I: Tree, O: Tree>(policy: &RematPolicy, inputs: &I, f: impl FnOnce(&I) -> O) -> O {
    let at = Location::caller();
    let (closed, result) = stack::closed_over(inputs, f);
    let specs = closed.graph.output_specs();
    let tensors: Vec<Tensor> = inputs.leaves().into_iter().chain(closed.captured).collect();
    let prim = Prim::Remat(Rc::new(Remat { body: closed.graph, policy: policy.clone(), batches: 0 }));
    let outputs = stack::push(prim, &tensors.iter().collect::<Vec<_>>(), specs, at);
    result.with_leaves(outputs)
}
