//! Ops of all partitions as ops with leading dimensions.

use std::sync::Arc;

use super::axes::AxisSet;
use super::{Many, Uniter};
use crate::ir::{Attr, Attrs, Op, OpKind, Type, Value};
use crate::ops::Violation;
use crate::partition::{give_up, ints};

impl Uniter<'_> {
    pub(super) fn op(&mut self, op: &Op, depth: usize) -> Result<(), Violation> {
        self.out.at(op.loc.clone());
        let kind = op.kind().ok_or_else(|| give_up("an op of another dialect"))?;
        if !Self::is_pure(op, kind) {
            return Err(give_up("an op that does more than compute"));
        }
        for value in op.operands.iter().copied().chain(op.results()) {
            self.tensor(value)?;
        }
        match kind {
            OpKind::AllReduce => return self.all_reduce(op),
            OpKind::AllGather => return self.all_gather(op),
            OpKind::ReduceScatter => return self.reduce_scatter(op),
            OpKind::AllToAll => return self.all_to_all(op),
            OpKind::CollectivePermute => return self.collective_permute(op),
            OpKind::PartitionId => return self.partition_id(op),
            OpKind::While => return self.repeat(op, depth),
            OpKind::Case | OpKind::If => return self.choose(op, kind, depth),
            OpKind::OptimizationBarrier => return self.barrier(op),
            _ if kind.is_collective() => return Err(give_up("a collective that is not rewritten")),
            _ => {}
        }
        let operands = op.operands.iter().map(|&value| self.get(value)).collect::<Result<Vec<Many>, Violation>>()?;
        let along = operands.iter().fold(0, |set, many| set | many.along);
        if along == 0 {
            return self.once(op, kind, &operands);
        }
        let many = match kind {
            OpKind::DotGeneral => self.matmul(op, 0)?,
            OpKind::Transpose => self.transposed(op, operands[0])?,
            OpKind::Reshape => self.reshaped(op, operands[0])?,
            OpKind::BroadcastInDim => self.broadcast(op, operands[0])?,
            OpKind::BitcastConvert => self.elementwise(op, kind, &operands, along)?,
            _ if kind.is_elementwise() => self.elementwise(op, kind, &operands, along)?,
            OpKind::Slice => self.prefixed(op, kind, &operands, along, &SLICE)?,
            OpKind::Pad if operands[1].along == 0 => self.prefixed(op, kind, &operands[..1], along, &PAD)?,
            OpKind::Reverse => self.shifted(op, kind, &operands, along, "dimensions")?,
            OpKind::Concatenate => self.shifted(op, kind, &operands, along, "dimension")?,
            OpKind::Reduce => return self.reduction(op, &operands, along),
            OpKind::Sort => return self.sort(op, &operands, along),
            OpKind::Cholesky | OpKind::Fft | OpKind::TriangularSolve | OpKind::ChloTopK => {
                return self.in_front(op, kind, &operands, along);
            }
            OpKind::DynamicSlice if operands[1..].iter().all(|many| many.along == 0) => {
                self.dynamic_slice(op, &operands)?
            }
            OpKind::DynamicUpdateSlice if operands[2..].iter().all(|many| many.along == 0) => {
                self.dynamic_update_slice(op, &operands, along)?
            }
            OpKind::Gather if operands[0].along == 0 => self.gather(op, &operands)?,
            OpKind::Convolution if operands[1].along == 0 && batch_groups(op) == 1 => {
                self.convolution(op, &operands)?
            }
            _ => return self.one_by_one(op, kind, &operands, along),
        };
        let expected = self.many_type(&self.tensor(op.first_result)?, many.along)?;
        if *self.out.ty(many.value) != expected {
            return Err(give_up("an op whose dimensions do not fit"));
        }
        self.known.insert(op.first_result, many);
        Ok(())
    }

    /// What all partitions compute from the same numbers.
    fn once(&mut self, op: &Op, kind: OpKind, operands: &[Many]) -> Result<(), Violation> {
        let values: Vec<Value> = operands.iter().map(|many| many.value).collect();
        let regions = self.copied_regions(op)?;
        let types: Vec<Type> = op.results().map(|value| self.func.ty(value).clone()).collect();
        let results = self.out.op_with_types(kind, &values, op.attrs.clone(), &regions, types)?;
        self.define(op, results, &vec![0; op.num_results as usize]);
        Ok(())
    }

    fn barrier(&mut self, op: &Op) -> Result<(), Violation> {
        let operands = op.operands.iter().map(|&value| self.get(value)).collect::<Result<Vec<Many>, Violation>>()?;
        let values: Vec<Value> = operands.iter().map(|many| many.value).collect();
        let types: Vec<Type> = values.iter().map(|&value| self.out.ty(value).clone()).collect();
        let results = self.out.op_with_types(OpKind::OptimizationBarrier, &values, Attrs::new(), &[], types)?;
        let sets: Vec<AxisSet> = operands.iter().map(|many| many.along).collect();
        self.define(op, results, &sets);
        Ok(())
    }

    fn spread_all(&mut self, operands: &[Many], along: AxisSet) -> Result<Vec<Value>, Violation> {
        operands.iter().map(|&many| self.spread(many, along)).collect()
    }

    fn elementwise(&mut self, op: &Op, kind: OpKind, operands: &[Many], along: AxisSet) -> Result<Many, Violation> {
        let result = self.tensor(op.first_result)?;
        let mut values = Vec::with_capacity(operands.len());
        for (&old, &many) in op.operands.iter().zip(operands) {
            // A scalar beside arrays, as the bounds of a clamp: it may stay one if it is the same everywhere.
            let own = self.tensor(old)?;
            let is_scalar = own.dims.is_empty() && !result.dims.is_empty() && kind != OpKind::BitcastConvert;
            values.push(match is_scalar {
                true if many.along == 0 => many.value,
                true => {
                    let spread = self.spread(many, along)?;
                    let front = self.axes.list(along).len();
                    let ty = crate::ir::TensorType { dims: result.dims.clone(), ..own };
                    let ty = self.many_type(&ty, along)?;
                    let mut attrs = Attrs::new();
                    attrs.set("broadcast_dimensions", Attr::i64s((0..front as i64).collect::<Vec<i64>>()));
                    self.one(OpKind::BroadcastInDim, &[spread], attrs, ty)?
                }
                false => self.spread(many, along)?,
            });
        }
        let ty = self.many_type(&result, along)?;
        Ok(Many { value: self.one(kind, &values, op.attrs.clone(), ty)?, along })
    }

    pub(super) fn transposed(&mut self, op: &Op, many: Many) -> Result<Many, Violation> {
        let front = self.axes.list(many.along).len();
        let own = ints(op, "permutation").ok_or_else(|| give_up("a transpose without an order"))?;
        let permutation: Vec<usize> = (0..front).chain(own.iter().map(|&dim| front + dim as usize)).collect();
        Ok(Many { value: self.transpose(many.value, &permutation)?, along: many.along })
    }

    fn reshaped(&mut self, op: &Op, many: Many) -> Result<Many, Violation> {
        let own = self.tensor(op.first_result)?.dims;
        let dims = self.axes.sizes(many.along).into_iter().chain(own).collect();
        Ok(Many { value: self.reshape(many.value, dims)?, along: many.along })
    }

    fn broadcast(&mut self, op: &Op, many: Many) -> Result<Many, Violation> {
        let front = self.axes.list(many.along).len() as i64;
        let own = ints(op, "broadcast_dimensions").ok_or_else(|| give_up("a broadcast without dimensions"))?;
        let to: Vec<i64> = (0..front).chain(own.iter().map(|dim| front + dim)).collect();
        let mut attrs = Attrs::new();
        attrs.set("broadcast_dimensions", Attr::i64s(to));
        let ty = self.many_type(&self.tensor(op.first_result)?, many.along)?;
        Ok(Many { value: self.one(OpKind::BroadcastInDim, &[many.value], attrs, ty)?, along: many.along })
    }

    /// An op with lists of numbers for each dimension, which get more in front.
    fn prefixed(
        &mut self,
        op: &Op,
        kind: OpKind,
        operands: &[Many],
        along: AxisSet,
        lists: &[(&'static str, Front)],
    ) -> Result<Many, Violation> {
        let mut attrs = op.attrs.clone();
        let sizes = self.axes.sizes(along);
        for &(name, front) in lists {
            let own = ints(op, name).ok_or_else(|| give_up("a list that is missing"))?;
            let more = sizes.iter().map(|&size| match front {
                Front::Number(number) => number,
                Front::Size => size,
            });
            attrs.set(name, Attr::i64s(more.chain(own).collect::<Vec<i64>>()));
        }
        let mut values = self.spread_all(operands, along)?;
        // Scalars that say nothing of partitions follow.
        for &old in &op.operands[operands.len()..] {
            values.push(self.get(old)?.value);
        }
        let ty = self.many_type(&self.tensor(op.first_result)?, along)?;
        Ok(Many { value: self.one(kind, &values, attrs, ty)?, along })
    }

    /// An op along dimensions that move behind the leading ones.
    fn shifted(
        &mut self,
        op: &Op,
        kind: OpKind,
        operands: &[Many],
        along: AxisSet,
        name: &'static str,
    ) -> Result<Many, Violation> {
        let attrs = self.shifted_attrs(op, along, name)?;
        let values = self.spread_all(operands, along)?;
        let ty = self.many_type(&self.tensor(op.first_result)?, along)?;
        Ok(Many { value: self.one(kind, &values, attrs, ty)?, along })
    }

    fn shifted_attrs(&self, op: &Op, along: AxisSet, name: &'static str) -> Result<Attrs, Violation> {
        let front = self.axes.list(along).len() as i64;
        let mut attrs = op.attrs.clone();
        let moved = match op.attr(name) {
            Some(Attr::Int(dim, element)) => Attr::Int(dim + front, element.clone()),
            Some(_) => {
                let own = ints(op, name).ok_or_else(|| give_up("a list that is missing"))?;
                Attr::i64s(own.into_iter().map(|dim| dim + front).collect::<Vec<i64>>())
            }
            None => return Err(give_up("a dimension that is missing")),
        };
        attrs.set(name, moved);
        Ok(attrs)
    }

    fn results_along(&self, op: &Op, along: AxisSet) -> Result<Vec<Type>, Violation> {
        op.results().map(|value| self.many_type(&self.tensor(value)?, along)).collect()
    }

    fn reduction(&mut self, op: &Op, operands: &[Many], along: AxisSet) -> Result<(), Violation> {
        let (arrays, initial) = operands.split_at(operands.len() / 2);
        if initial.iter().any(|many| many.along != 0) {
            return self.one_by_one(op, OpKind::Reduce, operands, along);
        }
        let attrs = self.shifted_attrs(op, along, "dimensions")?;
        let mut values = self.spread_all(arrays, along)?;
        values.extend(initial.iter().map(|many| many.value));
        self.with_regions(op, OpKind::Reduce, &values, attrs, along)
    }

    fn sort(&mut self, op: &Op, operands: &[Many], along: AxisSet) -> Result<(), Violation> {
        let rank = self.tensor(op.operands[0])?.dims.len() as i64;
        let mut attrs = op.attrs.clone();
        let dim = op.attr("dimension").and_then(Attr::as_int).unwrap_or(-1);
        let dim = if dim < 0 { dim + rank } else { dim };
        attrs.set("dimension", Attr::i64(dim + self.axes.list(along).len() as i64));
        let values = self.spread_all(operands, along)?;
        self.with_regions(op, OpKind::Sort, &values, attrs, along)
    }

    /// An op that computes the same for every index of leading dimensions.
    fn in_front(&mut self, op: &Op, kind: OpKind, operands: &[Many], along: AxisSet) -> Result<(), Violation> {
        let values = self.spread_all(operands, along)?;
        self.with_regions(op, kind, &values, op.attrs.clone(), along)
    }

    fn with_regions(
        &mut self,
        op: &Op,
        kind: OpKind,
        values: &[Value],
        attrs: Attrs,
        along: AxisSet,
    ) -> Result<(), Violation> {
        let regions = self.copied_regions(op)?;
        let types = self.results_along(op, along)?;
        let results = self.out.op_with_types(kind, values, attrs, &regions, types)?;
        self.define(op, results, &vec![along; op.num_results as usize]);
        Ok(())
    }

    /// Zeros of the type of an op's start indices, one for each leading dimension.
    fn zeros_in_front(&mut self, index: Value, along: AxisSet) -> Result<Vec<Value>, Violation> {
        let ty = self.tensor(index)?;
        let bytes = crate::ir::element_bytes(&ty).ok_or_else(|| give_up("indices of such elements"))?;
        let zero = self.out.splat(ty, &vec![0; bytes])?;
        Ok(vec![zero; self.axes.list(along).len()])
    }

    fn dynamic_slice(&mut self, op: &Op, operands: &[Many]) -> Result<Many, Violation> {
        let along = operands[0].along;
        let Some(&index) = op.operands.get(1) else {
            return self.prefixed(op, OpKind::DynamicSlice, operands, along, &[]);
        };
        let own = ints(op, "slice_sizes").ok_or_else(|| give_up("a slice without sizes"))?;
        let mut values = vec![operands[0].value];
        values.extend(self.zeros_in_front(index, along)?);
        values.extend(operands[1..].iter().map(|many| many.value));
        let mut attrs = op.attrs.clone();
        attrs.set("slice_sizes", Attr::i64s(self.axes.sizes(along).into_iter().chain(own).collect::<Vec<i64>>()));
        let ty = self.many_type(&self.tensor(op.first_result)?, along)?;
        Ok(Many { value: self.one(OpKind::DynamicSlice, &values, attrs, ty)?, along })
    }

    fn dynamic_update_slice(&mut self, op: &Op, operands: &[Many], along: AxisSet) -> Result<Many, Violation> {
        let mut values = self.spread_all(&operands[..2], along)?;
        if let Some(&index) = op.operands.get(2) {
            values.extend(self.zeros_in_front(index, along)?);
        }
        values.extend(operands[2..].iter().map(|many| many.value));
        let ty = self.many_type(&self.tensor(op.first_result)?, along)?;
        Ok(Many { value: self.one(OpKind::DynamicUpdateSlice, &values, op.attrs.clone(), ty)?, along })
    }

    /// Rows of one table, found by the indices of all partitions.
    fn gather(&mut self, op: &Op, operands: &[Many]) -> Result<Many, Violation> {
        let Some(Attr::Gather(numbers)) = op.attr("dimension_numbers") else {
            return Err(give_up("a gather without dimensions"));
        };
        let along = operands[1].along;
        let front = self.axes.list(along).len() as i64;
        let mut numbers = (**numbers).clone();
        let behind = numbers.offset_dims.iter_mut().chain(&mut numbers.start_indices_batching_dims);
        behind.for_each(|dim| *dim += front);
        numbers.index_vector_dim += front;
        let mut attrs = op.attrs.clone();
        attrs.set("dimension_numbers", Attr::Gather(Arc::new(numbers)));
        // Sorted for each partition is not sorted for all.
        attrs.remove("indices_are_sorted");
        let ty = self.many_type(&self.tensor(op.first_result)?, along)?;
        Ok(Many { value: self.one(OpKind::Gather, &[operands[0].value, operands[1].value], attrs, ty)?, along })
    }

    /// One kernel over the batches of all partitions.
    fn convolution(&mut self, op: &Op, operands: &[Many]) -> Result<Many, Violation> {
        let Some(Attr::Conv(numbers)) = op.attr("dimension_numbers") else {
            return Err(give_up("a convolution without dimensions"));
        };
        let along = operands[0].along;
        let (front, sizes) = (self.axes.list(along).len(), self.axes.sizes(along));
        let own = self.tensor(op.operands[0])?.dims;
        let batch = usize::try_from(numbers.input_batch).ok().filter(|&dim| dim < own.len());
        let batch = batch.ok_or_else(|| give_up("a convolution without a batch"))?;
        let count = self.axes.count(along);
        let grown = |size: i64| size.checked_mul(count).ok_or_else(|| give_up("an array that is too large"));
        let dims: Vec<usize> = (front..front + own.len()).collect();
        let permutation: Vec<usize> =
            dims[..batch].iter().copied().chain(0..front).chain(dims[batch..].iter().copied()).collect();
        let moved = self.transpose(operands[0].value, &permutation)?;
        let mut merged = own;
        merged[batch] = grown(merged[batch])?;
        let image = self.reshape(moved, merged)?;
        let result = self.tensor(op.first_result)?;
        let out_batch = usize::try_from(numbers.output_batch).ok().filter(|&dim| dim < result.dims.len());
        let out_batch = out_batch.ok_or_else(|| give_up("a convolution without a batch"))?;
        let mut ty = result.clone();
        ty.dims[out_batch] = grown(ty.dims[out_batch])?;
        let product = self.one(OpKind::Convolution, &[image, operands[1].value], op.attrs.clone(), ty.into())?;
        let mut cut = result.dims[..out_batch].to_vec();
        cut.extend(&sizes);
        cut.extend(&result.dims[out_batch..]);
        let cut = self.reshape(product, cut)?;
        let rank = result.dims.len() + front;
        let permutation: Vec<usize> =
            (out_batch..out_batch + front).chain(0..out_batch).chain(out_batch + front..rank).collect();
        Ok(Many { value: self.transpose(cut, &permutation)?, along })
    }

    /// An op written once for each partition.
    fn one_by_one(&mut self, op: &Op, kind: OpKind, operands: &[Many], along: AxisSet) -> Result<(), Violation> {
        let count = self.axes.count(along);
        let mut rows = Vec::with_capacity(operands.len());
        for (&old, &many) in op.operands.iter().zip(operands) {
            let own = self.tensor(old)?.dims;
            rows.push(match many.along {
                0 => (many.value, own, false),
                _ => {
                    let spread = self.spread(many, along)?;
                    let flat = std::iter::once(count).chain(own.iter().copied()).collect();
                    (self.reshape(spread, flat)?, own, true)
                }
            });
        }
        let types: Vec<Type> = op.results().map(|value| self.func.ty(value).clone()).collect();
        let mut pieces: Vec<Vec<Value>> = vec![Vec::new(); types.len()];
        for n in 0..count {
            let mut values = Vec::with_capacity(rows.len());
            for (value, own, is_many) in &rows {
                values.push(match is_many {
                    false => *value,
                    true => {
                        let starts = std::iter::once(n).chain(own.iter().map(|_| 0)).collect();
                        let limits = std::iter::once(n + 1).chain(own.iter().copied()).collect();
                        let row = self.slice(*value, starts, limits)?;
                        self.reshape(row, own.clone())?
                    }
                });
            }
            let regions = self.copied_regions(op)?;
            let results = self.out.op_with_types(kind, &values, op.attrs.clone(), &regions, types.clone())?;
            for (list, value) in pieces.iter_mut().zip(results) {
                let row = std::iter::once(1).chain(self.dims(value)?).collect();
                list.push(self.reshape(value, row)?);
            }
        }
        let sizes = self.axes.sizes(along);
        let mut results = Vec::with_capacity(pieces.len());
        for list in pieces {
            let joined = self.concatenate(&list)?;
            let own = self.dims(joined)?.split_off(1);
            results.push(self.reshape(joined, sizes.iter().copied().chain(own).collect())?);
        }
        self.define(op, results, &vec![along; op.num_results as usize]);
        Ok(())
    }
}

fn batch_groups(op: &Op) -> i64 {
    op.attr("batch_group_count").and_then(Attr::as_int).unwrap_or(1)
}

/// What stands in front of a list for a leading dimension.
#[derive(Clone, Copy)]
enum Front {
    Number(i64),
    Size,
}

const SLICE: [(&str, Front); 3] =
    [("start_indices", Front::Number(0)), ("limit_indices", Front::Size), ("strides", Front::Number(1))];
const PAD: [(&str, Front); 3] = [
    ("edge_padding_low", Front::Number(0)),
    ("edge_padding_high", Front::Number(0)),
    ("interior_padding", Front::Number(0)),
];
