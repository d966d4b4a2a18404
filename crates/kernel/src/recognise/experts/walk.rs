//! Values of experts that are followed back to the matrices of experts, and the matmuls that read them: forward and backward.
//!
//! Only rows of chosen experts are computed. That is the same where the others are weighed with zero: in the matmul that weighs, and in
//! the backward pass in everything that has the weighed gradient as a factor.

use std::collections::HashMap;

use chips::Generation;
use hlo::dims::DotDims;
use hlo::{Attr, Definition, Op, OpId, OpKind, Value};
use tensor::Spec;

use super::super::layout::{Label, Labels, Layout};
use super::super::mask::Evaluator;
use super::super::ops::{Numbers, Ops, free, is_constraint, is_default_precision};
use super::choice::{Choice, indices, one_hot};
use super::matrix::{Matrix, SortedRows, lies};
use super::sorted::{OfTokens, RowAxes};
use crate::call::static_spec;

/// Where the axes of a value of every expert are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Axes {
    pub(super) tokens: Vec<usize>,
    pub(super) expert: usize,
    pub(super) feature: usize,
}

/// A value of the chosen experts, `[rows, feature]`.
pub(super) enum Node {
    /// What all experts read, times their matrices.
    First { x: OfTokens, matrix: Matrix },
    /// A value of experts times their matrices.
    Next { node: usize, matrix: Matrix },
    /// What a token has, times what its choice weighs.
    Weighed { y: OfTokens },
    /// Another op, element by element.
    Elementwise { op: OpId, operands: Vec<Operand> },
}

pub(super) enum Operand {
    Node(usize),
    /// One number, in an array that repeats it.
    Number(Value),
}

/// A factor of the gradient of matrices.
pub(super) enum Factor {
    Tokens(OfTokens),
    Node(usize),
}

/// A matmul that reads values of experts.
pub(super) enum Reader {
    /// Experts are weighed and summed for each token.
    Combine { node: usize },
    /// The gradient of what all experts read.
    OfTokens { node: usize, matrix: Matrix },
    /// The gradient of matrices: `[experts, columns of the first, of the second]`, and the labels of both columns.
    OfMatrices { factors: [Factor; 2], columns: [Vec<Label>; 2] },
    /// The gradient of the weights, of chosen experts.
    OfWeights { y: OfTokens, node: usize },
}

/// A result, and the labels of its dimensions.
pub(super) struct Replaced {
    pub(super) reader: Reader,
    pub(super) result: Value,
    pub(super) layout: Layout,
}

pub(super) struct Walk<'a> {
    pub(super) ops: &'a Ops<'a>,
    pub(super) choice: Choice,
    /// Sizes of the axes of tokens.
    pub(super) tokens: Vec<usize>,
    pub(super) generation: Generation,
    pub(super) nodes: Vec<Node>,
    pub(super) specs: Vec<Spec>,
    pub(super) axes: RowAxes,
    /// Whether a node is zero for experts that were not chosen.
    zeros: Vec<bool>,
    known: HashMap<Value, (Axes, usize)>,
}

/// Ops that one mixture may have.
const MAX_NODES: usize = 512;

impl<'a> Walk<'a> {
    pub(super) fn new(ops: &'a Ops<'a>, choice: Choice, tokens: Vec<usize>, generation: Generation) -> Walk<'a> {
        let (nodes, specs, zeros, known) = (Vec::new(), Vec::new(), Vec::new(), HashMap::new());
        let axes = RowAxes::of(&tokens, choice.choices, choice.experts);
        Walk { ops, choice, tokens, generation, nodes, specs, axes, zeros, known }
    }

    pub(super) fn rows(&self) -> usize {
        self.tokens.iter().product::<usize>() * self.choice.choices
    }

    /// What a matmul is to experts; nothing is left behind where it is nothing.
    pub(super) fn reader(&mut self, position: usize) -> Option<Replaced> {
        let op = self.ops.op(position);
        let Some(Attr::Dot(dot)) = op.attr("dot_dimension_numbers") else { return None };
        let (dot, before, labels) = (dot.clone(), self.nodes.len(), self.axes.labels.clone());
        let found = self
            .combine(op, &dot)
            .or_else(|| (0..2).find_map(|side| self.of_tokens(op, &dot, side)))
            .or_else(|| (0..2).find_map(|side| self.of_matrices(op, &dot, side)))
            .or_else(|| (0..2).find_map(|side| self.of_weights(op, &dot, side)));
        if found.is_none() {
            self.forget(before, labels);
        }
        found
    }

    fn forget(&mut self, before: usize, labels: Labels) {
        self.axes.labels = labels;
        self.nodes.truncate(before);
        self.specs.truncate(before);
        self.axes.features.truncate(before);
        self.zeros.truncate(before);
        self.known.retain(|_, (_, node)| *node < before);
    }

    /// The node of a value, or nothing new.
    fn tried(&mut self, value: Value, axes: &Axes) -> Option<usize> {
        let (before, labels) = (self.nodes.len(), self.axes.labels.clone());
        let node = self.node(value, axes);
        if node.is_none() {
            self.forget(before, labels);
        }
        node
    }

    fn dims(&self, value: Value) -> Option<Vec<usize>> {
        Some(static_spec(self.ops.func.ty(value))?.dims)
    }

    /// What tokens have, and the dimensions that are tokens, then features.
    fn of_every_token(&mut self, value: Value, order: &[usize], width: usize) -> Option<OfTokens> {
        let features = self.axes.labels.open(width);
        let mut layout: Layout = vec![Vec::new(); order.len()];
        let all = self.axes.tokens.iter().chain(std::iter::once(&features));
        for (&dim, labels) in order.iter().zip(all) {
            layout.get_mut(dim)?.clone_from(labels);
        }
        Some(OfTokens { value, layout, features })
    }

    /// The labels of dimensions that are axes: tokens, then another one.
    fn layout(&self, order: &[usize], last: &[Label]) -> Option<Layout> {
        let count = self.tokens.len();
        let of = |&n: &usize| if n == count { Some(last.to_vec()) } else { self.axes.tokens.get(n).cloned() };
        order.iter().map(of).collect()
    }

    fn features(&self, node: usize) -> Option<Vec<Label>> {
        self.axes.features.get(node).cloned()
    }

    fn is_weights(&self, value: Value) -> bool {
        Choice::of(self.ops.func, value) == Some(self.choice)
    }

    /// All tokens by themselves, a sum over experts: weights are operand `side`.
    fn combine(&mut self, op: &Op, dot: &DotDims) -> Option<Replaced> {
        let side = (0..2).find(|&n| self.is_weights(op.operands[n]))?;
        let (ours, theirs) = (Numbers::of(dot, side), Numbers::of(dot, 1 - side));
        let count = self.tokens.len();
        let is_weighing = ours.batching.iter().copied().eq(0..count as i64) && *ours.contracting == [count as i64];
        is_weighing.then_some(())?;
        let of = self.dims(op.operands[1 - side])?;
        let [feature] = free(dot, 1 - side, of.len())[..] else { return None };
        let axes = Axes { tokens: indices(theirs.batching)?, expert: *indices(theirs.contracting)?.first()?, feature };
        let node = self.node(op.operands[1 - side], &axes)?;
        let layout = self.layout(&(0..=count).collect::<Vec<_>>(), &self.features(node)?)?;
        Some(Replaced { reader: Reader::Combine { node }, result: op.first_result, layout })
    }

    /// Operand `side` is of experts and zero where they were not chosen; a sum over experts and features with matrices.
    fn of_tokens(&mut self, op: &Op, dot: &DotDims, side: usize) -> Option<Replaced> {
        let other = 1 - side;
        let (ours, theirs) = (Numbers::of(dot, side), Numbers::of(dot, other));
        (ours.batching.is_empty() && self.is_plain(op)).then_some(())?;
        let (of, of_matrix) = (self.dims(op.operands[side])?, self.dims(op.operands[other])?);
        let tokens = free(dot, side, of.len());
        let [columns] = free(dot, other, of_matrix.len())[..] else { return None };
        let (contracted, inner) = (indices(ours.contracting)?, indices(theirs.contracting)?);
        let ([_, _], [_, _]) = (&contracted[..], &inner[..]) else { return None };
        for (expert, feature) in [(0, 1), (1, 0)] {
            if of.get(contracted[expert]) != Some(&self.choice.experts) {
                continue;
            }
            let (value, of_matrices) = (op.operands[other], [inner[expert], inner[feature], columns]);
            let sizes = [*of_matrix.get(inner[feature])?, *of_matrix.get(columns)?];
            if self.takes(value, &of_matrices, sizes).is_none() {
                continue;
            }
            for order in orders(tokens.len()) {
                let tokens: Vec<usize> = order.iter().map(|&n| tokens[n]).collect();
                let axes = Axes { tokens, expert: contracted[expert], feature: contracted[feature] };
                let Some(node) = self.tried(op.operands[side], &axes).filter(|&node| self.zeros[node]) else {
                    continue;
                };
                // Free dimensions of the left factor come first.
                let count = order.len();
                let back = (0..count).map(|n| order.iter().position(|&of| of == n).unwrap_or(0));
                let order: Vec<usize> =
                    if side == 0 { back.chain([count]).collect() } else { [count].into_iter().chain(back).collect() };
                let of_columns = self.axes.labels.open(sizes[1]);
                let layout = self.layout(&order, &of_columns)?;
                let labels = [self.axes.expert.clone(), self.features(node)?, of_columns];
                let matrix = Matrix { value, order: of_matrices, labels };
                return Some(Replaced { reader: Reader::OfTokens { node, matrix }, result: op.first_result, layout });
            }
        }
        None
    }

    /// A sum over tokens: operand `side` is of experts and zero where they were not chosen.
    fn of_matrices(&mut self, op: &Op, dot: &DotDims, side: usize) -> Option<Replaced> {
        let other = 1 - side;
        let (ours, theirs) = (Numbers::of(dot, side), Numbers::of(dot, other));
        let (tokens, of_other) = (indices(ours.contracting)?, indices(theirs.contracting)?);
        let result = static_spec(self.ops.func.ty(op.first_result))?;
        (tokens.len() == self.tokens.len() && self.is_plain(op) && result.dims.len() == 3).then_some(())?;
        let dims = [0, 1].map(|n| self.dims(op.operands[n]).unwrap_or_default());
        let (free_ours, free_other) = (free(dot, side, dims[side].len()), free(dot, other, dims[other].len()));
        let pairs: Vec<(usize, usize)> = match (ours.batching, &free_ours[..]) {
            // The other factor is the same for all experts.
            ([], &[a, b]) => vec![(a, b), (b, a)],
            (&[expert], &[feature]) => vec![(usize::try_from(expert).ok()?, feature)],
            _ => return None,
        };
        let [of_feature] = free_other[..] else { return None };
        for (expert, feature) in pairs {
            if dims[side].get(expert) != Some(&self.choice.experts) {
                continue;
            }
            for order in orders(tokens.len()) {
                let of = |all: &[usize]| order.iter().map(|&n| all[n]).collect::<Vec<_>>();
                let axes = Axes { tokens: of(&tokens), expert, feature };
                let Some(node) = self.tried(op.operands[side], &axes).filter(|&node| self.zeros[node]) else {
                    continue;
                };
                let width = dims[other].get(of_feature).copied()?;
                let factor = match theirs.batching {
                    [] => {
                        let order = [of(&of_other), vec![of_feature]].concat();
                        Factor::Tokens(self.of_every_token(op.operands[other], &order, width)?)
                    }
                    &[expert] => {
                        let expert = usize::try_from(expert).ok()?;
                        let axes = Axes { tokens: of(&of_other), expert, feature: of_feature };
                        Factor::Node(self.tried(op.operands[other], &axes)?)
                    }
                    _ => return None,
                };
                self.sorted_rows().takes_gradient([width, *dims[side].get(feature)?], result.dtype)?;
                // What is written: experts, columns of the other factor, of this one.
                let batches = dot.lhs_batching.len();
                let begin = |of: usize| if of == 0 { batches } else { batches + free(dot, 0, dims[0].len()).len() };
                let mut order = [0; 3];
                *order.get_mut(begin(other))? = 1;
                for (n, &dim) in free_ours.iter().enumerate() {
                    *order.get_mut(begin(side) + n)? = if dim == expert { 0 } else { 2 };
                }
                let of_factor = match &factor {
                    Factor::Tokens(of) => of.features.clone(),
                    Factor::Node(node) => self.features(*node)?,
                };
                // Both have labels of their own, so that a matrix times itself is told apart.
                let own = [of_factor, self.features(node)?];
                let columns = own.clone().map(|of| self.axes.labels.open(self.axes.size(&of)));
                let labels = [&self.axes.expert, &columns[0], &columns[1]];
                let layout = order.iter().map(|&n| labels.get(n).map(|&of| of.clone())).collect::<Option<Layout>>()?;
                let factors = [factor, Factor::Node(node)];
                let reader = Reader::OfMatrices { factors, columns };
                return Some(Replaced { reader, result: op.first_result, layout });
            }
        }
        None
    }

    /// Operand `side` is of experts; a sum over features with what tokens have, read by one-hot vectors only.
    fn of_weights(&mut self, op: &Op, dot: &DotDims, side: usize) -> Option<Replaced> {
        let other = 1 - side;
        let (ours, theirs) = (Numbers::of(dot, side), Numbers::of(dot, other));
        let ([feature], [of_feature]) = (&indices(ours.contracting)?[..], &indices(theirs.contracting)?[..]) else {
            return None;
        };
        let (of, of_other) = (self.dims(op.operands[side])?, self.dims(op.operands[other])?);
        let [expert] = free(dot, side, of.len())[..] else { return None };
        (free(dot, other, of_other.len()).is_empty() && of.get(expert) == Some(&self.choice.experts)).then_some(())?;
        let places = self.places(op.first_result)?;
        let count = self.tokens.len();
        // The batch comes first, then experts.
        (places.len() == count + 1 && places.get(count) == Some(&count)).then_some(())?;
        let (batching, of_batching) = (indices(ours.batching)?, indices(theirs.batching)?);
        let at = |n: usize| places.iter().position(|&place| place == n);
        let tokens = (0..count).map(|n| batching.get(at(n)?).copied()).collect::<Option<Vec<_>>>()?;
        let order = (0..count).map(|n| of_batching.get(at(n)?).copied()).chain([Some(*of_feature)]);
        let order = order.collect::<Option<Vec<_>>>()?;
        let node = self.node(op.operands[side], &Axes { tokens, expert, feature: *feature })?;
        let y = self.of_every_token(op.operands[other], &order, *of.get(*feature)?)?;
        self.axes.labels.unify_labels(&y.features, &self.features(node)?);
        let layout = self.layout(&places, &self.axes.all_experts)?;
        Some(Replaced { reader: Reader::OfWeights { y, node }, result: op.first_result, layout })
    }

    /// Which axis (tokens, then experts) each dimension of a value is, where one-hot vectors of the choice are all that it is
    /// multiplied by, and nothing else reads it.
    fn places(&self, value: Value) -> Option<Vec<usize>> {
        let rank = self.dims(value)?.len();
        let mut pending = vec![(value, (0..rank).collect::<Vec<usize>>())];
        let mut found: Option<Vec<usize>> = None;
        while let Some((value, dims)) = pending.pop() {
            // Where the dimensions of the first value are in this one.
            for reader in self.ops.readers(value) {
                let op = self.ops.op((*reader)?);
                let to = self.dims(op.first_result)?;
                match op.kind()? {
                    OpKind::Convert => pending.push((op.first_result, dims.clone())),
                    OpKind::Transpose => {
                        let order = indices(op.attr("permutation")?.as_i64s()?)?;
                        let dims = dims.iter().map(|dim| order.iter().position(|of| of == dim));
                        pending.push((op.first_result, dims.collect::<Option<_>>()?));
                    }
                    OpKind::BroadcastInDim => {
                        let order = indices(op.attr("broadcast_dimensions")?.as_i64s()?)?;
                        let dims = dims.iter().map(|&dim| order.get(dim).copied());
                        pending.push((op.first_result, dims.collect::<Option<_>>()?));
                    }
                    OpKind::Reshape => {
                        let from = self.dims(value)?;
                        let large = |dims: &[usize]| (0..dims.len()).filter(|&n| dims[n] != 1).collect::<Vec<_>>();
                        let (a, b) = (large(&from), large(&to));
                        (a.iter().map(|&n| from[n]).eq(b.iter().map(|&n| to[n]))).then_some(())?;
                        let ones: Vec<usize> = (0..to.len()).filter(|&n| to[n] == 1).collect();
                        let mut ones = ones.into_iter();
                        let moved = |&dim: &usize| match a.iter().position(|&n| n == dim) {
                            Some(n) => b.get(n).copied(),
                            None => ones.next(),
                        };
                        pending.push((op.first_result, dims.iter().map(moved).collect::<Option<_>>()?));
                    }
                    OpKind::Multiply => {
                        let &other = op.operands.iter().find(|&&operand| operand != value)?;
                        let func = self.ops.func;
                        (one_hot(func, other)? == self.choice.chosen).then_some(())?;
                        // Vectors are of tokens, choices and experts.
                        let count = self.tokens.len();
                        let axis = |&dim: &usize| match dim {
                            dim if dim < count => Some(dim),
                            dim if dim == count + 1 => Some(count),
                            _ => None,
                        };
                        let axes = dims.iter().map(axis).collect::<Option<Vec<_>>>()?;
                        (found.as_ref().is_none_or(|found| *found == axes)).then_some(())?;
                        found = Some(axes);
                    }
                    _ => return None,
                }
            }
        }
        found
    }

    fn is_plain(&self, op: &Op) -> bool {
        let dtype = |value: Value| static_spec(self.ops.func.ty(value)).map(|spec| spec.dtype);
        let result = dtype(op.first_result);
        op.operands.iter().all(|&operand| dtype(operand) == result) && is_default_precision(op)
    }

    /// The node of a value whose axes are known.
    fn node(&mut self, value: Value, axes: &Axes) -> Option<usize> {
        if let Some((known, node)) = self.known.get(&value) {
            return (known == axes).then_some(*node);
        }
        let func = self.ops.func;
        let Definition::Result(id, 0) = func.value(value).definition else { return None };
        let op = func.op(id);
        let kind = op.kind()?;
        let spec = static_spec(func.ty(value))?;
        let sizes = axes.tokens.iter().map(|&n| spec.dims.get(n).copied()).collect::<Option<Vec<_>>>();
        let fits = spec.dims.get(axes.expert) == Some(&self.choice.experts) && sizes.as_ref() == Some(&self.tokens);
        if self.nodes.len() >= MAX_NODES || !fits {
            return None;
        }
        let (node, is_zero) = match kind {
            OpKind::DotGeneral => self.matmul(op, axes, &spec)?,
            _ if is_constraint(op) => {
                let node = self.node(*op.operands.first()?, axes)?;
                self.known.insert(value, (axes.clone(), node));
                return Some(node);
            }
            OpKind::Transpose => {
                let order = indices(op.attr("permutation")?.as_i64s()?)?;
                let of = |n: usize| order.get(n).copied();
                let tokens = axes.tokens.iter().map(|&n| of(n)).collect::<Option<Vec<_>>>()?;
                let before = Axes { tokens, expert: of(axes.expert)?, feature: of(axes.feature)? };
                let node = self.node(op.operands[0], &before)?;
                self.known.insert(value, (axes.clone(), node));
                return Some(node);
            }
            kind if hlo::cost::fuses_elementwise(kind) => {
                let mut operands = Vec::with_capacity(op.operands.len());
                let mut zeros = Vec::with_capacity(op.operands.len());
                for &operand in &op.operands {
                    let number = Evaluator::new(func).scalar(operand);
                    operands.push(match number {
                        Some(_) => Operand::Number(operand),
                        None if static_spec(func.ty(operand))?.dims == spec.dims => {
                            Operand::Node(self.node(operand, axes)?)
                        }
                        None => return None,
                    });
                    zeros.push(match operands.last() {
                        Some(Operand::Node(node)) => self.zeros[*node],
                        _ => number == Some(0.0),
                    });
                }
                (Node::Elementwise { op: id, operands }, stays_zero(kind, &zeros))
            }
            _ => return None,
        };
        let feature = *spec.dims.get(axes.feature)?;
        let features = match &node {
            Node::First { matrix, .. } | Node::Next { matrix, .. } => matrix.labels[2].clone(),
            Node::Weighed { y } => y.features.clone(),
            Node::Elementwise { operands, .. } => {
                let mut all: Option<Vec<Label>> = None;
                for operand in operands {
                    let Operand::Node(node) = operand else { continue };
                    let of = self.features(*node)?;
                    match &all {
                        Some(all) => self.axes.labels.unify_labels(all, &of).then_some(())?,
                        None => all = Some(of),
                    }
                }
                all.unwrap_or_else(|| self.axes.labels.open(feature))
            }
        };
        self.nodes.push(node);
        self.axes.features.push(features);
        self.zeros.push(is_zero);
        self.specs.push(Spec::new(spec.dtype, [self.rows(), feature]));
        self.known.insert(value, (axes.clone(), self.nodes.len() - 1));
        Some(self.nodes.len() - 1)
    }

    fn matmul(&mut self, op: &Op, axes: &Axes, result: &Spec) -> Option<(Node, bool)> {
        let Some(Attr::Dot(dot)) = op.attr("dot_dimension_numbers") else { return None };
        let func = self.ops.func;
        if dot.lhs_contracting.is_empty() {
            return Some(((0..2).find_map(|side| self.weighed(op, dot, axes, side))?, true));
        }
        let specs = [static_spec(func.ty(op.operands[0]))?, static_spec(func.ty(op.operands[1]))?];
        let is_same = specs.iter().all(|spec| spec.dtype == result.dtype);
        (is_same && is_default_precision(op)).then_some(())?;
        let node = (0..2).find_map(|side| self.matmul_with(op, dot, axes, &specs, side))?;
        let is_zero = matches!(&node, Node::Next { node, .. } if self.zeros[*node]);
        Some((node, is_zero))
    }

    /// What tokens have times the weights, which are operand `side`.
    fn weighed(&mut self, op: &Op, dot: &DotDims, axes: &Axes, side: usize) -> Option<Node> {
        let other = 1 - side;
        self.is_weights(op.operands[side]).then_some(())?;
        let of = self.dims(op.operands[other])?;
        let (ours, theirs) = (indices(Numbers::of(dot, side).batching)?, indices(Numbers::of(dot, other).batching)?);
        let count = self.tokens.len();
        let [feature] = free(dot, other, of.len())[..] else { return None };
        let at = |n: usize| ours.iter().position(|&of| of == n);
        let fits = (0..count).all(|n| at(n).is_some() && at(n) == axes.tokens.get(n).copied());
        let (expert, of_feature) = if side == 0 { (count, count + 1) } else { (count + 1, count) };
        (fits && ours.len() == count && (axes.expert, axes.feature) == (expert, of_feature)).then_some(())?;
        let order = (0..count).map(|n| theirs.get(at(n)?).copied()).chain([Some(feature)]);
        let order = order.collect::<Option<Vec<_>>>()?;
        Some(Node::Weighed { y: self.of_every_token(op.operands[other], &order, *of.get(feature)?)? })
    }

    /// A matmul whose operand `side` is the matrices of experts.
    fn matmul_with(&mut self, op: &Op, dot: &DotDims, axes: &Axes, specs: &[Spec; 2], side: usize) -> Option<Node> {
        let other = 1 - side;
        let (of_matrix, of_other) = (Numbers::of(dot, side), Numbers::of(dot, other));
        let (of_free, other_free) =
            (free(dot, side, specs[side].dims.len()), free(dot, other, specs[other].dims.len()));
        let ([inner], [contracted]) = (&indices(of_matrix.contracting)?[..], &indices(of_other.contracting)?[..])
        else {
            return None;
        };
        // Where a free dimension of a factor is in the result.
        let batches = dot.lhs_batching.len();
        let (begin, other_begin) = match side {
            0 => (batches, batches + of_free.len()),
            _ => (batches + other_free.len(), batches),
        };
        let place = |n: usize| begin + n;
        let tokens: Option<Vec<usize>> =
            axes.tokens.iter().map(|&n| other_free.get(n.checked_sub(other_begin)?).copied()).collect();
        let tokens = tokens.filter(|tokens| tokens.len() == other_free.len())?;
        let value = op.operands[side];
        let size = |n: usize| specs[side].dims.get(n).copied();
        let (expert, columns) = match (indices(of_matrix.batching)?[..].to_vec(), &of_free[..]) {
            // Experts are free: what all of them read.
            (batching, &[a, b]) if batching.is_empty() => match (place(0), place(1)) {
                (x, y) if (x, y) == (axes.expert, axes.feature) => (a, b),
                (x, y) if (y, x) == (axes.expert, axes.feature) => (b, a),
                _ => return None,
            },
            // Each expert reads its own.
            (batching, &[columns]) if axes.expert == 0 && place(0) == axes.feature => match batching[..] {
                [expert] => (expert, columns),
                _ => return None,
            },
            _ => return None,
        };
        let (order, sizes) = ([expert, *inner, columns], [size(*inner)?, size(columns)?]);
        self.takes(value, &order, sizes)?;
        let of_columns = self.axes.labels.open(sizes[1]);
        let matrix = |of_experts: &Vec<Label>, features: Vec<Label>| Matrix {
            value,
            order,
            labels: [of_experts.clone(), features, of_columns],
        };
        match indices(of_other.batching)?[..] {
            [] => {
                let order = [tokens, vec![*contracted]].concat();
                let x = self.of_every_token(op.operands[other], &order, sizes[0])?;
                let matrix = matrix(&self.axes.expert, x.features.clone());
                Some(Node::First { x, matrix })
            }
            [expert] => {
                let node = self.node(op.operands[other], &Axes { tokens, expert, feature: *contracted })?;
                let matrix = matrix(&self.axes.expert, self.features(node)?);
                Some(Node::Next { node, matrix })
            }
            _ => None,
        }
    }

    fn sorted_rows(&self) -> SortedRows {
        SortedRows { rows: self.rows(), experts: self.choice.experts, generation: self.generation }
    }

    fn takes(&self, value: Value, order: &[usize; 3], sizes: [usize; 2]) -> Option<()> {
        let dtype = static_spec(self.ops.func.ty(value))?.dtype;
        self.sorted_rows().takes(sizes, lies(order), dtype)
    }
}

/// Whether zeros of operands make zeros of a result.
pub(super) fn stays_zero(kind: OpKind, zeros: &[bool]) -> bool {
    match kind {
        OpKind::Multiply => zeros.contains(&true),
        OpKind::Divide => zeros.first() == Some(&true),
        OpKind::Select => zeros.get(1..).is_some_and(|zeros| zeros.iter().all(|&zero| zero)),
        OpKind::Add | OpKind::Subtract | OpKind::Negate | OpKind::Convert => zeros.iter().all(|&zero| zero),
        _ => false,
    }
}

/// All orders of a few axes.
fn orders(count: usize) -> Vec<Vec<usize>> {
    if count > 3 {
        return vec![(0..count).collect()];
    }
    let mut all: Vec<Vec<usize>> = vec![Vec::new()];
    for _ in 0..count {
        let longer = |order: &Vec<usize>| {
            let more = (0..count).filter(|n| !order.contains(n)).map(|n| [order.clone(), vec![n]].concat());
            more.collect::<Vec<_>>()
        };
        all = all.iter().flat_map(longer).collect();
    }
    all
}

/// The choice that a value weighs by, and the sizes of the axes of tokens.
pub(super) fn choice(ops: &Ops<'_>, value: Value) -> Option<(Choice, Vec<usize>)> {
    let choice = Choice::of(ops.func, value)?;
    let mut dims = static_spec(ops.func.ty(value))?.dims;
    dims.pop()?;
    let rows = dims.iter().try_fold(choice.choices, |count, &size| count.checked_mul(size))?;
    i32::try_from(rows).ok()?;
    Some((choice, dims))
}
