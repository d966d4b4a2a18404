//! `checkpoint`: rematerialization. Values are recomputed for the backward pass instead of being saved.

mod policy;

use std::collections::HashMap;
use std::panic::Location;
use std::rc::Rc;

use hlo::{Attrs, OpKind};

use crate::control::{MemoryKind, batched_body, spread};
use crate::graph::{Graph, Node, Prim, Ref};
use crate::ops::write;
use crate::stack;
use crate::tensor::Tensor;
use crate::transform::{self, Lane, Pull};
use crate::tree::Tree;

pub use policy::RematPolicy;

impl RematPolicy {
    /// Where a node's results are saved, if they are. `batches`: how many batches the part is run for at once, each an axis of
    /// its matmuls.
    fn keeps(&self, node: &Node, batches: usize) -> Option<MemoryKind> {
        let has = |names: &[String], name: &str| names.iter().any(|have| have == name);
        match (self, &node.prim) {
            (RematPolicy::None, _) => Some(MemoryKind::Device),
            (RematPolicy::Dots, Prim::Op { kind: OpKind::DotGeneral | OpKind::Convolution, .. }) => {
                Some(MemoryKind::Device)
            }
            (RematPolicy::DotsWithNoBatchDims, Prim::Op { kind: OpKind::DotGeneral, attrs, .. })
                if crate::ops::contract::contraction_of(attrs).lhs_batch.len() <= batches =>
            {
                Some(MemoryKind::Device)
            }
            (RematPolicy::SaveOnlyTheseNames(names), Prim::Named(name)) if has(names, name) => Some(MemoryKind::Device),
            (RematPolicy::Offload { host, .. }, Prim::Named(name)) if has(host, name) => Some(MemoryKind::Host),
            (RematPolicy::Offload { device, .. }, Prim::Named(name)) if has(device, name) => Some(MemoryKind::Device),
            _ => None,
        }
    }
}

/// A checkpointed function and its policy.
#[derive(Clone, Debug)]
pub(crate) struct Remat {
    pub(crate) body: Graph,
    pub(crate) policy: RematPolicy,
    /// How often it went through vmap.
    pub(crate) batches: usize,
}

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

/// The function as run when its derivative is wanted, and its backward pass, which runs it again.
pub(crate) fn vjp(remat: &Rc<Remat>, ins: &[Tensor], active: &[bool]) -> (Vec<Tensor>, Pull) {
    if remat.policy == RematPolicy::None {
        let (outs, tape) = transform::forward(&remat.body, ins, active);
        return (outs, Box::new(move |cts| tape.backward(cts.to_vec())));
    }
    let mut kept: Vec<Kept> = Vec::new();
    let mut beside: HashMap<Ref, Vec<(Ref, Tensor)>> = HashMap::new();
    let outs = transform::replay_with(&remat.body, ins, &mut |node, results| {
        if let Prim::Custom(_) = node.prim {
            let all = || node.results().zip(results.iter().cloned());
            beside.extend(node.results().map(|value| (value, all().filter(|&(other, _)| other != value).collect())));
        }
        let Some(memory) = remat.policy.keeps(node, remat.batches) else { return };
        let mut keep = |value: Ref, same: Option<Ref>, result: &Tensor| {
            if kept.iter().all(|kept| kept.value != value && kept.same != Some(value)) {
                let tensor = if memory == MemoryKind::Host { result.moved_to(memory) } else { result.clone() };
                kept.push(Kept { value, same, tensor, memory });
            }
        };
        for (value, result) in node.results().zip(results) {
            let same = if let Prim::Named(_) = node.prim { node.inputs.first().copied() } else { None };
            keep(value, same, result);
            // Only with all its results saved, a function with a custom derivative is not run again.
            for (value, result) in same.and_then(|same| beside.get(&same)).into_iter().flatten() {
                keep(*value, None, result);
            }
        }
    });
    let (remat, ins, active) = (remat.clone(), ins.to_vec(), active.to_vec());
    let pull: Pull = Box::new(move |cts| {
        let given: Vec<&Tensor> = cts.iter().flatten().collect();
        // An input that is saved under a name is not saved a second time.
        let inputs = &remat.body.inputs;
        let is_read: Vec<bool> = inputs.iter().map(|&input| kept.iter().all(|kept| kept.same != Some(input))).collect();
        let read = ins.iter().zip(&is_read).filter_map(|(tensor, &is_read)| is_read.then_some(tensor));
        let everything: Vec<&Tensor> =
            read.chain(kept.iter().map(|kept| &kept.tensor)).chain(given.iter().copied()).collect();
        let behind = write((OpKind::OptimizationBarrier, Attrs::new(), None), &everything, None);
        let (again, rest) = behind.split_at(everything.len() - kept.len() - given.len());
        let (kept_again, cts_again) = rest.split_at(kept.len());
        let mut known: HashMap<Ref, Tensor> = HashMap::new();
        for (kept, tensor) in kept.iter().zip(kept_again) {
            let tensor =
                if kept.memory == MemoryKind::Host { tensor.moved_to(MemoryKind::Device) } else { tensor.clone() };
            known.extend(kept.same.map(|same| (same, tensor.clone())));
            known.insert(kept.value, tensor);
        }
        let mut again = again.iter().cloned();
        let again: Vec<Tensor> = inputs
            .iter()
            .zip(&is_read)
            .filter_map(|(input, &is_read)| if is_read { again.next() } else { known.get(input).cloned() })
            .collect();
        let mut cts_again = cts_again.iter().cloned();
        let cts = cts.iter().map(|ct| ct.as_ref().and_then(|_| cts_again.next())).collect();
        let (_, tape) = transform::forward_from(&remat.body, &again, &active, &known);
        tape.backward(cts)
    });
    (outs, pull)
}

/// A value that is saved for the backward pass.
struct Kept {
    value: Ref,
    /// What it is a name of.
    same: Option<Ref>,
    tensor: Tensor,
    memory: MemoryKind,
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
