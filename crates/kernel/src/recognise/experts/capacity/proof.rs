//! Follows a dispatch mask back to the experts that tokens chose and to a running count of them, and says for each case what its
//! numbers are. Axes are labels, so it does not matter how tokens, choices, experts and slots are ordered or joined.

use std::collections::HashMap;

use hlo::{Attr, Definition, Func, Op, OpKind, Value};
use tensor::DType;

use super::symbols::{Place, Symbol, ZERO, elementwise, reduced};
use crate::call::static_spec;
use crate::recognise::layout::{Label, Labels, Layout};
use crate::recognise::mask::Evaluator;
use crate::recognise::ops::{Numbers, free, reducer, unpermuted};

/// Ops that a mask may be computed by.
const MAX_OPS: usize = 1 << 15;
/// Choices that a token may have.
const MAX_CHOICES: usize = 64;

/// The experts that tokens chose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Chosen {
    pub(super) value: Value,
    pub(super) choices: usize,
    pub(super) experts: usize,
}

/// What an array is, for each case and choice.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Table {
    symbols: Vec<Symbol>,
    /// One for all choices, or one each.
    per: usize,
}

impl Table {
    fn of(symbol: Symbol, choices: usize) -> Table {
        Table { symbols: vec![symbol; choices + 1], per: 1 }
    }

    /// The case of a choice; that of none is the last.
    pub(super) fn at(&self, case: usize, choice: usize) -> Symbol {
        let entry = if self.per == 1 { 0 } else { choice };
        self.symbols.get(case * self.per + entry).copied().unwrap_or(Symbol::Any)
    }

    fn made(choices: usize, per: usize, mut one: impl FnMut(usize, usize) -> Symbol) -> Table {
        let cells = (0..=choices).flat_map(|case| (0..per).map(move |entry| (case, entry)));
        Table { symbols: cells.map(|(case, entry)| one(case, entry)).collect(), per }
    }

    /// Whether choices are zero at all experts but their own.
    pub(super) fn is_zero_elsewhere(&self, choices: usize) -> bool {
        (0..=choices).all(|case| (0..choices).all(|entry| case == entry || self.at(case, entry) == ZERO))
    }

    /// What a choice is at its own expert.
    pub(super) fn own(&self, choices: usize) -> impl Iterator<Item = Symbol> + '_ {
        (0..choices).map(|choice| self.at(choice, choice))
    }
}

/// Running counts that places are made of: where they are counted, and along which labels.
#[derive(Clone, Debug)]
pub(super) struct Running {
    value: Value,
    pub(super) along: Vec<Label>,
}

/// What is known of the axes of one dispatch.
#[derive(Clone)]
pub(super) struct Proof<'a> {
    pub(super) func: &'a Func,
    pub(super) chosen: Chosen,
    pub(super) slots: usize,
    pub(super) labels: Labels,
    /// Its axes, but for that of choices.
    pub(super) tokens: Vec<Label>,
    pub(super) choice: Vec<Label>,
    pub(super) expert: Vec<Label>,
    pub(super) slot: Vec<Label>,
    layout: Layout,
    /// Axes that have other slots before or behind: the first slot's index.
    shifted: Vec<(Label, i64)>,
    pub(super) running: Option<Running>,
    /// Layouts of values that are known from what they are computed from.
    pub(super) given: HashMap<Value, Layout>,
    known: HashMap<Value, (Vec<Vec<Label>>, Table)>,
    ops: usize,
    has_failed: bool,
}

pub(super) fn defining(func: &Func, value: Value) -> Option<&Op> {
    match func.value(value).definition {
        Definition::Result(id, _) => Some(func.op(id)),
        Definition::Argument(..) => None,
    }
}

fn dims(func: &Func, value: Value) -> Option<Vec<usize>> {
    Some(static_spec(func.ty(value))?.dims)
}

fn index(n: i64) -> Option<usize> {
    usize::try_from(n).ok()
}

impl<'a> Proof<'a> {
    /// The proof for tokens that chose these experts, with so many slots for each.
    pub(super) fn new(func: &'a Func, chosen: Chosen, slots: usize) -> Option<Proof<'a>> {
        let mut labels = Labels::default();
        let of = dims(func, chosen.value)?;
        let layout: Layout = of.iter().map(|&size| labels.fresh(size)).collect();
        let has_axis = chosen.choices > 1;
        let (tokens, choice) = match layout.split_last() {
            Some((last, tokens)) if has_axis => (tokens.concat(), last.clone()),
            _ => (layout.concat(), Vec::new()),
        };
        let (expert, slot) = (labels.fresh(chosen.experts), labels.fresh(slots));
        (!expert.is_empty() && !slot.is_empty() && chosen.choices <= MAX_CHOICES).then_some(())?;
        Some(Proof {
            func,
            chosen,
            slots,
            labels,
            tokens,
            choice,
            expert,
            slot,
            layout,
            shifted: Vec::new(),
            running: None,
            given: HashMap::new(),
            known: HashMap::new(),
            ops: 0,
            has_failed: false,
        })
    }

    fn is(&self, labels: &[Label], axis: &[Label]) -> bool {
        !axis.is_empty() && self.labels.leaves(labels) == self.labels.leaves(axis)
    }

    pub(super) fn has(&self, layout: &Layout, axis: &[Label]) -> bool {
        let flat = self.labels.flat(layout);
        self.labels.leaves(axis).iter().any(|label| flat.contains(label))
    }

    /// Whether slots are an axis of a layout.
    pub(super) fn has_slots(&self, layout: &Layout) -> bool {
        self.has(layout, &self.slot) || self.shifted.iter().any(|(label, _)| self.has(layout, &[*label]))
    }

    /// Where the first slot is on an axis of slots.
    pub(super) fn first_slot(&self, labels: &[Label]) -> Option<i64> {
        if self.is(labels, &self.slot) {
            return Some(0);
        }
        self.shifted.iter().find(|(label, _)| self.is(labels, &[*label])).map(|(_, first)| *first)
    }

    /// An axis of slots of another size.
    pub(super) fn shifted(&mut self, size: usize, first: i64) -> Option<Vec<Label>> {
        let (count, slots) = (i64::try_from(size).ok()?, i64::try_from(self.slots).ok()?);
        if first == 0 && count == slots {
            return Some(self.slot.clone());
        }
        (first >= 0 && first.checked_add(slots)? <= count).then_some(())?;
        let found = self.shifted.iter().find(|(label, of)| *of == first && self.labels.size(*label) == size);
        if let Some((label, _)) = found {
            return Some(vec![*label]);
        }
        let label = self.labels.fresh(size);
        self.shifted.push((*label.first()?, first));
        Some(label)
    }

    pub(super) fn opened(&mut self, dims: &[usize]) -> Layout {
        dims.iter().map(|&size| self.labels.open(size)).collect()
    }

    pub(super) fn dims(&self, value: Value) -> Option<Vec<usize>> {
        dims(self.func, value)
    }

    /// Rows that a count goes over at most.
    fn rows(&self) -> usize {
        let along = self.running.as_ref().map_or(&[][..], |running| &running.along);
        self.labels.leaves(along).iter().fold(1, |count, &label| count.saturating_mul(self.labels.size(label)))
    }

    /// What a mask is; `None` where something contradicts itself.
    pub(super) fn read(&mut self, value: Value, layout: &Layout) -> Option<Table> {
        let table = self.table(value, layout);
        (!self.has_failed).then_some(table)
    }

    /// Whether an array is zero but for one slot of each choice, at the count plus a number; whether it is one there.
    pub(super) fn places(&mut self, value: Value, layout: &Layout) -> Option<(i64, bool)> {
        let choices = self.chosen.choices;
        (!self.has(layout, &self.choice.clone())).then_some(())?;
        let table = self.read(value, layout)?;
        (table.at(choices, 0) == ZERO).then_some(())?;
        let (mut found, mut all_bits) = (None, true);
        for case in 0..choices {
            let Symbol::At { place: Place { plus, or: None }, is_bit } = table.at(case, 0) else { return None };
            found.is_none_or(|found| found == plus).then_some(())?;
            (found, all_bits) = (Some(plus), all_bits && is_bit);
        }
        found.map(|plus| (plus, all_bits))
    }

    pub(super) fn table(&mut self, value: Value, layout: &Layout) -> Table {
        let choices = self.chosen.choices;
        let any = Table::of(Symbol::Any, choices);
        self.ops += 1;
        if self.ops > MAX_OPS || self.has_failed {
            self.has_failed = true;
            return any;
        }
        let resolved = |proof: &Self| layout.iter().map(|labels| proof.labels.leaves(labels)).collect::<Vec<_>>();
        if let Some((of, table)) = self.known.get(&value)
            && *of == resolved(self)
        {
            return table.clone();
        }
        if let Some(given) = self.given.get(&value).cloned()
            && !self.labels.unify(layout, &given)
        {
            self.has_failed = true;
            return any;
        }
        let table = self.computed(value, layout).unwrap_or_else(|| any.clone());
        let Some(dtype) = static_spec(self.func.ty(value)).map(|spec| spec.dtype) else { return any };
        let rows = self.rows();
        let has_axis = choices > 1 && self.has(layout, &self.choice.clone());
        let per = if has_axis { choices } else { 1 };
        if table.per > per {
            return any;
        }
        let table = Table::made(choices, per, |case, entry| table.at(case, entry).in_type(dtype, rows));
        self.known.insert(value, (resolved(self), table.clone()));
        table
    }

    fn computed(&mut self, value: Value, layout: &Layout) -> Option<Table> {
        let choices = self.chosen.choices;
        if value == self.chosen.value {
            let of = self.layout.clone();
            if !self.labels.unify(layout, &of) {
                self.has_failed = true;
            }
            return Some(Table::of(Symbol::Chosen, choices));
        }
        if let Some(number) = Evaluator::new(self.func).scalar(value) {
            return Some(Table::of(Symbol::Number(number), choices));
        }
        let op = defining(self.func, value)?;
        let kind = op.kind()?;
        match kind {
            OpKind::Iota => {
                let along = layout.get(index(op.attr("iota_dimension")?.as_int()?)?)?.clone();
                if self.is(&along, &self.expert) {
                    return Some(Table::of(Symbol::Expert, choices));
                }
                if self.is(&along, &self.choice) {
                    return Some(Table::made(choices, choices, |_, entry| Symbol::Number(entry as f64)));
                }
                Some(Table::of(Symbol::Slot(self.first_slot(&along)?), choices))
            }
            OpKind::ReduceWindow => self.counted(value, op, layout),
            OpKind::Reduce => {
                let of = self.operands(op, layout)?;
                let table = self.table(*op.operands.first()?, of.first()?);
                let init = Evaluator::new(self.func).scalar(*op.operands.get(1)?)?;
                let kind = reducer(self.func, op)?;
                let is_nothing = match kind {
                    OpKind::Add | OpKind::Or => init == 0.0,
                    OpKind::Maximum => init == f64::NEG_INFINITY || init <= -1e9,
                    _ => false,
                };
                is_nothing.then_some(())?;
                let axes = self.reduced_axes(op, of.first()?)?;
                self.over(kind, table, axes, layout, op)
            }
            OpKind::DotGeneral => {
                let of = self.operands(op, layout)?;
                let [a, b] = &of[..] else { return None };
                self.table(op.operands[0], a);
                let right = self.table(op.operands[1], b);
                // The second factor may have told what the axes of the first are.
                let left = self.table(op.operands[0], a);
                let product = self.product(&[left, right]);
                let axes = self.reduced_axes(op, a)?;
                self.over(OpKind::Add, product, axes, layout, op)
            }
            _ => {
                let of = self.operands(op, layout)?;
                let tables: Vec<Table> = op.operands.iter().zip(&of).map(|(&one, of)| self.table(one, of)).collect();
                match kind {
                    OpKind::Transpose
                    | OpKind::Reshape
                    | OpKind::BroadcastInDim
                    | OpKind::Slice
                    | OpKind::Pad
                    | OpKind::OptimizationBarrier => tables.into_iter().next(),
                    kind => Some(self.pairwise(kind, op, &tables)),
                }
            }
        }
    }

    /// The product of two factors of a matmul, before it is summed.
    pub(super) fn product(&self, [a, b]: &[Table; 2]) -> Table {
        let choices = self.chosen.choices;
        let dtype = DType::F32;
        Table::made(choices, a.per.max(b.per), |case, entry| {
            let operands = [a.at(case, entry), b.at(case, entry)];
            elementwise(OpKind::Multiply, None, &operands, case == entry, (0, dtype))
        })
    }

    fn pairwise(&self, kind: OpKind, op: &Op, tables: &[Table]) -> Table {
        let (choices, slots) = (self.chosen.choices, i64::try_from(self.slots).unwrap_or(0));
        let per = tables.iter().map(|table| table.per).max().unwrap_or(1);
        let direction = op.attr("comparison_direction").and_then(Attr::as_keyword);
        let dtype = static_spec(self.func.ty(op.first_result)).map_or(DType::F32, |spec| spec.dtype);
        Table::made(choices, per, |case, entry| {
            let operands: Vec<Symbol> = tables.iter().map(|table| table.at(case, entry)).collect();
            elementwise(kind, direction, &operands, case == entry, (slots, dtype))
        })
    }

    /// Layouts of what an op reads, from that of its result; `None` for ops that are not followed.
    pub(super) fn operands(&mut self, op: &Op, layout: &Layout) -> Option<Vec<Layout>> {
        let func = self.func;
        let &first = op.operands.first()?;
        let from = dims(func, first)?;
        Some(match op.kind()? {
            OpKind::Transpose => vec![unpermuted(op, layout)?],
            OpKind::Reshape => vec![self.labels.reshaped(layout, &from)?],
            OpKind::BroadcastInDim => {
                let places = op.attr("broadcast_dimensions")?.as_i64s()?;
                let place = |(&to, &size): (&i64, &usize)| {
                    let labels = layout.get(index(to)?)?;
                    Some(if size == 1 { Vec::new() } else { labels.clone() })
                };
                vec![places.iter().zip(&from).map(place).collect::<Option<_>>()?]
            }
            OpKind::Slice => {
                let (starts, strides) = (op.attr("start_indices")?.as_i64s()?, op.attr("strides")?.as_i64s()?);
                strides.iter().all(|&stride| stride == 1).then_some(())?;
                vec![self.moved(first, layout, op.first_result, starts)?]
            }
            OpKind::Pad => {
                let (low, between) = (op.attr("edge_padding_low")?.as_i64s()?, op.attr("interior_padding")?.as_i64s()?);
                let is_zero = Evaluator::new(func).scalar(*op.operands.get(1)?) == Some(0.0);
                (is_zero && between.iter().all(|&n| n == 0)).then_some(())?;
                let starts: Vec<i64> = low.iter().map(|&n| n.checked_neg()).collect::<Option<_>>()?;
                vec![self.moved(first, layout, op.first_result, &starts)?]
            }
            OpKind::Reduce => {
                (op.operands.len() == 2).then_some(())?;
                if let Some(given) = self.given.get(&first).cloned() {
                    return Some(vec![given]);
                }
                let over = op.attr("dimensions")?.as_i64s()?.to_vec();
                let mut rest = layout.iter();
                let mut of = Vec::with_capacity(from.len());
                for (n, &size) in from.iter().enumerate() {
                    of.push(match over.contains(&(n as i64)) {
                        true => self.summed(size, layout),
                        false => rest.next()?.clone(),
                    });
                }
                vec![of]
            }
            OpKind::DotGeneral => self.factors(op, layout)?,
            OpKind::OptimizationBarrier => (op.operands.len() == 1).then(|| vec![layout.clone()])?,
            kind if kind.is_elementwise() => {
                let like = dims(func, op.first_result)?;
                let one = |&operand: &Value| {
                    let of = dims(func, operand)?;
                    (of.is_empty() || of == like).then(|| if of.is_empty() { Vec::new() } else { layout.clone() })
                };
                op.operands.iter().map(one).collect::<Option<_>>()?
            }
            _ => return None,
        })
    }

    /// An axis that is summed over: that of experts, or one that is found out.
    fn summed(&mut self, size: usize, rest: &Layout) -> Vec<Label> {
        if size == self.chosen.experts && !self.has(rest, &self.expert.clone()) {
            return self.expert.clone();
        }
        self.labels.open(size)
    }

    /// Layouts of the factors of a matmul.
    fn factors(&mut self, op: &Op, layout: &Layout) -> Option<Vec<Layout>> {
        let Some(Attr::Dot(dot)) = op.attr("dot_dimension_numbers") else { return None };
        let sizes = [dims(self.func, op.operands[0])?, dims(self.func, op.operands[1])?];
        let given = [0, 1].map(|n| self.given.get(&op.operands[n]).cloned());
        let mut contracted = Vec::with_capacity(dot.lhs_contracting.len());
        for (&a, &b) in dot.lhs_contracting.iter().zip(&dot.rhs_contracting) {
            let known = [(0, a), (1, b)].into_iter().find_map(|(n, dim)| given[n].as_ref()?.get(index(dim)?).cloned());
            contracted.push(match known {
                Some(labels) => labels,
                None => self.summed(*sizes[0].get(index(a)?)?, layout),
            });
        }
        let mut at = dot.lhs_batching.len();
        let mut all = Vec::with_capacity(2);
        for (n, sizes) in sizes.iter().enumerate() {
            let numbers = Numbers::of(dot, n);
            let mut of: Layout = vec![Vec::new(); sizes.len()];
            for (&dim, labels) in numbers.contracting.iter().zip(&contracted) {
                *of.get_mut(index(dim)?)? = labels.clone();
            }
            for (&dim, labels) in numbers.batching.iter().zip(layout) {
                *of.get_mut(index(dim)?)? = labels.clone();
            }
            for dim in free(dot, n, sizes.len()) {
                of[dim] = layout.get(at)?.clone();
                at += 1;
            }
            all.push(of);
        }
        Some(all)
    }

    /// The layout of an array of which another one takes a part, or that it puts zeros around.
    fn moved(&mut self, from: Value, layout: &Layout, to: Value, starts: &[i64]) -> Option<Layout> {
        let (from, to) = (dims(self.func, from)?, dims(self.func, to)?);
        let mut of = Vec::with_capacity(from.len());
        for (n, labels) in layout.iter().enumerate() {
            let (&size, &start) = (from.get(n)?, starts.get(n)?);
            of.push(match start == 0 && to.get(n) == Some(&size) {
                true => labels.clone(),
                false => {
                    let first = self.first_slot(labels)?.checked_add(start)?;
                    self.shifted(size, first)?
                }
            });
        }
        Some(of)
    }

    /// Labels of what a reduction or matmul sums over.
    pub(super) fn reduced_axes(&self, op: &Op, of: &Layout) -> Option<Vec<Vec<Label>>> {
        let over = match op.attr("dot_dimension_numbers") {
            Some(Attr::Dot(dot)) => dot.lhs_contracting.clone(),
            _ => op.attr("dimensions")?.as_i64s()?.to_vec(),
        };
        over.iter().map(|&n| of.get(index(n)?).cloned()).collect()
    }

    /// What is left of numbers that are summed (or the largest, or whether one is true) over some axes.
    fn over(&self, kind: OpKind, table: Table, axes: Vec<Vec<Label>>, result: &Layout, op: &Op) -> Option<Table> {
        let (choices, mut table) = (self.chosen.choices, table);
        let dtype = static_spec(self.func.ty(op.first_result))?.dtype;
        // Slots, then experts, whose rule tells choices apart, then these.
        let rank = |axis: &Vec<Label>| match () {
            () if self.first_slot(axis).is_some() => 0,
            () if self.is(axis, &self.expert) => 1,
            () if self.is(axis, &self.choice) => 3,
            () => 2,
        };
        let mut axes: Vec<Vec<Label>> = axes.into_iter().filter(|axis| !self.labels.leaves(axis).is_empty()).collect();
        axes.sort_by_key(rank);
        for axis in axes {
            table = match rank(&axis) {
                1 => {
                    let has_axis = table.per > 1 || choices == 1;
                    let is_sum = matches!(kind, OpKind::Add | OpKind::Or);
                    let is_apart = is_sum && has_axis && table.is_zero_elsewhere(choices);
                    let per = table.per;
                    Table::made(choices, per, |case, entry| match case == entry && is_apart {
                        true => table.at(case, entry),
                        false => Symbol::Any,
                    })
                }
                3 => Table::made(choices, 1, |case, _| {
                    let all: Vec<Symbol> = (0..choices).map(|entry| table.at(case, entry)).collect();
                    reduced(kind, &all, dtype)
                }),
                _ => Table::made(choices, table.per, |case, entry| match table.at(case, entry) {
                    ZERO => ZERO,
                    _ => Symbol::Any,
                }),
            };
        }
        // Choices that are joined with other axes cannot be told apart.
        (table.per == 1 || self.has(result, &self.choice)).then_some(table)
    }

    /// A running count of one-hot vectors, over choices too.
    fn counted(&mut self, value: Value, op: &Op, layout: &Layout) -> Option<Table> {
        let (choices, shape) = (self.chosen.choices, dims(self.func, value)?);
        let window = op.attr("window_dimensions")?.as_i64s()?;
        let ones =
            |name: &str| op.attr(name).is_none_or(|attr| attr.as_i64s().is_some_and(|all| all.iter().all(|&n| n == 1)));
        let is_plain = ["window_strides", "base_dilations", "window_dilations"].into_iter().all(ones);
        let is_sum = reducer(self.func, op) == Some(OpKind::Add);
        let starts_at_zero = Evaluator::new(self.func).scalar(*op.operands.get(1)?) == Some(0.0);
        (is_plain && is_sum && starts_at_zero && op.operands.len() == 2).then_some(())?;
        let padding = match op.attr("padding")? {
            Attr::Dense(dense) => dense.to_i64s(2 * shape.len())?,
            _ => return None,
        };
        let mut wide = (0..shape.len()).filter(|&n| window.get(n) != Some(&1));
        let (along, None) = (wide.next()?, wide.next()) else { return None };
        let size = i64::try_from(*shape.get(along)?).ok()?;
        let expected = (0..shape.len()).flat_map(|n| [if n == along { size - 1 } else { 0 }, 0]);
        (window.get(along) == Some(&size) && padding.iter().copied().eq(expected)).then_some(())?;
        let table = self.table(op.operands[0], layout);
        let is_hot = (0..=choices).all(|case| {
            (0..choices).all(|entry| table.at(case, entry) == Symbol::Number(f64::from(u8::from(case == entry))))
        });
        let labels = self.labels.leaves(layout.get(along)?);
        let covers = self.labels.leaves(&self.choice).iter().all(|label| labels.contains(label));
        let counts_rows = labels.iter().all(|label| {
            self.labels.leaves(&self.tokens).contains(label) || self.labels.leaves(&self.choice).contains(label)
        });
        let is_first = self.running.as_ref().is_none_or(|running| running.value == value);
        (is_hot && covers && counts_rows && is_first).then_some(())?;
        self.running = Some(Running { value, along: labels });
        let per = if choices > 1 { choices } else { 1 };
        let count = Symbol::Count(Place { plus: 0, or: None });
        Some(Table::made(choices, per, |case, entry| if case == entry { count } else { Symbol::Any }))
    }

    /// Whether an array is zero outside of the slots, on its axis of slots.
    pub(super) fn is_zero_outside(&mut self, value: Value, layout: &Layout, depth: usize) -> bool {
        let Some(axis) = layout.iter().find(|labels| self.first_slot(labels).is_some()).cloned() else { return false };
        if self.is(&axis, &self.slot) {
            return true;
        }
        let Some(op) = defining(self.func, value).filter(|_| depth < 64) else { return false };
        let (Some(kind), Some(of)) = (op.kind(), self.operands(op, layout)) else { return false };
        let mut one = |n: usize| match (op.operands.get(n), of.get(n)) {
            (Some(&operand), Some(of)) => self.is_zero_outside(operand, of, depth + 1),
            _ => false,
        };
        match kind {
            OpKind::Multiply | OpKind::And => one(0) || one(1),
            OpKind::Convert | OpKind::Transpose | OpKind::Reshape | OpKind::Negate | OpKind::Divide | OpKind::Pad => {
                one(0)
            }
            OpKind::Add | OpKind::Subtract => one(0) && one(1),
            _ => false,
        }
    }
}
