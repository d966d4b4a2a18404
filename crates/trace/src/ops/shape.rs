//! Operations that move elements without changing them: reshape, transpose, broadcast, slice, pad, join.

use std::panic::Location;

use hlo::{Attr, Attrs, OpKind};

use crate::Spec;
use crate::error::misuse;
use crate::line;
use crate::ops::lane::Lane;
use crate::ops::{attrs, i64s, op, op_as};
use crate::tensor::Tensor;

impl Tensor {
    /// The same elements in another shape.
    #[track_caller]
    #[must_use]
    pub fn reshape(&self, dims: &[usize]) -> Tensor {
        if dims == self.dims() {
            return self.clone();
        }
        if dims.iter().try_fold(1usize, |count, &size| count.checked_mul(size)) != Some(self.num_elements()) {
            misuse(
                Location::caller(),
                format!("{} has {} elements, which cannot be reshaped to {dims:?}", self.spec(), self.num_elements()),
            );
        }
        op_as(OpKind::Reshape, &[self], Attrs::new(), Spec::new(self.dtype(), dims))
    }

    /// Axes in another order: axis `i` of the result is axis `order[i]` of this.
    #[track_caller]
    #[must_use]
    pub fn transpose(&self, order: &[usize]) -> Tensor {
        if order.iter().copied().eq(0..self.rank()) {
            return self.clone();
        }
        op(OpKind::Transpose, &[self], attrs([("permutation", i64s(order))]))
    }

    /// Two axes exchanged.
    #[track_caller]
    #[must_use]
    pub fn swap_axes(&self, one: isize, other: isize) -> Tensor {
        let mut order: Vec<usize> = (0..self.rank()).collect();
        order.swap(self.axis(one), self.axis(other));
        self.transpose(&order)
    }

    /// An axis moved to another place.
    #[track_caller]
    #[must_use]
    pub fn move_axis(&self, from: isize, to: isize) -> Tensor {
        let (from, to) = (self.axis(from), self.axis(to));
        let mut order: Vec<usize> = (0..self.rank()).filter(|&axis| axis != from).collect();
        order.insert(to, from);
        self.transpose(&order)
    }

    /// In a larger shape: axis `i` of this becomes axis `along[i]` of the result; sizes are equal or 1.
    #[track_caller]
    #[must_use]
    pub fn broadcast_along(&self, dims: &[usize], along: &[usize]) -> Tensor {
        let attrs = attrs([("broadcast_dimensions", i64s(along))]);
        op_as(OpKind::BroadcastInDim, &[self], attrs, Spec::new(self.dtype(), dims))
    }

    /// In a larger shape, matched from the last axis on; axes of size 1 are repeated.
    #[track_caller]
    #[must_use]
    pub fn broadcast_to(&self, dims: &[usize]) -> Tensor {
        if dims == self.dims() {
            return self.clone();
        }
        let Some(skipped) = dims.len().checked_sub(self.rank()) else {
            misuse(Location::caller(), format!("{} has more axes than {dims:?}", self.spec()));
        };
        let along: Vec<usize> = (skipped..dims.len()).collect();
        self.broadcast_along(dims, &along)
    }

    /// With an axis of size 1 put in.
    #[track_caller]
    #[must_use]
    pub fn expand(&self, axis: isize) -> Tensor {
        let rank = self.rank() + 1;
        let at = if axis < 0 { axis.checked_add_unsigned(rank) } else { Some(axis) };
        let Some(at) = at.and_then(|at| usize::try_from(at).ok()).filter(|&at| at < rank) else {
            misuse(Location::caller(), format!("axis {axis} cannot be put into {}", self.spec()));
        };
        let mut dims = self.dims().to_vec();
        dims.insert(at, 1);
        self.reshape(&dims)
    }

    /// Without an axis of size 1.
    #[track_caller]
    #[must_use]
    pub fn squeeze(&self, axis: isize) -> Tensor {
        let axis = self.axis(axis);
        let mut dims = self.dims().to_vec();
        if dims.remove(axis) != 1 {
            misuse(Location::caller(), format!("axis {axis} of {} is not of size 1", self.spec()));
        }
        self.reshape(&dims)
    }

    /// Everything of the axes, from start to limit with a stride, one triple an axis.
    #[track_caller]
    #[must_use]
    pub fn slice_all(&self, starts: &[usize], limits: &[usize], strides: &[usize]) -> Tensor {
        let attrs =
            attrs([("start_indices", i64s(starts)), ("limit_indices", i64s(limits)), ("strides", i64s(strides))]);
        op(OpKind::Slice, &[self], attrs)
    }

    /// A range of one axis.
    #[track_caller]
    #[must_use]
    pub fn slice(&self, axis: isize, range: std::ops::Range<usize>) -> Tensor {
        self.slice_by(axis, range, 1)
    }

    /// A range of one axis, every `stride`-th.
    #[track_caller]
    #[must_use]
    pub fn slice_by(&self, axis: isize, range: std::ops::Range<usize>, stride: usize) -> Tensor {
        let axis = self.axis(axis);
        let (mut starts, mut limits) = (vec![0; self.rank()], self.dims().to_vec());
        let mut strides = vec![1; self.rank()];
        if range.start > range.end || range.end > limits[axis] {
            misuse(Location::caller(), format!("{range:?} of axis {axis} of {}", self.spec()));
        }
        (starts[axis], limits[axis], strides[axis]) = (range.start, range.end, stride);
        if stride == 1 && limits == self.dims() && starts[axis] == 0 {
            return self.clone();
        }
        self.slice_all(&starts, &limits, &strides)
    }

    /// One position of an axis, which is dropped.
    #[track_caller]
    #[must_use]
    pub fn at(&self, axis: isize, position: usize) -> Tensor {
        let axis = self.axis(axis) as isize;
        self.slice(axis, position..position.saturating_add(1)).squeeze(axis)
    }

    /// Equal parts along an axis.
    #[track_caller]
    #[must_use]
    pub fn split(&self, axis: isize, parts: usize) -> Vec<Tensor> {
        let _line = line::of(Location::caller());
        let size = self.dim(axis);
        if parts == 0 || !size.is_multiple_of(parts) {
            misuse(Location::caller(), format!("axis {axis} of {} in {parts} equal parts", self.spec()));
        }
        let each = size / parts;
        (0..parts).map(|n| self.slice(axis, n * each..(n + 1) * each)).collect()
    }

    /// Padded with a scalar: before, after and between elements of each axis; negative amounts cut.
    #[track_caller]
    #[must_use]
    pub fn pad_all(&self, value: &Tensor, low: &[i64], high: &[i64], interior: &[i64]) -> Tensor {
        let attrs = attrs([
            ("edge_padding_low", Attr::i64s(low)),
            ("edge_padding_high", Attr::i64s(high)),
            ("interior_padding", Attr::i64s(interior)),
        ]);
        op(OpKind::Pad, &[self, value], attrs)
    }

    /// Padded with zeros before and after one axis.
    #[track_caller]
    #[must_use]
    pub fn pad(&self, axis: isize, before: usize, after: usize) -> Tensor {
        let axis = self.axis(axis);
        let (mut low, mut high) = (vec![0; self.rank()], vec![0; self.rank()]);
        (low[axis], high[axis]) = (before as i64, after as i64);
        self.pad_all(&self.scalar_like(0.0), &low, &high, &vec![0; self.rank()])
    }

    /// Joined along an axis.
    #[track_caller]
    #[must_use]
    pub fn concat(parts: &[Tensor], axis: isize) -> Tensor {
        match parts {
            [] => misuse(Location::caller(), "nothing to join"),
            [only] => only.clone(),
            [first, ..] => {
                let attrs = attrs([("dimension", Attr::i64(first.axis(axis) as i64))]);
                op(OpKind::Concatenate, &parts.iter().collect::<Vec<_>>(), attrs)
            }
        }
    }

    /// Joined along a new axis.
    #[track_caller]
    #[must_use]
    pub fn stack(parts: &[Tensor], axis: isize) -> Tensor {
        let _line = line::of(Location::caller());
        let parts: Vec<Tensor> = parts.iter().map(|part| part.expand(axis)).collect();
        Tensor::concat(&parts, axis)
    }

    /// Reversed along axes.
    #[track_caller]
    #[must_use]
    pub fn reverse(&self, axes: &[usize]) -> Tensor {
        op(OpKind::Reverse, &[self], attrs([("dimensions", i64s(axes))]))
    }

    /// Where row (axis -2) plus `offset` is at least column (axis -1): the lower triangle; zero elsewhere.
    #[track_caller]
    #[must_use]
    pub fn lower_triangle(&self, offset: i64) -> Tensor {
        let dims = [self.dim(-2), self.dim(-1)];
        let row = &Tensor::iota(tensor::DType::I32, &dims, 0) + offset as f64;
        let mask = row.greater_equal(&Tensor::iota(tensor::DType::I32, &dims, 1));
        mask.select(self, &self.scalar_like(0.0))
    }
}

/// Sizes of an attribute.
pub(crate) fn sizes(attrs: &Attrs, name: &str) -> Vec<i64> {
    attrs.get(name).and_then(Attr::as_i64s).unwrap_or_default().to_vec()
}

/// Axes or sizes of an attribute, which are not negative.
pub(crate) fn usizes(attrs: &Attrs, name: &str) -> Vec<usize> {
    sizes(attrs, name).into_iter().map(|value| usize::try_from(value).unwrap_or(0)).collect()
}

/// The cotangent of operand `n` of an op that moves elements.
pub(crate) fn transposed(kind: OpKind, attrs: &Attrs, ins: &[Tensor], n: usize, ct: &Tensor) -> Option<Tensor> {
    let x = ins.get(n)?;
    Some(match kind {
        OpKind::Reshape => ct.reshape(x.dims()),
        OpKind::Transpose => {
            let order = usizes(attrs, "permutation");
            let mut inverse = vec![0; order.len()];
            for (to, &from) in order.iter().enumerate() {
                inverse[from] = to;
            }
            ct.transpose(&inverse)
        }
        OpKind::BroadcastInDim => {
            let along = usizes(attrs, "broadcast_dimensions");
            let is_kept =
                |axis: &usize| along.iter().position(|a| a == axis).is_some_and(|i| x.dims()[i] == ct.dims()[*axis]);
            let summed: Vec<usize> = (0..ct.rank()).filter(|axis| !is_kept(axis)).collect();
            // `along` may be in any order: what is left is in the order of the result's axes.
            let sum = ct.sum(&summed);
            let left: Vec<usize> = (0..ct.rank()).filter(is_kept).collect();
            let order: Vec<usize> = along.iter().filter_map(|axis| left.iter().position(|have| have == axis)).collect();
            sum.transpose(&order).reshape(x.dims())
        }
        OpKind::Slice => {
            let (starts, strides) = (sizes(attrs, "start_indices"), sizes(attrs, "strides"));
            let high: Vec<i64> = (0..x.rank())
                .map(|d| {
                    let covered = if ct.dims()[d] == 0 { 0 } else { (ct.dims()[d] as i64 - 1) * strides[d] + 1 };
                    x.dims()[d] as i64 - starts[d] - covered
                })
                .collect();
            let interior: Vec<i64> = strides.iter().map(|stride| stride - 1).collect();
            ct.pad_all(&ct.scalar_like(0.0), &starts, &high, &interior)
        }
        OpKind::Pad => {
            let low = sizes(attrs, "edge_padding_low");
            let (high, interior) = (sizes(attrs, "edge_padding_high"), sizes(attrs, "interior_padding"));
            let negated = |values: &[i64]| values.iter().map(|value| -value).collect::<Vec<_>>();
            let cut = ct.pad_all(&ct.scalar_like(0.0), &negated(&low), &negated(&high), &vec![0; ct.rank()]);
            let strides: Vec<usize> = interior.iter().map(|&between| between as usize + 1).collect();
            let inner = if strides.iter().all(|&stride| stride == 1) {
                cut
            } else {
                cut.slice_all(&vec![0; cut.rank()], cut.dims(), &strides)
            };
            if n == 0 {
                inner
            } else {
                // What is left without the elements of the operand; a difference of two sums would round away.
                (ct - &inner.pad_all(&ct.scalar_like(0.0), &low, &high, &interior)).sum_all()
            }
        }
        OpKind::Concatenate => {
            let axis = attrs.get("dimension").and_then(Attr::as_int).unwrap_or(0) as usize;
            let start: usize = ins[..n].iter().map(|part| part.dims()[axis]).sum();
            ct.slice(axis as isize, start..start + x.dims()[axis])
        }
        OpKind::Reverse => ct.reverse(&usizes(attrs, "dimensions")),
        OpKind::Convert => ct.cast(x.dtype()),
        // As JAX: the gradient is rounded too.
        OpKind::ReducePrecision => op(kind, &[ct], attrs.clone()),
        _ => return None,
    })
}

/// Attributes of an op that moves elements, with the axis of a batch in front.
pub(crate) fn batched(kind: OpKind, attrs: &Attrs, size: usize) -> Attrs {
    let mut attrs = attrs.clone();
    let mut lead = |name: &'static str, first: i64| {
        let values: Vec<i64> = std::iter::once(first).chain(sizes(&attrs, name)).collect();
        attrs.set(name, Attr::i64s(values));
    };
    match kind {
        OpKind::Slice => {
            lead("start_indices", 0);
            lead("limit_indices", size as i64);
            lead("strides", 1);
        }
        OpKind::Pad => {
            lead("edge_padding_low", 0);
            lead("edge_padding_high", 0);
            lead("interior_padding", 0);
        }
        OpKind::Transpose => shift_axes(&mut attrs, "permutation", Shift::Leading),
        OpKind::BroadcastInDim => shift_axes(&mut attrs, "broadcast_dimensions", Shift::Leading),
        OpKind::Reverse => shift_axes(&mut attrs, "dimensions", Shift::Only),
        OpKind::Concatenate => {
            let axis = attrs.get("dimension").and_then(Attr::as_int).unwrap_or(0);
            attrs.set("dimension", Attr::i64(axis + 1));
        }
        _ => {}
    }
    attrs
}

/// Whether the axis of the batch is itself one of the axes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shift {
    /// It comes first.
    Leading,
    /// It is none of them.
    Only,
}

/// Axes of an attribute, one further for the axis of a batch.
pub(crate) fn shift_axes(attrs: &mut Attrs, name: &'static str, shift: Shift) {
    let first = if shift == Shift::Leading { Some(0) } else { None };
    let axes: Vec<i64> = first.into_iter().chain(sizes(attrs, name).iter().map(|axis| axis + 1)).collect();
    attrs.set(name, Attr::i64s(axes));
}

/// Padding with a value of each example.
pub(crate) fn batched_pad(attrs: &Attrs, ins: &[Lane], size: usize) -> Tensor {
    let attrs = batched(OpKind::Pad, attrs, size);
    let lists = ["edge_padding_low", "edge_padding_high", "interior_padding"].map(|name| sizes(&attrs, name));
    let x = ins[0].spread(size);
    let pad = |tensor: &Tensor, value: f64| tensor.pad_all(&tensor.scalar_like(value), &lists[0], &lists[1], &lists[2]);
    let padded = pad(&x, 0.0);
    let mark = pad(&Tensor::zeros(tensor::DType::I32, x.dims()), 1.0);
    let value = ins[1].tensor.broadcast_along(padded.dims(), &[0]);
    mark.equals(&mark.zeros_like()).select(&padded, &value)
}
