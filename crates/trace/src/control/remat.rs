//! `checkpoint`: values of a part are computed again for the backward pass instead of being kept.

use std::collections::HashMap;
use std::panic::Location;
use std::rc::Rc;

use hlo::{Attrs, OpKind};

use crate::control::{batched_body, spread};
use crate::graph::{Graph, Node, Prim, Ref};
use crate::ops::write;
use crate::stack;
use crate::tensor::Tensor;
use crate::transform::{self, Lane, Pull};
use crate::tree::Tree;

/// What a [`checkpoint`] keeps for the backward pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Everything: as without a checkpoint.
    Everything,
    /// Nothing but the inputs of the part.
    Nothing,
    /// Results of products of matrices, which are the costly part.
    Dots,
    /// Results of products without batch axes: those of weights, not of attention.
    DotsWithoutBatch,
    /// Values marked by [`Tensor::named`] with one of these names.
    Names(Vec<String>),
}

impl Policy {
    /// `batches`: how many batches the part is run for at once, each an axis of its products.
    fn keeps(&self, node: &Node, batches: usize) -> bool {
        match (self, &node.prim) {
            (Policy::Everything, _) => true,
            (Policy::Dots, Prim::Op { kind: OpKind::DotGeneral | OpKind::Convolution, .. }) => true,
            (Policy::DotsWithoutBatch, Prim::Op { kind: OpKind::DotGeneral, attrs, .. }) => {
                crate::ops::contract::contraction_of(attrs).lhs_batch.len() <= batches
            }
            (Policy::Names(names), Prim::Named(name)) => names.iter().any(|have| **have == **name),
            _ => false,
        }
    }
}

/// A part whose values are not kept.
#[derive(Clone, Debug)]
pub(crate) struct Remat {
    pub(crate) body: Graph,
    pub(crate) policy: Policy,
    /// How often it went through vmap.
    pub(crate) batches: usize,
}

/// Runs `f`, and in the backward pass runs it again instead of keeping its values, except what the policy keeps.
///
/// The second run reads its inputs through an optimization barrier together with the gradients, so that no compiler can
/// join it with the first one.
#[track_caller]
pub fn checkpoint<I: Tree, O: Tree>(policy: &Policy, inputs: &I, f: impl FnOnce(&I) -> O) -> O {
    let at = Location::caller();
    let (closed, result) = stack::closed_over(inputs, f);
    let specs = closed.graph.output_specs();
    let tensors: Vec<Tensor> = inputs.leaves().into_iter().chain(closed.captured).collect();
    let prim = Prim::Remat(Rc::new(Remat { body: closed.graph, policy: policy.clone(), batches: 0 }));
    let outputs = stack::push(prim, &tensors.iter().collect::<Vec<_>>(), specs, at);
    result.with_leaves(outputs)
}

/// The part as run when its derivative is wanted, and how it runs again.
pub(crate) fn vjp(remat: &Rc<Remat>, ins: &[Tensor], active: &[bool]) -> (Vec<Tensor>, Pull) {
    if remat.policy == Policy::Everything {
        let (outs, tape) = transform::forward(&remat.body, ins, active);
        return (outs, Box::new(move |cts| tape.backward(cts.to_vec())));
    }
    let mut kept: Vec<(Ref, Tensor)> = Vec::new();
    let outs = transform::replay_with(&remat.body, ins, &mut |node, results| {
        if remat.policy.keeps(node, remat.batches) {
            kept.extend(node.results().zip(results.iter().cloned()));
        }
    });
    let (remat, ins, active) = (remat.clone(), ins.to_vec(), active.to_vec());
    let pull: Pull = Box::new(move |cts| {
        let given: Vec<&Tensor> = cts.iter().flatten().collect();
        let everything: Vec<&Tensor> =
            ins.iter().chain(kept.iter().map(|(_, tensor)| tensor)).chain(given.iter().copied()).collect();
        let behind = write((OpKind::OptimizationBarrier, Attrs::new(), None), &everything, None);
        let (again, rest) = behind.split_at(ins.len());
        let (kept_again, cts_again) = rest.split_at(kept.len());
        let kept: HashMap<Ref, Tensor> = kept.iter().map(|&(value, _)| value).zip(kept_again.iter().cloned()).collect();
        let mut cts_again = cts_again.iter().cloned();
        let cts = cts.iter().map(|ct| ct.as_ref().and_then(|_| cts_again.next())).collect();
        let (_, tape) = transform::forward_from(&remat.body, again, &active, &kept);
        tape.backward(cts)
    });
    (outs, pull)
}

/// The part for a batch.
pub(crate) fn batched(remat: &Rc<Remat>, ins: &[Lane], size: usize, at: &'static Location<'static>) -> Vec<Tensor> {
    let closed = batched_body(&remat.body, ins, size, |outs| spread(outs, size));
    let specs = closed.graph.output_specs();
    let tensors: Vec<Tensor> = ins.iter().map(|lane| lane.tensor.clone()).chain(closed.captured).collect();
    let batched = Remat { body: closed.graph, policy: remat.policy.clone(), batches: remat.batches + 1 };
    let prim = Prim::Remat(Rc::new(batched));
    stack::push(prim, &tensors.iter().collect::<Vec<_>>(), specs, at)
}
