//! Loops and branches.

use std::collections::{HashMap, HashSet};

use hlo::{Definition, Op, OpKind, Region, Value};

use crate::error::Error;
use crate::lower::block::{Lowering, Origin, captures, operands_and_captures};
use crate::lower::view::View;
use crate::program::{Case, Selector, Slot, Step, While, Work};

/// A loop. Carried values lie in slots of their own; the body writes the next ones beside them, and the two change places.
pub(crate) fn repeat(lowering: &mut Lowering<'_>, op: &Op) -> Result<(), Error> {
    let func = lowering.func;
    let (condition, body) = (op.regions[0], op.regions[1]);
    // First, so that what has to be written out is written once, not in every iteration.
    let outside = captured(lowering, op)?;
    let mut carried = Vec::with_capacity(op.operands.len());
    for (&operand, result) in op.operands.iter().zip(op.results()) {
        let view = lowering.view(operand)?;
        let slot = lowering.result_slot(result)?;
        lowering.copy_into(&view, slot);
        carried.push(slot);
    }
    for region in [condition, body] {
        for (&argument, &slot) in func.region(region).args.iter().zip(&carried) {
            lowering.define(argument, slot);
        }
    }
    updated_in_place(lowering, body, &carried);
    let mut answer = Slot(0);
    let condition = lowering.region_then(condition, |lowering, returned| {
        answer = lowering.dense_value(returned[0])?;
        Ok(())
    })?;
    let mut rotate = Vec::new();
    let mut body = lowering.region_then(body, |lowering, returned| {
        for (&value, &slot) in returned.iter().zip(&carried) {
            let view = lowering.view(value)?;
            // Handed on as it is, or updated where it lies.
            if view.slot == slot && view.is_dense() {
                continue;
            }
            let (dtype, dims) = lowering.array_type(value)?;
            let next = lowering.temporary(dtype, &dims)?;
            lowering.copy_into(&view, next);
            rotate.push((slot, next, lowering.slots[next.0 as usize].bytes));
        }
        Ok(())
    })?;
    let rotated: Vec<Slot> = rotate.iter().flat_map(|&(slot, next, _)| [slot, next]).collect();
    let prepared = prepare(lowering, &condition, &mut body, rotated);
    let mut inputs = carried.clone();
    inputs.extend(outside);
    inputs.extend(prepared);
    let work = Work::While(Box::new(While { condition, answer, body, rotate }));
    let ops = lowering.computing.clone();
    lowering.steps.push(Step::new(inputs, carried, work, ops));
    Ok(())
}

/// Moves work on what no round changes in front of the loop. The slots of what it makes.
fn prepare(lowering: &mut Lowering<'_>, condition: &[Step], body: &mut [Step], rotated: Vec<Slot>) -> Vec<Slot> {
    let mut changed: HashSet<Slot> = rotated.into_iter().collect();
    for steps in [condition, &*body] {
        outputs_of(steps, &mut changed);
    }
    let mut made = Vec::new();
    for step in body {
        let Work::Kernel(kernel) = &mut step.work else { continue };
        let inputs = &mut step.inputs;
        let bytes = |slot: Slot| lowering.slots[slot.0 as usize].bytes;
        let fixed_bytes = |n: usize| Some(inputs[n]).filter(|slot| !changed.contains(slot)).map(bytes);
        let Some(preparation) = kernel.prepare(&fixed_bytes) else { continue };
        let slot = lowering.slot(preparation.bytes, Origin::Step);
        let input = std::mem::replace(&mut inputs[preparation.input], slot);
        let work = Work::Kernel(preparation.kernel);
        lowering.steps.push(Step::new(vec![input], vec![slot], work, step.ops.clone()));
        made.push(slot);
    }
    made
}

/// What steps write to, with the steps inside of them.
fn outputs_of(steps: &[Step], into: &mut HashSet<Slot>) {
    for step in steps {
        into.extend(&step.outputs);
        match &step.work {
            Work::Kernel(_) => {}
            Work::While(inner) => {
                outputs_of(&inner.condition, into);
                outputs_of(&inner.body, into);
                into.extend(inner.rotate.iter().flat_map(|&(slot, next, _)| [slot, next]));
            }
            Work::Case(case) => case.branches.iter().for_each(|branch| outputs_of(branch, into)),
        }
    }
}

/// Values that the body only updates in part stay where they are: an array that grows slice by slice is not copied.
fn updated_in_place(lowering: &mut Lowering<'_>, body: Region, carried: &[Slot]) {
    let func = lowering.func;
    let data = func.region(body);
    let mut uses: HashMap<Value, usize> = HashMap::new();
    for &id in &data.ops {
        for value in operands_and_captures(func, func.op(id)) {
            *uses.entry(value).or_default() += 1;
        }
    }
    let Some(&last) = data.ops.last() else { return };
    for ((&returned, &argument), &slot) in func.op(last).operands.iter().zip(&data.args).zip(carried) {
        let mut chain = Vec::new();
        let mut value = returned;
        // Each link is the only one that uses what it updates.
        while let Definition::Result(id, _) = func.value(value).definition {
            let op = func.op(id);
            if !matches!(op.kind(), Some(OpKind::DynamicUpdateSlice | OpKind::Scatter)) || op.num_results != 1 {
                break;
            }
            chain.push(value);
            value = op.operands[0];
            if uses.get(&value) != Some(&1) {
                break;
            }
        }
        if value == argument && uses.get(&value) == Some(&1) {
            for link in chain {
                lowering.want(link, slot);
            }
        }
    }
}

/// A branch.
pub(crate) fn choose(lowering: &mut Lowering<'_>, op: &Op) -> Result<(), Error> {
    let selector = if op.kind() == Some(OpKind::If) { Selector::Boolean } else { Selector::Index };
    let index = lowering.dense_value(op.operands[0])?;
    let outside = captured(lowering, op)?;
    let mut results = Vec::with_capacity(op.num_results as usize);
    for result in op.results() {
        results.push(lowering.result_slot(result)?);
    }
    let mut branches = Vec::with_capacity(op.regions.len());
    for &region in &op.regions {
        branches.push(lowering.region_then(region, |lowering, returned| {
            for (&value, &slot) in returned.iter().zip(&results) {
                let view: View = lowering.view(value)?;
                lowering.copy_into(&view, slot);
            }
            Ok(())
        })?);
    }
    let mut inputs = vec![index];
    inputs.extend(outside);
    let work = Work::Case(Box::new(Case { index, selector, branches }));
    let ops = lowering.computing.clone();
    lowering.steps.push(Step::new(inputs, results, work, ops));
    Ok(())
}

/// Slots of what the regions take from outside.
fn captured(lowering: &mut Lowering<'_>, op: &Op) -> Result<Vec<Slot>, Error> {
    let values: Vec<Value> = captures(lowering.func, op);
    values.into_iter().map(|value| lowering.view(value).map(|view| view.slot)).collect()
}
