//! Ids of a function: every one is in range, and ops and regions form a tree.

use crate::ir::{Definition, Func, Op, OpId, Region, Value};
use crate::ops::Violation;

use super::Report;
use super::types::Sizes;

/// Whether later checks may follow any id of the function without looking.
pub(super) fn check(func: &Func, report: &mut Report) -> bool {
    let mut sizes = Sizes::default();
    let mut types = func.inputs.iter().chain(&func.outputs).chain(func.values.iter().map(|value| &value.ty));
    if !types.all(|ty| sizes.is_small(ty)) {
        report.func(func, Violation::new("", "a type holds more parts than any program needs"));
        return false;
    }
    let Some(body) = func.body else { return true };
    match walk(func, body) {
        Ok(()) => true,
        Err(message) => {
            report.func(func, Violation::new("", message));
            false
        }
    }
}

fn walk(func: &Func, body: Region) -> Result<(), String> {
    let mut seen_ops = vec![false; func.ops.len()];
    let mut seen_regions = vec![false; func.regions.len()];
    let mut pending = vec![body];
    while let Some(region) = pending.pop() {
        match seen_regions.get_mut(region.0 as usize) {
            Some(seen) if !*seen => *seen = true,
            _ => return Err(format!("region {} does not exist or has two owners", region.0)),
        }
        let data = func.region(region);
        for (n, &arg) in data.args.iter().enumerate() {
            defines(func, arg, Definition::Argument(region, n as u32))?;
        }
        for &id in &data.ops {
            match seen_ops.get_mut(id.0 as usize) {
                Some(seen) if !*seen => *seen = true,
                _ => return Err(format!("op {} does not exist or is in two places", id.0)),
            }
            let op = func.op(id);
            results(func, id, op)?;
            for operand in &op.operands {
                if operand.0 as usize >= func.values.len() {
                    return Err(format!("{} reads value {}, which does not exist", op.name.as_str(), operand.0));
                }
            }
            pending.extend(&op.regions);
        }
    }
    Ok(())
}

fn results(func: &Func, id: OpId, op: &Op) -> Result<(), String> {
    let end = op.first_result.0.checked_add(op.num_results);
    if end.is_none_or(|end| op.num_results > 0 && end as usize > func.values.len()) {
        return Err(format!("{} has results that do not exist", op.name.as_str()));
    }
    op.results().enumerate().try_for_each(|(n, value)| defines(func, value, Definition::Result(id, n as u32)))
}

fn defines(func: &Func, value: Value, definition: Definition) -> Result<(), String> {
    match func.values.get(value.0 as usize) {
        Some(data) if data.definition == definition => Ok(()),
        _ => Err(format!("value {} does not know where it is defined", value.0)),
    }
}
