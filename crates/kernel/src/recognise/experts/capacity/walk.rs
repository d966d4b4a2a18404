//! Follows what experts have in their slots from the matmul that dispatches tokens to those that combine, and their gradients.

use std::collections::{HashMap, HashSet};

use chips::Generation;
use hlo::dims::DotDims;
use hlo::{Attr, Definition, Func, Op, OpId, OpKind, Value};
use tensor::{DType, Spec};

use super::super::Setting;
use super::super::choice::indices;
use super::super::matrix::{Matrix, SortedRows, lies};
use super::super::sorted::{OfTokens, RowAxes};
use super::super::walk::{Operand, stays_zero};
use super::proof::{Chosen, Proof, defining};
use super::rows::Rows;
use super::symbols::ZERO;
use crate::call::static_spec;
use crate::recognise::devices::Split;
use crate::recognise::layout::{Label, Layout};
use crate::recognise::mask::Evaluator;
use crate::recognise::ops::{Numbers, Ops, free, is_constraint, is_default_precision, permuted, result_layout};

/// Why experts with a capacity stay as they are.
const SHARED: &str = "experts with a capacity: it cannot be seen that no two tokens share a slot";

/// What experts have in their slots, as rows.
pub(super) enum Node {
    /// What tokens have, times a mask.
    Dispatched { x: OfTokens, mask: usize, is_bit: bool },
    /// Times matrices of experts.
    Next { node: usize, matrix: Matrix },
    /// Another op, element by element.
    Elementwise { op: OpId, operands: Vec<Operand> },
}

/// The gradient of a mask: what tokens have times what is in the slots.
pub(super) struct MaskGradient {
    pub(super) y: OfTokens,
    pub(super) node: usize,
    pub(super) dtype: DType,
}

/// A result that is computed from rows.
pub(super) enum Reader {
    /// Slots are weighed by a mask and summed for each token.
    Combine { node: usize, mask: usize, features: Vec<Label> },
    /// The gradient of matrices; the labels of both factors' features.
    OfMatrices { nodes: [usize; 2], features: [Vec<Label>; 2] },
    /// Something without slots that a gradient of a mask is part of.
    OfMask { row: usize },
}

pub(super) struct Replaced {
    pub(super) reader: Reader,
    pub(super) result: Value,
    pub(super) layout: Layout,
}

/// Experts with a capacity.
pub(in super::super) struct Capacity {
    pub(super) chosen: Chosen,
    pub(super) slots: usize,
    pub(super) axes: RowAxes,
    pub(super) nodes: Vec<Node>,
    pub(super) specs: Vec<Spec>,
    pub(super) rows: Rows,
    pub(super) gradients: Vec<MaskGradient>,
    /// Masks that tokens are dispatched or combined by.
    pub(super) masks: Vec<usize>,
    pub(super) replaced: Vec<Replaced>,
    /// How it is split over devices.
    pub(super) split: Option<Split>,
}

struct Walk<'a, 'b> {
    ops: &'a Ops<'b>,
    generation: Generation,
    proof: Proof<'a>,
    found: Capacity,
    zeros: Vec<bool>,
    known: HashMap<Value, (usize, Layout)>,
    /// Values of gradients of masks; those that have their own rows already are done.
    gradients: Vec<Value>,
    tracked: HashSet<Value>,
    /// Labels of tokens that slots are numbered for by themselves.
    groups: Option<Vec<Label>>,
    plus: Option<i64>,
    used: HashSet<usize>,
}

/// Slot values that one mixture may have.
const MAX_NODES: usize = 512;
/// Ops that are looked at behind a mask.
const MAX_BEHIND: usize = 512;

/// Experts with a capacity in a region, and why others stay as they are.
pub(in super::super) fn capacities(
    ops: &Ops<'_>,
    setting: &Setting<'_>,
    left: &mut HashMap<String, usize>,
) -> Vec<Capacity> {
    let (mut all, mut used) = (Vec::new(), HashSet::new());
    for &position in ops.matmuls() {
        if used.contains(&position) {
            continue;
        }
        let mut looks_so = false;
        for (side, experts, slots) in masks(ops, position) {
            let mask = ops.op(position).operands[side];
            for (chosen, counts_slots) in candidates(ops.func, mask, experts, slots) {
                looks_so |= counts_slots;
                let Some(proof) = Proof::new(ops.func, chosen, slots) else { continue };
                let Some(walk) = Walk::begin(ops, setting.generation, proof, position) else { continue };
                let (mut found, positions) = walk.run();
                if !found.replaced.is_empty() {
                    used.extend(positions);
                    match setting.split(ops.func, (&found.axes, &found.parts(ops.func))) {
                        Ok(split) => {
                            found.split = split;
                            all.push(found);
                        }
                        Err(reason) => *left.entry(reason).or_default() += 1,
                    }
                }
                looks_so = false;
                break;
            }
            if used.contains(&position) {
                break;
            }
        }
        if looks_so {
            *left.entry(SHARED.into()).or_default() += 1;
        }
    }
    all
}

/// How a matmul may be one with a mask: which factor that is, experts and slots.
fn masks(ops: &Ops<'_>, position: usize) -> Vec<(usize, usize, usize)> {
    let op = ops.op(position);
    let Some(Attr::Dot(dot)) = op.attr("dot_dimension_numbers") else { return Vec::new() };
    let mut all = Vec::new();
    for side in 0..2 {
        let Some(spec) = static_spec(ops.func.ty(op.operands[side])) else { continue };
        if let [a, b] = free(dot, side, spec.dims.len())[..]
            && !dot.lhs_contracting.is_empty()
        {
            all.push((side, spec.dims[a], spec.dims[b]));
            if spec.dims[a] != spec.dims[b] {
                all.push((side, spec.dims[b], spec.dims[a]));
            }
        }
    }
    all.retain(|&(_, experts, slots)| experts > 1 && slots > 1);
    all
}

/// What tokens may have chosen: arrays that a mask compares with the numbers of experts; and whether slots are numbered too.
fn candidates(func: &Func, mask: Value, experts: usize, slots: usize) -> Vec<(Chosen, bool)> {
    let (mut pending, mut seen) = (vec![mask], HashSet::new());
    let (mut found, mut counts_slots) = (Vec::new(), false);
    while let Some(value) = pending.pop() {
        let Some(op) = defining(func, value).filter(|_| seen.len() < MAX_BEHIND && seen.insert(value)) else {
            continue;
        };
        pending.extend(&op.operands);
        if op.kind() != Some(OpKind::Compare) {
            continue;
        }
        for (n, other) in [(0, 1), (1, 0)] {
            let (Some(&number), Some(&counter)) = (op.operands.get(n), op.operands.get(other)) else { continue };
            let Some(size) = counted(func, counter) else { continue };
            counts_slots |= size >= slots && size <= slots + 2;
            let chosen = unmoved(func, number);
            let dims = static_spec(func.ty(chosen)).map(|spec| spec.dims).unwrap_or_default();
            if size != experts || dims.iter().product::<usize>() < 2 {
                continue;
            }
            let is_top = matches!(func.value(chosen).definition, Definition::Result(id, 1)
                if func.op(id).kind() == Some(OpKind::ChloTopK));
            let choices = if is_top { dims.last().copied().unwrap_or(1) } else { 1 };
            let one = Chosen { value: chosen, choices, experts };
            if choices < experts && !found.contains(&one) {
                found.push(one);
            }
        }
    }
    found.truncate(8);
    found.into_iter().map(|one| (one, counts_slots)).collect()
}

/// An array before it was repeated, turned and reshaped.
fn unmoved(func: &Func, mut value: Value) -> Value {
    while let Some(op) = defining(func, value) {
        let int = |value: Value| {
            static_spec(func.ty(value)).is_some_and(|spec| spec.dtype.is_integer() && spec.dtype.bits() >= 32)
        };
        match op.kind() {
            Some(OpKind::Reshape | OpKind::Transpose | OpKind::BroadcastInDim) => value = op.operands[0],
            Some(OpKind::Convert) if int(value) && int(op.operands[0]) => value = op.operands[0],
            _ => break,
        }
    }
    value
}

/// How far an array counts.
fn counted(func: &Func, value: Value) -> Option<usize> {
    let value = match defining(func, value) {
        Some(op) if op.kind() == Some(OpKind::Convert) => op.operands[0],
        _ => value,
    };
    let source = unmoved(func, value);
    let op = defining(func, source).filter(|op| op.kind() == Some(OpKind::Iota))?;
    let along = usize::try_from(op.attr("iota_dimension")?.as_int()?).ok()?;
    static_spec(func.ty(source))?.dims.get(along).copied()
}

impl<'a, 'b> Walk<'a, 'b> {
    /// Begins with a matmul that dispatches tokens.
    fn begin(ops: &'a Ops<'b>, generation: Generation, proof: Proof<'a>, position: usize) -> Option<Walk<'a, 'b>> {
        let found = Capacity {
            chosen: proof.chosen,
            slots: proof.slots,
            axes: RowAxes::default(),
            nodes: Vec::new(),
            specs: Vec::new(),
            rows: Rows::default(),
            gradients: Vec::new(),
            masks: Vec::new(),
            replaced: Vec::new(),
            split: None,
        };
        let mut walk = Walk {
            ops,
            generation,
            proof,
            found,
            zeros: Vec::new(),
            known: HashMap::new(),
            gradients: Vec::new(),
            tracked: HashSet::new(),
            groups: None,
            plus: None,
            used: HashSet::new(),
        };
        let rows = walk.row_count()?;
        i32::try_from(rows).ok()?;
        walk.matmul(position).then_some(walk)
    }

    fn row_count(&self) -> Option<usize> {
        let proof = &self.proof;
        let tokens = proof.labels.leaves(&proof.tokens);
        let count = tokens.iter().try_fold(1usize, |count, &label| count.checked_mul(proof.labels.size(label)))?;
        count.checked_mul(proof.chosen.choices)
    }

    fn run(mut self) -> (Capacity, HashSet<usize>) {
        for position in 0..self.ops.order.len() {
            let op = self.ops.op(position);
            match op.kind() {
                Some(OpKind::DotGeneral) => {
                    let is_known = self.used.contains(&position) || self.matmul(position);
                    if !is_known {
                        self.gradient(op);
                    }
                }
                Some(kind) => {
                    if op.operands.iter().any(|operand| self.known.contains_key(operand)) {
                        self.attempt(|walk| walk.follow(position, op, kind));
                    }
                    self.gradient(op);
                }
                None => {}
            }
        }
        let Proof { mut labels, tokens, choice, expert, .. } = self.proof;
        let all_experts = labels.fresh(self.found.chosen.experts);
        let features = std::mem::take(&mut self.found.axes.features);
        self.found.axes = RowAxes { labels, tokens: vec![tokens], choice, expert, all_experts, features };
        (self.found, self.used)
    }

    fn is_plain(&self, op: &Op) -> bool {
        let dtype = |value: Value| static_spec(self.ops.func.ty(value)).map(|spec| spec.dtype);
        let result = dtype(op.first_result);
        op.operands.iter().all(|&operand| dtype(operand) == result) && is_default_precision(op)
    }

    fn leaves(&self, labels: &[Label]) -> Vec<Label> {
        self.proof.labels.leaves(labels)
    }

    fn same(&self, a: &[Label], b: &[Label]) -> bool {
        self.proof.labels.same_set(a, b)
    }

    /// The features of what is in slots; `None` where axes are missing or there are others.
    fn features(&self, layout: &Layout) -> Option<Vec<Label>> {
        let proof = &self.proof;
        let of_slots = self.leaves(&[&proof.expert[..], &proof.slot, self.groups.as_deref()?].concat());
        let flat = proof.labels.flat(layout);
        let count = flat.iter().filter(|label| of_slots.contains(label)).count();
        let tokens = self.leaves(&[&proof.tokens[..], &proof.choice].concat());
        let rest: Vec<Label> = flat.into_iter().filter(|label| !of_slots.contains(label)).collect();
        (count == of_slots.len() && !rest.is_empty() && !rest.iter().any(|label| tokens.contains(label)))
            .then_some(rest)
    }

    fn width(&self, features: &[Label]) -> usize {
        let labels = &self.proof.labels;
        labels.leaves(features).iter().map(|&label| labels.size(label)).product()
    }

    fn add(&mut self, value: Value, node: Node, layout: Layout, is_zero: bool) -> Option<()> {
        let features = self.features(&layout)?;
        let dtype = static_spec(self.ops.func.ty(value))?.dtype;
        (self.found.nodes.len() < MAX_NODES).then_some(())?;
        self.found.specs.push(Spec::new(dtype, [self.row_count()?, self.width(&features)]));
        self.found.nodes.push(node);
        self.found.axes.features.push(features);
        self.zeros.push(is_zero);
        self.known.insert(value, (self.found.nodes.len() - 1, layout));
        Some(())
    }

    /// What a matmul is to slots; nothing is left behind where it is nothing.
    fn matmul(&mut self, position: usize) -> bool {
        let op = self.ops.op(position);
        let Some(Attr::Dot(dot)) = op.attr("dot_dimension_numbers") else { return false };
        let known = [0, 1].map(|n| self.known.contains_key(&op.operands[n]));
        let done = match known {
            [true, true] => self.of_matrices(op, dot),
            [true, false] => self.reader(op, dot, 0),
            [false, true] => self.reader(op, dot, 1),
            [false, false] => self.dispatched(op, dot),
        };
        if done.is_some() {
            self.used.insert(position);
        }
        done.is_some()
    }

    /// As it was before, where an attempt fails.
    fn attempt<T>(&mut self, one: impl FnOnce(&mut Self) -> Option<T>) -> Option<T> {
        let before = (self.proof.clone(), self.found.rows.clone(), self.groups.clone(), self.plus);
        let done = one(self);
        if done.is_none() {
            (self.proof, self.found.rows, self.groups, self.plus) = before;
        }
        done
    }

    /// The rows of a mask, and whether they are 0 or 1.
    fn mask(&mut self, value: Value, layout: &Layout) -> Option<(usize, bool)> {
        let (plus, is_bit) = self.proof.places(value, layout)?;
        // Slots of all masks are the same.
        self.plus.is_none_or(|other| other == plus).then_some(())?;
        let row = self.found.rows.plan(&mut self.proof, &self.gradients, value, layout)?;
        self.plus = Some(plus);
        Some((row, is_bit))
    }

    fn dispatched(&mut self, op: &Op, dot: &DotDims) -> Option<()> {
        for side in 0..2 {
            let spec = static_spec(self.ops.func.ty(op.operands[side]))?;
            let Chosen { experts, value, .. } = self.proof.chosen;
            let slots = self.proof.slots;
            let [a, b] = free(dot, side, spec.dims.len())[..] else { continue };
            for (expert, slot) in [(a, b), (b, a)] {
                let fits = spec.dims[expert] == experts && spec.dims[slot] == slots;
                if !fits || dot.lhs_contracting.is_empty() {
                    continue;
                }
                if !candidates(self.ops.func, op.operands[side], experts, slots).iter().any(|(of, _)| of.value == value)
                {
                    continue;
                }
                let done = self.attempt(|walk| walk.dispatched_by(op, dot, side, (expert, slot)));
                if done.is_some() {
                    return done;
                }
            }
        }
        None
    }

    fn dispatched_by(&mut self, op: &Op, dot: &DotDims, side: usize, (expert, slot): (usize, usize)) -> Option<()> {
        let other = 1 - side;
        let (ours, theirs) = (Numbers::of(dot, side), Numbers::of(dot, other));
        let proof = &mut self.proof;
        let (sizes, of_sizes) = (proof.dims(op.operands[side])?, proof.dims(op.operands[other])?);
        let mut layout = proof.opened(&sizes);
        (layout[expert], layout[slot]) = (proof.expert.clone(), proof.slot.clone());
        let (mask, is_bit) = self.mask(op.operands[side], &layout)?;
        let at = |dims: &[i64]| indices(dims)?.into_iter().map(|n| layout.get(n).cloned()).collect::<Option<Vec<_>>>();
        let (batch, contracted) = (at(ours.batching)?, at(ours.contracting)?);
        let (groups, tokens) = (self.leaves(&batch.concat()), self.leaves(&contracted.concat()));
        let all = self.proof.tokens.clone();
        let along = self.proof.running.as_ref()?.along.clone();
        let along = self.leaves(&along);
        let is_apart = tokens.iter().all(|label| along.contains(label));
        (is_apart && self.same(&[&groups[..], &tokens].concat(), &all)).then_some(())?;
        match &self.groups {
            Some(known) => self.same(known, &groups).then_some(())?,
            None => self.groups = Some(groups.clone()),
        }
        let proof = &mut self.proof;
        let mut of: Layout = of_sizes.iter().map(|_| Vec::new()).collect();
        for (n, labels) in indices(theirs.batching)?.into_iter().zip(&batch) {
            *of.get_mut(n)? = labels.clone();
        }
        for (n, labels) in indices(theirs.contracting)?.into_iter().zip(&contracted) {
            *of.get_mut(n)? = labels.clone();
        }
        let mut features = Vec::new();
        for n in free(dot, other, of_sizes.len()) {
            of[n] = proof.labels.open(of_sizes[n]);
            features.extend(of[n].clone());
        }
        let result = if side == 0 { result_layout(dot, &layout, &of) } else { result_layout(dot, &of, &layout) };
        let x = OfTokens { value: op.operands[other], layout: of, features };
        self.is_of_tokens(&x).then_some(())?;
        self.add(op.first_result, Node::Dispatched { x, mask, is_bit }, result, true)?;
        self.found.masks.push(mask);
        Some(())
    }

    fn is_of_tokens(&self, x: &OfTokens) -> bool {
        let proof = &self.proof;
        self.same(&proof.labels.flat(&x.layout), &[&proof.tokens[..], &x.features].concat()) && !x.features.is_empty()
    }

    fn sorted_rows(&self) -> Option<SortedRows> {
        Some(SortedRows { rows: self.row_count()?, experts: self.proof.chosen.experts, generation: self.generation })
    }

    /// A matmul of slots, operand `side`, with something else.
    fn reader(&mut self, op: &Op, dot: &DotDims, side: usize) -> Option<()> {
        self.attempt(|walk| walk.next(op, dot, side))
            .or_else(|| self.attempt(|walk| walk.combined(op, dot, side)))
            .or_else(|| self.attempt(|walk| walk.of_mask(op, dot, side)))
    }

    fn labels_at(layout: &Layout, dims: &[i64]) -> Option<Vec<Vec<Label>>> {
        indices(dims)?.into_iter().map(|n| layout.get(n).cloned()).collect()
    }

    /// Times matrices of experts.
    fn next(&mut self, op: &Op, dot: &DotDims, side: usize) -> Option<()> {
        let (node, layout) = self.known.get(&op.operands[side])?.clone();
        let other = 1 - side;
        let (ours, theirs) = (Numbers::of(dot, side), Numbers::of(dot, other));
        self.is_plain(op).then_some(())?;
        let of = self.proof.dims(op.operands[other])?;
        let (batch, contracted) =
            (Self::labels_at(&layout, ours.batching)?, Self::labels_at(&layout, ours.contracting)?);
        let features = self.features(&layout)?;
        let ([expert], [inner]) = (&indices(theirs.batching)?[..], &indices(theirs.contracting)?[..]) else {
            return None;
        };
        let [columns] = free(dot, other, of.len())[..] else { return None };
        let is_of_experts =
            self.same(&batch.concat(), &self.proof.expert) && self.same(&contracted.concat(), &features);
        is_of_experts.then_some(())?;
        let order = [*expert, *inner, columns];
        let value = op.operands[other];
        let dtype = static_spec(self.ops.func.ty(value))?.dtype;
        self.sorted_rows()?.takes([*of.get(*inner)?, of[columns]], lies(&order), dtype)?;
        let mut of_matrix: Layout = vec![Vec::new(); of.len()];
        of_matrix[*expert] = batch.concat();
        of_matrix[*inner] = contracted.concat();
        of_matrix[columns] = self.proof.labels.open(of[columns]);
        let result = match side {
            0 => result_layout(dot, &layout, &of_matrix),
            _ => result_layout(dot, &of_matrix, &layout),
        };
        let labels = [batch.concat(), contracted.concat(), of_matrix[columns].clone()];
        let matrix = Matrix { value, order, labels };
        let is_zero = *self.zeros.get(node)?;
        self.add(op.first_result, Node::Next { node, matrix }, result, is_zero)
    }

    /// Weighed by a mask and summed.
    fn combined(&mut self, op: &Op, dot: &DotDims, side: usize) -> Option<()> {
        let (node, layout) = self.known.get(&op.operands[side])?.clone();
        let other = 1 - side;
        let (ours, theirs) = (Numbers::of(dot, side), Numbers::of(dot, other));
        let (batch, contracted) =
            (Self::labels_at(&layout, ours.batching)?, Self::labels_at(&layout, ours.contracting)?);
        let proof = &self.proof;
        let of_slots = [&proof.expert[..], &proof.slot].concat();
        let groups = self.groups.clone()?;
        (self.same(&contracted.concat(), &of_slots) && self.same(&batch.concat(), &groups)).then_some(())?;
        let features = self.features(&layout)?;
        let sizes = proof.dims(op.operands[other])?;
        let mut of = self.proof.opened(&sizes);
        for (n, labels) in indices(theirs.batching)?.into_iter().zip(batch) {
            *of.get_mut(n)? = labels;
        }
        for (n, labels) in indices(theirs.contracting)?.into_iter().zip(contracted) {
            *of.get_mut(n)? = labels;
        }
        let (mask, _) = self.mask(op.operands[other], &of)?;
        let rest: Vec<Label> = free(dot, other, sizes.len()).into_iter().flat_map(|n| of[n].clone()).collect();
        let all = self.proof.tokens.clone();
        self.same(&[&groups[..], &rest].concat(), &all).then_some(())?;
        let result = if side == 0 { result_layout(dot, &layout, &of) } else { result_layout(dot, &of, &layout) };
        self.found.masks.push(mask);
        let reader = Reader::Combine { node, mask, features };
        self.found.replaced.push(Replaced { reader, result: op.first_result, layout: result });
        Some(())
    }

    /// The gradient of a mask: a sum over features.
    fn of_mask(&mut self, op: &Op, dot: &DotDims, side: usize) -> Option<()> {
        let (node, layout) = self.known.get(&op.operands[side])?.clone();
        let other = 1 - side;
        let (ours, theirs) = (Numbers::of(dot, side), Numbers::of(dot, other));
        let (batch, contracted) =
            (Self::labels_at(&layout, ours.batching)?, Self::labels_at(&layout, ours.contracting)?);
        let (features, groups) = (self.features(&layout)?, self.groups.clone()?);
        (self.same(&contracted.concat(), &features) && self.same(&batch.concat(), &groups)).then_some(())?;
        let sizes = self.proof.dims(op.operands[other])?;
        let mut of = self.proof.opened(&sizes);
        for (n, labels) in indices(theirs.batching)?.into_iter().zip(batch) {
            *of.get_mut(n)? = labels;
        }
        for (n, labels) in indices(theirs.contracting)?.into_iter().zip(contracted) {
            *of.get_mut(n)? = labels;
        }
        let result = if side == 0 { result_layout(dot, &layout, &of) } else { result_layout(dot, &of, &layout) };
        let dtype = static_spec(self.ops.func.ty(op.first_result))?.dtype;
        let y = OfTokens { value: op.operands[other], layout: of, features };
        self.found.gradients.push(MaskGradient { y, node, dtype });
        self.gradients.push(op.first_result);
        self.proof.given.insert(op.first_result, result);
        self.tracked.insert(op.first_result);
        Some(())
    }

    /// A sum over slots of what two have: the gradient of matrices.
    fn of_matrices(&mut self, op: &Op, dot: &DotDims) -> Option<()> {
        let sides = [0, 1].map(|n| self.known.get(&op.operands[n]).cloned());
        let [Some((a, of_a)), Some((b, of_b))] = sides else { return None };
        let result = static_spec(self.ops.func.ty(op.first_result))?;
        (self.is_plain(op) && result.dims.len() == 3).then_some(())?;
        let (lhs, rhs) = (Numbers::of(dot, 0), Numbers::of(dot, 1));
        let batches = [Self::labels_at(&of_a, lhs.batching)?, Self::labels_at(&of_b, rhs.batching)?];
        let summed = [Self::labels_at(&of_a, lhs.contracting)?, Self::labels_at(&of_b, rhs.contracting)?];
        let proof = &self.proof;
        let all = [self.groups.as_deref()?, &proof.slot].concat();
        let is_paired = summed[0].iter().zip(&summed[1]).all(|(a, b)| self.leaves(a) == self.leaves(b));
        let is_of_experts = batches.iter().all(|labels| self.same(&labels.concat(), &proof.expert));
        // Empty slots are zero in one of them.
        let is_zero = *self.zeros.get(a)? || *self.zeros.get(b)?;
        (is_paired && is_of_experts && is_zero && self.same(&summed[0].concat(), &all)).then_some(())?;
        let features = [self.features(&of_a)?, self.features(&of_b)?];
        let widths = [self.width(&features[0]), self.width(&features[1])];
        self.sorted_rows()?.takes_gradient(widths, result.dtype)?;
        // Both have labels of their own, so that a matrix times itself is told apart.
        let (left, right) = (self.proof.labels.fresh(widths[0]), self.proof.labels.fresh(widths[1]));
        let layout = vec![self.proof.expert.clone(), left.clone(), right.clone()];
        let reader = Reader::OfMatrices { nodes: [a, b], features: [left, right] };
        self.found.replaced.push(Replaced { reader, result: op.first_result, layout });
        Some(())
    }

    /// Ops on what is in slots that are no matmuls.
    fn follow(&mut self, position: usize, op: &Op, kind: OpKind) -> Option<()> {
        let &first = op.operands.first()?;
        let func = self.ops.func;
        let moved = |walk: &mut Self, layout: Layout| {
            let (node, _) = walk.known.get(&first)?.clone();
            walk.features(&layout)?;
            walk.known.insert(op.first_result, (node, layout));
            Some(())
        };
        match kind {
            OpKind::Transpose => {
                let layout = permuted(op, &self.known.get(&first)?.1.clone())?;
                moved(self, layout)
            }
            OpKind::Reshape => {
                let layout = self.known.get(&first)?.1.clone();
                let dims = self.proof.dims(op.first_result)?;
                let layout = self.proof.labels.reshaped(&layout, &dims)?;
                moved(self, layout)
            }
            OpKind::OptimizationBarrier if op.operands.len() == 1 => {
                let layout = self.known.get(&first)?.1.clone();
                moved(self, layout)
            }
            _ if is_constraint(op) => {
                let layout = self.known.get(&first)?.1.clone();
                moved(self, layout)
            }
            kind if hlo::cost::fuses_elementwise(kind) => {
                let spec = static_spec(func.ty(op.first_result))?;
                let layout = op.operands.iter().find_map(|operand| self.known.get(operand))?.1.clone();
                let (mut operands, mut zeros) = (Vec::new(), Vec::new());
                for &operand in &op.operands {
                    let number = Evaluator::new(func).scalar(operand);
                    let known = self.known.get(&operand).cloned();
                    match (number, known) {
                        (Some(number), _) => {
                            operands.push(Operand::Number(operand));
                            zeros.push(number == 0.0);
                        }
                        (None, Some((node, of))) if static_spec(func.ty(operand))?.dims == spec.dims => {
                            // Features that two matmuls gave become one.
                            self.proof.labels.unify(&of, &layout).then_some(())?;
                            operands.push(Operand::Node(node));
                            zeros.push(*self.zeros.get(node)?);
                        }
                        _ => return None,
                    }
                }
                let id = *self.ops.order.get(position)?;
                self.add(op.first_result, Node::Elementwise { op: id, operands }, layout, stays_zero(kind, &zeros))
            }
            _ => None,
        }
    }

    /// What the gradient of a mask is part of: followed until slots are summed over.
    fn gradient(&mut self, op: &Op) -> Option<()> {
        let kind = op.kind().filter(|_| op.num_results == 1)?;
        let side = op.operands.iter().position(|operand| self.tracked.contains(operand))?;
        let layout = self.proof.given.get(&op.operands[side])?.clone();
        let dims = self.proof.dims(op.first_result)?;
        let result = match kind {
            OpKind::Transpose => permuted(op, &layout)?,
            OpKind::Reshape => self.proof.labels.reshaped(&layout, &dims)?,
            OpKind::OptimizationBarrier => (op.operands.len() == 1).then(|| layout.clone())?,
            OpKind::Pad | OpKind::Slice => {
                let low = match kind {
                    OpKind::Pad => op.attr("edge_padding_low")?.as_i64s()?.to_vec(),
                    _ => op.attr("start_indices")?.as_i64s()?.iter().map(|&n| -n).collect(),
                };
                let from = self.proof.dims(op.operands[side])?;
                let mut result = Vec::with_capacity(layout.len());
                for (n, labels) in layout.iter().enumerate() {
                    let (&size, &low) = (dims.get(n)?, low.get(n)?);
                    result.push(match low == 0 && from.get(n) == Some(&size) {
                        true => labels.clone(),
                        false => {
                            let first = self.proof.first_slot(labels)?.checked_add(low)?;
                            self.proof.shifted(size, first)?
                        }
                    });
                }
                result
            }
            OpKind::Reduce => {
                let over = indices(op.attr("dimensions")?.as_i64s()?)?;
                (0..layout.len()).filter(|n| !over.contains(n)).map(|n| layout[n].clone()).collect()
            }
            OpKind::DotGeneral => {
                let Some(Attr::Dot(dot)) = op.attr("dot_dimension_numbers") else { return None };
                let other = 1 - side;
                let (ours, theirs) = (Numbers::of(dot, side), Numbers::of(dot, other));
                let sizes = self.proof.dims(op.operands[other])?;
                let mut of = self.proof.opened(&sizes);
                let pairs = [(ours.batching, theirs.batching), (ours.contracting, theirs.contracting)];
                for (from, to) in pairs {
                    for (labels, n) in Self::labels_at(&layout, from)?.into_iter().zip(indices(to)?) {
                        *of.get_mut(n)? = labels;
                    }
                }
                if side == 0 { result_layout(dot, &layout, &of) } else { result_layout(dot, &of, &layout) }
            }
            kind if kind.is_elementwise() => layout.clone(),
            _ => return None,
        };
        self.proof.given.insert(op.first_result, result.clone());
        match self.attempt(|walk| walk.determined(op.first_result, &result)) {
            Some(()) => drop(self.proof.given.remove(&op.first_result)),
            None => drop(self.tracked.insert(op.first_result)),
        }
        Some(())
    }

    /// Whether a value is determined by the rows of choices: it has no slots, and is zero where an expert was not chosen.
    fn determined(&mut self, value: Value, layout: &Layout) -> Option<()> {
        (!self.proof.has_slots(layout)).then_some(())?;
        let table = self.proof.read(value, layout)?;
        let proof = &self.proof;
        let (choices, has_choice, has_expert) =
            (proof.chosen.choices, proof.has(layout, &proof.choice), proof.has(layout, &proof.expert));
        let is_zero = match (has_choice, has_expert) {
            (true, true) => table.is_zero_elsewhere(choices),
            (false, true) => table.at(choices, 0) == ZERO,
            (true, false) => true,
            (false, false) => choices == 1,
        };
        let axes = [
            &proof.tokens[..],
            if has_choice { &proof.choice } else { &[] },
            if has_expert { &proof.expert } else { &[] },
        ];
        is_zero.then_some(())?;
        self.same(&proof.labels.flat(layout), &axes.concat()).then_some(())?;
        let row = self.found.rows.plan(&mut self.proof, &self.gradients, value, layout)?;
        // What tokens have is known by now.
        let is_known = self.found.gradients.iter().all(|one| self.is_of_tokens(&one.y));
        is_known.then_some(())?;
        let reader = Reader::OfMask { row };
        self.found.replaced.push(Replaced { reader, result: value, layout: layout.clone() });
        Some(())
    }
}
