//! Along which axes partitions hold different numbers of a value, and the ops whose regions carry such values.

use super::axes::AxisSet;
use super::{MAX_DEPTH, Many, Uniter};
use crate::ir::{Op, OpKind, Region, Type, Value};
use crate::ops::{OpClass, Violation};
use crate::partition::give_up;

impl Uniter<'_> {
    fn is_along(&self, value: Value) -> AxisSet {
        self.along.get(&value).copied().unwrap_or(0)
    }

    /// Finds it for every value of a region, from what is known of its arguments.
    pub(super) fn flow(&mut self, region: Region, depth: usize) -> Result<(), Violation> {
        if depth > MAX_DEPTH {
            return Err(give_up("regions that are too deep"));
        }
        let func = self.func;
        for &id in &func.region(region).ops {
            let op = func.op(id);
            let kind = op.kind().ok_or_else(|| give_up("an op of another dialect"))?;
            let union = op.operands.iter().fold(0, |set, &value| set | self.is_along(value));
            let each = |set: AxisSet| vec![set; op.num_results as usize];
            let own = || op.operands.iter().map(|&value| self.is_along(value));
            let found = match kind {
                OpKind::PartitionId => each(self.axes.all()),
                OpKind::AllReduce | OpKind::AllGather => {
                    let groups = self.axes.groups(op, kind == OpKind::AllGather)?;
                    own().map(|set| set & !groups).collect()
                }
                OpKind::ReduceScatter | OpKind::AllToAll => {
                    let groups = self.axes.groups(op, true)?;
                    own().map(|set| set | groups).collect()
                }
                OpKind::CollectivePermute => each(self.axes.all()),
                OpKind::OptimizationBarrier => own().collect(),
                OpKind::While => self.flow_of_loop(op, depth)?,
                OpKind::Case | OpKind::If => {
                    let mut sets = each(0);
                    for &branch in &op.regions {
                        self.flow(branch, depth + 1)?;
                        for (set, value) in sets.iter_mut().zip(self.returned(branch)?) {
                            *set |= self.is_along(value);
                        }
                    }
                    sets
                }
                _ if kind.is_collective() => return Err(give_up("a collective that is not rewritten")),
                _ => each(union),
            };
            self.along.extend(op.results().zip(found));
        }
        Ok(())
    }

    /// What a loop carries differs wherever it does in the beginning or after any turn.
    fn flow_of_loop(&mut self, op: &Op, depth: usize) -> Result<Vec<AxisSet>, Violation> {
        let func = self.func;
        let &[_, body] = &op.regions[..] else { return Err(give_up("a loop without a body")) };
        let mut sets: Vec<AxisSet> = op.operands.iter().map(|&value| self.is_along(value)).collect();
        loop {
            for &region in &op.regions {
                self.along.extend(func.region(region).args.iter().copied().zip(sets.iter().copied()));
                self.flow(region, depth + 1)?;
            }
            let mut grew = false;
            for (set, value) in sets.iter_mut().zip(self.returned(body)?) {
                let wider = *set | self.is_along(value);
                grew |= wider != *set;
                *set = wider;
            }
            if !grew {
                return Ok(sets);
            }
        }
    }

    fn returned(&self, region: Region) -> Result<Vec<Value>, Violation> {
        let last = self.func.region(region).ops.last().ok_or_else(|| give_up("a region that is empty"))?;
        Ok(self.func.op(*last).operands.clone())
    }

    /// Writes a region whose arguments differ along some axes, and what it returns along others.
    fn carried(
        &mut self,
        region: Region,
        arguments: &[AxisSet],
        results: &[AxisSet],
        depth: usize,
    ) -> Result<Region, Violation> {
        let args = self.func.region(region).args.clone();
        let mut types = Vec::with_capacity(args.len());
        for (&argument, &along) in args.iter().zip(arguments) {
            types.push(self.many_type(&self.tensor(argument)?, along)?);
        }
        let (written, values) = self.out.open_region(&types);
        for ((argument, value), &along) in args.into_iter().zip(values).zip(arguments) {
            self.known.insert(argument, Many { value, along });
        }
        let inside = self.region(region, depth + 1).and_then(|returned| {
            let one = |(value, &along): (Value, &AxisSet)| {
                let many = self.get(value)?;
                match many.along & !along {
                    0 => self.spread(many, along),
                    _ => Err(give_up("a condition that partitions answer differently")),
                }
            };
            returned.into_iter().zip(results).map(one).collect::<Result<Vec<Value>, Violation>>()
        });
        self.out.close_region(OpKind::Return, inside.as_ref().cloned().unwrap_or_default());
        inside.map(|_| written)
    }

    pub(super) fn repeat(&mut self, op: &Op, depth: usize) -> Result<(), Violation> {
        let &[condition, body] = &op.regions[..] else { return Err(give_up("a loop without a body")) };
        let sets: Vec<AxisSet> = op.results().map(|value| self.is_along(value)).collect();
        let mut operands = Vec::with_capacity(sets.len());
        for (&operand, &along) in op.operands.iter().zip(&sets) {
            operands.push(self.get(operand).and_then(|many| self.spread(many, along))?);
        }
        let types: Vec<Type> = operands.iter().map(|&value| self.out.ty(value).clone()).collect();
        let condition = self.carried(condition, &sets, &[0], depth)?;
        let body = self.carried(body, &sets, &sets, depth)?;
        let results = self.out.op_with_types(OpKind::While, &operands, op.attrs.clone(), &[condition, body], types)?;
        self.define(op, results, &sets);
        Ok(())
    }

    pub(super) fn choose(&mut self, op: &Op, kind: OpKind, depth: usize) -> Result<(), Violation> {
        let &[index] = &op.operands[..] else { return Err(give_up("a choice without an index")) };
        let index = self.get(index)?;
        if index.along != 0 {
            return Err(give_up("a choice that partitions make differently"));
        }
        let sets: Vec<AxisSet> = op.results().map(|value| self.is_along(value)).collect();
        let mut types = Vec::with_capacity(sets.len());
        for (result, &along) in op.results().zip(&sets) {
            types.push(self.many_type(&self.tensor(result)?, along)?);
        }
        let regions = op.regions.iter().map(|&region| self.carried(region, &[], &sets, depth));
        let regions = regions.collect::<Result<Vec<Region>, Violation>>()?;
        let results = self.out.op_with_types(kind, &[index.value], op.attrs.clone(), &regions, types)?;
        self.define(op, results, &sets);
        Ok(())
    }

    pub(super) fn define(&mut self, op: &Op, results: Vec<Value>, sets: &[AxisSet]) {
        for ((result, value), &along) in op.results().zip(results).zip(sets) {
            self.known.insert(result, Many { value, along });
        }
    }

    /// Whether an op may be computed once for all partitions, or in another order.
    pub(super) fn is_pure(op: &Op, kind: OpKind) -> bool {
        let is_transfer = matches!(kind.class(), OpClass::Transfer | OpClass::Testing | OpClass::Sharding);
        let is_opaque = matches!(kind, OpKind::Rng | OpKind::ReplicaId | OpKind::SdyManualComputation);
        let has_effect = op.attr("has_side_effect").and_then(crate::ir::Attr::as_bool) == Some(true);
        !is_transfer && !is_opaque && !has_effect
    }
}
