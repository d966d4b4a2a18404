//! Manual computations rewritten for all partitions at once, where one machine computes for all of them: what partitions
//! hold of a value becomes one array, with a leading dimension for each manual axis along which they differ. A matmul of each
//! partition's rows is one of all rows; what is the same in all partitions, as an optimizer after a sum, is computed once.
//!
//! The reverse of `partition`. A value knows along which axes partitions hold different numbers of it (`flow`), collectives are
//! sums and moves of leading dimensions (`collectives`), and other ops have those dimensions in front (`ops`). An op without a
//! rule is written once for each partition. Computations that exchange values with the host stay as they are.

mod axes;
mod collectives;
mod flow;
mod ops;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::Arc;

use self::axes::{Axes, AxisSet};
use crate::build::FuncBuilder;
use crate::ir::sdy::TensorSharding;
use crate::ir::{Attr, Attrs, Func, Module, Op, OpId, OpKind, OpName, Region, TensorType, Type, Value};
use crate::ops::Violation;
use crate::partition::{copy_region, give_up, manual_axes, shardings};
use crate::passes::{self, Partitioned};
use crate::verify::{Verified, verify};

/// Ops that a computation for all partitions may have.
const MAX_OPS: usize = 200_000;
/// Regions inside each other.
const MAX_DEPTH: usize = 64;

/// Rewrites the manual computations of a function for all of `num_partitions` partitions; those that cannot be stay, and so do
/// the named composites.
///
/// # Errors
/// A rewritten program that breaks a rule of the language, which is a bug.
pub fn unite(
    module: Verified,
    entry: &str,
    num_partitions: usize,
    keep_composites: &[&str],
) -> Result<Verified, String> {
    let mut module = module;
    // Inner ones first: the outer ones are then free of them, and follow in the next round.
    for _ in 0..MAX_DEPTH {
        let Some(func) = module.func(entry) else { break };
        let is_manual = |id: &OpId| func.op(*id).kind() == Some(OpKind::SdyManualComputation);
        let mut uses = HashMap::new();
        for value in func.ops.iter().flat_map(|op| &op.operands) {
            *uses.entry(*value).or_insert(0) += 1;
        }
        let mut written = Vec::new();
        for id in func.walk().into_iter().filter(is_manual) {
            let name = format!("{entry}.manual{}", func.op(id).first_result.0);
            if module.func(&name).is_none()
                && let Ok(body) = computation(&module, func, (id, &uses), &name, num_partitions)
            {
                written.push((id, body));
            }
        }
        if written.is_empty() {
            break;
        }
        module = inlined(module, entry, written, keep_composites)?;
    }
    Ok(module)
}

/// The program with ops replaced by the bodies of functions.
fn inlined(
    module: Verified,
    entry: &str,
    written: Vec<(OpId, Func)>,
    keep_composites: &[&str],
) -> Result<Verified, String> {
    let mut module = module.into_inner();
    for func in module.funcs.iter_mut().filter(|func| *func.name == *entry) {
        for (id, body) in &written {
            let op = func.op_mut(*id);
            op.name = OpName::Known(OpKind::FuncCall);
            op.attrs = Attrs::new();
            op.attrs.set("callee", Attr::Symbol(body.name.clone()));
            op.regions = Vec::new();
        }
        func.renumber();
    }
    module.funcs.extend(written.into_iter().map(|(_, body)| body));
    let module = verify(module).map_err(|error| error.to_string())?;
    let options = passes::Options { partitioned: Partitioned::Yes, keep_composites, ..passes::Options::default() };
    let inlined = passes::apply(module, &[passes::INLINE, passes::DCE], &options);
    inlined.map(|(module, _)| module).map_err(|error| error.to_string())
}

/// The body of a manual computation as a function of whole arrays.
fn computation(
    module: &Module,
    func: &Func,
    (id, uses): (OpId, &HashMap<Value, usize>),
    name: &str,
    partitions: usize,
) -> Result<Func, Violation> {
    let op = func.op(id);
    let &[region] = &op.regions[..] else { return Err(give_up("a computation without a region")) };
    let (before, after) = (shardings(op, "in_shardings"), shardings(op, "out_shardings"));
    let arguments = func.region(region).args.clone();
    if [before.len(), arguments.len()] != [op.operands.len(); 2] || after.len() != op.num_results as usize {
        return Err(give_up("not one sharding for each value"));
    }
    let axes = Axes::of(module, before.iter().chain(&after), &manual_axes(op), partitions)?;
    let out = FuncBuilder::new(Arc::<str>::from(name));
    let mut united = Uniter { func, out, axes, uses, known: HashMap::new(), along: HashMap::new() };
    for ((&operand, sharding), &argument) in op.operands.iter().zip(&before).zip(&arguments) {
        let whole = united.out.arg(func.ty(operand).clone());
        let many = united.taken(whole, sharding, argument)?;
        united.along.insert(argument, many.along);
        united.known.insert(argument, many);
    }
    united.flow(region, 0)?;
    let returned = united.region(region, 0)?;
    let mut results = Vec::with_capacity(after.len());
    for ((value, sharding), result) in returned.into_iter().zip(&after).zip(op.results()) {
        results.push(united.joined(value, sharding, func.ty(result))?);
    }
    Ok(united.out.finish(&results))
}

/// What all partitions hold of a value: one array, with a leading dimension for each axis of `along`, major to minor.
#[derive(Clone, Copy, Debug)]
struct Many {
    value: Value,
    along: AxisSet,
}

struct Uniter<'m> {
    func: &'m Func,
    out: FuncBuilder,
    axes: Axes,
    /// How often a value is read.
    uses: &'m HashMap<Value, usize>,
    known: HashMap<Value, Many>,
    /// Along which axes partitions hold different numbers of a value.
    along: HashMap<Value, AxisSet>,
}

impl Uniter<'_> {
    fn get(&self, value: Value) -> Result<Many, Violation> {
        self.known.get(&value).copied().ok_or_else(|| give_up("a value from outside of the computation"))
    }

    /// The type of a value in the old program.
    fn tensor(&self, value: Value) -> Result<TensorType, Violation> {
        let tensor = self.func.ty(value).as_tensor().filter(|ty| ty.is_static() && ty.encoding.is_none());
        tensor.cloned().ok_or_else(|| give_up("values other than tensors of known sizes"))
    }

    /// Sizes of a value that is written.
    fn dims(&self, value: Value) -> Result<Vec<i64>, Violation> {
        let tensor = self.out.ty(value).as_tensor().ok_or_else(|| give_up("a value that is no tensor"))?;
        Ok(tensor.dims.clone())
    }

    /// A type with dimensions for axes in front.
    fn many_type(&self, ty: &TensorType, along: AxisSet) -> Result<Type, Violation> {
        let dims: Vec<i64> = self.axes.sizes(along).into_iter().chain(ty.dims.iter().copied()).collect();
        let count = dims.iter().try_fold(1i64, |n, &size| n.checked_mul(size.max(1)));
        count.ok_or_else(|| give_up("an array that is too large"))?;
        Ok(TensorType { dims, ..ty.clone() }.into())
    }

    /// Writes an op of one result.
    fn one(&mut self, kind: OpKind, operands: &[Value], attrs: Attrs, ty: Type) -> Result<Value, Violation> {
        let results = self.out.op_with_types(kind, operands, attrs, &[], vec![ty])?;
        results.first().copied().ok_or_else(|| give_up("an op without a result"))
    }

    fn reshape(&mut self, value: Value, dims: Vec<i64>) -> Result<Value, Violation> {
        if self.dims(value)? == dims {
            return Ok(value);
        }
        let tensor = self.out.ty(value).as_tensor().cloned().ok_or_else(|| give_up("a value that is no tensor"))?;
        self.one(OpKind::Reshape, &[value], Attrs::new(), TensorType { dims, ..tensor }.into())
    }

    fn transpose(&mut self, value: Value, permutation: &[usize]) -> Result<Value, Violation> {
        if permutation.iter().enumerate().all(|(n, &from)| n == from) {
            return Ok(value);
        }
        let mut attrs = Attrs::new();
        attrs.set("permutation", Attr::i64s(permutation.iter().map(|&n| n as i64).collect::<Vec<i64>>()));
        self.out.op(OpKind::Transpose, &[value], attrs)
    }

    /// The same numbers along more axes.
    fn spread(&mut self, many: Many, along: AxisSet) -> Result<Value, Violation> {
        let along = along | many.along;
        if along == many.along {
            return Ok(many.value);
        }
        let tensor = self.out.ty(many.value).as_tensor().cloned();
        let tensor = tensor.ok_or_else(|| give_up("a value that is no tensor"))?;
        let (have, want) = (self.axes.list(many.along), self.axes.list(along));
        let place = |axis: &usize| want.iter().position(|other| other == axis).unwrap_or(0) as i64;
        let behind = (0..tensor.dims.len() - have.len()).map(|dim| (want.len() + dim) as i64);
        let to: Vec<i64> = have.iter().map(place).chain(behind).collect();
        let own = TensorType { dims: tensor.dims[have.len()..].to_vec(), ..tensor };
        let ty = self.many_type(&own, along)?;
        let mut attrs = Attrs::new();
        attrs.set("broadcast_dimensions", Attr::i64s(to));
        self.one(OpKind::BroadcastInDim, &[many.value], attrs, ty)
    }

    /// Tiles of a whole array.
    fn taken(&mut self, whole: Value, sharding: &TensorSharding, argument: Value) -> Result<Many, Violation> {
        let dims = self.dims(whole)?;
        let splits = self.axes.splits(sharding, dims.len())?;
        let (mut sizes, mut place_of, mut behind) = (Vec::new(), HashMap::new(), Vec::new());
        for (&size, axes) in dims.iter().zip(&splits) {
            let mut left = size;
            for &axis in axes {
                let parts = self.axes.size(axis);
                if left % parts != 0 {
                    return Err(give_up("an operand that does not split evenly"));
                }
                left /= parts;
                place_of.insert(axis, sizes.len());
                sizes.push(parts);
            }
            behind.push(sizes.len());
            sizes.push(left);
        }
        let along = place_of.keys().fold(0, |set, axis| set | 1 << axis);
        let front = self.axes.list(along).into_iter().map(|axis| place_of[&axis]);
        let permutation: Vec<usize> = front.chain(behind).collect();
        let split = self.reshape(whole, sizes)?;
        let value = self.transpose(split, &permutation)?;
        let expected = self.many_type(&self.tensor(argument)?, along)?;
        if *self.out.ty(value) != expected {
            return Err(give_up("shardings that do not fit the body"));
        }
        Ok(Many { value, along })
    }

    /// A whole array from its tiles. Where partitions hold different numbers and the sharding says nothing of it, those of the
    /// first one count.
    fn joined(&mut self, value: Value, sharding: &TensorSharding, whole: &Type) -> Result<Value, Violation> {
        let many = self.get(value)?;
        let rank = self.tensor(value)?.dims.len();
        let splits = self.axes.splits(sharding, rank)?;
        let wanted: AxisSet = splits.iter().flatten().fold(0, |set, axis| set | 1 << axis);
        let many = self.first_along(many, many.along & !wanted)?;
        let spread = self.spread(many, wanted)?;
        let listed = self.axes.list(wanted);
        let front = listed.len();
        let mut permutation = Vec::new();
        let dims = self.dims(spread)?;
        let mut sizes = Vec::with_capacity(rank);
        for (dim, axes) in splits.iter().enumerate() {
            let mut size = dims[front + dim];
            for axis in axes {
                permutation.push(listed.iter().position(|other| other == axis).unwrap_or(0));
                size = size.checked_mul(self.axes.size(*axis)).ok_or_else(|| give_up("an array that is too large"))?;
            }
            permutation.push(front + dim);
            sizes.push(size);
        }
        let value = self.transpose(spread, &permutation)?;
        let value = self.reshape(value, sizes)?;
        match self.out.ty(value) == whole {
            true => Ok(value),
            false => Err(give_up("shardings that do not fit the body")),
        }
    }

    /// What the first partition along some axes holds.
    fn first_along(&mut self, many: Many, without: AxisSet) -> Result<Many, Violation> {
        let without = many.along & without;
        if without == 0 {
            return Ok(many);
        }
        let (dims, axes) = (self.dims(many.value)?, self.axes.list(many.along));
        let is_dropped = |dim: usize| axes.get(dim).is_some_and(|axis| without >> axis & 1 == 1);
        let limits: Vec<i64> = (0..dims.len()).map(|dim| if is_dropped(dim) { 1 } else { dims[dim] }).collect();
        let left: Vec<i64> = (0..dims.len()).filter(|&dim| !is_dropped(dim)).map(|dim| dims[dim]).collect();
        let first = self.slice(many.value, vec![0; dims.len()], limits)?;
        Ok(Many { value: self.reshape(first, left)?, along: many.along & !without })
    }

    fn slice(&mut self, value: Value, starts: Vec<i64>, limits: Vec<i64>) -> Result<Value, Violation> {
        let mut attrs = Attrs::new();
        attrs.set("strides", Attr::i64s(vec![1; starts.len()]));
        attrs.set("start_indices", Attr::i64s(starts));
        attrs.set("limit_indices", Attr::i64s(limits));
        self.out.op(OpKind::Slice, &[value], attrs)
    }

    /// Writes the ops of a region; the old values it returns.
    fn region(&mut self, region: Region, depth: usize) -> Result<Vec<Value>, Violation> {
        if depth > MAX_DEPTH {
            return Err(give_up("regions that are too deep"));
        }
        let func = self.func;
        let Some((&last, ops)) = func.region(region).ops.split_last() else {
            return Err(give_up("a region that is empty"));
        };
        for &id in ops {
            self.op(func.op(id), depth)?;
            if self.out.as_func().ops.len() > MAX_OPS {
                return Err(give_up("a program that becomes too large"));
            }
        }
        Ok(func.op(last).operands.clone())
    }

    /// The regions of an op as they are; what they read from around them must be the same in all partitions.
    fn copied_regions(&mut self, op: &Op) -> Result<Vec<Region>, Violation> {
        let func = self.func;
        let mut known = HashMap::new();
        let mut pending = op.regions.clone();
        while let Some(region) = pending.pop() {
            for &id in &func.region(region).ops {
                pending.extend(&func.op(id).regions);
                let read = func.op(id).operands.iter().filter_map(|value| Some((*value, self.known.get(value)?)));
                known.extend(read.filter(|(_, many)| many.along == 0).map(|(value, many)| (value, many.value)));
            }
        }
        op.regions.iter().map(|&region| copy_region(&mut self.out, func, region, &mut known, 0)).collect()
    }
}
