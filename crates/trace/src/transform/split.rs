//! Cuts one step forward and backward into two graphs, and decides what is kept between them.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use hlo::{OpClass, OpKind};

use crate::graph::{Graph, Node, Prim};
use crate::tensor::Ref;

/// How a known input reaches the second part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// It is the same in every iteration of a loop.
    Same,
    /// It is there for every iteration in any case.
    Slice,
    /// It is kept only if it is asked for.
    Carried,
}

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
    /// `source` says where a known input comes from: what depends on [`Source::Same`] alone is rematerialized rather than
    /// saved for every iteration.
    pub(crate) fn of(
        whole: Graph,
        unknown: Range<usize>,
        first_outputs: usize,
        source: &dyn Fn(usize) -> Source,
    ) -> Split {
        let marks = |mark: &dyn Fn(usize) -> bool| (0..whole.inputs.len()).map(mark).collect::<Vec<bool>>();
        let is_later = whole.reached_from(&marks(&|n| unknown.contains(&n)));
        let varies = whole.reached_from(&marks(&|n| !unknown.contains(&n) && source(n) != Source::Same));
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
        let mut is_free = vec![false; whole.specs.len()];
        for (n, &input) in whole.inputs.iter().enumerate() {
            is_free[input.0 as usize] = !unknown.contains(&n) && source(n) != Source::Carried;
        }
        fewer(&whole, &made_by, &varies, &is_free, &mut residuals, &mut again);
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

/// Drops what simple arithmetic makes of values that are kept anyway, or that are smaller: reading and writing costs more
/// than the arithmetic, which joins the loops that read its result.
fn fewer(
    graph: &Graph,
    made_by: &[Option<usize>],
    varies: &[bool],
    is_free: &[bool],
    residuals: &mut BTreeSet<Ref>,
    again: &mut BTreeSet<usize>,
) {
    let bits = |value: Ref| {
        let spec = graph.spec(value);
        spec.dims.iter().product::<usize>() * spec.dtype.bits() as usize
    };
    // Values by what would have to be kept instead of them. What is kept then may let others be dropped.
    loop {
        let mut groups: BTreeMap<BTreeSet<Ref>, Vec<(Ref, Origin)>> = BTreeMap::new();
        for &value in residuals.iter() {
            if let Some(origin) = Origin::of(graph, made_by, varies, residuals, value) {
                let costly = origin.sources.iter().copied().filter(|source| !is_free[source.0 as usize]).collect();
                groups.entry(costly).or_default().push((value, origin));
            }
        }
        let is_gain = |costly: &BTreeSet<Ref>, values: &[(Ref, Origin)]| {
            costly.iter().map(|&value| bits(value)).sum::<usize>()
                < values.iter().map(|&(value, _)| bits(value)).sum::<usize>()
        };
        groups.retain(|costly, values| is_gain(costly, values));
        if groups.is_empty() {
            return;
        }
        for (value, origin) in groups.into_values().flatten() {
            residuals.remove(&value);
            residuals.extend(origin.sources);
            again.extend(origin.nodes);
        }
    }
}

/// How a value is rematerialized from what is saved, and from what is not saved yet.
struct Origin {
    nodes: BTreeSet<usize>,
    sources: BTreeSet<Ref>,
}

impl Origin {
    /// Of a value that is simple arithmetic.
    fn of(
        graph: &Graph,
        made_by: &[Option<usize>],
        varies: &[bool],
        residuals: &BTreeSet<Ref>,
        value: Ref,
    ) -> Option<Origin> {
        let n = made_by[value.0 as usize].filter(|&n| is_arithmetic(&graph.nodes[n]))?;
        let is_simple = |n: usize| is_arithmetic(&graph.nodes[n]) || is_cheap(graph, &graph.nodes[n]);
        let (mut nodes, mut sources) = (BTreeSet::from([n]), BTreeSet::new());
        let mut pending: Vec<Ref> = graph.nodes[n].inputs.clone();
        while let Some(input) = pending.pop() {
            match made_by[input.0 as usize] {
                _ if residuals.contains(&input) => {}
                Some(n) if is_simple(n) || !varies[input.0 as usize] => {
                    if nodes.insert(n) {
                        pending.extend(&graph.nodes[n].inputs);
                    }
                }
                _ => {
                    sources.insert(input);
                }
            }
        }
        Some(Origin { nodes, sources })
    }
}

/// Whether a node is one instruction for each element, of those that gradients are made of.
fn is_arithmetic(node: &Node) -> bool {
    use OpKind::*;
    let Prim::Op { kind, .. } = &node.prim else { return false };
    // Bits, roundings and parts of complex numbers are saved, not rematerialized.
    let is_kept = matches!(
        kind,
        BitcastConvert
            | Ceil
            | Complex
            | CountLeadingZeros
            | Floor
            | Imag
            | IsFinite
            | Popcnt
            | Real
            | ReducePrecision
            | RoundNearestAfz
            | RoundNearestEven
            | ShiftLeft
            | ShiftRightArithmetic
            | ShiftRightLogical
            | Sign
            | Xor
    );
    kind.class() == OpClass::Arithmetic && kind.is_stablehlo() && !is_kept
}

/// Whether rematerializing a node is better than saving its result: it costs next to nothing, or its input is smaller.
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
