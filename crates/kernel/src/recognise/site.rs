//! One attention in a region: from the matmul of queries and keys every op that follows is understood, or the attention is left alone.
//!
//! Each value gets a [`Fact`]: a score, a polynomial of the softmax and its gradient, or one of the arrays that enter. Matmuls of those
//! are the attention's results: its output, and the gradients of queries, keys and values. An op that is not understood may read
//! none of the values in between.

use std::collections::{BTreeSet, HashMap, HashSet};

use hlo::dims::DotDims;
use hlo::{Attr, Definition, Keyword, Op, OpKind, Value};

use super::facts::{Applied, Fact, Known, Score};
use super::layout::{Label, Labels, Layout};
use super::mask::{Evaluator, LOW, MaskForm};
use super::ops::{Numbers, Ops, free, free_dims, is_constraint, permuted, pick, reducer, result_layout, unpermuted};
use super::polynomial::{Polynomial, same_factor};
use crate::call::static_spec;

/// An array that enters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Side {
    Queries,
    Keys,
    Values,
    /// The gradient of the output.
    Gradient,
}

/// What an attention gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Part {
    Output,
    OfQueries,
    OfKeys,
    OfValues,
}

/// A matmul that is one of an attention's results.
#[derive(Clone, Debug)]
pub(super) struct Given {
    pub(super) part: Part,
    pub(super) position: usize,
    pub(super) value: Value,
    pub(super) layout: Layout,
}

/// An attention that is understood.
pub(super) struct Site {
    pub(super) labels: Labels,
    pub(super) sides: HashMap<Side, (Value, Layout)>,
    pub(super) batch: Vec<Label>,
    pub(super) queries: Vec<Label>,
    pub(super) keys: Vec<Label>,
    pub(super) depth: Vec<Label>,
    /// Columns of values.
    pub(super) columns: Vec<Label>,
    pub(super) scale: f64,
    pub(super) soft_cap: Option<f64>,
    pub(super) masks: Vec<Applied>,
    pub(super) given: Vec<Given>,
    /// Positions of the matmuls of the backward pass.
    pub(super) gradient_matmuls: Vec<usize>,
}

/// Why an attention stays as it is; `None` where there was no attention.
pub(super) type Left = Option<String>;

struct Walk<'a> {
    ops: &'a Ops<'a>,
    evaluator: Evaluator<'a>,
    labels: Labels,
    known: HashMap<Value, Known>,
    roots: HashMap<Value, (Side, Layout)>,
    sides: HashMap<Side, (Value, Layout)>,
    pending: BTreeSet<usize>,
    understood: HashSet<usize>,
    /// Free labels of both factors of the first matmul.
    free: [Vec<Label>; 2],
    factors: [(Value, Layout); 2],
    batch: Vec<Label>,
    depth: Vec<Label>,
    /// Labels of the values' columns.
    columns: Vec<Label>,
    queries: Vec<Label>,
    keys: Vec<Label>,
    score: Option<Score>,
    given: Vec<Given>,
    gradient_matmuls: Vec<usize>,
}

/// Follows a matmul of queries and keys.
pub(super) fn follow(ops: &Ops<'_>, position: usize) -> Result<Site, Left> {
    let op = ops.op(position);
    let Some(Attr::Dot(dot)) = op.attr("dot_dimension_numbers") else { return Err(None) };
    let mut walk = Walk::begin(ops, op, dot).ok_or(None)?;
    walk.pending.extend(ops.readers(op.first_result).iter().flatten());
    while let Some(next) = walk.pending.pop_first() {
        if walk.step(next).is_some() {
            walk.understood.insert(next);
        }
    }
    walk.finish()
}

impl<'a> Walk<'a> {
    fn begin(ops: &'a Ops<'a>, op: &Op, dot: &DotDims) -> Option<Walk<'a>> {
        let mut labels = Labels::default();
        let (lhs, rhs) = (op.operands[0], op.operands[1]);
        let (of_lhs, of_rhs) = (static_spec(ops.func.ty(lhs))?.dims, static_spec(ops.func.ty(rhs))?.dims);
        let left: Layout = of_lhs.iter().map(|&size| labels.fresh(size)).collect();
        let mut right: Layout = of_rhs.iter().map(|_| Vec::new()).collect();
        let pairs = |a: &[i64], b: &[i64]| a.iter().copied().zip(b.iter().copied()).collect::<Vec<_>>();
        let paired = [pairs(&dot.rhs_batching, &dot.lhs_batching), pairs(&dot.rhs_contracting, &dot.lhs_contracting)];
        for (to, from) in paired.concat() {
            *right.get_mut(usize::try_from(to).ok()?)? = left.get(usize::try_from(from).ok()?)?.clone();
        }
        let [lhs_free, rhs_free] = free_dims(dot, of_lhs.len(), of_rhs.len());
        for &n in &rhs_free {
            right[n] = labels.fresh(of_rhs[n]);
        }
        let joined = |layout: &Layout, dims: &[i64]| dims.iter().flat_map(|&n| layout[n as usize].clone()).collect();
        let batch: Vec<Label> = joined(&left, &dot.lhs_batching);
        let depth: Vec<Label> = joined(&left, &dot.lhs_contracting);
        let all =
            |layout: &Layout, dims: &[usize]| dims.iter().flat_map(|&n| layout[n].clone()).collect::<Vec<Label>>();
        let free = [all(&left, &lhs_free), all(&right, &rhs_free)];
        if free.iter().any(Vec::is_empty) || depth.is_empty() {
            return None;
        }
        let layout = result_layout(dot, &left, &right);
        let result = op.first_result;
        let score = Score { scale: 1.0, before_tanh: None, masks: Vec::new(), of: result };
        let known = HashMap::from([(result, Known { fact: Fact::Score(score), layout })]);
        Some(Walk {
            ops,
            evaluator: Evaluator::new(ops.func),
            labels,
            known,
            roots: HashMap::new(),
            sides: HashMap::new(),
            pending: BTreeSet::new(),
            understood: HashSet::new(),
            free,
            factors: [(lhs, left), (rhs, right)],
            batch,
            depth,
            columns: Vec::new(),
            queries: Vec::new(),
            keys: Vec::new(),
            score: None,
            given: Vec::new(),
            gradient_matmuls: Vec::new(),
        })
    }

    fn finish(self) -> Result<Site, Left> {
        let Some(score) = self.score else { return Err(None) };
        if self.given.is_empty() {
            return Err(None);
        }
        for (&value, known) in &self.known {
            if matches!(&known.fact, Fact::Sum(sum) if sum.as_constant().is_some()) {
                continue;
            }
            self.ops.is_read_by(value, &self.understood, "scores or weights")?;
        }
        let is_positive = |scale: f64| scale.is_finite() && scale > 0.0;
        if !is_positive(score.scale) || !is_positive(score.whole_scale()) {
            return Err(Some("the scale of the scores is not positive".into()));
        }
        let parts = |part: Part| self.given.iter().filter(|given| given.part == part).count();
        let gradients = [Part::OfQueries, Part::OfKeys, Part::OfValues].map(parts);
        if gradients.iter().any(|&n| n > 1) || parts(Part::Output) > 1 {
            return Err(Some("a result is computed twice".into()));
        }
        Ok(Site {
            labels: self.labels,
            sides: self.sides,
            batch: self.batch,
            queries: self.queries,
            keys: self.keys,
            depth: self.depth,
            columns: self.columns,
            scale: score.whole_scale(),
            soft_cap: score.before_tanh.map(|_| score.scale),
            masks: score.masks,
            given: self.given,
            gradient_matmuls: self.gradient_matmuls,
        })
    }

    /// Understands one op, or gives up on it.
    fn step(&mut self, position: usize) -> Option<()> {
        let op = self.ops.op(position);
        let kind = op.kind()?;
        if kind == OpKind::DotGeneral {
            return self.matmul(position, op);
        }
        let known = match kind {
            OpKind::Transpose | OpKind::Reshape | OpKind::BroadcastInDim | OpKind::Convert => self.viewed(op, kind)?,
            _ if is_constraint(op) => self.known.get(op.operands.first()?)?.clone(),
            OpKind::Reduce => self.reduced(op)?,
            OpKind::Select => self.selected(op)?,
            OpKind::Exponential => self.exponential(op)?,
            OpKind::Tanh => {
                let known = self.known.get(op.operands.first()?)?.clone();
                let Fact::Score(score) = known.fact else { return None };
                Known { fact: Fact::Score(score.through_tanh(op.first_result)?), layout: known.layout }
            }
            OpKind::IsFinite => {
                let known = self.known.get(op.operands.first()?)?.clone();
                let Fact::Largest(of) = known.fact else { return None };
                Known { fact: Fact::IsFinite(of), layout: known.layout }
            }
            OpKind::Compare => {
                let known = self.known.get(op.operands.first()?)?.clone();
                let is_equal = op.attr("comparison_direction")?.as_keyword() == Some(Keyword::Eq);
                let Fact::Sum(sum) = known.fact else { return None };
                let is_zero = self.evaluator.scalar(*op.operands.get(1)?) == Some(0.0);
                (is_equal && is_zero && sum.is_sum_of_exponentials()).then_some(())?;
                Known { fact: Fact::IsEmpty, layout: known.layout }
            }
            OpKind::Negate => {
                let known = self.known.get(op.operands.first()?)?.clone();
                let Fact::Sum(sum) = known.fact else { return None };
                Known { fact: Fact::Sum(sum.negated()), layout: known.layout }
            }
            OpKind::Add | OpKind::Subtract | OpKind::Multiply | OpKind::Divide | OpKind::Maximum => {
                self.combined(op, kind)?
            }
            _ => return None,
        };
        self.learn(op.first_result, known);
        Some(())
    }

    fn learn(&mut self, value: Value, known: Known) {
        self.known.insert(value, known);
        self.pending.extend(self.ops.readers(value).iter().flatten());
    }

    fn dims(&self, value: Value) -> Option<Vec<usize>> {
        Some(static_spec(self.ops.func.ty(value))?.dims)
    }

    fn viewed(&mut self, op: &Op, kind: OpKind) -> Option<Known> {
        let known = self.known.get(op.operands.first()?)?.clone();
        let dims = self.dims(op.first_result)?;
        let layout = match kind {
            OpKind::Convert => {
                let spec = static_spec(self.ops.func.ty(op.first_result))?;
                spec.dtype.is_float().then_some(known.layout)?
            }
            OpKind::Transpose => permuted(op, &known.layout)?,
            OpKind::Reshape => self.labels.reshaped(&known.layout, &dims)?,
            _ => {
                let to = op.attr("broadcast_dimensions")?.as_i64s()?.to_vec();
                let from = self.dims(op.operands[0])?;
                let mut layout: Layout = Vec::with_capacity(dims.len());
                let mut repeats = false;
                for (n, &size) in dims.iter().enumerate() {
                    let source = to.iter().position(|&to| usize::try_from(to) == Ok(n));
                    let kept = source.filter(|&source| from.get(source) == Some(&size));
                    repeats |= kept.is_none() && size > 1;
                    layout.push(match kept {
                        Some(source) => known.layout.get(source)?.clone(),
                        None => self.labels.open(size),
                    });
                }
                // What differs along the keys is never repeated.
                let is_of_rows = match &known.fact {
                    Fact::Largest(_) | Fact::IsFinite(_) | Fact::IsEmpty => true,
                    Fact::Sum(sum) => sum.is_of_rows(),
                    Fact::Score(_) | Fact::Shifted => false,
                };
                if repeats && !is_of_rows {
                    return None;
                }
                layout
            }
        };
        Some(Known { fact: known.fact, layout })
    }

    fn reduced(&mut self, op: &Op) -> Option<Known> {
        let [input, init] = op.operands[..] else { return None };
        let known = self.known.get(&input)?.clone();
        let along = op.attr("dimensions")?.as_i64s()?.to_vec();
        let reducer = reducer(self.ops.func, op)?;
        let init = self.evaluator.scalar(init)?;
        let is_along = |n: usize| along.iter().any(|&dim| usize::try_from(dim) == Ok(n));
        let pick = |layout: &Layout, wanted: bool| -> Layout {
            layout
                .iter()
                .enumerate()
                .filter(|(n, _)| is_along(*n) == wanted)
                .map(|(_, labels)| labels.clone())
                .collect()
        };
        let (gone, layout) = (self.labels.flat(&pick(&known.layout, true)), pick(&known.layout, false));
        let fact = match (reducer, known.fact) {
            (OpKind::Maximum, Fact::Score(score)) if init <= -1e30 => {
                self.settle(&gone)?;
                self.labels.same_set(&gone, &self.keys).then_some(())?;
                Fact::Largest(score.of)
            }
            // Sizes of 1 are dropped.
            (OpKind::Add, fact) if init == 0.0 && gone.is_empty() => fact,
            (OpKind::Add, Fact::Sum(sum)) if init == 0.0 && self.labels.same_set(&gone, &self.keys) => {
                Fact::Sum(sum.over_keys()?)
            }
            _ => return None,
        };
        Some(Known { fact, layout })
    }

    /// Knows queries from keys: a softmax is over keys.
    fn settle(&mut self, reduced: &[Label]) -> Option<()> {
        if !self.keys.is_empty() {
            return Some(());
        }
        let keys = self.free.iter().position(|free| self.labels.same_set(free, reduced))?;
        (self.keys, self.queries) = (self.free[keys].clone(), self.free[1 - keys].clone());
        let [lhs, rhs] = self.factors.clone();
        let (of_keys, of_queries) = if keys == 0 { (lhs, rhs) } else { (rhs, lhs) };
        self.enter(Side::Queries, of_queries)?;
        self.enter(Side::Keys, of_keys)
    }

    /// Remembers an array that enters, under the array that it is a view of.
    fn enter(&mut self, side: Side, (value, layout): (Value, Layout)) -> Option<()> {
        let mut root = (value, layout.clone());
        while let Some((op, operand)) = self.view_of(root.0) {
            root = (operand, self.above(op, operand, &root.1)?);
        }
        if self.roots.contains_key(&root.0) {
            return None;
        }
        self.roots.insert(root.0, (side, root.1));
        self.sides.insert(side, (value, layout));
        if side == Side::Values {
            let later: Vec<usize> = self.ops.matmuls().to_vec();
            self.pending.extend(later.into_iter().filter(|n| !self.understood.contains(n)));
        }
        Some(())
    }

    /// Which array that enters a value is, and how it lies.
    fn side(&mut self, value: Value) -> Option<(Side, Layout)> {
        let (mut root, mut chain) = (value, Vec::new());
        while let Some((op, operand)) = self.view_of(root) {
            chain.push((op, root));
            root = operand;
        }
        let (side, mut layout) = self.roots.get(&root)?.clone();
        for (op, result) in chain.into_iter().rev() {
            layout = match op.kind()? {
                OpKind::Convert => layout,
                _ if is_constraint(op) => layout,
                OpKind::Transpose => permuted(op, &layout)?,
                _ => {
                    let dims = self.dims(result)?;
                    self.labels.reshaped(&layout, &dims)?
                }
            };
        }
        Some((side, layout))
    }

    /// The op and its operand where a value has the elements of another one, in another order or type.
    fn view_of(&self, value: Value) -> Option<(&'a Op, Value)> {
        let func = self.ops.func;
        let Definition::Result(id, _) = func.value(value).definition else { return None };
        let op = func.op(id);
        let &operand = op.operands.first()?;
        let (from, to) = (static_spec(func.ty(operand))?, static_spec(func.ty(value))?);
        let is_view = match op.kind()? {
            OpKind::Transpose | OpKind::Reshape => true,
            _ if is_constraint(op) => true,
            OpKind::Convert => from.dtype.is_float() && to.dtype.is_float(),
            OpKind::BroadcastInDim => {
                let dims = op.attr("broadcast_dimensions")?.as_i64s()?;
                from.num_elements() == to.num_elements() && dims.is_sorted()
            }
            _ => false,
        };
        is_view.then_some((op, operand))
    }

    fn selected(&mut self, op: &Op) -> Option<Known> {
        let [predicate, yes, no] = op.operands[..] else { return None };
        if let Some(known) = self.known.get(&predicate).cloned() {
            return self.guarded(known, yes, no);
        }
        if self.dims(predicate)? != self.dims(op.first_result)? {
            return None;
        }
        let (value, other, form) = match self.known.contains_key(&yes) {
            true => (yes, no, MaskForm::KeepWhere),
            false => (no, yes, MaskForm::MaskWhere),
        };
        let known = self.known.get(&value)?.clone();
        let other = self.evaluator.scalar(other)?;
        let applied = Applied { value: predicate, form, layout: known.layout.clone(), low: Some(other) };
        let fact = match known.fact {
            Fact::Score(mut score) if other <= LOW => {
                score.masks.push(applied);
                Fact::Score(Score { of: op.first_result, ..score })
            }
            // Where scores are masked the weights are 0, and so is all that has them as a factor: the gradient of the scores.
            Fact::Sum(sum) if other == 0.0 && sum.gradient_of_scores().is_some() => {
                let masks = self.score.as_ref().map_or(&[][..], |score| &score.masks);
                let same = masks.iter().any(|mask| mask.value == predicate && mask.form == form);
                same.then_some(Fact::Sum(sum))?
            }
            _ => return None,
        };
        Some(Known { fact, layout: known.layout })
    }

    /// What guards a query that sees no key: its largest score is 0 in place of minus infinity, its sum is 1 in place of 0.
    fn guarded(&mut self, predicate: Known, yes: Value, no: Value) -> Option<Known> {
        let (kept, other) = match predicate.fact {
            Fact::IsFinite(_) => (yes, no),
            Fact::IsEmpty => (no, yes),
            _ => return None,
        };
        let known = self.known.get(&kept)?.clone();
        let other = self.evaluator.scalar(other)?;
        let fits = match (&predicate.fact, &known.fact) {
            (Fact::IsFinite(a), Fact::Largest(b)) => a == b && other == 0.0,
            (Fact::IsEmpty, Fact::Sum(sum)) => sum.is_sum_of_exponentials() && other == 1.0,
            _ => false,
        };
        (fits && self.labels.unify(&predicate.layout, &known.layout)).then_some(known)
    }

    fn exponential(&mut self, op: &Op) -> Option<Known> {
        let known = self.known.get(op.operands.first()?)?.clone();
        matches!(known.fact, Fact::Shifted).then_some(())?;
        Some(Known { fact: Fact::Sum(Polynomial::exponential()), layout: known.layout })
    }

    /// What an operand is: known, or a constant.
    fn fact(&mut self, value: Value) -> Option<Known> {
        if let Some(known) = self.known.get(&value) {
            return Some(known.clone());
        }
        let number = self.evaluator.scalar(value)?;
        let dims = self.dims(value)?;
        let layout = dims.iter().map(|&size| self.labels.open(size)).collect();
        Some(Known { fact: Fact::Sum(Polynomial::constant(number)), layout })
    }

    fn combined(&mut self, op: &Op, kind: OpKind) -> Option<Known> {
        let [a, b] = op.operands[..] else { return None };
        let (a, b) = match (self.fact(a), self.fact(b)) {
            (Some(a), Some(b)) => (a, b),
            (Some(known), None) if kind == OpKind::Add => return self.added(op, known, b),
            (None, Some(known)) if kind == OpKind::Add => return self.added(op, known, a),
            (Some(known), None) if kind == OpKind::Multiply => (known.clone(), self.unread_gradient(b, &known.layout)?),
            (None, Some(known)) if matches!(kind, OpKind::Multiply | OpKind::Divide) => {
                (self.unread_gradient(a, &known.layout)?, known)
            }
            _ => return None,
        };
        if !self.labels.unify(&a.layout, &b.layout) {
            return None;
        }
        let (layout, result) = (a.layout, op.first_result);
        let fact = match (kind, a.fact, b.fact) {
            // The gradient of a soft cap.
            (_, a, b) if a.is_in_gradient_of_tanh(&b) => {
                let (a, b) = (a.of_tanh()?, b.of_tanh()?);
                Fact::Sum(match kind {
                    OpKind::Multiply => a.times(&b)?,
                    OpKind::Add => a.plus(&b)?,
                    OpKind::Subtract => a.plus(&b.negated())?,
                    _ => return None,
                })
            }
            (OpKind::Multiply, Fact::Score(score), Fact::Sum(by))
            | (OpKind::Multiply, Fact::Sum(by), Fact::Score(score)) => {
                Fact::Score(score.scaled(by.as_constant()?, result)?)
            }
            (OpKind::Divide, Fact::Score(score), Fact::Sum(by)) => {
                Fact::Score(score.scaled(1.0 / by.as_constant()?, result)?)
            }
            (OpKind::Maximum, Fact::Largest(of), Fact::Sum(low))
            | (OpKind::Maximum, Fact::Sum(low), Fact::Largest(of)) => {
                (low.as_constant()? <= -1e30).then_some(Fact::Largest(of))?
            }
            (OpKind::Subtract, Fact::Score(score), Fact::Largest(of)) => {
                if score.of != of || self.score.is_some() {
                    return None;
                }
                self.score = Some(score);
                Fact::Shifted
            }
            (OpKind::Add, Fact::Sum(a), Fact::Sum(b)) => Fact::Sum(a.plus(&b)?),
            (OpKind::Subtract, Fact::Sum(a), Fact::Sum(b)) => Fact::Sum(a.plus(&b.negated())?),
            (OpKind::Multiply, Fact::Sum(a), Fact::Sum(b)) => Fact::Sum(a.times(&b)?),
            (OpKind::Divide, Fact::Sum(a), Fact::Sum(b)) => Fact::Sum(a.over(&b)?),
            _ => return None,
        };
        Some(Known { fact, layout })
    }

    /// The gradient of the weights where the values are not known yet, since the output is computed elsewhere: `value` must be the matmul
    /// of the output's gradient and the values, laid out as what it is multiplied by.
    fn unread_gradient(&mut self, value: Value, layout: &Layout) -> Option<Known> {
        if self.score.is_none() || self.sides.contains_key(&Side::Values) {
            return None;
        }
        // What is repeated along the keys has an open label there.
        let bound = [self.batch.clone(), self.queries.clone(), self.keys.clone()].concat();
        let bound = self.labels.leaves(&bound);
        let mut open = layout.iter().filter(|labels| {
            let leaves = self.labels.leaves(labels);
            !leaves.is_empty() && !leaves.iter().any(|label| bound.contains(label))
        });
        if let Some(of_keys) = open.next().cloned() {
            if open.next().is_some() {
                return None;
            }
            let keys = self.keys.clone();
            self.labels.unify_labels(&of_keys, &keys).then_some(())?;
        }
        let (mut root, mut lies) = (value, layout.clone());
        while let Some((op, operand)) = self.view_of(root) {
            lies = self.above(op, operand, &lies)?;
            root = operand;
        }
        let position = self.ops.defined(root)?;
        let op = self.ops.op(position);
        let Some(Attr::Dot(dot)) = op.attr("dot_dimension_numbers") else { return None };
        let ranks = [self.dims(op.operands[0])?.len(), self.dims(op.operands[1])?.len()];
        let [left, right] = free_dims(dot, ranks[0], ranks[1]);
        let batches = dot.lhs_batching.len();
        let of = |from: usize, count: usize| lies.get(from..from + count).map(<[Vec<Label>]>::to_vec);
        let (batch, of_left) = (of(0, batches)?, of(batches, left.len())?);
        let of_right = of(batches + left.len(), right.len())?;
        if !self.labels.same_set(&batch.concat(), &self.batch) {
            return None;
        }
        let is = |walk: &Walk<'_>, free: &Layout, labels: &[Label]| walk.labels.same_set(&free.concat(), labels);
        let values = match () {
            () if is(self, &of_left, &self.keys) && is(self, &of_right, &self.queries) => 0,
            () if is(self, &of_right, &self.keys) && is(self, &of_left, &self.queries) => 1,
            () => return None,
        };
        let dims = self.dims(op.operands[values])?;
        let mut columns = Vec::new();
        for &n in Numbers::of(dot, values).contracting {
            columns.push(self.labels.fresh(*dims.get(usize::try_from(n).ok()?)?));
        }
        for (n, free) in [(0, (&left, &of_left)), (1, (&right, &of_right))] {
            let numbers = Numbers::of(dot, n);
            let mut wanted: Layout = vec![Vec::new(); ranks[n]];
            let bound = numbers.batching.iter().zip(&batch).chain(numbers.contracting.iter().zip(&columns));
            for (&to, from) in bound {
                *wanted.get_mut(usize::try_from(to).ok()?)? = from.clone();
            }
            for (&to, from) in free.0.iter().zip(free.1) {
                wanted[to] = from.clone();
            }
            let side = if n == values { Side::Values } else { Side::Gradient };
            let operand = op.operands[n];
            match self.side(operand) {
                Some((found, lies)) => (found == side && self.labels.unify(&lies, &wanted)).then_some(())?,
                None if self.sides.contains_key(&side) => return None,
                None => self.enter(side, (operand, wanted))?,
            }
        }
        self.columns = columns.concat();
        self.gradient_matmuls.push(position);
        self.understood.insert(position);
        // All that is between the matmul and here.
        let known = |layout: &Layout| Known { fact: Fact::Sum(Polynomial::gradient()), layout: layout.clone() };
        let (mut at, mut lies) = (value, layout.clone());
        self.learn(at, known(&lies));
        while let Some((op, operand)) = self.view_of(at) {
            lies = self.above(op, operand, &lies)?;
            self.understood.extend(self.ops.defined(at));
            at = operand;
            self.learn(at, known(&lies));
        }
        Some(known(layout))
    }

    /// The layout of the operand of a view.
    fn above(&mut self, op: &Op, operand: Value, layout: &Layout) -> Option<Layout> {
        Some(match op.kind()? {
            OpKind::Convert => layout.clone(),
            _ if is_constraint(op) => layout.clone(),
            OpKind::Transpose => unpermuted(op, layout)?,
            _ => {
                let dims = self.dims(operand)?;
                self.labels.reshaped(layout, &dims)?
            }
        })
    }

    /// Scores to which a mask is added.
    fn added(&mut self, op: &Op, known: Known, mask: Value) -> Option<Known> {
        let Fact::Score(mut score) = known.fact else { return None };
        (self.dims(mask)? == self.dims(op.first_result)?).then_some(())?;
        let layout = known.layout.clone();
        score.masks.push(Applied { value: mask, form: MaskForm::Added, layout, low: None });
        Some(Known { fact: Fact::Score(Score { of: op.first_result, ..score }), layout: known.layout })
    }

    fn matmul(&mut self, position: usize, op: &Op) -> Option<()> {
        let Some(Attr::Dot(dot)) = op.attr("dot_dimension_numbers") else { return None };
        // Known already: it is looked at once more when the values are known.
        if self.understood.contains(&position) || self.given.iter().any(|given| given.position == position) {
            return Some(());
        }
        let dot = dot.clone();
        let sums = [0, 1].map(|n| match self.known.get(&op.operands[n]) {
            Some(Known { fact: Fact::Sum(sum), layout }) => Some((sum.clone(), layout.clone())),
            _ => None,
        });
        match sums {
            [Some(sum), None] => self.matmul_of_sum(position, op, &dot, sum, 1),
            [None, Some(sum)] => self.matmul_of_sum(position, op, &dot, sum, 0),
            [None, None] if !op.operands.iter().any(|value| self.known.contains_key(value)) => {
                self.gradient_of_weights(position, op, &dot)
            }
            _ => None,
        }
    }

    /// The weights or the gradient of the scores times one of the arrays that enter, operand `other`.
    fn matmul_of_sum(
        &mut self,
        position: usize,
        op: &Op,
        dot: &DotDims,
        (sum, layout): (Polynomial, Layout),
        other: usize,
    ) -> Option<()> {
        let (ours, theirs) = (Numbers::of(dot, 1 - other), Numbers::of(dot, other));
        let value = op.operands[other];
        let dims = self.dims(value)?;
        let contracted = pick(&layout, ours.contracting)?;
        let batch = pick(&layout, ours.batching)?;
        if !self.labels.same_set(&batch.concat(), &self.batch) {
            return None;
        }
        let over_keys = self.labels.same_set(&contracted.concat(), &self.keys);
        if !over_keys && !self.labels.same_set(&contracted.concat(), &self.queries) {
            return None;
        }
        // How the other factor must lie.
        let mut wanted: Layout = dims.iter().map(|&size| self.labels.open(size)).collect();
        for (&to, from) in theirs.batching.iter().zip(batch).chain(theirs.contracting.iter().zip(contracted)) {
            *wanted.get_mut(usize::try_from(to).ok()?)? = from;
        }
        let is_weights = sum.is_weights();
        if !is_weights {
            let score = self.score.as_ref()?;
            let factor = match score.before_tanh {
                None => sum.gradient_of_scores()?,
                Some(_) => sum.gradient_before_tanh()?,
            };
            same_factor(factor, score.whole_scale()).then_some(())?;
        }
        let side = match (is_weights, over_keys) {
            (true, true) => Side::Values,
            (true, false) => Side::Gradient,
            (false, true) => Side::Keys,
            (false, false) => Side::Queries,
        };
        match self.side(value) {
            Some((found, lies)) => (found == side && self.labels.unify(&lies, &wanted)).then_some(())?,
            None if matches!(side, Side::Values | Side::Gradient) => {
                if self.sides.contains_key(&side) {
                    return None;
                }
                self.enter(side, (value, wanted.clone()))?;
            }
            None => return None,
        }
        if side == Side::Values {
            let columns = free(dot, other, dims.len()).into_iter().flat_map(|n| wanted[n].clone()).collect::<Vec<_>>();
            if self.columns.is_empty() {
                // Columns of values are an axis of their own.
                self.columns = columns.iter().flat_map(|&label| self.labels.fresh(self.labels.size(label))).collect();
                let own = self.columns.clone();
                self.labels.unify_labels(&columns, &own).then_some(())?;
            }
        }
        let both = if other == 1 { [&layout, &wanted] } else { [&wanted, &layout] };
        let part = match side {
            Side::Values => Part::Output,
            Side::Gradient => Part::OfValues,
            Side::Keys => Part::OfQueries,
            Side::Queries => Part::OfKeys,
        };
        let layout = result_layout(dot, both[0], both[1]);
        self.given.push(Given { part, position, value: op.first_result, layout });
        if part != Part::Output {
            self.gradient_matmuls.push(position);
        }
        Some(())
    }

    /// The gradient of the output times the values: the gradient of the weights.
    fn gradient_of_weights(&mut self, position: usize, op: &Op, dot: &DotDims) -> Option<()> {
        if self.columns.is_empty() {
            return None;
        }
        let found = [0, 1].map(|n| self.side(op.operands[n]));
        let is = |n: usize, side: Side| found[n].as_ref().is_some_and(|(found, _)| *found == side);
        let values = (0..2).find(|&n| is(n, Side::Values) && !is(1 - n, Side::Values))?;
        let other = 1 - values;
        let lies = found[values].as_ref()?.1.clone();
        let (ours, theirs) = (Numbers::of(dot, values), Numbers::of(dot, other));
        let (contracted, batch) = (pick(&lies, ours.contracting)?, pick(&lies, ours.batching)?);
        if !self.labels.same_set(&contracted.concat(), &self.columns)
            || !self.labels.same_set(&batch.concat(), &self.batch)
        {
            return None;
        }
        let value = op.operands[other];
        let dims = self.dims(value)?;
        let mut wanted: Layout = dims.iter().map(|&size| self.labels.open(size)).collect();
        for (&to, from) in theirs.batching.iter().zip(batch).chain(theirs.contracting.iter().zip(contracted)) {
            *wanted.get_mut(usize::try_from(to).ok()?)? = from;
        }
        match &found[other] {
            Some((Side::Gradient, lies)) => self.labels.unify(lies, &wanted).then_some(())?,
            Some(_) => return None,
            None if self.sides.contains_key(&Side::Gradient) => return None,
            None => self.enter(Side::Gradient, (value, wanted.clone()))?,
        }
        let both = if values == 0 { [&lies, &wanted] } else { [&wanted, &lies] };
        let layout = result_layout(dot, both[0], both[1]);
        self.gradient_matmuls.push(position);
        self.learn(op.first_result, Known { fact: Fact::Sum(Polynomial::gradient()), layout });
        Some(())
    }
}
