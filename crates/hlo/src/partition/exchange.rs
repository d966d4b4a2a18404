//! What partitions exchange when one of them needs another part of a tensor than it holds.

use std::sync::Arc;

use tensor::DType;

use super::digits::{Digit, Held, beyond, common, ordered, overlap, parts};
use super::{Partitioner, give_up};
use crate::ir::dims::ChannelHandle;
use crate::ir::{Attr, Attrs, Dense, Keyword, OpKind, Region, TensorType, Type, Value};
use crate::ops::Violation;

impl Partitioner<'_> {
    /// From what is held of a tensor to what is wanted of it.
    pub(super) fn exchange(&mut self, mut value: Value, from: &Held, to: &Held) -> Result<Value, Violation> {
        let mut held = from.clone();
        let cut = || give_up("axes that are cut at places that do not fit");
        let mut summed = beyond(&held.unreduced, &to.unreduced).ok_or_else(cut)?;
        if !summed.is_empty() {
            // What is split further along the digits of the sum is scattered at once.
            for dim in 0..held.dims.len() {
                let (_, more, wanted) = common(&held.dims[dim], &to.dims[dim]);
                let left = beyond(&summed, &wanted).ok_or_else(cut)?;
                let scatters = more.is_empty() && !wanted.is_empty() && parts(&left) * parts(&wanted) == parts(&summed);
                if scatters && self.size(value, dim)? % parts(&wanted) == 0 {
                    value = self.reduce_scatter(value, dim, &wanted)?;
                    held.dims[dim] = to.dims[dim].clone();
                    summed = left;
                }
            }
            if !summed.is_empty() {
                let element = self.tensor(value)?.element;
                let region = self.fold(OpKind::Add, &element)?;
                value = self.all_reduce(value, &summed, region)?;
            }
            held.unreduced =
                beyond(&held.unreduced, &beyond(&held.unreduced, &to.unreduced).ok_or_else(cut)?).ok_or_else(cut)?;
        }
        let mut added = beyond(&to.unreduced, &held.unreduced).ok_or_else(cut)?;
        for dim in 0..held.dims.len() {
            // A part along digits of the sum becomes a summand: zeros everywhere else.
            let (shared, more, wanted) = common(&held.dims[dim], &to.dims[dim]);
            let left = beyond(&added, &more).ok_or_else(cut)?;
            if !more.is_empty() && wanted.is_empty() && parts(&left) * parts(&more) == parts(&added) {
                value = self.spread(value, dim, &more)?;
                held.dims[dim] = shared;
                added = left;
            }
        }
        value = self.move_dims(value, &mut held, to)?;
        if !added.is_empty() {
            value = self.first_only(value, &added)?;
        }
        Ok(value)
    }

    /// Gathers, exchanges and slices until the dimensions are split as wanted.
    fn move_dims(&mut self, mut value: Value, held: &mut Held, to: &Held) -> Result<Value, Violation> {
        let rank = held.dims.len();
        for dim in 0..rank {
            let (shared, more, _) = common(&held.dims[dim], &to.dims[dim]);
            let takes = |other: &usize| {
                let (_, rest, wanted) = common(&held.dims[*other], &to.dims[*other]);
                *other != dim && rest.is_empty() && wanted == more
            };
            let Some(other) = (0..rank).find(takes).filter(|_| !more.is_empty()) else { continue };
            if self.size(value, other)? % parts(&more) == 0 {
                value = self.all_to_all(value, other, dim, &more)?;
                held.dims[other] = to.dims[other].clone();
                held.dims[dim] = shared;
            }
        }
        let moved: Vec<Digit> =
            (0..rank).flat_map(|dim| common(&held.dims[dim], &to.dims[dim]).1).chain(held.unreduced.clone()).collect();
        let slices = |held: &Held, is_free: &dyn Fn(&[Digit]) -> bool| -> Vec<(usize, Vec<Digit>)> {
            let rest = |dim: usize| common(&held.dims[dim], &to.dims[dim]);
            let one = |dim: usize| {
                let (_, more, wanted) = rest(dim);
                (more.is_empty() && !wanted.is_empty() && is_free(&wanted)).then_some((dim, wanted))
            };
            (0..held.dims.len()).filter_map(one).collect()
        };
        // Slices first: less is gathered. Digits that are still used elsewhere wait.
        let first = slices(held, &|wanted| !overlap(wanted, &moved));
        value = self.own_part(value, &first)?;
        first.iter().for_each(|(dim, _)| held.dims[*dim] = to.dims[*dim].clone());
        for dim in 0..rank {
            let (shared, more, _) = common(&held.dims[dim], &to.dims[dim]);
            if !more.is_empty() {
                value = self.all_gather(value, dim, &more)?;
                held.dims[dim] = shared;
            }
        }
        let last = slices(held, &|_| true);
        value = self.own_part(value, &last)?;
        last.iter().for_each(|(dim, _)| held.dims[*dim] = to.dims[*dim].clone());
        Ok(value)
    }

    pub(super) fn tensor(&self, value: Value) -> Result<TensorType, Violation> {
        self.out.ty(value).as_tensor().cloned().ok_or_else(|| give_up("a value that is no tensor"))
    }

    fn size(&self, value: Value, dim: usize) -> Result<i64, Violation> {
        self.tensor(value)?.dims.get(dim).copied().ok_or_else(|| give_up("a dimension that is missing"))
    }

    /// Partitions that differ in some digits only, in the order of these digits, major first.
    fn groups(&self, digits: &[Digit]) -> Result<Dense, Violation> {
        let size = parts(digits);
        let offset = |mut n: i64| {
            let mut at = 0;
            for digit in digits.iter().rev() {
                at += n % digit.size * digit.stride;
                n /= digit.size;
            }
            at
        };
        let is_first = |p: &i64| digits.iter().all(|digit| p / digit.stride % digit.size == 0);
        let first: Vec<i64> = (0..self.count).filter(is_first).collect();
        let members = first.iter().flat_map(|&p| (0..size).map(move |n| p + offset(n)));
        integers(vec![first.len() as i64, size], members)
    }

    fn meeting(&mut self, digits: &[Digit]) -> Result<Attrs, Violation> {
        self.channel += 1;
        let mut attrs = Attrs::new();
        attrs.set("replica_groups", Attr::Dense(Arc::new(self.groups(digits)?)));
        attrs.set("channel_handle", Attr::Channel(ChannelHandle { handle: self.channel, kind: 1 }));
        Ok(attrs)
    }

    /// The region that combines two numbers.
    pub(super) fn fold(&mut self, kind: OpKind, element: &crate::ir::ElementType) -> Result<Region, Violation> {
        let scalar = Type::scalar(element.clone());
        self.out.region(&[scalar.clone(), scalar], |out, args| Ok(vec![out.op(kind, args, Attrs::new())?]))
    }

    pub(super) fn all_reduce(&mut self, value: Value, digits: &[Digit], region: Region) -> Result<Value, Violation> {
        let mut attrs = self.meeting(digits)?;
        attrs.set("use_global_device_ids", Attr::Unit);
        let ty = self.out.ty(value).clone();
        self.one(OpKind::AllReduce, &[value], attrs, &[region], ty)
    }

    fn reduce_scatter(&mut self, value: Value, dim: usize, digits: &[Digit]) -> Result<Value, Violation> {
        let mut ty = self.tensor(value)?;
        let region = self.fold(OpKind::Add, &ty.element)?;
        let mut attrs = self.meeting(digits)?;
        attrs.set("use_global_device_ids", Attr::Unit);
        attrs.set("scatter_dimension", Attr::i64(dim as i64));
        ty.dims[dim] /= parts(digits);
        self.one(OpKind::ReduceScatter, &[value], attrs, &[region], ty.into())
    }

    fn all_gather(&mut self, value: Value, dim: usize, digits: &[Digit]) -> Result<Value, Violation> {
        let mut ty = self.tensor(value)?;
        let mut attrs = self.meeting(digits)?;
        attrs.set("use_global_device_ids", Attr::Unit);
        attrs.set("all_gather_dim", Attr::i64(dim as i64));
        let size = ty.dims[dim].checked_mul(parts(digits));
        ty.dims[dim] = size.ok_or_else(|| give_up("a dimension that is too large"))?;
        self.one(OpKind::AllGather, &[value], attrs, &[], ty.into())
    }

    fn all_to_all(&mut self, value: Value, split: usize, join: usize, digits: &[Digit]) -> Result<Value, Violation> {
        let mut ty = self.tensor(value)?;
        let count = parts(digits);
        let mut attrs = self.meeting(digits)?;
        attrs.set("split_dimension", Attr::i64(split as i64));
        attrs.set("concat_dimension", Attr::i64(join as i64));
        attrs.set("split_count", Attr::i64(count));
        ty.dims[split] /= count;
        ty.dims[join] = ty.dims[join].checked_mul(count).ok_or_else(|| give_up("a dimension that is too large"))?;
        self.one(OpKind::AllToAll, &[value], attrs, &[], ty.into())
    }

    /// A number that each partition has its own of.
    pub(super) fn own_number(&mut self, of: impl Fn(i64) -> i64) -> Result<Value, Violation> {
        let table = integers(vec![self.count], (0..self.count).map(of))?;
        let table = self.out.constant(table);
        let mut attrs = Attrs::new();
        attrs.set("slice_sizes", Attr::i64s([1]));
        let number = self.out.op(OpKind::DynamicSlice, &[table, self.partition], attrs)?;
        self.one(OpKind::Reshape, &[number], Attrs::new(), &[], Type::scalar(DType::I64))
    }

    fn own_part(&mut self, value: Value, along: &[(usize, Vec<Digit>)]) -> Result<Value, Violation> {
        if along.is_empty() {
            return Ok(value);
        }
        let mut sizes = self.tensor(value)?.dims;
        for (dim, digits) in along {
            if sizes[*dim] % parts(digits) != 0 {
                return Err(give_up("a dimension that does not split evenly"));
            }
            sizes[*dim] /= parts(digits);
        }
        let mut operands = vec![value];
        let zero = self.out.i64(0);
        for (dim, &size) in sizes.iter().enumerate() {
            let digits = along.iter().find(|(other, _)| *other == dim).map(|(_, digits)| digits.clone());
            operands.push(match digits {
                Some(digits) => self.own_number(|partition| place(&digits, partition) * size)?,
                None => zero,
            });
        }
        let mut attrs = Attrs::new();
        attrs.set("slice_sizes", Attr::i64s(sizes));
        self.out.op(OpKind::DynamicSlice, &operands, attrs)
    }

    /// A part at its place among zeros.
    fn spread(&mut self, value: Value, dim: usize, digits: &[Digit]) -> Result<Value, Violation> {
        let part = self.tensor(value)?;
        let mut whole = part.clone();
        let size = whole.dims[dim].checked_mul(parts(digits));
        whole.dims[dim] = size.ok_or_else(|| give_up("a dimension that is too large"))?;
        let zeros = self.zeros(whole)?;
        let mut operands = vec![zeros, value];
        for other in 0..part.dims.len() {
            let size = part.dims[dim];
            operands.push(match other == dim {
                true => self.own_number(|partition| place(digits, partition) * size)?,
                false => self.out.i64(0),
            });
        }
        self.out.op(OpKind::DynamicUpdateSlice, &operands, Attrs::new())
    }

    /// The value in the first partition along some digits, zeros in the others.
    fn first_only(&mut self, value: Value, digits: &[Digit]) -> Result<Value, Violation> {
        let digits = ordered(digits.to_vec());
        let number = self.own_number(|partition| place(&digits, partition))?;
        let zero = self.out.i64(0);
        let mut attrs = Attrs::new();
        attrs.set("comparison_direction", Attr::Keyword(Keyword::Eq));
        let is_first = self.out.op(OpKind::Compare, &[number, zero], attrs)?;
        let ty = self.tensor(value)?;
        let zeros = self.zeros(ty)?;
        self.out.op(OpKind::Select, &[is_first, value, zeros], Attrs::new())
    }

    fn zeros(&mut self, ty: TensorType) -> Result<Value, Violation> {
        let bytes = crate::ir::element_bytes(&ty).ok_or_else(|| give_up("an element type without bytes"))?;
        self.out.splat(ty, &vec![0; bytes])
    }
}

/// Which part a partition has along some digits.
pub(super) fn place(digits: &[Digit], partition: i64) -> i64 {
    digits.iter().fold(0, |n, digit| n * digit.size + partition / digit.stride % digit.size)
}

fn integers(dims: Vec<i64>, values: impl Iterator<Item = i64>) -> Result<Dense, Violation> {
    Dense::from_elements(TensorType::new(dims, DType::I64), values.flat_map(i64::to_le_bytes).collect())
        .ok_or_else(|| give_up("a list of another length than its type"))
}
