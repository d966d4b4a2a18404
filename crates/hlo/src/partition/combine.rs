//! Sums over the same partitions that need not wait for each other become one exchange.

use std::collections::{HashMap, HashSet};

use super::plan::fold_of;
use crate::ir::{Attr, ElementType, Func, NewOp, Op, OpId, OpKind, OpName, Region, Type, Value};

/// Sums that wait for others at a time.
const MAX_OPEN: usize = 8;

/// Sums with the partitions that take part.
struct Sums {
    groups: Attr,
    element: ElementType,
    /// Place of the first one among the ops of its region.
    first: usize,
    members: Vec<OpId>,
}

/// A sum of one array over some partitions.
fn sum_of(func: &Func, op: &Op) -> Option<(Attr, ElementType)> {
    let (&[operand], &[region]) = (&op.operands[..], &op.regions[..]) else { return None };
    if op.kind() != Some(OpKind::AllReduce) || fold_of(func, region) != Some(OpKind::Add) {
        return None;
    }
    let Type::Tensor(ty) = func.ty(operand) else { return None };
    Some((op.attr("replica_groups")?.clone(), ty.element.clone()))
}

pub(super) fn run(func: &mut Func) {
    let mut renamed: HashMap<Value, Value> = HashMap::new();
    for region in 0..func.regions.len() {
        combine(func, Region(region as u32), &mut renamed);
    }
    for op in &mut func.ops {
        op.operands.iter_mut().for_each(|value| *value = renamed.get(value).copied().unwrap_or(*value));
    }
    func.renumber();
}

fn combine(func: &mut Func, region: Region, renamed: &mut HashMap<Value, Value>) {
    let ops = func.region(region).ops.clone();
    let mut places: HashMap<Value, usize> = HashMap::new();
    let mut found: Vec<Sums> = Vec::new();
    for (place, &id) in ops.iter().enumerate() {
        let op = func.op(id);
        places.extend(op.results().map(|value| (value, place)));
        let Some((groups, element)) = sum_of(func, op) else { continue };
        // It moves to the first one, where its operand must be known.
        let computed = places.get(&op.operands[0]).copied();
        let fits = |sums: &&mut Sums| {
            sums.groups == groups && sums.element == element && computed.is_none_or(|at| at < sums.first)
        };
        match found.iter_mut().rev().take(MAX_OPEN).find(fits) {
            Some(sums) => sums.members.push(id),
            None => found.push(Sums { groups, element, first: place, members: vec![id] }),
        }
    }
    found.retain(|sums| sums.members.len() > 1);
    let gone: HashSet<OpId> = found.iter().flat_map(|sums| sums.members.iter().copied()).collect();
    let mut at: HashMap<usize, Sums> = found.into_iter().map(|sums| (sums.first, sums)).collect();
    func.regions[region.0 as usize].ops.clear();
    for (place, id) in ops.into_iter().enumerate() {
        if let Some(sums) = at.remove(&place) {
            let first = func.op(sums.members[0]).clone();
            let operands: Vec<Value> = sums.members.iter().map(|&id| func.op(id).operands[0]).collect();
            let results = operands.iter().map(|&value| func.ty(value).clone()).collect();
            let name = OpName::Known(OpKind::AllReduce);
            let (attrs, regions, loc) = (first.attrs, first.regions, first.loc);
            let joined = func.add_op(region, NewOp { name, operands, results, attrs, regions, loc });
            let results: Vec<Value> = func.op(joined).results().collect();
            for (&id, result) in sums.members.iter().zip(results) {
                renamed.insert(func.op(id).first_result, result);
            }
        } else if !gone.contains(&id) {
            func.regions[region.0 as usize].ops.push(id);
        }
    }
}
