//! A value a loop carries without changing it is read from outside.

use crate::ir::{Definition, OpKind, Region, Type, Value};

use super::{Exactness, Replacement, Rule, Site};

pub(super) const RULE: Rule = Rule { name: "while_invariant", kinds: &[OpKind::While], apply };

fn apply(site: &mut Site<'_>, _: Exactness) -> Replacement {
    let op = site.op();
    let (regions, operands) = (op.regions.clone(), op.operands.clone());
    let arguments = |region: Region| site.func.region(region).args.clone();
    let (cond, body) = (arguments(regions[0]), arguments(regions[1]));
    let &last = site.func.region(regions[1]).ops.last()?;
    let next = site.func.op(last).operands.clone();
    let kept: Vec<usize> = (0..operands.len()).filter(|&n| next[n] != body[n]).collect();
    let same_types = |n: usize| {
        let ty = |value| site.func.ty(value);
        ty(operands[n]) == ty(body[n]) && ty(operands[n]) == ty(cond[n])
    };
    if kept.len() == operands.len() || !(0..operands.len()).all(same_types) {
        return None;
    }
    for n in (0..operands.len()).filter(|&n| next[n] == body[n]) {
        site.forward(cond[n], operands[n]);
        site.forward(body[n], operands[n]);
    }
    let pick = |list: &[Value]| kept.iter().map(|&n| list[n]).collect::<Vec<Value>>();
    for (region, arguments) in [(regions[0], &cond), (regions[1], &body)] {
        let arguments = pick(arguments);
        for (n, argument) in arguments.iter().enumerate() {
            site.func.values[argument.0 as usize].definition = Definition::Argument(region, n as u32);
        }
        site.func.regions[region.0 as usize].args = arguments;
    }
    site.func.op_mut(last).operands = pick(&next);
    let carried = pick(&operands);
    let types: Vec<Type> = carried.iter().map(|&value| site.func.ty(value).clone()).collect();
    let attributes = site.op().attrs.clone();
    let results = site.emit_with_regions(OpKind::While, carried, &types, regions, attributes);
    let mut all = operands;
    for (&n, result) in kept.iter().zip(results) {
        all[n] = result;
    }
    Some(all)
}
