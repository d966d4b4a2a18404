//! What a mask, or the gradient of one, is for each choice of a token: the same ops on one number for each choice, in place of one for
//! every expert and slot.

use std::collections::HashMap;

use hlo::{Attr, Keyword, Op, OpId, OpKind, Value};
use tensor::DType;

use super::proof::{Proof, Table, defining};
use super::symbols::{Symbol, ZERO};
use crate::call::static_spec;
use crate::recognise::layout::{Label, Layout};
use crate::recognise::mask::Evaluator;
use crate::recognise::ops::reducer;

/// One number for each choice.
#[derive(Clone)]
pub(super) enum Row {
    /// What an array without slots has for the token, its expert and its choice.
    Picked { value: Value, layout: Layout },
    /// One number for all.
    Number(Value),
    /// Whether a place is a slot, where the first one is this.
    IsSlot { place: usize, first: i64 },
    /// The sum over features of what a token has and what its choice gave.
    Gradient(usize),
    /// Another op, element by element.
    Op { op: OpId, operands: Vec<usize>, dtype: DType },
    /// A product, of a type of its own.
    Product { factors: [usize; 2], dtype: DType },
}

/// Rows that were planned.
#[derive(Clone, Default)]
pub(super) struct Rows {
    pub(super) all: Vec<Row>,
    known: HashMap<Value, (Layout, usize)>,
}

/// Numbers that one mixture may be computed from.
const MAX_ROWS: usize = 512;

impl Rows {
    fn add(&mut self, row: Row) -> Option<usize> {
        (self.all.len() < MAX_ROWS).then(|| self.all.push(row))?;
        Some(self.all.len() - 1)
    }

    /// Plans what an array is for each choice. `gradients` are sums over features, which are not read op by op.
    pub(super) fn plan(
        &mut self,
        proof: &mut Proof<'_>,
        gradients: &[Value],
        value: Value,
        layout: &Layout,
    ) -> Option<usize> {
        let resolved = |proof: &Proof<'_>| layout.iter().map(|labels| proof.labels.leaves(labels)).collect::<Layout>();
        if let Some((of, row)) = self.known.get(&value) {
            // Labels may have been cut since.
            let before: Layout = of.iter().map(|labels| proof.labels.leaves(labels)).collect();
            return (before == resolved(proof)).then_some(*row);
        }
        let row = self.planned(proof, gradients, value, layout)?;
        self.known.insert(value, (resolved(proof), row));
        Some(row)
    }

    fn planned(&mut self, proof: &mut Proof<'_>, gradients: &[Value], value: Value, layout: &Layout) -> Option<usize> {
        if let Some(n) = gradients.iter().position(|gradient| *gradient == value) {
            return self.add(Row::Gradient(n));
        }
        let func = proof.func;
        if Evaluator::new(func).scalar(value).is_some() {
            return self.add(Row::Number(value));
        }
        if !proof.has_slots(layout) && !proof.given.contains_key(&value) {
            let known = [&proof.tokens[..], &proof.choice, &proof.expert].concat();
            let known = proof.labels.leaves(&known);
            let is_known = proof.labels.flat(layout).iter().all(|label| known.contains(label));
            return is_known.then(|| self.add(Row::Picked { value, layout: layout.clone() }))?;
        }
        let hlo::Definition::Result(id, 0) = func.value(value).definition else { return None };
        let op = defining(func, value)?;
        let kind = op.kind()?;
        let dtype = static_spec(func.ty(value))?.dtype;
        let of = proof.operands(op, layout)?;
        match kind {
            OpKind::Transpose
            | OpKind::Reshape
            | OpKind::BroadcastInDim
            | OpKind::Slice
            | OpKind::Pad
            | OpKind::OptimizationBarrier => self.plan(proof, gradients, *op.operands.first()?, of.first()?),
            OpKind::Reduce => {
                let table = proof.read(*op.operands.first()?, of.first()?)?;
                self.is_own(proof, op.operands[0], of.first()?, op, &table)?;
                self.plan(proof, gradients, *op.operands.first()?, of.first()?)
            }
            OpKind::DotGeneral => {
                let [a, b] = &of[..] else { return None };
                let tables = [proof.read(op.operands[0], a)?, proof.read(op.operands[1], b)?];
                let axes = proof.reduced_axes(op, a)?;
                let is_summed = axes.iter().any(|axis| !proof.labels.leaves(axis).is_empty());
                if is_summed {
                    let table = proof.product(&tables);
                    // Either factor may be the one that is zero elsewhere.
                    self.sums_own(proof, &axes, &table)?;
                    let is_bounded = axes.iter().all(|axis| proof.first_slot(axis).is_none())
                        || proof.is_zero_outside(op.operands[0], a, 0)
                        || proof.is_zero_outside(op.operands[1], b, 0);
                    is_bounded.then_some(())?;
                }
                let factors =
                    [self.plan(proof, gradients, op.operands[0], a)?, self.plan(proof, gradients, op.operands[1], b)?];
                self.add(Row::Product { factors, dtype })
            }
            OpKind::Compare if op.attr("comparison_direction").and_then(Attr::as_keyword) == Some(Keyword::Eq) => {
                let choices = proof.chosen.choices;
                for (n, other) in [(0, 1), (1, 0)] {
                    let table = proof.read(op.operands[n], &of[n])?;
                    let Symbol::Slot(first) = table.at(0, 0) else { continue };
                    let place = proof.read(op.operands[other], &of[other])?;
                    place.own(choices).all(|one| matches!(one, Symbol::Count(_))).then_some(())?;
                    let place = self.plan(proof, gradients, op.operands[other], &of[other])?;
                    return self.add(Row::IsSlot { place, first });
                }
                None
            }
            kind if hlo::cost::fuses_elementwise(kind) => {
                let mut operands = Vec::with_capacity(of.len());
                for (&operand, of) in op.operands.iter().zip(&of) {
                    operands.push(self.plan(proof, gradients, operand, of)?);
                }
                self.add(Row::Op { op: id, operands, dtype })
            }
            _ => None,
        }
    }

    /// Whether a reduction takes nothing but what a choice has itself.
    fn is_own(&self, proof: &mut Proof<'_>, operand: Value, of: &Layout, op: &Op, table: &Table) -> Option<()> {
        let kind = reducer(proof.func, op)?;
        matches!(kind, OpKind::Add | OpKind::Or).then_some(())?;
        let axes = proof.reduced_axes(op, of)?;
        self.sums_own(proof, &axes, table)?;
        let is_bounded =
            axes.iter().all(|axis| proof.first_slot(axis).is_none()) || proof.is_zero_outside(operand, of, 0);
        is_bounded.then_some(())
    }

    /// Whether what is summed over some axes is zero but for what a choice has itself.
    fn sums_own(&self, proof: &Proof<'_>, axes: &[Vec<Label>], table: &Table) -> Option<()> {
        let choices = proof.chosen.choices;
        for axis in axes.iter().filter(|axis| !proof.labels.leaves(axis).is_empty()) {
            let is = |of: &[Label]| proof.labels.leaves(axis) == proof.labels.leaves(of);
            let is_fine = if proof.first_slot(axis).is_some() {
                table.own(choices).all(|one| matches!(one, Symbol::At { .. }) || one == ZERO)
            } else if is(&proof.expert) {
                table.is_zero_elsewhere(choices)
            } else if is(&proof.choice) {
                (0..choices).all(|case| (0..choices).all(|entry| case == entry || table.at(case, entry) == ZERO))
            } else {
                false
            };
            is_fine.then_some(())?;
        }
        Some(())
    }
}
