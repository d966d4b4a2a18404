//! Loops, branches, barriers and manual computations: regions in parts.

use std::collections::HashMap;

use super::digits::{Held, common, push};
use super::{Part, Partitioner, give_up, rank};
use crate::ir::dims::AxisRef;
use crate::ir::sdy::{DimensionSharding, SdyAttr, TensorSharding};
use crate::ir::{Attr, Attrs, Op, OpKind, Region, Type, Value};
use crate::ops::Violation;

impl Partitioner<'_> {
    pub(super) fn barrier(&mut self, op: &Op) -> Result<(), Violation> {
        let mut held = Vec::with_capacity(op.operands.len());
        let mut operands = Vec::with_capacity(op.operands.len());
        for (&operand, result) in op.operands.iter().zip(op.results()) {
            let part = self.carried(operand, result)?;
            operands.push(self.read(operand, &part)?);
            held.push(part);
        }
        let types = operands.iter().map(|&value| self.out.ty(value).clone()).collect();
        let results = self.out.op_with_types(OpKind::OptimizationBarrier, &operands, Attrs::new(), &[], types)?;
        for ((result, value), held) in op.results().zip(results).zip(held) {
            self.parts.insert(result, Part::Written(value, held));
        }
        Ok(())
    }

    /// What is held of a value that an op carries: what was propagated to it, and summands where the program asks for them.
    fn carried(&self, from: Value, to: Value) -> Result<Held, Violation> {
        let mut held = self.wanted(to)?;
        if held.unreduced.is_empty() && self.is_asked(from) {
            let have = self.have(from)?.map_or(Vec::new(), |held| held.unreduced);
            if !held.dims.iter().any(|digits| super::digits::overlap(digits, &have)) {
                held.unreduced = have;
            }
        }
        Ok(held)
    }

    /// Values that regions read are brought to their parts before, so that nothing is exchanged in every step of a loop.
    fn settle(&mut self, op: &Op) -> Result<(), Violation> {
        for value in self.captured(op) {
            let Some(have) = self.have(value)? else { continue };
            let held = match self.is_wanted(value) {
                true => self.carried(value, value)?,
                false => Held { unreduced: Vec::new(), ..have },
            };
            let made = self.read(value, &held)?;
            self.parts.insert(value, Part::Written(made, held));
        }
        Ok(())
    }

    /// Writes one region whose arguments are parts, and returns parts.
    fn inner(
        &mut self,
        region: Region,
        arguments: &[Held],
        results: &[Held],
        depth: usize,
    ) -> Result<Region, Violation> {
        let func = self.func;
        let since = self.order.len();
        let data = func.region(region);
        let mut types = Vec::with_capacity(arguments.len());
        for (&value, held) in data.args.iter().zip(arguments) {
            types.push(held.part(func.ty(value)).ok_or_else(|| give_up("a value that does not split evenly"))?);
        }
        let (new, values) = self.out.open_region(&types);
        for ((&old, value), held) in data.args.iter().zip(values).zip(arguments) {
            self.parts.insert(old, Part::Written(value, held.clone()));
        }
        let returned = self.region(region, depth + 1)?;
        if returned.len() != results.len() {
            return Err(give_up("a region that returns another number of values"));
        }
        let mut outputs = Vec::with_capacity(returned.len());
        for (value, held) in returned.into_iter().zip(results) {
            outputs.push(self.read(value, held)?);
        }
        self.out.close_region(OpKind::Return, outputs);
        self.forget(since);
        Ok(new)
    }

    pub(super) fn repeat(&mut self, op: &Op, depth: usize) -> Result<(), Violation> {
        self.settle(op)?;
        let carried: Vec<Held> =
            op.operands.iter().zip(op.results()).map(|(&from, to)| self.carried(from, to)).collect::<Result<_, _>>()?;
        let mut operands = Vec::with_capacity(carried.len());
        for (&value, held) in op.operands.iter().zip(&carried) {
            operands.push(self.read(value, held)?);
        }
        let &[condition, body] = &op.regions[..] else { return Err(give_up("a loop without regions")) };
        let condition = self.inner(condition, &carried, &[Held::whole(0)], depth)?;
        let body = self.inner(body, &carried, &carried, depth)?;
        let types = operands.iter().map(|&value| self.out.ty(value).clone()).collect();
        let results = self.out.op_with_types(OpKind::While, &operands, Attrs::new(), &[condition, body], types)?;
        for ((result, value), held) in op.results().zip(results).zip(carried) {
            self.parts.insert(result, Part::Written(value, held));
        }
        Ok(())
    }

    pub(super) fn choose(&mut self, op: &Op, depth: usize) -> Result<(), Violation> {
        self.settle(op)?;
        let kind = op.kind().ok_or_else(|| give_up("an op of another dialect"))?;
        let decision = self.whole(op.operands[0])?;
        let held = op.results().map(|value| self.wanted(value)).collect::<Result<Vec<_>, _>>()?;
        let mut regions = Vec::with_capacity(op.regions.len());
        for &region in &op.regions {
            regions.push(self.inner(region, &[], &held, depth)?);
        }
        let part = |(value, held): (Value, &Held)| {
            held.part(self.func.ty(value)).ok_or_else(|| give_up("a value that does not split evenly"))
        };
        let types = op.results().zip(&held).map(part).collect::<Result<Vec<Type>, _>>()?;
        let results = self.out.op_with_types(kind, &[decision], Attrs::new(), &regions, types)?;
        for ((result, value), held) in op.results().zip(results).zip(held) {
            self.parts.insert(result, Part::Written(value, held));
        }
        Ok(())
    }

    pub(super) fn named(&mut self, op: &Op, depth: usize) -> Result<(), Violation> {
        let func = self.func;
        let &[region] = &op.regions[..] else { return Err(give_up("a computation without a region")) };
        for (&argument, operand) in func.region(region).args.iter().zip(&op.operands) {
            let part = self.parts.get(operand).cloned().ok_or_else(|| give_up("a value that nothing computes"))?;
            self.parts.insert(argument, part);
        }
        let returned = self.region(region, depth + 1)?;
        for (result, value) in op.results().zip(returned) {
            let part = self.parts.get(&value).cloned().ok_or_else(|| give_up("a value that nothing computes"))?;
            self.parts.insert(result, part);
        }
        Ok(())
    }

    /// The body is written for one partition along the manual axes already; along the others its values are split.
    pub(super) fn manual_computation(&mut self, op: &Op, depth: usize) -> Result<(), Violation> {
        let func = self.func;
        let &[region] = &op.regions[..] else { return Err(give_up("a computation without a region")) };
        let names = manual_axes(op);
        let (before, after) = (shardings(op, "in_shardings"), shardings(op, "out_shardings"));
        if before.len() != op.operands.len() || after.len() != op.num_results as usize {
            return Err(give_up("not one sharding for each value"));
        }
        let arguments = func.region(region).args.clone();
        let mut parts = HashMap::new();
        for ((&operand, sharding), &argument) in op.operands.iter().zip(&before).zip(&arguments) {
            let ty = func.ty(operand);
            if ty.as_tensor().is_none() {
                let part = self.parts.get(&operand).cloned();
                parts.insert(argument, part.ok_or_else(|| give_up("a value that nothing computes"))?);
                continue;
            }
            let manual = self.manual_part(sharding, &names, ty)?;
            let inside = self.wanted(argument)?;
            let free = self.free_part(sharding, &names, ty)?;
            let mut outside = manual.clone();
            for (digits, more) in outside.dims.iter_mut().zip(&inside.dims) {
                more.iter().for_each(|&digit| push(digits, digit));
            }
            outside.unreduced = super::digits::ordered([manual.unreduced, free.unreduced.clone()].concat());
            let value = self.read(operand, &outside)?;
            let inside = Held { unreduced: free.unreduced, ..inside };
            self.fits(value, &inside, func.ty(argument))?;
            parts.insert(argument, Part::Written(value, inside));
        }
        self.parts.extend(parts);
        self.manual += 1;
        let returned = self.region(region, depth + 1)?;
        self.manual -= 1;
        for ((result, sharding), value) in op.results().zip(&after).zip(returned) {
            let ty = func.ty(result);
            if ty.as_tensor().is_none() {
                let part = self.parts.get(&value).cloned().ok_or_else(|| give_up("a value that nothing computes"))?;
                self.parts.insert(result, part);
                continue;
            }
            let manual = self.manual_part(sharding, &names, ty)?;
            let free = self.free_part(sharding, &names, ty)?;
            let wanted = self.wanted(result)?;
            let mut inside = Held { dims: Vec::with_capacity(wanted.dims.len()), unreduced: free.unreduced.clone() };
            for (digits, held) in wanted.dims.iter().zip(&manual.dims) {
                let (_, missing, more) = common(held, digits);
                inside.dims.push(if missing.is_empty() { more } else { Vec::new() });
            }
            if inside.part(func.ty(value)).is_none() {
                inside = Held::whole(rank(ty));
            }
            let part = self.read(value, &inside)?;
            let mut outside = Held { dims: manual.dims, unreduced: Vec::new() };
            for (digits, more) in outside.dims.iter_mut().zip(&inside.dims) {
                more.iter().for_each(|&digit| push(digits, digit));
            }
            outside.unreduced = super::digits::ordered([manual.unreduced, inside.unreduced].concat());
            self.fits(part, &outside, ty)?;
            self.parts.insert(result, Part::Written(part, outside));
        }
        Ok(())
    }

    /// Whether a value is the part that it is said to be.
    fn fits(&self, value: Value, held: &Held, whole: &Type) -> Result<(), Violation> {
        match held.part(whole) {
            Some(ty) if ty == *self.out.ty(value) => Ok(()),
            _ => Err(give_up("a manual computation whose shardings do not fit its body")),
        }
    }

    fn manual_part(&self, sharding: &TensorSharding, names: &[String], ty: &Type) -> Result<Held, Violation> {
        self.some_axes(sharding, ty, &|axis| names.contains(&axis.name))
    }

    fn free_part(&self, sharding: &TensorSharding, names: &[String], ty: &Type) -> Result<Held, Violation> {
        self.some_axes(sharding, ty, &|axis| !names.contains(&axis.name))
    }

    /// What a sharding says with some of its axes only.
    fn some_axes(
        &self,
        sharding: &TensorSharding,
        ty: &Type,
        is_kept: &dyn Fn(&AxisRef) -> bool,
    ) -> Result<Held, Violation> {
        let sizes = ty.as_tensor().map(|tensor| tensor.dims.clone()).unwrap_or_default();
        let keep = |axes: &[AxisRef]| axes.iter().filter(|axis| is_kept(axis)).cloned().collect::<Vec<_>>();
        let dims = sharding.dims.iter().map(|dim| DimensionSharding { axes: keep(&dim.axes), ..dim.clone() });
        let sharding = TensorSharding {
            mesh: sharding.mesh.clone(),
            dims: dims.collect(),
            replicated: Vec::new(),
            unreduced: keep(&sharding.unreduced),
        };
        self.held(&sharding, &sizes)
    }
}

/// The shardings of a manual computation's operands or results.
pub(crate) fn shardings(op: &Op, name: &str) -> Vec<TensorSharding> {
    match op.attr(name) {
        Some(Attr::Sdy(attr)) => match &**attr {
            SdyAttr::ShardingPerValue(list) => list.clone(),
            _ => Vec::new(),
        },
        _ => Vec::new(),
    }
}

/// The axes along which a manual computation is written for one partition.
pub(crate) fn manual_axes(op: &Op) -> Vec<String> {
    match op.attr("manual_axes") {
        Some(Attr::Sdy(attr)) => match &**attr {
            SdyAttr::ManualAxes(names) => names.clone(),
            _ => Vec::new(),
        },
        _ => Vec::new(),
    }
}
