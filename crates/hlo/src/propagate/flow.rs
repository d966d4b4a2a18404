//! Moves axes along factors until nothing changes: at first where nothing can conflict, then greedily.

use std::collections::VecDeque;

use super::axes::{Axis, common, dividing, is_prefix, parts, push, without_overlap};
use super::graph::{Graph, Node, Tensor};
use super::rule::{FactorKind, Manner, Rule};

/// How far a round of propagation goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Round {
    /// Ops that change no element's place but by order.
    Elementwise,
    /// Factors that need no communication; broadcasts backward only.
    PassThroughBackward,
    /// The same, and broadcasts in both directions.
    PassThrough,
    /// All factors.
    All,
}

/// What is done where tensors disagree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Strategy {
    /// Only what all agree on is given on.
    Agreeing,
    /// The most split tensor wins wherever another one can follow.
    Greedy,
}

/// Visits of one node in one round: axes only grow, so this is a guard, not a limit that programs reach.
const MAX_VISITS: u32 = 64;

pub(super) fn run(graph: &mut Graph) {
    let mut readers: Vec<Vec<u32>> = vec![Vec::new(); graph.tensors.len()];
    for (n, node) in graph.nodes.iter().enumerate() {
        match node {
            Node::Op(_, tensors) => tensors.iter().for_each(|&tensor| readers[tensor].push(n as u32)),
            Node::Manual(a, b) => [*a, *b].iter().for_each(|&tensor| readers[tensor].push(n as u32)),
        }
    }
    let mut priorities: Vec<i64> =
        graph.tensors.iter().flat_map(|tensor| tensor.dims.iter().map(|dim| dim.priority)).collect();
    priorities.sort_unstable();
    priorities.dedup();
    for priority in priorities.into_iter().take(16) {
        for round in [Round::Elementwise, Round::PassThroughBackward, Round::PassThrough, Round::All] {
            for strategy in [Strategy::Agreeing, Strategy::Greedy] {
                settle(graph, &readers, round, strategy, priority);
            }
        }
    }
}

fn settle(graph: &mut Graph, readers: &[Vec<u32>], round: Round, strategy: Strategy, priority: i64) {
    let mut queue: VecDeque<u32> = (0..graph.nodes.len() as u32).collect();
    let mut is_queued = vec![true; graph.nodes.len()];
    let mut visits = vec![0u32; graph.nodes.len()];
    let Graph { nodes, tensors, .. } = graph;
    while let Some(n) = queue.pop_front() {
        let at = n as usize;
        is_queued[at] = false;
        visits[at] += 1;
        if visits[at] > MAX_VISITS {
            continue;
        }
        let changed = match &nodes[at] {
            Node::Op(rule, places) => Flow { rule, places, tensors, round, strategy, priority }.run(),
            Node::Manual(outside, inside) => manual(tensors, *outside, *inside),
        };
        for tensor in changed {
            for &reader in &readers[tensor] {
                if !std::mem::replace(&mut is_queued[reader as usize], true) {
                    queue.push_back(reader);
                }
            }
        }
    }
}

/// Axes of a tensor that a factor may not take, beside those of its dimensions.
fn reserved(tensor: &Tensor) -> Vec<Axis> {
    tensor.replicated.iter().chain(&tensor.unreduced).chain(tensor.manual.iter()).copied().collect()
}

/// One dimension's axes for one factor.
#[derive(Clone, Debug)]
struct Part {
    axes: Vec<Axis>,
    /// Whether it may have more.
    is_open: bool,
    /// Whether it is a whole dimension: its size need not be a multiple.
    is_whole: bool,
}

struct Flow<'g> {
    rule: &'g Rule,
    places: &'g [usize],
    tensors: &'g mut [Tensor],
    round: Round,
    strategy: Strategy,
    priority: i64,
}

impl Flow<'_> {
    /// Tensors that are split further now.
    fn run(mut self) -> Vec<usize> {
        if self.round == Round::Elementwise && self.rule.manner != Manner::First {
            return Vec::new();
        }
        let mut meshes = self.places.iter().filter_map(|&place| self.tensors[place].mesh);
        let Some(mesh) = meshes.next() else { return Vec::new() };
        if meshes.any(|other| other != mesh) {
            return Vec::new();
        }
        let before: Vec<Vec<Option<Part>>> = (0..self.places.len()).map(|n| self.project(n)).collect();
        let mut parts = before.clone();
        for factor in self.order(&before) {
            self.spread(factor, &mut parts);
        }
        let changed = |n: &usize| {
            parts[*n]
                .iter()
                .zip(&before[*n])
                .any(|(new, old)| matches!((new, old), (Some(new), Some(old)) if new.axes != old.axes))
        };
        let changed: Vec<usize> = (0..self.places.len()).filter(changed).collect();
        let places = self.places;
        changed.into_iter().filter(|&n| self.write(n, &parts[n], mesh)).map(|n| places[n]).collect()
    }

    /// Factors that take part, in the order in which they choose.
    fn order(&self, parts: &[Vec<Option<Part>>]) -> Vec<usize> {
        let takes_part =
            |factor: &usize| self.round == Round::All || self.rule.factors[*factor].kind == FactorKind::PassThrough;
        let mut order: Vec<usize> = (0..self.rule.factors.len()).filter(takes_part).collect();
        if self.strategy == Strategy::Greedy {
            let weight = |factor: usize| {
                let holders =
                    (0..parts.len()).filter(|&n| parts[n][factor].as_ref().is_some_and(|p| !p.axes.is_empty()));
                holders
                    .map(|n| self.tensors[self.places[n]].sizes.iter().map(|&s| s.max(1) as f64).product::<f64>())
                    .fold(0.0, f64::max)
            };
            order.sort_by(|&a, &b| weight(b).total_cmp(&weight(a)));
        }
        order
    }

    /// The axes that each factor has of a tensor.
    fn project(&self, n: usize) -> Vec<Option<Part>> {
        let tensor = &self.tensors[self.places[n]];
        let mut parts = vec![None; self.rule.factors.len()];
        for (dim, factors) in self.rule.tensors[n].iter().enumerate() {
            let own = &tensor.dims[dim];
            let is_hidden = own.priority > self.priority;
            let mut rest = if is_hidden { Vec::new() } else { own.axes.clone() };
            let mut is_open = !own.is_closed && !is_hidden;
            let is_whole = matches!(factors[..], [only] if self.rule.factors[only].size >= tensor.sizes[dim]);
            for (at, &factor) in factors.iter().enumerate() {
                let size = self.rule.factors[factor].size;
                let mut axes = Vec::new();
                let is_last = at + 1 == factors.len();
                let left = if is_whole {
                    axes = std::mem::take(&mut rest);
                    1
                } else {
                    let (taken, more, left) = dividing(&rest, size);
                    axes.extend(taken);
                    rest = more;
                    left
                };
                // Axes that no factor can hold stop this one and all behind it.
                let overflows = !rest.is_empty() && (is_last || left > 1);
                parts[factor] = Some(Part { axes, is_open: is_open && !overflows, is_whole });
                // What follows a factor that is not split to its end cannot be split by itself.
                is_open &= !overflows;
                if overflows {
                    rest.clear();
                }
            }
        }
        parts
    }

    /// Gives the axes of one factor to all tensors that can take them.
    fn spread(&self, factor: usize, parts: &mut [Vec<Option<Part>>]) {
        let holders: Vec<usize> = (0..parts.len()).filter(|&n| parts[n][factor].is_some()).collect();
        let axes_of = |parts: &[Vec<Option<Part>>], n: usize| {
            parts[n][factor].as_ref().map_or(Vec::new(), |part| part.axes.clone())
        };
        let from_operand = |n: &usize| {
            // A broadcast's operand waits: its result may be needed split otherwise.
            !(self.rule.manner == Manner::Broadcast && self.round == Round::PassThroughBackward && *n == 0)
        };
        let sources: Vec<usize> = holders.iter().copied().filter(from_operand).collect();
        let candidate = match self.strategy {
            Strategy::Agreeing => {
                let mut agreed: Vec<Axis> = Vec::new();
                for &n in &sources {
                    let axes = axes_of(parts, n);
                    let found = common(&agreed, &axes);
                    agreed = match (found.ends_first, found.ends_second) {
                        (true, _) => axes,
                        (_, true) => agreed,
                        _ => return,
                    };
                }
                for &n in &holders {
                    agreed = self.allowed(n, factor, &agreed, parts);
                }
                agreed
            }
            Strategy::Greedy => {
                let mut best: Vec<Axis> = Vec::new();
                for &n in &sources {
                    let axes = axes_of(parts, n);
                    if self::parts(&axes) > self::parts(&best) {
                        best = axes;
                    }
                }
                best
            }
        };
        for &n in &holders {
            let allowed = self.allowed(n, factor, &candidate, parts);
            if let Some(part) = &mut parts[n][factor]
                && part.is_open
                && part.axes != allowed
                && is_prefix(&part.axes, &allowed)
            {
                part.axes = allowed;
            }
        }
    }

    /// The beginning of a list of axes that a tensor can be split along in one factor.
    fn allowed(&self, n: usize, factor: usize, axes: &[Axis], parts: &[Vec<Option<Part>>]) -> Vec<Axis> {
        let tensor = &self.tensors[self.places[n]];
        let mut used = reserved(tensor);
        for (other, part) in parts[n].iter().enumerate() {
            if let Some(part) = part.as_ref().filter(|_| other != factor) {
                used.extend(&part.axes);
            }
        }
        for (dim, factors) in self.rule.tensors[n].iter().enumerate() {
            let is_hidden = tensor.dims[dim].priority > self.priority;
            if factors.is_empty() || is_hidden {
                used.extend(&tensor.dims[dim].axes);
            }
        }
        let kept = without_overlap(axes, &used);
        match &parts[n][factor] {
            Some(part) if !part.is_whole => dividing(&kept, self.rule.factors[factor].size).0,
            _ => kept,
        }
    }

    /// Writes what factors have back to the dimensions; whether one is split further.
    fn write(&mut self, n: usize, parts: &[Option<Part>], mesh: usize) -> bool {
        let tensor = &mut self.tensors[self.places[n]];
        let mut changed = false;
        for (dim, factors) in self.rule.tensors[n].iter().enumerate() {
            let mut axes: Vec<Axis> = Vec::new();
            for &factor in factors {
                let Some(part) = &parts[factor] else { break };
                part.axes.iter().for_each(|&axis| push(&mut axes, axis));
                if self::parts(&part.axes) != self.rule.factors[factor].size {
                    break;
                }
            }
            let own = &mut tensor.dims[dim];
            if own.priority <= self.priority && axes != own.axes && is_prefix(&own.axes, &axes) && !own.is_closed {
                own.axes = axes;
                changed = true;
            }
        }
        if changed {
            tensor.mesh = Some(mesh);
        }
        changed
    }
}

/// Free axes of a tensor outside a manual computation go to the tensor inside, and back.
fn manual(tensors: &mut [Tensor], outside: usize, inside: usize) -> Vec<usize> {
    let Some(mesh) = tensors[outside].mesh else { return Vec::new() };
    if tensors[inside].mesh.is_some_and(|other| other != mesh)
        || tensors[inside].dims.len() != tensors[outside].dims.len()
    {
        return Vec::new();
    }
    let mut changed = Vec::new();
    for dim in 0..tensors[inside].dims.len() {
        let is_manual = |axis: &&Axis| tensors[inside].manual.iter().any(|manual| manual.index == axis.index);
        let whole = &tensors[outside].dims[dim];
        let held: Vec<Axis> = whole.axes.iter().filter(is_manual).copied().collect();
        let free: Vec<Axis> = whole.axes.iter().filter(|axis| !is_manual(axis)).copied().collect();
        let within = tensors[inside].dims[dim].axes.clone();
        if within != free && is_prefix(&within, &free) {
            let mut used: Vec<Axis> = reserved(&tensors[inside]);
            used.extend(tensors[inside].dims.iter().enumerate().filter(|(n, _)| *n != dim).flat_map(|(_, d)| &d.axes));
            let kept = without_overlap(&free, &used);
            if kept != within && is_prefix(&within, &kept) && !tensors[inside].dims[dim].is_closed {
                tensors[inside].dims[dim].axes = kept;
                tensors[inside].mesh = Some(mesh);
                changed.push(inside);
            }
        } else if within != free && is_prefix(&free, &within) && !whole.is_closed {
            let mut used: Vec<Axis> = reserved(&tensors[outside]);
            used.extend(tensors[outside].dims.iter().enumerate().filter(|(n, _)| *n != dim).flat_map(|(_, d)| &d.axes));
            let mut axes = held;
            let kept = without_overlap(&within, &used);
            kept.iter().for_each(|&axis| push(&mut axes, axis));
            if axes != tensors[outside].dims[dim].axes && is_prefix(&tensors[outside].dims[dim].axes, &axes) {
                tensors[outside].dims[dim].axes = axes;
                changed.push(outside);
            }
        }
    }
    changed
}
