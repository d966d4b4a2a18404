//! Rematerialization: the backward pass of a checkpointed part, which runs it again.

use std::collections::HashMap;
use std::panic::Location;
use std::rc::Rc;

use hlo::{Attrs, OpKind};

use crate::graph::{MemoryKind, Node, Prim, Remat, RematPolicy};
use crate::ops::lane::Lane;
use crate::ops::{contract, write};
use crate::stack;
use crate::tensor::{Ref, Tensor};
use crate::transform::nodes::{batched_body, spread};
use crate::transform::{self, Pull};

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
                if contract::contraction_of(attrs).lhs_batch.len() <= batches =>
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
