//! The ops of one region: who reads a value, and what their attributes say of axes.

use std::collections::{HashMap, HashSet};

use hlo::dims::DotDims;
use hlo::{Attr, Definition, Func, Keyword, Op, OpId, OpKind, Region, Value};

use super::layout::{Label, Labels, Layout};
use crate::call::static_spec;

/// The ops of a region in order, and who reads a value.
pub(super) struct Ops<'a> {
    pub(super) func: &'a Func,
    pub(super) order: &'a [OpId],
    /// For each value the positions that read it; `None` for readers in other regions.
    readers: HashMap<Value, Vec<Option<usize>>>,
    places: HashMap<OpId, usize>,
    matmuls: Vec<usize>,
}

impl<'a> Ops<'a> {
    pub(super) fn of(func: &'a Func, order: &'a [OpId]) -> Ops<'a> {
        let places: HashMap<OpId, usize> = order.iter().enumerate().map(|(n, &id)| (id, n)).collect();
        let mut readers: HashMap<Value, Vec<Option<usize>>> = HashMap::new();
        for id in func.walk() {
            for &operand in &func.op(id).operands {
                readers.entry(operand).or_default().push(places.get(&id).copied());
            }
        }
        let is_matmul = |n: &usize| func.op(order[*n]).kind() == Some(OpKind::DotGeneral);
        let matmuls = (0..order.len()).filter(is_matmul).collect();
        Ops { func, order, readers, places, matmuls }
    }

    pub(super) fn matmuls(&self) -> &[usize] {
        &self.matmuls
    }

    pub(super) fn op(&self, position: usize) -> &'a Op {
        self.func.op(self.order[position])
    }

    /// Where a value is defined in this region; `None` where it comes from outside.
    pub(super) fn defined(&self, value: Value) -> Option<usize> {
        match self.func.value(value).definition {
            Definition::Result(id, _) => self.places.get(&id).copied(),
            Definition::Argument(..) => None,
        }
    }

    /// The first position that reads a value, directly or in a region of its own.
    pub(super) fn first_reader(&self, value: Value) -> usize {
        let first = self.order.iter().position(|&id| self.reads(id, value));
        first.unwrap_or(self.order.len().saturating_sub(1))
    }

    fn reads(&self, id: OpId, value: Value) -> bool {
        let op = self.func.op(id);
        let inside = || op.regions.iter().flat_map(|&region| &self.func.region(region).ops);
        op.operands.contains(&value) || inside().any(|&inner| self.reads(inner, value))
    }

    pub(super) fn readers(&self, value: Value) -> &[Option<usize>] {
        self.readers.get(&value).map_or(&[], Vec::as_slice)
    }

    /// Whether only ops that are understood read a value; otherwise who else reads `what`.
    pub(super) fn is_read_by(&self, value: Value, understood: &HashSet<usize>, what: &str) -> Result<(), String> {
        for reader in self.readers(value) {
            match reader {
                Some(reader) if understood.contains(reader) => {}
                Some(reader) => return Err(format!("{what} are also read by {}", self.op(*reader).name.as_str())),
                None => return Err(format!("{what} are read inside a loop or branch")),
            }
        }
        Ok(())
    }
}

/// The dimensions of one factor of a matmul.
pub(super) struct Numbers<'a> {
    pub(super) batching: &'a [i64],
    pub(super) contracting: &'a [i64],
}

impl<'a> Numbers<'a> {
    pub(super) fn of(dot: &'a DotDims, operand: usize) -> Numbers<'a> {
        match operand {
            0 => Numbers { batching: &dot.lhs_batching, contracting: &dot.lhs_contracting },
            _ => Numbers { batching: &dot.rhs_batching, contracting: &dot.rhs_contracting },
        }
    }
}

pub(super) fn pick(layout: &Layout, dims: &[i64]) -> Option<Vec<Vec<Label>>> {
    dims.iter().map(|&n| layout.get(usize::try_from(n).ok()?).cloned()).collect()
}

/// Dimensions of one factor that are neither batching nor contracting.
pub(super) fn free(dot: &DotDims, operand: usize, rank: usize) -> Vec<usize> {
    let numbers = Numbers::of(dot, operand);
    let bound = |n: usize| numbers.batching.iter().chain(numbers.contracting).any(|&dim| usize::try_from(dim) == Ok(n));
    (0..rank).filter(|&n| !bound(n)).collect()
}

pub(super) fn free_dims(dot: &DotDims, lhs: usize, rhs: usize) -> [Vec<usize>; 2] {
    [free(dot, 0, lhs), free(dot, 1, rhs)]
}

/// The result of a matmul: batch, then what is free of the left, then of the right factor.
pub(super) fn result_layout(dot: &DotDims, lhs: &Layout, rhs: &Layout) -> Layout {
    let [left, right] = free_dims(dot, lhs.len(), rhs.len());
    let batch = dot.lhs_batching.iter().filter_map(|&n| lhs.get(n as usize).cloned());
    batch.chain(left.iter().map(|&n| lhs[n].clone())).chain(right.iter().map(|&n| rhs[n].clone())).collect()
}

pub(super) fn permuted(op: &Op, layout: &Layout) -> Option<Layout> {
    pick(layout, op.attr("permutation")?.as_i64s()?)
}

pub(super) fn unpermuted(op: &Op, layout: &Layout) -> Option<Layout> {
    let order = op.attr("permutation")?.as_i64s()?;
    let mut result = vec![Vec::new(); layout.len()];
    for (labels, &n) in layout.iter().zip(order) {
        *result.get_mut(usize::try_from(n).ok()?)? = labels.clone();
    }
    Some(result)
}

fn dims(func: &Func, value: Value) -> Option<Vec<usize>> {
    Some(static_spec(func.ty(value))?.dims)
}

/// The layout of a view of a layout (conversion, transpose, reshape or broadcast), and whether it repeats anything along axes that are
/// open then.
pub(super) fn viewed(func: &Func, labels: &mut Labels, op: &Op, layout: &Layout) -> Option<(Layout, bool)> {
    let to = dims(func, op.first_result)?;
    match op.kind()? {
        OpKind::Convert => Some((layout.clone(), false)),
        OpKind::Transpose => Some((permuted(op, layout)?, false)),
        OpKind::Reshape => Some((labels.reshaped(layout, &to)?, false)),
        OpKind::BroadcastInDim => {
            let places = op.attr("broadcast_dimensions")?.as_i64s()?;
            let from = dims(func, *op.operands.first()?)?;
            let (mut result, mut repeats): (Layout, bool) = (Vec::with_capacity(to.len()), false);
            for (n, &size) in to.iter().enumerate() {
                let source = places.iter().position(|&place| usize::try_from(place) == Ok(n));
                let kept = source.filter(|&source| from.get(source) == Some(&size));
                repeats |= kept.is_none() && size > 1;
                result.push(match kept {
                    Some(source) => layout.get(source)?.clone(),
                    None => labels.open(size),
                });
            }
            Some((result, repeats))
        }
        _ => None,
    }
}

/// The layout of what a view with that layout is of.
pub(super) fn above(func: &Func, labels: &mut Labels, op: &Op, layout: &Layout) -> Option<Layout> {
    let from = dims(func, *op.operands.first()?)?;
    match op.kind()? {
        OpKind::Convert => Some(layout.clone()),
        OpKind::Transpose => unpermuted(op, layout),
        OpKind::Reshape => labels.reshaped(layout, &from),
        OpKind::BroadcastInDim => {
            let (places, to) = (op.attr("broadcast_dimensions")?.as_i64s()?, dims(func, op.first_result)?);
            let mut inner = Vec::with_capacity(from.len());
            for (&place, &size) in places.iter().zip(&from) {
                let place = usize::try_from(place).ok()?;
                inner.push(if *to.get(place)? == size { layout.get(place)?.clone() } else { Vec::new() });
            }
            Some(inner)
        }
        _ => None,
    }
}

/// Whether a value has the elements of another one in another shape.
pub(super) fn is_view(func: &Func, op: &Op) -> bool {
    let count = |value: Value| static_spec(func.ty(value)).map(|spec| spec.num_elements());
    match op.kind() {
        Some(OpKind::Reshape | OpKind::Transpose) => true,
        Some(OpKind::BroadcastInDim) => op.operands.first().map(|&from| count(from)) == Some(count(op.first_result)),
        _ => false,
    }
}

/// The one op that a reduction folds with.
pub(super) fn reducer(func: &Func, op: &Op) -> Option<OpKind> {
    let data = func.region(*op.regions.first()?);
    let [body, last] = data.ops[..] else { return None };
    let (body, last) = (func.op(body), func.op(last));
    let [a, b] = data.args[..] else { return None };
    let folds = (body.operands == [a, b] || body.operands == [b, a]) && last.operands == [body.first_result];
    folds.then(|| body.kind())?
}

/// Whether an op says how a value is split, and gives it on.
pub(super) fn is_constraint(op: &Op) -> bool {
    match op.kind() {
        Some(OpKind::SdyShardingConstraint) => true,
        Some(OpKind::CustomCall) => op.attr("call_target_name").and_then(Attr::as_str) == Some("Sharding"),
        _ => false,
    }
}

/// Whether a matmul may be computed in the precision of kernels: its own is the default.
pub(super) fn is_default_precision(op: &Op) -> bool {
    match op.attr("precision_config") {
        Some(Attr::Array(of)) => of.iter().all(|one| one.as_keyword() == Some(Keyword::PrecisionDefault)),
        _ => true,
    }
}

/// The ops of a region in an order in which all values are computed before they are read: as it is, but for new ops, which come where
/// they are first needed, with what they read. `None` where there is no such order.
pub(super) fn sorted(func: &Func, region: Region, new: &[OpId]) -> Option<Vec<OpId>> {
    let old = func.region(region).ops.clone();
    let is_here: HashSet<OpId> = old.iter().chain(new).copied().collect();
    let (mut begun, mut done) = (HashSet::new(), HashSet::new());
    let mut order = Vec::with_capacity(is_here.len());
    for &id in &old {
        let mut pending = vec![id];
        while let Some(&id) = pending.last() {
            if done.contains(&id) {
                pending.pop();
                continue;
            }
            let is_first = begun.insert(id);
            let before: Vec<OpId> = reads(func, id)
                .into_iter()
                .filter_map(|value| match func.value(value).definition {
                    Definition::Result(id, _) => Some(id),
                    Definition::Argument(..) => None,
                })
                .filter(|other| is_here.contains(other) && !done.contains(other))
                .collect();
            if before.is_empty() {
                done.insert(id);
                order.push(id);
                pending.pop();
            } else if is_first {
                if before.iter().any(|other| begun.contains(other)) {
                    return None;
                }
                pending.extend(before);
            } else {
                return None;
            }
        }
    }
    Some(order)
}

/// What an op reads, in its regions too.
pub(super) fn reads(func: &Func, id: OpId) -> Vec<Value> {
    let op = func.op(id);
    let inside = op.regions.iter().flat_map(|&region| func.region(region).ops.clone());
    op.operands.iter().copied().chain(inside.flat_map(|inner| reads(func, inner))).collect()
}
