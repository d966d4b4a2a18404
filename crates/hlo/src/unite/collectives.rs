//! Collectives as sums and moves of leading dimensions.

use super::axes::AxisSet;
use super::{Many, Uniter};
use crate::ir::dims::DotDims;
use crate::ir::{Attr, Attrs, Definition, Dense, Op, OpKind, Type, Value};
use crate::ops::Violation;
use crate::partition::{fold_of, give_up};
use std::sync::Arc;
use tensor::DType;

impl Uniter<'_> {
    pub(super) fn all_reduce(&mut self, op: &Op) -> Result<(), Violation> {
        let groups = self.axes.groups(op, false)?;
        for (&operand, result) in op.operands.iter().zip(op.results()) {
            let reduced = self.reduced(op, operand, groups)?;
            self.known.insert(result, reduced);
        }
        Ok(())
    }

    /// A value combined along some axes.
    fn reduced(&mut self, op: &Op, operand: Value, groups: AxisSet) -> Result<Many, Violation> {
        let &[region] = &op.regions[..] else { return Err(give_up("a reduction without a region")) };
        let fold = fold_of(self.func, region).ok_or_else(|| give_up("a reduction by more than one op"))?;
        let element = self.tensor(operand)?.element;
        let scalar = Type::scalar(element.clone());
        if self.func.region(region).args.iter().any(|&argument| *self.func.ty(argument) != scalar) {
            return Err(give_up("a reduction in another type"));
        }
        if fold == OpKind::Add
            && let Some(many) = self.summed_matmul(operand, groups)?
        {
            return Ok(many);
        }
        let many = self.get(operand)?;
        let many = Many { value: self.spread(many, groups)?, along: many.along | groups };
        let (left, dims) = (many.along & !groups, self.dims(many.value)?);
        if fold != OpKind::Add {
            return self.folded(many, groups, fold);
        }
        let listed = self.axes.list(many.along);
        let is_summed = |dim: usize| listed.get(dim).is_some_and(|axis| groups >> axis & 1 == 1);
        let along: Vec<i64> = (0..dims.len()).filter(|&dim| is_summed(dim)).map(|dim| dim as i64).collect();
        let kept: Vec<i64> = (0..dims.len()).filter(|&dim| !is_summed(dim)).map(|dim| dims[dim]).collect();
        let bytes = element.plain().map(|dtype| dtype.size_bytes()).ok_or_else(|| give_up("sums of such elements"))?;
        let zero = self.out.splat(crate::ir::TensorType::new(Vec::new(), element.clone()), &vec![0; bytes])?;
        let region = self
            .out
            .region(&[scalar.clone(), scalar], |out, args| Ok(vec![out.op(OpKind::Add, args, Attrs::new())?]))?;
        let mut attrs = Attrs::new();
        attrs.set("dimensions", Attr::i64s(along));
        let ty = Type::tensor(kept, element);
        let sums = self.out.op_with_types(OpKind::Reduce, &[many.value, zero], attrs, &[region], vec![ty])?;
        let value = sums.first().copied().ok_or_else(|| give_up("an op without a result"))?;
        Ok(Many { value, along: left })
    }

    /// Other reductions than sums: one partition after the other.
    fn folded(&mut self, many: Many, groups: AxisSet, fold: OpKind) -> Result<Many, Violation> {
        let (moved, behind) = self.brought_forward(many, groups)?;
        let count = self.axes.count(groups);
        let merged: Vec<i64> = std::iter::once(count).chain(behind.iter().copied()).collect();
        let rows = self.reshape(moved, merged)?;
        let mut total = None;
        for n in 0..count {
            let starts = std::iter::once(n).chain(behind.iter().map(|_| 0)).collect();
            let limits = std::iter::once(n + 1).chain(behind.iter().copied()).collect();
            let row = self.slice(rows, starts, limits)?;
            let row = self.reshape(row, behind.clone())?;
            total = Some(match total {
                Some(so_far) => self.out.op(fold, &[so_far, row], Attrs::new())?,
                None => row,
            });
        }
        let value = total.ok_or_else(|| give_up("a group without partitions"))?;
        Ok(Many { value, along: many.along & !groups })
    }

    /// Brings the dimensions of some axes to the front; the sizes behind them.
    fn brought_forward(&mut self, many: Many, groups: AxisSet) -> Result<(Value, Vec<i64>), Violation> {
        let (listed, dims) = (self.axes.list(many.along), self.dims(many.value)?);
        let is_first = |dim: &usize| listed.get(*dim).is_some_and(|axis| groups >> axis & 1 == 1);
        let (front, behind): (Vec<usize>, Vec<usize>) = (0..dims.len()).partition(is_first);
        let sizes = behind.iter().map(|&dim| dims[dim]).collect();
        let permutation: Vec<usize> = front.into_iter().chain(behind).collect();
        Ok((self.transpose(many.value, &permutation)?, sizes))
    }

    /// The sum over partitions of what is a matmul in each: one matmul that contracts their dimensions too.
    fn summed_matmul(&mut self, operand: Value, groups: AxisSet) -> Result<Option<Many>, Violation> {
        let func = self.func;
        let (mut value, mut transposes) = (operand, Vec::new());
        let dot = loop {
            let Definition::Result(id, _) = func.value(value).definition else { return Ok(None) };
            let op = func.op(id);
            match op.kind() {
                _ if self.uses.get(&value) != Some(&1) => return Ok(None),
                Some(OpKind::Transpose) => {
                    transposes.push(op);
                    value = op.operands[0];
                }
                Some(OpKind::DotGeneral) => break op,
                _ => return Ok(None),
            }
        };
        let (lhs, rhs) = (self.get(dot.operands[0])?, self.get(dot.operands[1])?);
        let shared = lhs.along & rhs.along;
        // An axis that only one side has could be summed there; that is rare.
        if groups & !shared != 0 {
            return Ok(None);
        }
        let mut many = self.matmul(dot, groups)?;
        for op in transposes.into_iter().rev() {
            many = self.transposed(op, many)?;
        }
        Ok(Some(many))
    }

    /// A matmul of what all partitions hold; along `summed` its results are added up.
    pub(super) fn matmul(&mut self, op: &Op, summed: AxisSet) -> Result<Many, Violation> {
        let Some(Attr::Dot(numbers)) = op.attr("dot_dimension_numbers") else {
            return Err(give_up("a matmul without dimensions"));
        };
        let (lhs, rhs) = (self.get(op.operands[0])?, self.get(op.operands[1])?);
        let shared = lhs.along & rhs.along;
        let side = |many: Many, set: AxisSet| -> Vec<i64> {
            let listed = self.axes.list(many.along);
            let has = |axis: &usize| set >> axis & 1 == 1;
            (0..listed.len()).filter(|&n| has(&listed[n])).map(|n| n as i64).collect()
        };
        let join = |many: Many, set: AxisSet, dims: &[i64]| -> Vec<i64> {
            let moved = dims.iter().map(|dim| dim + self.axes.list(many.along).len() as i64);
            side(many, set).into_iter().chain(moved).collect()
        };
        let kept = shared & !summed;
        let new = DotDims {
            lhs_batching: join(lhs, kept, &numbers.lhs_batching),
            rhs_batching: join(rhs, kept, &numbers.rhs_batching),
            lhs_contracting: join(lhs, summed, &numbers.lhs_contracting),
            rhs_contracting: join(rhs, summed, &numbers.rhs_contracting),
        };
        let result = self.tensor(op.first_result)?;
        let free = |rank: usize, batching: &[i64], contracting: &[i64]| rank - batching.len() - contracting.len();
        let lhs_free = free(self.tensor(op.operands[0])?.dims.len(), &numbers.lhs_batching, &numbers.lhs_contracting);
        let batching = numbers.lhs_batching.len();
        // The result: shared axes and batching dimensions, then axes and dimensions of the left side, then of the right.
        let (left, right) = (self.axes.list(lhs.along & !shared), self.axes.list(rhs.along & !shared));
        let front = self.axes.list(kept);
        enum Source {
            Axis(usize),
            Dim(usize),
        }
        let dims_at = |from: usize, to: usize| (from..to).map(Source::Dim);
        let order: Vec<Source> = (front.iter().map(|&axis| Source::Axis(axis)))
            .chain(dims_at(0, batching))
            .chain(left.iter().map(|&axis| Source::Axis(axis)))
            .chain(dims_at(batching, batching + lhs_free))
            .chain(right.iter().map(|&axis| Source::Axis(axis)))
            .chain(dims_at(batching + lhs_free, result.dims.len()))
            .collect();
        let size = |source: &Source| match source {
            Source::Axis(axis) => self.axes.size(*axis),
            Source::Dim(dim) => result.dims[*dim],
        };
        let ty = Type::tensor(order.iter().map(size).collect::<Vec<i64>>(), result.element.clone());
        let mut attrs = op.attrs.clone();
        attrs.set("dot_dimension_numbers", Attr::Dot(Arc::new(new)));
        let product = self.one(OpKind::DotGeneral, &[lhs.value, rhs.value], attrs, ty)?;
        let along = (lhs.along | rhs.along) & !summed;
        let wanted = self.axes.list(along).into_iter().map(Source::Axis).chain(dims_at(0, result.dims.len()));
        let is_same = |a: &Source, b: &Source| match (a, b) {
            (Source::Axis(a), Source::Axis(b)) | (Source::Dim(a), Source::Dim(b)) => a == b,
            _ => false,
        };
        let place = |source: Source| order.iter().position(|other| is_same(other, &source));
        let permutation = wanted.map(place).collect::<Option<Vec<usize>>>();
        let permutation = permutation.ok_or_else(|| give_up("a matmul whose dimensions do not fit"))?;
        Ok(Many { value: self.transpose(product, &permutation)?, along })
    }

    pub(super) fn all_gather(&mut self, op: &Op) -> Result<(), Violation> {
        let groups = self.axes.groups(op, true)?;
        let dim = dimension(op, "all_gather_dim")?;
        for (&operand, result) in op.operands.iter().zip(op.results()) {
            let many = self.get(operand)?;
            let many = Many { value: self.spread(many, groups)?, along: many.along | groups };
            let value = self.gathered(many, groups, dim, &self.tensor(result)?.dims)?;
            self.known.insert(result, Many { value, along: many.along & !groups });
        }
        Ok(())
    }

    /// Leading dimensions of some axes become the major part of a dimension.
    fn gathered(&mut self, many: Many, groups: AxisSet, dim: usize, to: &[i64]) -> Result<Value, Violation> {
        let listed = self.axes.list(many.along);
        let rank = self.dims(many.value)?.len();
        let is_moved = |n: &usize| listed.get(*n).is_some_and(|axis| groups >> axis & 1 == 1);
        let (moved, rest): (Vec<usize>, Vec<usize>) = (0..rank).partition(is_moved);
        let at = rest.iter().position(|&n| n == listed.len() + dim);
        let at = at.ok_or_else(|| give_up("a dimension that is missing"))?;
        let permutation: Vec<usize> = rest[..at].iter().chain(&moved).chain(&rest[at..]).copied().collect();
        let value = self.transpose(many.value, &permutation)?;
        let front = self.axes.sizes(many.along & !groups);
        self.reshape(value, front.into_iter().chain(to.iter().copied()).collect())
    }

    pub(super) fn reduce_scatter(&mut self, op: &Op) -> Result<(), Violation> {
        let groups = self.axes.groups(op, true)?;
        let dim = dimension(op, "scatter_dimension")?;
        for (&operand, result) in op.operands.iter().zip(op.results()) {
            let many = self.reduced(op, operand, groups)?;
            let many = self.scattered(many, groups, dim)?;
            self.fits(many, result)?;
            self.known.insert(result, many);
        }
        Ok(())
    }

    /// The major part of a dimension becomes leading dimensions of some axes, along which the value was the same.
    fn scattered(&mut self, many: Many, groups: AxisSet, dim: usize) -> Result<Many, Violation> {
        let (mut sizes, listed) = (self.dims(many.value)?, self.axes.list(many.along));
        let at = listed.len() + dim;
        let parts = self.axes.sizes(groups);
        let count = self.axes.count(groups);
        if many.along & groups != 0 || sizes.get(at).is_none_or(|size| size % count != 0) {
            return Err(give_up("a dimension that does not split evenly"));
        }
        sizes[at] /= count;
        let rest = sizes.split_off(at);
        let (before, cut) = (sizes.len(), parts.len());
        sizes.extend(parts);
        sizes.extend(&rest);
        let split = self.reshape(many.value, sizes)?;
        let along = many.along | groups;
        let new = self.axes.list(groups);
        let place = |axis: usize| match new.iter().position(|&other| other == axis) {
            Some(n) => before + n,
            None => listed.iter().position(|&other| other == axis).unwrap_or(0),
        };
        let front = self.axes.list(along).into_iter().map(place);
        let behind = (listed.len()..before).chain(before + cut..before + cut + rest.len());
        let permutation: Vec<usize> = front.chain(behind).collect();
        Ok(Many { value: self.transpose(split, &permutation)?, along })
    }

    fn fits(&self, many: Many, result: Value) -> Result<(), Violation> {
        match *self.out.ty(many.value) == self.many_type(&self.tensor(result)?, many.along)? {
            true => Ok(()),
            false => Err(give_up("a collective whose sizes do not fit its groups")),
        }
    }

    /// Who holds a part along the split dimension and who it comes from change places.
    pub(super) fn all_to_all(&mut self, op: &Op) -> Result<(), Violation> {
        let groups = self.axes.groups(op, true)?;
        let (split, join) = (dimension(op, "split_dimension")?, dimension(op, "concat_dimension")?);
        for (&operand, result) in op.operands.iter().zip(op.results()) {
            let many = self.get(operand)?;
            let many = Many { value: self.spread(many, groups)?, along: many.along | groups };
            let (listed, mut sizes) = (self.axes.list(many.along), self.dims(many.value)?);
            let (at, count, parts) = (listed.len() + split, self.axes.count(groups), self.axes.sizes(groups));
            if sizes.get(at).is_none_or(|size| size % count != 0) {
                return Err(give_up("a dimension that does not split evenly"));
            }
            sizes[at] /= count;
            let rest = sizes.split_off(at);
            sizes.extend(&parts);
            sizes.extend(rest);
            let rank = sizes.len();
            let cut = self.reshape(many.value, sizes)?;
            let is_source = |n: &usize| listed.get(*n).is_some_and(|axis| groups >> axis & 1 == 1);
            let sources: Vec<usize> = (0..listed.len()).filter(is_source).collect();
            let mut targets = at..at + parts.len();
            // In front: the new holders along the groups, and the other axes where they were.
            let mut permutation = Vec::with_capacity(rank);
            for n in 0..listed.len() {
                let place = if is_source(&n) { targets.next() } else { Some(n) };
                permutation.push(place.ok_or_else(|| give_up("groups that do not fit"))?);
            }
            let dim_at = |dim: usize| listed.len() + dim + if dim >= split { parts.len() } else { 0 };
            for dim in 0..rank - listed.len() - parts.len() {
                if dim == join {
                    permutation.extend(&sources);
                }
                permutation.push(dim_at(dim));
            }
            let moved = self.transpose(cut, &permutation)?;
            let Type::Tensor(ty) = self.many_type(&self.tensor(result)?, many.along)? else {
                return Err(give_up("a result that is no tensor"));
            };
            let value = self.reshape(moved, ty.dims.clone())?;
            self.known.insert(result, Many { value, along: many.along });
        }
        Ok(())
    }

    /// Partitions take what others hold; those that nobody sends to get zeros.
    pub(super) fn collective_permute(&mut self, op: &Op) -> Result<(), Violation> {
        let pairs = match op.attr("source_target_pairs") {
            Some(Attr::Dense(dense)) => dense.to_i64s(1 << 16),
            _ => None,
        };
        let is_global = matches!(op.attr("channel_handle"), Some(Attr::Channel(channel)) if channel.handle > 0);
        let pairs = pairs.filter(|_| is_global && !self.axes.has_others());
        let pairs = pairs.ok_or_else(|| give_up("an exchange of other partitions than those along manual axes"))?;
        let (all, numbers) = (self.axes.all(), self.axes.partitions());
        let place = |number: i64| numbers.iter().position(|&other| other == number);
        let mut sources: Vec<Option<usize>> = vec![None; numbers.len()];
        for pair in pairs.chunks_exact(2) {
            let (Some(from), Some(to)) = (place(pair[0]), place(pair[1])) else {
                return Err(give_up("an exchange with a partition that is not there"));
            };
            sources[to] = Some(from);
        }
        for (&operand, result) in op.operands.iter().zip(op.results()) {
            let many = self.get(operand)?;
            let spread = self.spread(many, all)?;
            let own = self.tensor(operand)?;
            let sizes = |count: i64| std::iter::once(count).chain(own.dims.iter().copied()).collect::<Vec<i64>>();
            let rows = self.reshape(spread, sizes(numbers.len() as i64))?;
            let mut pieces = Vec::new();
            let mut at = 0;
            while at < sources.len() {
                let follows = |n: usize| match (sources[n - 1], sources[n]) {
                    (Some(before), Some(from)) => from == before + 1,
                    (None, None) => true,
                    _ => false,
                };
                let mut end = at + 1;
                while end < sources.len() && follows(end) {
                    end += 1;
                }
                let count = (end - at) as i64;
                pieces.push(match sources[at] {
                    Some(from) => {
                        let mut starts = vec![0; own.dims.len() + 1];
                        let mut limits = sizes(from as i64 + count);
                        starts[0] = from as i64;
                        limits[0] = from as i64 + count;
                        self.slice(rows, starts, limits)?
                    }
                    None => {
                        let ty = crate::ir::TensorType { dims: sizes(count), ..own.clone() };
                        let bytes = crate::ir::element_bytes(&ty).ok_or_else(|| give_up("zeros of such elements"))?;
                        self.out.splat(ty, &vec![0; bytes])?
                    }
                });
                at = end;
            }
            let joined = self.concatenate(&pieces)?;
            let dims = self.axes.sizes(all).into_iter().chain(own.dims.iter().copied()).collect();
            let value = self.reshape(joined, dims)?;
            self.known.insert(result, Many { value, along: all });
        }
        Ok(())
    }

    /// Arrays one after the other along the first dimension.
    pub(super) fn concatenate(&mut self, pieces: &[Value]) -> Result<Value, Violation> {
        if let &[only] = pieces {
            return Ok(only);
        }
        let mut attrs = Attrs::new();
        attrs.set("dimension", Attr::i64(0));
        self.out.op(OpKind::Concatenate, pieces, attrs)
    }

    pub(super) fn partition_id(&mut self, op: &Op) -> Result<(), Violation> {
        if self.axes.has_others() {
            return Err(give_up("the number of a partition along axes that are not manual"));
        }
        let all = self.axes.all();
        let numbers = self.axes.partitions().into_iter().flat_map(|number| (number as u32).to_le_bytes()).collect();
        let ty = crate::ir::TensorType::new(self.axes.sizes(all), DType::U32);
        let table = Dense::from_elements(ty, numbers).ok_or_else(|| give_up("partitions without numbers"))?;
        let value = self.out.constant(table);
        self.known.insert(op.first_result, Many { value, along: all });
        Ok(())
    }
}

fn dimension(op: &Op, name: &str) -> Result<usize, Violation> {
    let dim = op.attr(name).and_then(Attr::as_int).and_then(|dim| usize::try_from(dim).ok());
    dim.ok_or_else(|| give_up("a collective without a dimension"))
}
