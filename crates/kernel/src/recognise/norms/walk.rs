//! What follows from the rows of one norm: every value that is made of them, as a sum of products (`algebra.rs`).

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use hlo::{Attr, Func, Keyword, Op, OpKind, Value};

use super::super::layout::{Label, Labels, Layout};
use super::super::mask::Evaluator;
use super::super::ops::{Ops, above, is_view, reducer, viewed};
use super::algebra::{Algebra, Atom, Polynomial};
use crate::call::static_spec;

/// How deep a value is looked into that does not come from the rows.
const MAX_DEPTH: usize = 12;
/// Arrays that a walk may meet.
const MAX_SOURCES: usize = 512;

/// An array, and what its dimensions run over.
pub(super) type Source = (Value, Layout);

#[derive(Clone, Debug)]
pub(super) enum Fact {
    Number(Polynomial),
    /// True or false, for all rows that differ within themselves.
    Truth(bool),
}

#[derive(Clone, Debug)]
pub(super) struct Known {
    pub(super) fact: Fact,
    pub(super) layout: Layout,
    /// Whether it is made of the rows.
    pub(super) is_derived: bool,
}

/// What axes an array has.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Extent {
    Full,
    Column,
    Row,
}

/// A sum of all rows.
#[derive(Clone, Debug)]
pub(super) struct Total {
    pub(super) of: Polynomial,
    pub(super) layout: Layout,
    pub(super) is_derived: bool,
}

/// Everything that is known of the rows that a sum along some axes is taken of.
pub(super) struct Walk<'a> {
    pub(super) ops: &'a Ops<'a>,
    constants: &'a HashSet<Value>,
    evaluator: Evaluator<'a>,
    pub(super) labels: Labels,
    pub(super) x: Source,
    pub(super) rows: Vec<Label>,
    pub(super) features: Vec<Label>,
    pub(super) algebra: Algebra,
    pub(super) fulls: Vec<Source>,
    pub(super) columns: Vec<Source>,
    row_sources: Vec<Source>,
    /// Arrays that are not made of the rows, and what they are.
    others: BTreeMap<Value, (Polynomial, Layout)>,
    pub(super) known: HashMap<Value, Known>,
    pub(super) totals: HashMap<Value, Total>,
    /// Sums along the features, by position.
    pub(super) sums: BTreeSet<usize>,
    pending: BTreeSet<usize>,
}

/// The array that a sum is taken of, or of whose squares, and the views of it that lead there, last first.
fn base<'a>(ops: &Ops<'a>, mut value: Value) -> (Value, Vec<&'a Op>) {
    let mut chain = Vec::new();
    let mut is_square = false;
    while let Some(position) = ops.defined(value) {
        let op = ops.op(position);
        let squares = match op.kind() {
            Some(OpKind::Multiply) => op.operands.first() == op.operands.last(),
            Some(OpKind::ChloSquare) => true,
            Some(OpKind::Power) => Evaluator::new(ops.func).scalar(op.operands[1]) == Some(2.0),
            _ => false,
        };
        if !(squares && !is_square || widens(ops, op) || is_view(ops.func, op)) {
            break;
        }
        if squares {
            is_square = true;
        } else {
            chain.push(op);
        }
        value = op.operands[0];
    }
    (value, chain)
}

/// Values that depend on no argument: only these may be numbers.
pub(super) fn constants(func: &Func) -> HashSet<Value> {
    let mut found = HashSet::new();
    for id in func.walk() {
        let op = func.op(id);
        let is_source = matches!(op.kind(), Some(OpKind::Constant | OpKind::Iota));
        let is_made = || !op.operands.is_empty() && op.regions.is_empty() && op.kind() != Some(OpKind::CustomCall);
        if is_source || is_made() && op.operands.iter().all(|value| found.contains(value)) {
            found.extend(op.results());
        }
    }
    found
}

/// Whether a conversion loses nothing.
fn widens(ops: &Ops<'_>, op: &Op) -> bool {
    let bits =
        |value: Value| static_spec(ops.func.ty(value)).filter(|spec| spec.dtype.is_float()).map(|s| s.dtype.bits());
    let (Some(OpKind::Convert), [from]) = (op.kind(), &op.operands[..]) else { return false };
    matches!((bits(*from), bits(op.first_result)), (Some(from), Some(to)) if from <= to)
}

/// The dimensions that a reduction goes along.
fn along(op: &Op) -> Option<Vec<usize>> {
    op.attr("dimensions")?.as_i64s()?.iter().map(|&n| usize::try_from(n).ok()).collect()
}

impl<'a> Walk<'a> {
    /// Follows the rows that a sum is taken of; `None` where it is no sum along some of several axes.
    pub(super) fn follow(ops: &'a Ops<'a>, constants: &'a HashSet<Value>, position: usize) -> Option<Walk<'a>> {
        let op = ops.op(position);
        let mut evaluator = Evaluator::new(ops.func);
        let [input, init] = op.operands[..] else { return None };
        let is_sum = reducer(ops.func, op) == Some(OpKind::Add) && evaluator.scalar(init) == Some(0.0);
        let (x, chain) = base(ops, input);
        let spec = static_spec(ops.func.ty(x)).filter(|spec| is_sum && spec.dtype.is_float())?;
        let mut labels = Labels::default();
        let layout: Layout = spec.dims.iter().map(|&size| labels.fresh(size)).collect();
        let mut inner = layout.clone();
        for op in chain.into_iter().rev() {
            inner = viewed(ops.func, &mut labels, op, &inner)?.0;
        }
        let along = along(op)?;
        let part = |is_wanted: bool| -> Vec<Label> {
            let wanted = (0..inner.len()).filter(|n| along.contains(n) == is_wanted);
            wanted.flat_map(|n| labels.leaves(&inner[n])).collect()
        };
        let (features, rows) = (part(true), part(false));
        let size = features.iter().map(|&label| labels.size(label)).product();
        (!features.is_empty() && !rows.is_empty()).then_some(())?;
        let fact = Fact::Number(Polynomial::of(Atom::X));
        let mut walk = Walk {
            ops,
            constants,
            evaluator,
            labels,
            x: (x, layout.clone()),
            rows,
            features,
            algebra: Algebra::new(size),
            fulls: Vec::new(),
            columns: Vec::new(),
            row_sources: Vec::new(),
            others: BTreeMap::new(),
            known: HashMap::new(),
            totals: HashMap::new(),
            sums: BTreeSet::new(),
            pending: BTreeSet::new(),
        };
        walk.learn(x, Known { fact, layout, is_derived: true });
        while let Some(next) = walk.pending.pop_first() {
            // What is not understood may still be read as it is.
            let _: Option<()> = walk.step(next);
        }
        Some(walk)
    }

    fn learn(&mut self, value: Value, known: Known) {
        self.known.insert(value, known);
        self.pending.extend(self.ops.readers(value).iter().flatten());
    }

    /// The one number that an array repeats.
    fn scalar(&mut self, value: Value) -> Option<f64> {
        if self.constants.contains(&value) { self.evaluator.scalar(value) } else { None }
    }

    fn is_float(&self, value: Value) -> bool {
        static_spec(self.ops.func.ty(value)).is_some_and(|spec| spec.dtype.is_float())
    }

    pub(super) fn polynomial(&self, value: Value) -> Option<(&Polynomial, &Known)> {
        match self.known.get(&value)? {
            known @ Known { fact: Fact::Number(of), .. } => Some((of, known)),
            _ => None,
        }
    }

    /// Understands one op, or gives up on it.
    fn step(&mut self, position: usize) -> Option<()> {
        let op = self.ops.op(position);
        let kind = op.kind()?;
        (op.num_results == 1 && !self.known.contains_key(&op.first_result)).then_some(())?;
        let known = match kind {
            OpKind::Transpose | OpKind::Reshape | OpKind::BroadcastInDim | OpKind::Convert => self.viewed(op)?,
            OpKind::Reduce => self.reduced(op, position)?,
            _ => self.computed(op, kind)?,
        };
        self.learn(op.first_result, known);
        Some(())
    }

    fn viewed(&mut self, op: &Op) -> Option<Known> {
        let known = self.known.get(op.operands.first()?)?.clone();
        let is_truth = matches!(known.fact, Fact::Truth(_));
        (is_truth || self.is_float(op.first_result)).then_some(())?;
        let (layout, repeats) = viewed(self.ops.func, &mut self.labels, op, &known.layout)?;
        let is_of_rows = match &known.fact {
            Fact::Number(of) => of.is_of_rows(),
            // As numbers truths are 1 and 0.
            Fact::Truth(_) if op.kind() == Some(OpKind::Convert) => return None,
            Fact::Truth(_) => true,
        };
        (is_of_rows || !repeats).then_some(Known { layout, ..known })
    }

    fn reduced(&mut self, op: &Op, position: usize) -> Option<Known> {
        let [input, init] = op.operands[..] else { return None };
        let Known { fact: Fact::Number(of), layout, is_derived } = self.known.get(&input)?.clone() else { return None };
        let is_sum = reducer(self.ops.func, op) == Some(OpKind::Add) && self.scalar(init) == Some(0.0);
        let along = along(op).filter(|_| is_sum)?;
        let part = |is_wanted: bool| -> Layout {
            (0..layout.len()).filter(|n| along.contains(n) == is_wanted).map(|n| layout[n].clone()).collect()
        };
        let (gone, rest) = (part(true), part(false));
        let (gone_labels, rest_labels) = (self.labels.flat(&gone), self.labels.flat(&rest));
        if gone_labels.is_empty() {
            return Some(Known { fact: Fact::Number(of), layout: rest, is_derived });
        }
        if self.labels.same_set(&gone_labels, &self.features) && self.extent(&rest)? == Extent::Row && is_derived {
            let fact = Fact::Number(self.algebra.over_features(&of)?);
            self.sums.insert(position);
            return Some(Known { fact, layout: rest, is_derived });
        }
        if self.labels.same_set(&gone_labels, &self.rows) && self.labels.same_set(&rest_labels, &self.features) {
            self.totals.insert(op.first_result, Total { of, layout: rest, is_derived });
        }
        None
    }

    /// An op on numbers, one by one.
    fn computed(&mut self, op: &Op, kind: OpKind) -> Option<Known> {
        let derived = op.operands.iter().filter_map(|value| self.known.get(value)).find(|known| known.is_derived);
        let layout = derived?.layout.clone();
        let rank = static_spec(self.ops.func.ty(op.first_result))?.dims.len();
        (rank == layout.len()).then_some(())?;
        let fact = match kind {
            OpKind::Compare => Fact::Truth(self.compared(op, &layout)?),
            OpKind::Select => {
                let is_first = self.truth(*op.operands.first()?)?;
                let chosen = *op.operands.get(if is_first { 1 } else { 2 })?;
                Fact::Number(self.resolved(chosen, &layout, MAX_DEPTH)?)
            }
            _ => Fact::Number(self.number(op, kind, &layout)?),
        };
        Some(Known { fact, layout, is_derived: true })
    }

    fn truth(&mut self, value: Value) -> Option<bool> {
        match self.known.get(&value).map(|known| &known.fact) {
            Some(Fact::Truth(truth)) => Some(*truth),
            Some(Fact::Number(_)) => None,
            None => self.scalar(value).map(|truth| truth != 0.0),
        }
    }

    fn number(&mut self, op: &Op, kind: OpKind, layout: &Layout) -> Option<Polynomial> {
        let a = self.resolved(*op.operands.first()?, layout, MAX_DEPTH)?;
        let b = match op.operands.get(1) {
            Some(&value) => Some(self.resolved(value, layout, MAX_DEPTH)?),
            None => None,
        };
        let sum = |sum: Polynomial| -> Option<Polynomial> {
            // Rows that another array is added to are other rows. Only a gradient has one beside it.
            let is_other = |atoms: &[(Atom, i8)]| atoms.len() == 1 && matches!(atoms[0].0, Atom::Full(_));
            let others = sum.terms.iter().filter(|term| is_other(&term.product)).count();
            (others == 0 || others == 1 && sum.has(|atom| matches!(atom, Atom::Root(_)))).then_some(sum)
        };
        match (kind, b) {
            (OpKind::Add, Some(b)) => sum(a.plus(&b)?),
            (OpKind::Subtract, Some(b)) => sum(a.minus(&b)?),
            (OpKind::Multiply, Some(b)) => a.times(&b),
            (OpKind::Divide, Some(b)) => self.algebra.over(&a, &b),
            (OpKind::Negate, None) => Some(a.scaled(-1.0)),
            (OpKind::ChloSquare, None) => a.times(&a),
            (OpKind::Rsqrt, None) => self.algebra.root(&a, -1),
            (OpKind::Sqrt, None) => self.algebra.root(&a, 1),
            (OpKind::Power, Some(b)) => self.power(&a, b.as_number()?),
            // A variance is not negative, whatever rounding makes of it.
            (OpKind::Maximum, Some(b)) => match (a.as_number(), b.as_number()) {
                (None, Some(low)) => self.is_at_least(&a, low).then_some(a),
                (Some(low), None) => self.is_at_least(&b, low).then_some(b),
                _ => None,
            },
            _ => None,
        }
    }

    fn power(&mut self, of: &Polynomial, exponent: f64) -> Option<Polynomial> {
        let halves = 2.0 * exponent;
        (halves.fract() == 0.0 && (1.0..=8.0).contains(&halves.abs())).then_some(())?;
        let halves = halves as i8;
        if halves % 2 != 0 {
            return self.algebra.root(of, halves);
        }
        let whole = of.to_power((halves / 2).abs())?;
        if halves > 0 { Some(whole) } else { self.algebra.over(&Polynomial::number(1.0), &whole) }
    }

    /// Whether numbers of rows are a mean of squares, which is no less than a number.
    fn is_at_least(&mut self, of: &Polynomial, low: f64) -> bool {
        self.algebra.spread(of).is_some_and(|spread| low <= spread.factor * spread.epsilon)
    }

    fn compared(&mut self, op: &Op, layout: &Layout) -> Option<bool> {
        let direction = op.attr("comparison_direction").and_then(Attr::as_keyword)?;
        let (a, b) =
            (self.resolved(op.operands[0], layout, MAX_DEPTH)?, self.resolved(op.operands[1], layout, MAX_DEPTH)?);
        let more = a.minus(&b)?;
        let order = if more.as_number() == Some(0.0) {
            std::cmp::Ordering::Equal
        } else if self.is_at_least(&more, 0.0) {
            std::cmp::Ordering::Greater
        } else if self.is_at_least(&more.scaled(-1.0), 0.0) {
            std::cmp::Ordering::Less
        } else {
            return None;
        };
        Some(match direction {
            Keyword::Eq => order.is_eq(),
            Keyword::Ne => order.is_ne(),
            Keyword::Gt => order.is_gt(),
            Keyword::Ge => order.is_ge(),
            Keyword::Lt => order.is_lt(),
            Keyword::Le => order.is_le(),
            _ => return None,
        })
    }

    /// What axes a layout has; an open one may be that of the features.
    fn extent(&mut self, layout: &Layout) -> Option<Extent> {
        for labels in layout {
            let leaves = self.labels.leaves(labels);
            if leaves.iter().any(|&label| self.labels.is_open(label)) {
                let features = self.features.clone();
                self.labels.unify_labels(&leaves, &features).then_some(())?;
            }
        }
        let all = self.labels.flat(layout);
        let (rows, features) = (self.labels.leaves(&self.rows), self.labels.leaves(&self.features));
        if all.iter().all(|label| rows.contains(label)) {
            return Some(Extent::Row);
        }
        if self.labels.same_set(&all, &features) {
            return Some(Extent::Column);
        }
        let both = [rows, features].concat();
        self.labels.same_set(&all, &both).then_some(Extent::Full)
    }

    /// What a value with a layout is: known, a number, or an array of its own.
    fn resolved(&mut self, value: Value, layout: &Layout, depth: usize) -> Option<Polynomial> {
        if let Some(known) = self.known.get(&value).cloned() {
            self.labels.unify(&known.layout, layout).then_some(())?;
            let Fact::Number(of) = known.fact else { return None };
            return Some(of);
        }
        self.is_float(value).then_some(())?;
        if let Some(number) = self.scalar(value) {
            return number.is_finite().then(|| Polynomial::number(number));
        }
        let extent = self.extent(layout)?;
        let inner = depth.checked_sub(1).and_then(|depth| self.looked_into(value, layout, extent, depth));
        let found = match inner {
            Some(found) => found,
            None => self.source(value, layout, extent)?,
        };
        if extent == Extent::Full {
            self.others.insert(value, (found.clone(), layout.clone()));
        }
        Some(found)
    }

    /// An array of the program that is a sum of products.
    pub(super) fn other(&self, of: &Polynomial) -> Option<Source> {
        let mut others = self.others.iter().filter(|(_, (other, _))| other.is_near(of));
        others.next().map(|(&value, (_, layout))| (value, layout.clone()))
    }

    /// What a value is made of, if that is a view, or another array times numbers of rows or features.
    fn looked_into(&mut self, value: Value, layout: &Layout, extent: Extent, depth: usize) -> Option<Polynomial> {
        let op = self.ops.op(self.ops.defined(value)?);
        match op.kind()? {
            OpKind::Transpose | OpKind::Reshape | OpKind::BroadcastInDim => {
                let inner = above(self.ops.func, &mut self.labels, op, layout)?;
                // Of some rows and all features there is no simpler form.
                let is_sound = self.extent(&inner).is_some();
                is_sound.then_some(())?;
                self.resolved(op.operands[0], &inner, depth)
            }
            OpKind::Convert if widens(self.ops, op) => self.resolved(op.operands[0], layout, depth),
            OpKind::Reduce if extent == Extent::Row => self.summed(op, layout, depth),
            _ if extent == Extent::Column => None,
            OpKind::Negate => Some(self.resolved(op.operands[0], layout, depth)?.scaled(-1.0)),
            OpKind::Multiply => {
                let narrow = (0..2).find(|&n| self.is_narrow(op.operands[n], layout, depth))?;
                let by = self.resolved(op.operands[narrow], layout, depth)?;
                self.resolved(op.operands[1 - narrow], layout, depth)?.times(&by)
            }
            // Less the mean of a gradient, which no row takes part in.
            kind @ (OpKind::Add | OpKind::Subtract) => {
                let narrow = (0..2).find(|&n| self.is_narrow(op.operands[n], layout, depth))?;
                let by = self.resolved(op.operands[narrow], layout, depth)?;
                by.has(|atom| matches!(atom, Atom::Sum(_))).then_some(())?;
                let of = self.resolved(op.operands[1 - narrow], layout, depth)?;
                match (kind, narrow) {
                    (OpKind::Add, _) => of.plus(&by),
                    (_, 1) => of.minus(&by),
                    _ => by.minus(&of),
                }
            }
            OpKind::Divide if self.is_narrow(op.operands[1], layout, depth) => {
                let by = self.resolved(op.operands[1], layout, depth)?;
                let of = self.resolved(op.operands[0], layout, depth)?;
                self.algebra.over(&of, &by)
            }
            _ => None,
        }
    }

    /// The sum along the features of an array that comes from elsewhere.
    fn summed(&mut self, op: &Op, layout: &Layout, depth: usize) -> Option<Polynomial> {
        let [input, init] = op.operands[..] else { return None };
        let is_sum = reducer(self.ops.func, op) == Some(OpKind::Add) && self.scalar(init) == Some(0.0);
        let along = along(op).filter(|along| is_sum && along.len() == 1)?;
        let rank = static_spec(self.ops.func.ty(input))?.dims.len();
        let mut rest = layout.iter().cloned();
        let features = self.features.clone();
        let of = |n: usize| if along.contains(&n) { Some(features.clone()) } else { rest.next() };
        let inner: Layout = (0..rank).map(of).collect::<Option<Layout>>()?;
        let dims = static_spec(self.ops.func.ty(input))?.dims;
        let fits = inner.iter().zip(dims).all(|(labels, size)| {
            self.labels.leaves(labels).iter().map(|&label| self.labels.size(label)).product::<usize>() == size
        });
        (fits && self.extent(&inner)? == Extent::Full).then_some(())?;
        let of = self.resolved(input, &inner, depth)?;
        self.algebra.over_features(&of)
    }

    /// Whether a value repeats numbers along the rows or along the features.
    fn is_narrow(&mut self, value: Value, layout: &Layout, depth: usize) -> bool {
        if let Some((of, _)) = self.polynomial(value) {
            return of.is_of_rows();
        }
        if self.scalar(value).is_some() {
            return true;
        }
        let (Some(position), Some(depth)) = (self.ops.defined(value), depth.checked_sub(1)) else { return false };
        let op = self.ops.op(position);
        let is_view = widens(self.ops, op)
            || matches!(op.kind(), Some(OpKind::Transpose | OpKind::Reshape | OpKind::BroadcastInDim));
        let inner = if is_view { above(self.ops.func, &mut self.labels, op, layout) } else { None };
        let Some(inner) = inner else { return false };
        match self.extent(&inner) {
            Some(Extent::Row | Extent::Column) => true,
            Some(Extent::Full) => self.is_narrow(op.operands[0], &inner, depth),
            None => false,
        }
    }

    /// The atom of an array that comes from elsewhere.
    fn source(&mut self, value: Value, layout: &Layout, extent: Extent) -> Option<Polynomial> {
        let sources = match extent {
            Extent::Full => &mut self.fulls,
            Extent::Column => &mut self.columns,
            Extent::Row => &mut self.row_sources,
        };
        let mut found = None;
        for (n, (have, lies)) in sources.iter().enumerate() {
            if *have == value && self.labels.unify(lies, layout) {
                found = Some(n);
                break;
            }
        }
        let number = match found {
            Some(number) => number,
            None if sources.len() >= MAX_SOURCES => return None,
            None => {
                sources.push((value, layout.clone()));
                sources.len() - 1
            }
        };
        let atom = match extent {
            Extent::Full => Atom::Full(number),
            Extent::Column => Atom::Column(number),
            Extent::Row => Atom::Row(number),
        };
        let of = Polynomial::of(atom);
        if extent == Extent::Full && !self.known.contains_key(&value) {
            // It may be summed by itself.
            let fact = Fact::Number(of.clone());
            self.learn(value, Known { fact, layout: layout.clone(), is_derived: false });
        }
        Some(of)
    }
}
