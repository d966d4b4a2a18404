//! One loss in a region: from the matmul of its logits every op that follows is understood, or the loss is left alone.

use std::collections::{BTreeSet, HashMap, HashSet};

use hlo::dims::DotDims;
use hlo::{Attr, Definition, Keyword, Op, OpKind, Value};

use super::super::layout::{Label, Labels, Layout};
use super::super::mask::Evaluator;
use super::super::ops::{
    Numbers, Ops, above, free, free_dims, is_default_precision, is_view, reducer, result_layout, viewed,
};
use super::terms::{Along, Combination, RowFact, Source, others};
use crate::call::static_spec;
use tensor::DType;

/// How deep a value is looked into that does not come from logits.
const MAX_DEPTH: usize = 12;

#[derive(Clone, Debug)]
pub(super) enum Fact {
    /// Numbers for every row and token.
    Full(Combination),
    /// A number for every row.
    Row(RowFact),
}

#[derive(Clone, Debug)]
pub(super) struct Known {
    fact: Fact,
    layout: Layout,
}

/// Rows that a loss leaves out: `from` is the axis of the logits, `to` the part that is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Kept {
    pub(super) from: Label,
    pub(super) to: Label,
    pub(super) start: usize,
    pub(super) limit: usize,
}

/// A value that the kernels' results stand for.
#[derive(Clone, Debug)]
pub(super) struct Stands {
    pub(super) value: Value,
    pub(super) layout: Layout,
    pub(super) what: What,
}

#[derive(Clone, Debug)]
pub(super) enum What {
    /// The largest logit of a row: any shift will do.
    Largest,
    /// A sum along the vocabulary.
    Sum(Combination),
    /// The gradient of hidden states, of that gradient of logits.
    OfHidden(Combination),
    /// The gradient of the weight.
    OfWeight(Combination),
}

/// A loss that is understood.
pub(super) struct LossSite {
    pub(super) labels: Labels,
    pub(super) hidden: (Value, Layout),
    pub(super) weight: (Value, Layout),
    pub(super) rows: Vec<Label>,
    pub(super) vocabulary: Vec<Label>,
    pub(super) depth: Vec<Label>,
    pub(super) kept: Option<Kept>,
    /// Labels of tokens, by number.
    pub(super) tokens: Vec<Source>,
    pub(super) stands: Vec<Stands>,
    /// Element type of the logits.
    pub(super) logits: DType,
}

struct Walk<'a> {
    ops: &'a Ops<'a>,
    evaluator: Evaluator<'a>,
    site: LossSite,
    known: HashMap<Value, Known>,
    pending: BTreeSet<usize>,
    understood: HashSet<usize>,
    is_settled: bool,
}

/// Follows a matmul of hidden states and the weight, which is operand `weight`; the reason where it is a loss that stays.
pub(super) fn follow(ops: &Ops<'_>, position: usize, weight: usize) -> Result<LossSite, Option<String>> {
    let op = ops.op(position);
    let Some(Attr::Dot(dot)) = op.attr("dot_dimension_numbers") else { return Err(None) };
    let mut walk = Walk::begin(ops, op, dot, weight).ok_or(None)?;
    walk.pending.extend(ops.readers(op.first_result).iter().flatten());
    while let Some(next) = walk.pending.pop_first() {
        if !walk.understood.contains(&next) && walk.step(next).is_some() {
            walk.understood.insert(next);
        }
    }
    walk.finish(is_default_precision(op))
}

impl<'a> Walk<'a> {
    fn begin(ops: &'a Ops<'a>, op: &Op, dot: &DotDims, weight: usize) -> Option<Walk<'a>> {
        let mut labels = Labels::default();
        let dims = [0, 1].map(|n| static_spec(ops.func.ty(op.operands[n])).map(|spec| spec.dims));
        let [Some(lhs), Some(rhs)] = dims else { return None };
        dot.lhs_batching.is_empty().then_some(())?;
        let left: Layout = lhs.iter().map(|&size| labels.fresh(size)).collect();
        let mut right: Layout = rhs.iter().map(|_| Vec::new()).collect();
        for (&to, &from) in dot.rhs_contracting.iter().zip(&dot.lhs_contracting) {
            *right.get_mut(usize::try_from(to).ok()?)? = left.get(usize::try_from(from).ok()?)?.clone();
        }
        let [lhs_free, rhs_free] = free_dims(dot, lhs.len(), rhs.len());
        for &n in &rhs_free {
            right[n] = labels.fresh(rhs[n]);
        }
        let depth = dot.lhs_contracting.iter().flat_map(|&n| left[n as usize].clone()).collect::<Vec<Label>>();
        let all = |layout: &Layout, dims: &[usize]| dims.iter().flat_map(|&n| layout[n].clone()).collect::<Vec<_>>();
        let own = [all(&left, &lhs_free), all(&right, &rhs_free)];
        let (rows, vocabulary) = (own[1 - weight].clone(), own[weight].clone());
        if rows.is_empty() || vocabulary.len() != 1 || depth.is_empty() {
            return None;
        }
        let layout = result_layout(dot, &left, &right);
        let sides = [(op.operands[0], left), (op.operands[1], right)];
        let [hidden, weight] = [sides[1 - weight].clone(), sides[weight].clone()];
        let logits = Known { fact: Fact::Full(Combination::of(Along::Logit)), layout };
        Some(Walk {
            ops,
            evaluator: Evaluator::new(ops.func),
            site: LossSite {
                labels,
                hidden,
                weight,
                rows,
                vocabulary,
                depth,
                kept: None,
                tokens: Vec::new(),
                stands: Vec::new(),
                logits: static_spec(ops.func.ty(op.first_result))?.dtype,
            },
            known: HashMap::from([(op.first_result, logits)]),
            pending: BTreeSet::new(),
            understood: HashSet::new(),
            is_settled: false,
        })
    }

    fn finish(self, is_default: bool) -> Result<LossSite, Option<String>> {
        let is_picked = self.site.stands.iter().any(|stands| match &stands.what {
            What::Sum(sum) => sum.labels().next().is_some(),
            What::Largest => false,
            What::OfHidden(_) | What::OfWeight(_) => true,
        });
        if !is_picked || !self.site.stands.iter().any(|stands| matches!(stands.what, What::Largest)) {
            return Err(None);
        }
        for (&value, known) in &self.known {
            let is_free = match &known.fact {
                Fact::Full(full) => full.is_free(),
                Fact::Row(fact) => fact.is_invariant(),
            };
            if is_free {
                continue;
            }
            self.ops.is_read_by(value, &self.understood, "logits or their exponentials")?;
        }
        if !is_default {
            return Err(Some("its matmuls ask for more than the default precision".into()));
        }
        Ok(self.site)
    }

    fn dims(&self, value: Value) -> Option<Vec<usize>> {
        Some(static_spec(self.ops.func.ty(value))?.dims)
    }

    fn is_float(&self, value: Value) -> bool {
        static_spec(self.ops.func.ty(value)).is_some_and(|spec| spec.dtype.is_float())
    }

    fn learn(&mut self, value: Value, known: Known) {
        self.known.insert(value, known);
        self.pending.extend(self.ops.readers(value).iter().flatten());
    }

    fn full(&self, value: Value) -> Option<(Combination, Layout)> {
        match self.known.get(&value)? {
            Known { fact: Fact::Full(full), layout } => Some((full.clone(), layout.clone())),
            _ => None,
        }
    }

    fn row(&self, value: Value) -> Option<(RowFact, Layout)> {
        match self.known.get(&value)? {
            Known { fact: Fact::Row(fact), layout } => Some((*fact, layout.clone())),
            _ => None,
        }
    }

    /// Understands one op, or gives up on it.
    fn step(&mut self, position: usize) -> Option<()> {
        let op = self.ops.op(position);
        let kind = op.kind()?;
        if kind == OpKind::DotGeneral {
            return self.matmul(op);
        }
        if op.num_results != 1 {
            return None;
        }
        if self.known.contains_key(&op.first_result) {
            return Some(());
        }
        let known = match kind {
            OpKind::Transpose | OpKind::Reshape | OpKind::BroadcastInDim | OpKind::Convert => self.viewed(op, kind)?,
            OpKind::Slice => self.sliced(op)?,
            OpKind::Pad => self.padded(op)?,
            OpKind::Reduce => self.reduced(op)?,
            _ if op.operands.iter().any(|&value| self.full(value).is_some()) => self.full_op(op, kind)?,
            _ => self.row_op(op, kind)?,
        };
        self.learn(op.first_result, known);
        Some(())
    }

    fn viewed(&mut self, op: &Op, kind: OpKind) -> Option<Known> {
        let known = self.known.get(op.operands.first()?)?.clone();
        (kind != OpKind::Convert || self.is_float(op.first_result)).then_some(())?;
        let (layout, repeats) = viewed(self.ops.func, &mut self.site.labels, op, &known.layout)?;
        if repeats {
            let Fact::Row(fact) = known.fact else { return None };
            let source = Source { value: op.operands[0], layout: known.layout };
            return Some(Known { fact: Fact::Full(Combination::row(source, fact)), layout });
        }
        Some(Known { fact: known.fact, layout })
    }

    /// Some rows of the logits.
    fn sliced(&mut self, op: &Op) -> Option<Known> {
        let (full, mut layout) = self.full(op.operands[0])?;
        let numbers = ["start_indices", "limit_indices", "strides"].map(|name| op.attr(name)?.as_i64s());
        let [Some(starts), Some(limits), Some(strides)] = numbers else { return None };
        let dims = self.dims(op.operands[0])?;
        (full.is_logits() && strides.iter().all(|&stride| stride == 1)).then_some(())?;
        for (n, &size) in dims.iter().enumerate() {
            let (start, limit) = (usize::try_from(*starts.get(n)?).ok()?, usize::try_from(*limits.get(n)?).ok()?);
            if start == 0 && limit == size {
                continue;
            }
            let [from] = self.site.labels.leaves(&layout[n])[..] else { return None };
            match self.site.kept {
                Some(kept) if (kept.from, kept.start, kept.limit) == (from, start, limit) => layout[n] = vec![kept.to],
                Some(_) => return None,
                None => {
                    let is_row = self.site.labels.leaves(&self.site.rows).contains(&from);
                    let [to] = self.site.labels.fresh(limit.checked_sub(start)?)[..] else { return None };
                    (is_row && !self.is_settled).then_some(())?;
                    self.site.kept = Some(Kept { from, to, start, limit });
                    layout[n] = vec![to];
                }
            }
        }
        Some(Known { fact: Fact::Full(full), layout })
    }

    /// The gradient of logits, with zeros for rows that the loss leaves out.
    fn padded(&mut self, op: &Op) -> Option<Known> {
        let (full, mut layout) = self.full(op.operands[0])?;
        let kept = self.site.kept?;
        let names = ["edge_padding_low", "edge_padding_high", "interior_padding"];
        let [Some(low), Some(high), Some(interior)] = names.map(|name| op.attr(name)?.as_i64s()) else { return None };
        let is_zero = self.evaluator.scalar(*op.operands.get(1)?) == Some(0.0);
        (is_zero && full.is_gradient() && interior.iter().all(|&n| n == 0)).then_some(())?;
        let size = self.site.labels.size(kept.from);
        for (n, labels) in layout.iter_mut().enumerate() {
            let is_kept = self.site.labels.leaves(labels) == [kept.to];
            let wanted = if is_kept { (kept.start, size.checked_sub(kept.limit)?) } else { (0, 0) };
            let have = (usize::try_from(*low.get(n)?).ok()?, usize::try_from(*high.get(n)?).ok()?);
            (have == wanted).then_some(())?;
            if is_kept {
                *labels = vec![kept.from];
            }
        }
        Some(Known { fact: Fact::Full(full), layout })
    }

    /// The rows that the loss is of.
    fn loss_rows(&self) -> Vec<Label> {
        self.site.loss_rows()
    }

    fn reduced(&mut self, op: &Op) -> Option<Known> {
        let [input, init] = op.operands[..] else { return None };
        let Known { fact, layout } = self.known.get(&input)?.clone();
        let along = op.attr("dimensions")?.as_i64s()?.to_vec();
        let reducer = reducer(self.ops.func, op)?;
        let init = self.evaluator.scalar(init)?;
        let is_along = |n: usize| along.iter().any(|&dim| usize::try_from(dim) == Ok(n));
        let gone: Layout = (0..layout.len()).filter(|&n| is_along(n)).map(|n| layout[n].clone()).collect();
        let rest: Layout = (0..layout.len()).filter(|&n| !is_along(n)).map(|n| layout[n].clone()).collect();
        if self.site.labels.flat(&gone).is_empty() {
            // Sizes of 1 are dropped.
            return (reducer == OpKind::Add && init == 0.0).then_some(Known { fact, layout: rest });
        }
        let Fact::Full(full) = fact else { return None };
        let is_over = self.site.labels.same_set(&gone.concat(), &self.site.vocabulary);
        let is_by_row = self.site.labels.same_set(&rest.concat(), &self.loss_rows());
        (is_over && is_by_row).then_some(())?;
        self.is_settled = true;
        let (what, fact) = match reducer {
            OpKind::Maximum if init <= -1e30 && full.is_logits() => (What::Largest, RowFact::LARGEST),
            OpKind::Add if init == 0.0 => {
                let fact = full.summed()?;
                // Rows whose label is no token take no part; the logsumexp would have to.
                let is_shifted = matches!(fact, RowFact::Linear { .. }) && !fact.is_invariant();
                if is_shifted && !full.labels().all(|label| self.is_token(label)) {
                    return None;
                }
                (What::Sum(full), fact)
            }
            _ => return None,
        };
        self.site.stands.push(Stands { value: op.first_result, layout: rest.clone(), what });
        Some(Known { fact: Fact::Row(fact), layout: rest })
    }

    /// Whether a label is surely a token: it is clamped to the vocabulary.
    fn is_token(&mut self, label: usize) -> bool {
        let Some(source) = self.site.tokens.get(label).cloned() else { return false };
        let [vocabulary] = self.site.vocabulary[..] else { return false };
        let last = self.site.labels.size(vocabulary) as f64 - 1.0;
        let Definition::Result(id, _) = self.ops.func.value(source.value).definition else { return false };
        let op = self.ops.func.op(id);
        let [low, _, high] = op.operands[..] else { return false };
        op.kind() == Some(OpKind::Clamp)
            && self.evaluator.scalar(low).is_some_and(|low| low >= 0.0)
            && self.evaluator.scalar(high).is_some_and(|high| high <= last)
    }

    /// An op on numbers of rows and tokens.
    fn full_op(&mut self, op: &Op, kind: OpKind) -> Option<Known> {
        let (_, layout) = op.operands.iter().find_map(|&value| self.full(value))?;
        if self.dims(op.first_result)?.len() != layout.len() {
            return None;
        }
        let operand = |walk: &mut Self, n: usize| walk.resolved(*op.operands.get(n)?, &layout, MAX_DEPTH);
        let full = match kind {
            OpKind::Exponential => operand(self, 0)?.exponential()?,
            OpKind::Select => {
                let mask = self.mask(op.operands[0], &layout, MAX_DEPTH)?;
                let (yes, no) = (operand(self, 1)?, operand(self, 2)?);
                Combination::chosen(&mask, &yes, &no)?
            }
            OpKind::Negate => operand(self, 0)?.scaled(-1.0),
            _ => {
                let (a, b) = (operand(self, 0)?, operand(self, 1)?);
                combined(kind, &a, &b)?
            }
        };
        // What was looked into may be summed by itself.
        for &value in &op.operands {
            if !self.known.contains_key(&value)
                && self.dims(value)? == self.dims(op.first_result)?
                && self.is_float(value)
                && let Some(found) = self.resolved(value, &layout, MAX_DEPTH)
                && found.labels().next().is_some()
            {
                self.learn(value, Known { fact: Fact::Full(found), layout: layout.clone() });
            }
        }
        Some(Known { fact: Fact::Full(full), layout })
    }

    /// What a value of a layout is: known, or made of numbers of rows and one-hot vectors.
    fn resolved(&mut self, value: Value, layout: &Layout, depth: usize) -> Option<Combination> {
        if let Some(known) = self.known.get(&value).cloned() {
            self.site.labels.unify(&known.layout, layout).then_some(())?;
            return match known.fact {
                Fact::Full(full) => Some(full),
                Fact::Row(fact) => Some(Combination::row(Source { value, layout: known.layout }, fact)),
            };
        }
        if let Some(number) = self.evaluator.scalar(value) {
            return number.is_finite().then(|| Combination::number(number));
        }
        if self.is_of_rows(layout) {
            self.is_float(value).then_some(())?;
            return Some(Combination::row(Source { value, layout: layout.clone() }, RowFact::OPAQUE));
        }
        let depth = depth.checked_sub(1)?;
        let position = self.ops.defined(value)?;
        let op = self.ops.op(position);
        let kind = op.kind()?;
        match kind {
            OpKind::Convert if !self.is_float(op.operands[0]) => self.mask(op.operands[0], layout, depth),
            OpKind::Convert | OpKind::Transpose | OpKind::Reshape | OpKind::BroadcastInDim => {
                let inner = self.above(op, layout)?;
                self.resolved(op.operands[0], &inner, depth)
            }
            OpKind::Select => {
                let mask = self.mask(op.operands[0], layout, depth)?;
                let yes = self.resolved(op.operands[1], layout, depth)?;
                let no = self.resolved(op.operands[2], layout, depth)?;
                Combination::chosen(&mask, &yes, &no)
            }
            OpKind::Negate => Some(self.resolved(op.operands[0], layout, depth)?.scaled(-1.0)),
            OpKind::Add | OpKind::Subtract | OpKind::Multiply | OpKind::Divide => {
                let a = self.resolved(op.operands[0], layout, depth)?;
                let b = self.resolved(op.operands[1], layout, depth)?;
                combined(kind, &a, &b)
            }
            _ => None,
        }
    }

    /// What is true, as zeros and ones.
    fn mask(&mut self, value: Value, layout: &Layout, depth: usize) -> Option<Combination> {
        let depth = depth.checked_sub(1)?;
        if self.known.contains_key(&value) {
            return None;
        }
        if let Some(number) = self.evaluator.scalar(value) {
            return matches!(number, 0.0 | 1.0).then(|| Combination::number(number));
        }
        let spec = static_spec(self.ops.func.ty(value))?;
        spec.dtype.is_bool().then_some(())?;
        if self.is_of_rows(layout) {
            return Some(Combination::row(Source { value, layout: layout.clone() }, RowFact::OPAQUE));
        }
        let op = self.ops.op(self.ops.defined(value)?);
        match op.kind()? {
            OpKind::Transpose | OpKind::Reshape | OpKind::BroadcastInDim => {
                let inner = self.above(op, layout)?;
                self.mask(op.operands[0], &inner, depth)
            }
            OpKind::And => {
                let (a, b) = (self.mask(op.operands[0], layout, depth)?, self.mask(op.operands[1], layout, depth)?);
                a.times(&b)
            }
            OpKind::Compare => {
                let direction = op.attr("comparison_direction").and_then(Attr::as_keyword)?;
                let counter = (0..2).find(|&n| self.is_counter(op.operands[n], layout, depth))?;
                let label = self.label(op.operands[1 - counter], layout, depth)?;
                let hot = Combination::of(Along::Hot(label));
                match direction {
                    Keyword::Eq => Some(hot),
                    Keyword::Ne => Combination::number(1.0).minus(&hot),
                    _ => None,
                }
            }
            _ => None,
        }
    }

    /// Whether a value counts tokens of the vocabulary.
    fn is_counter(&mut self, value: Value, layout: &Layout, depth: usize) -> bool {
        let Some(depth) = depth.checked_sub(1) else { return false };
        let Some(position) = self.ops.defined(value) else { return false };
        let op = self.ops.op(position);
        match op.kind() {
            Some(OpKind::Iota) => {
                let along = op.attr("iota_dimension").and_then(Attr::as_int).and_then(|n| usize::try_from(n).ok());
                let Some(labels) = along.and_then(|n| layout.get(n)).cloned() else { return false };
                let vocabulary = self.site.vocabulary.clone();
                self.site.labels.unify_labels(&labels, &vocabulary)
            }
            Some(kind @ (OpKind::BroadcastInDim | OpKind::Reshape | OpKind::Transpose | OpKind::Convert)) => {
                if kind == OpKind::Convert && self.is_float(value) {
                    return false;
                }
                let Some(inner) = self.above(op, layout) else { return false };
                self.is_counter(op.operands[0], &inner, depth)
            }
            _ => false,
        }
    }

    /// The number of the labels that a value repeats along the vocabulary.
    fn label(&mut self, value: Value, layout: &Layout, depth: usize) -> Option<usize> {
        let depth = depth.checked_sub(1)?;
        let spec = static_spec(self.ops.func.ty(value))?;
        (!spec.dtype.is_float() && !spec.dtype.is_bool()).then_some(())?;
        if self.is_of_rows(layout) && !self.is_view(value) {
            let rows = self.loss_rows();
            self.site.labels.same_set(&layout.concat(), &rows).then_some(())?;
            let source = Source { value, layout: layout.clone() };
            let same = |walk: &mut Self, have: &Source| {
                have.value == source.value && walk.site.labels.unify(&have.layout, &source.layout)
            };
            let have = self.site.tokens.clone();
            let found = have.iter().position(|have| same(self, have));
            return Some(found.unwrap_or_else(|| {
                self.site.tokens.push(source);
                self.site.tokens.len() - 1
            }));
        }
        let op = self.ops.op(self.ops.defined(value)?);
        let kind = op.kind()?;
        matches!(kind, OpKind::BroadcastInDim | OpKind::Reshape | OpKind::Transpose).then_some(())?;
        let inner = self.above(op, layout)?;
        self.label(op.operands[0], &inner, depth)
    }

    /// Whether a value has the elements of another one in another shape.
    fn is_view(&self, value: Value) -> bool {
        self.ops.defined(value).is_some_and(|position| is_view(self.ops.func, self.ops.op(position)))
    }

    /// Whether all labels of a layout are rows of the loss.
    fn is_of_rows(&self, layout: &Layout) -> bool {
        others(&self.site.labels, layout, &self.loss_rows()).is_empty()
    }

    /// The layout of the operand of a view.
    fn above(&mut self, op: &Op, layout: &Layout) -> Option<Layout> {
        above(self.ops.func, &mut self.site.labels, op, layout)
    }

    /// An op on numbers of rows.
    fn row_op(&mut self, op: &Op, kind: OpKind) -> Option<Known> {
        let (_, layout) = op.operands.iter().find_map(|&value| self.row(value))?;
        let fact = |walk: &mut Self, n: usize| -> Option<RowFact> {
            let &value = op.operands.get(n)?;
            match walk.row(value) {
                Some((fact, other)) => walk.site.labels.unify(&other, &layout).then_some(fact),
                None if walk.evaluator.scalar(value) == Some(0.0) => Some(RowFact::Zero),
                None => Some(RowFact::OPAQUE),
            }
        };
        let mut number = |n: usize| self.evaluator.scalar(*op.operands.get(n)?);
        let numbers = [number(0), number(1)];
        let found = match kind {
            OpKind::IsFinite => matches!(fact(self, 0)?, RowFact::LARGEST).then_some(RowFact::True)?,
            // A sum of exponentials is positive.
            OpKind::Abs => match fact(self, 0)? {
                sum @ RowFact::Power { is_plain: true, .. } => sum,
                _ => return None,
            },
            OpKind::Compare => {
                let direction = op.attr("comparison_direction").and_then(Attr::as_keyword)?;
                let is_sum = matches!(fact(self, 0)?, RowFact::Power { is_plain: true, .. });
                let is_above = matches!(direction, Keyword::Ge | Keyword::Gt) && numbers[1] == Some(0.0);
                (is_sum && is_above).then_some(RowFact::True)?
            }
            OpKind::Log => match fact(self, 0)? {
                RowFact::Power { power: 1, is_plain: true } => {
                    RowFact::Linear { largest: 0.0, log_sum: 1.0, is_plain: true }
                }
                _ => return None,
            },
            OpKind::Negate => fact(self, 0)?.scaled(-1.0),
            OpKind::Maximum => match (fact(self, 0)?, fact(self, 1)?, numbers) {
                (RowFact::LARGEST, _, [_, Some(low)]) | (_, RowFact::LARGEST, [Some(low), _]) if low <= -1e30 => {
                    RowFact::LARGEST
                }
                _ => return None,
            },
            OpKind::Select => {
                let (predicate, yes) = (fact(self, 0)?, fact(self, 1)?);
                match predicate {
                    RowFact::True => yes,
                    // NaN stays NaN.
                    fact if fact.is_invariant() && self.evaluator.scalar(*op.operands.get(2)?)?.is_nan() => {
                        yes.plus(RowFact::OPAQUE)?
                    }
                    _ => return None,
                }
            }
            OpKind::Add => fact(self, 0)?.plus(fact(self, 1)?)?,
            OpKind::Subtract => fact(self, 0)?.plus(fact(self, 1)?.scaled(-1.0))?,
            OpKind::Multiply => match (fact(self, 0)?, fact(self, 1)?, numbers) {
                (fact @ RowFact::Linear { .. }, _, [_, Some(by)])
                | (_, fact @ RowFact::Linear { .. }, [Some(by), _]) => fact.scaled(by),
                (a, b, _) => a.times(b)?,
            },
            OpKind::Divide => match (fact(self, 0)?, fact(self, 1)?, numbers) {
                (fact @ RowFact::Linear { .. }, _, [_, Some(by)]) if by != 0.0 => fact.scaled(1.0 / by),
                (a, b, _) => a.over(b)?,
            },
            _ => return None,
        };
        Some(Known { fact: Fact::Row(found), layout })
    }

    /// The gradient of logits times the weight or the hidden states.
    fn matmul(&mut self, op: &Op) -> Option<()> {
        let Some(Attr::Dot(dot)) = op.attr("dot_dimension_numbers") else { return None };
        (dot.lhs_batching.is_empty() && is_default_precision(op)).then_some(())?;
        let ours = (0..2).find(|&n| self.full(op.operands[n]).is_some())?;
        let (full, layout) = self.full(op.operands[ours])?;
        (full.is_gradient() && self.full(op.operands[1 - ours]).is_none()).then_some(())?;
        let mut labels = full.labels();
        let first = labels.next();
        labels.all(|label| Some(label) == first).then_some(())?;
        drop(labels);
        let of = |layout: &Layout, dims: &[i64]| -> Option<Vec<Vec<Label>>> {
            dims.iter().map(|&n| layout.get(usize::try_from(n).ok()?).cloned()).collect()
        };
        let contracted = of(&layout, Numbers::of(dot, ours).contracting)?;
        let is_over_tokens = self.site.labels.same_set(&contracted.concat(), &self.site.vocabulary);
        if !is_over_tokens && !self.site.labels.same_set(&contracted.concat(), &self.site.rows) {
            return None;
        }
        let side = if is_over_tokens { self.site.weight.clone() } else { self.site.hidden.clone() };
        // The other factor is the same array as in the forward pass, perhaps in another shape.
        let other = op.operands[1 - ours];
        let theirs = self.viewed_as(other, &side)?;
        let numbers = Numbers::of(dot, 1 - ours);
        let met = of(&theirs, numbers.contracting)?;
        (met.len() == contracted.len()).then_some(())?;
        for (a, b) in met.iter().zip(&contracted) {
            self.site.labels.unify_labels(a, b).then_some(())?;
        }
        let own: Layout = free(dot, 1 - ours, theirs.len()).into_iter().map(|n| theirs[n].clone()).collect();
        self.site.labels.same_set(&own.concat(), &self.site.depth).then_some(())?;
        let both = if ours == 0 { [&layout, &theirs] } else { [&theirs, &layout] };
        let layout = result_layout(dot, both[0], both[1]);
        let what = if is_over_tokens { What::OfHidden(full) } else { What::OfWeight(full) };
        self.site.stands.push(Stands { value: op.first_result, layout, what });
        Some(())
    }

    /// The layout of a value that is a view of the same array as one of the sides.
    fn viewed_as(&mut self, value: Value, (side, layout): &(Value, Layout)) -> Option<Layout> {
        let (root, chain) = self.root(*side);
        let (other_root, other_chain) = self.root(value);
        (root == other_root).then_some(())?;
        let mut lies = layout.clone();
        for op in &chain {
            lies = self.above(op, &lies)?;
        }
        for op in other_chain.into_iter().rev() {
            lies = viewed(self.ops.func, &mut self.site.labels, op, &lies)?.0;
        }
        Some(lies)
    }

    /// The array that a value is a view of, and the views from the value up.
    fn root(&self, mut value: Value) -> (Value, Vec<&'a Op>) {
        let mut chain = Vec::new();
        while let Some(position) = self.ops.defined(value) {
            let op = self.ops.op(position);
            let Some(kind) = op.kind() else { break };
            let is_view = match kind {
                OpKind::Convert => self.is_float(op.operands[0]) && self.is_float(value),
                _ => is_view(self.ops.func, op),
            };
            if !is_view {
                break;
            }
            chain.push(op);
            value = op.operands[0];
        }
        (value, chain)
    }
}

impl LossSite {
    /// The rows that the loss is of: all of the logits', or those it keeps.
    pub(super) fn loss_rows(&self) -> Vec<Label> {
        let rows = self.labels.leaves(&self.rows);
        let Some(kept) = self.kept else { return rows };
        rows.into_iter().map(|label| if label == kept.from { kept.to } else { label }).collect()
    }
}

fn combined(kind: OpKind, a: &Combination, b: &Combination) -> Option<Combination> {
    match kind {
        OpKind::Add => a.plus(b),
        OpKind::Subtract => a.minus(b),
        OpKind::Multiply => a.times(b),
        OpKind::Divide => a.over(b),
        _ => None,
    }
}
