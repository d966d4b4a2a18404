//! Cuts one step forward and backward into two graphs, and decides what is kept between them.

use std::collections::BTreeSet;
use std::ops::Range;

use hlo::OpKind;

use crate::graph::{Graph, Node, Prim, Ref};

/// A graph cut in two: what can be computed before some inputs are known, and the rest.
pub(crate) struct Split {
    /// Takes the known inputs; its outputs are the first outputs of the whole.
    pub(crate) forward: Graph,
    /// Values of `forward` that `backward` needs, in the order it takes them.
    pub(crate) residuals: Vec<Ref>,
    /// Takes the residuals, then the unknown inputs; its outputs are the other outputs of the whole.
    pub(crate) backward: Graph,
}

impl Split {
    /// Cuts a graph whose inputs in `unknown` come later. Its first outputs do not depend on them.
    ///
    /// `is_invariant` says which known inputs are the same in every round of a loop: what depends on those alone is
    /// computed again rather than kept for every round.
    pub(crate) fn of(
        whole: Graph,
        unknown: Range<usize>,
        first_outputs: usize,
        is_invariant: &dyn Fn(usize) -> bool,
    ) -> Split {
        let marks = |mark: &dyn Fn(usize) -> bool| (0..whole.inputs.len()).map(mark).collect::<Vec<bool>>();
        let is_later = whole.reached_from(&marks(&|n| unknown.contains(&n)));
        let varies = whole.reached_from(&marks(&|n| !unknown.contains(&n) && !is_invariant(n)));
        let mut made_by = vec![None; whole.specs.len()];
        for (n, node) in whole.nodes.iter().enumerate() {
            for result in node.results() {
                made_by[result.0 as usize] = Some(n);
            }
        }
        let later = |node: &Node| node.results().any(|result| is_later[result.0 as usize]);
        let mut pending: Vec<Ref> = whole.outputs[first_outputs..].to_vec();
        pending.extend(whole.nodes.iter().filter(|node| later(node)).flat_map(|node| node.inputs.iter().copied()));
        let mut residuals = BTreeSet::new();
        let mut again = BTreeSet::new();
        while let Some(value) = pending.pop() {
            if is_later[value.0 as usize] {
                continue;
            }
            match made_by[value.0 as usize] {
                Some(n) if is_cheap(&whole, &whole.nodes[n]) || !varies[value.0 as usize] => {
                    if again.insert(n) {
                        pending.extend(&whole.nodes[n].inputs);
                    }
                }
                _ => {
                    residuals.insert(value);
                }
            }
        }
        let residuals: Vec<Ref> = residuals.into_iter().collect();
        let nodes = |keep: &dyn Fn(usize, &Node) -> bool| {
            whole.nodes.iter().enumerate().filter(|(n, node)| keep(*n, node)).map(|(_, node)| node.clone()).collect()
        };
        let mut forward = Graph {
            inputs: (0..whole.inputs.len()).filter(|n| !unknown.contains(n)).map(|n| whole.inputs[n]).collect(),
            specs: whole.specs.clone(),
            nodes: nodes(&|_, node| !later(node)),
            outputs: whole.outputs[..first_outputs].iter().chain(&residuals).copied().collect(),
        };
        forward.prune();
        let mut backward = Graph {
            inputs: residuals.iter().chain(&whole.inputs[unknown]).copied().collect(),
            specs: whole.specs.clone(),
            nodes: nodes(&|n, node| later(node) || again.contains(&n)),
            outputs: whole.outputs[first_outputs..].to_vec(),
        };
        backward.prune();
        Split { forward, residuals, backward }
    }
}

/// Whether computing a node again is better than keeping its result: it costs next to nothing, or its input is smaller.
fn is_cheap(graph: &Graph, node: &Node) -> bool {
    match &node.prim {
        Prim::Op { kind: OpKind::Constant | OpKind::Iota | OpKind::BroadcastInDim | OpKind::Reshape, .. } => true,
        Prim::Op { kind: OpKind::Transpose, .. } | Prim::Stop | Prim::Named(_) | Prim::Shard(_) => true,
        Prim::Op { kind: OpKind::Convert, .. } => {
            graph.spec(node.inputs[0]).dtype.bits() <= graph.spec(node.first).dtype.bits()
        }
        _ => false,
    }
}
