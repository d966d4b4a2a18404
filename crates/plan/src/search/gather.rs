//! Weights that are split for storage, whole where they are read: constraints before matmuls and look-ups, and behind the sums of
//! gradients of rows.

use std::collections::{HashMap, HashSet};

use hlo::{Func, NewOp, OpId, OpKind, Region, Value};

use super::flow::{Flow, Use};

/// Puts an op before each one that reads a weight; `constraint` writes it for the dimensions that are left of the argument, and says
/// nothing where the value is to be read as it is.
pub(crate) fn gather_where_read(
    func: &mut Func,
    flow: &Flow,
    constraint: impl Fn(usize, &[Option<usize>]) -> Option<NewOp>,
) {
    let mut region_of: HashMap<OpId, Region> = HashMap::new();
    for (region, data) in func.regions.iter().enumerate() {
        region_of.extend(data.ops.iter().map(|id| (*id, Region(region as u32))));
    }
    let mut gathered: HashMap<(Region, Value), Value> = HashMap::new();
    for site in &flow.uses {
        let Some(&region) = region_of.get(&site.op) else { continue };
        let value = match gathered.get(&(region, site.value)) {
            Some(value) => *value,
            None => {
                let Some(mut op) = constraint(site.origin.argument, &site.origin.dims) else { continue };
                op.operands = vec![site.value];
                op.results = vec![func.ty(site.value).clone()];
                op.loc = func.op(site.op).loc.clone();
                let id = func.add_op(region, op);
                let ops = &mut func.regions[region.0 as usize].ops;
                ops.pop();
                let at = ops.iter().position(|other| *other == site.op).unwrap_or(ops.len());
                ops.insert(at, id);
                let value = func.op(id).first_result;
                gathered.insert((region, site.value), value);
                value
            }
        };
        func.op_mut(site.op).operands[site.operand] = value;
    }
}

/// Puts an op behind each scatter that sums up the gradient of rows taken by index.
///
/// The gradient is to be split as the weight, along its width. Left to itself the partitioner hands every device its
/// columns of the rows of the whole batch: as many rows as there are tokens, each a few elements wide. With the sum
/// whole, each device adds the rows of its own tokens, and the sum is then reduced and split like any other gradient.
///
/// `constraint` writes the op for the argument that rows are taken from.
pub(crate) fn sum_rows_in_place(
    func: &mut Func,
    looked_up: &[&Use],
    constraint: impl Fn(usize, &[Option<usize>]) -> Option<NewOp>,
) {
    let mut scatters: Vec<(usize, OpId, usize)> = Vec::new();
    for (region, data) in func.regions.iter().enumerate() {
        for id in &data.ops {
            let op = func.op(*id);
            if op.kind() != Some(OpKind::Scatter) || op.num_results != 1 {
                continue;
            }
            let sizes = func.ty(op.first_result).as_tensor().map(|ty| &ty.dims);
            let of = |site: &&&Use| func.inputs[site.origin.argument].as_tensor().map(|ty| &ty.dims) == sizes;
            if let Some(site) = looked_up.iter().find(of) {
                scatters.push((region, *id, site.origin.argument));
            }
        }
    }
    let mut done: HashSet<OpId> = HashSet::new();
    for (region, scatter, argument) in scatters {
        let sum = func.op(scatter).first_result;
        let rank = func.ty(sum).as_tensor().map_or(0, |ty| ty.rank());
        let dims: Vec<Option<usize>> = (0..rank).map(Some).collect();
        let Some(mut op) = constraint(argument, &dims).filter(|_| done.insert(scatter)) else { continue };
        op.results = vec![func.ty(sum).clone()];
        op.loc = func.op(scatter).loc.clone();
        let id = func.add_op(Region(region as u32), op);
        let whole = func.op(id).first_result;
        for reader in &mut func.ops {
            reader.operands.iter_mut().filter(|operand| **operand == sum).for_each(|operand| *operand = whole);
        }
        func.op_mut(id).operands = vec![sum];
        let ops = &mut func.regions[region].ops;
        ops.pop();
        let after = ops.iter().position(|other| *other == scatter).map_or(ops.len(), |at| at + 1);
        ops.insert(after, id);
    }
}
