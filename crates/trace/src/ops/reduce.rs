//! Reductions along axes, and means.

use std::panic::Location;

use hlo::{Attrs, OpKind};
use tensor::DType;

use crate::graph::{Combine, Prim};
use crate::ops::shape::{Shift, shift_axes};
use crate::ops::{attrs, i64s, only, write};
use crate::stack;
use crate::tensor::Tensor;

/// The element a reduction starts from.
#[track_caller]
fn identity(combine: Combine, dtype: DType) -> Tensor {
    let value = match combine {
        Combine::Multiply | Combine::And => 1.0,
        Combine::Maximum | Combine::ArgMaximum if dtype.is_float() => f64::NEG_INFINITY,
        Combine::Minimum | Combine::ArgMinimum if dtype.is_float() => f64::INFINITY,
        Combine::Maximum | Combine::ArgMaximum => return Tensor::extreme(dtype, Extreme::Least),
        Combine::Minimum | Combine::ArgMinimum => return Tensor::extreme(dtype, Extreme::Greatest),
        _ => 0.0,
    };
    if combine == Combine::And && dtype != DType::Bool {
        return Tensor::scalar(dtype, 0.0).not();
    }
    Tensor::scalar(dtype, value)
}

/// An end of an integer type.
#[derive(Clone, Copy)]
enum Extreme {
    Least,
    Greatest,
}

impl Tensor {
    fn extreme(dtype: DType, extreme: Extreme) -> Tensor {
        let bits = dtype.bits();
        let is_signed = dtype.is_signed_integer();
        let ones = if bits >= 64 { u64::MAX } else { (1u64 << bits) - 1 };
        let value: u64 = match (extreme, is_signed) {
            (Extreme::Least, false) => 0,
            (Extreme::Greatest, false) => ones,
            (Extreme::Least, true) => !(ones >> 1),
            (Extreme::Greatest, true) => ones >> 1,
        };
        let bytes = value.to_le_bytes()[..dtype.size_bytes().min(8)].to_vec();
        match tensor::Literal::new(dtype, [], bytes) {
            Some(literal) => Tensor::constant(&literal),
            None => Tensor::scalar(dtype, 0.0),
        }
    }

    #[track_caller]
    pub(crate) fn reduce(&self, combine: Combine, axes: &[usize]) -> Tensor {
        if axes.is_empty() {
            return self.clone();
        }
        let init = identity(combine, self.dtype());
        let mut axes = axes.to_vec();
        axes.sort_unstable();
        only(write((OpKind::Reduce, attrs([("dimensions", i64s(&axes))]), Some(combine)), &[self, &init], None))
    }

    /// Sum along axes, which are dropped.
    #[track_caller]
    #[must_use]
    pub fn sum(&self, axes: &[usize]) -> Tensor {
        self.reduce(Combine::Add, axes)
    }

    /// Sum of everything.
    #[track_caller]
    #[must_use]
    pub fn sum_all(&self) -> Tensor {
        self.sum(&(0..self.rank()).collect::<Vec<_>>())
    }

    /// Product along axes.
    #[track_caller]
    #[must_use]
    pub fn product(&self, axes: &[usize]) -> Tensor {
        self.reduce(Combine::Multiply, axes)
    }

    /// Largest along axes.
    #[track_caller]
    #[must_use]
    pub fn max(&self, axes: &[usize]) -> Tensor {
        self.reduce(Combine::Maximum, axes)
    }

    /// Smallest along axes.
    #[track_caller]
    #[must_use]
    pub fn min(&self, axes: &[usize]) -> Tensor {
        self.reduce(Combine::Minimum, axes)
    }

    /// Whether all are true.
    #[track_caller]
    #[must_use]
    pub fn all(&self, axes: &[usize]) -> Tensor {
        self.reduce(Combine::And, axes)
    }

    /// Whether one is true.
    #[track_caller]
    #[must_use]
    pub fn any(&self, axes: &[usize]) -> Tensor {
        self.reduce(Combine::Or, axes)
    }

    /// Mean along axes.
    #[track_caller]
    #[must_use]
    pub fn mean(&self, axes: &[usize]) -> Tensor {
        let count: usize = axes.iter().map(|&axis| self.dim(axis as isize)).product();
        &self.sum(axes) / (count as f64)
    }

    /// Mean of everything.
    #[track_caller]
    #[must_use]
    pub fn mean_all(&self) -> Tensor {
        self.mean(&(0..self.rank()).collect::<Vec<_>>())
    }

    /// Position of the largest along an axis, as `i32`; the first of equals.
    #[track_caller]
    #[must_use]
    pub fn argmax(&self, axis: isize) -> Tensor {
        self.extreme_position(axis, Combine::ArgMaximum)
    }

    /// Position of the smallest along an axis, as `i32`; the first of equals.
    #[track_caller]
    #[must_use]
    pub fn argmin(&self, axis: isize) -> Tensor {
        self.extreme_position(axis, Combine::ArgMinimum)
    }

    #[track_caller]
    fn extreme_position(&self, axis: isize, combine: Combine) -> Tensor {
        let axis = self.axis(axis);
        let positions = Tensor::iota(DType::I32, self.dims(), axis);
        let (worst, first) = (identity(combine, self.dtype()), Tensor::scalar(DType::I32, 0.0));
        let attrs = attrs([("dimensions", i64s(&[axis]))]);
        let mut results = write((OpKind::Reduce, attrs, Some(combine)), &[self, &positions, &worst, &first], None);
        only(results.split_off(1))
    }

    /// The value, through which no gradient passes.
    #[track_caller]
    #[must_use]
    pub fn stop_gradient(&self) -> Tensor {
        only(stack::push(Prim::Stop, &[self], vec![self.spec().clone()], Location::caller()))
    }
}

/// The cotangent of the operand of a reduction.
pub(crate) fn transposed(combine: Combine, attrs: &Attrs, x: &Tensor, out: &Tensor, ct: &Tensor) -> Option<Tensor> {
    let axes = crate::ops::shape::usizes(attrs, "dimensions");
    let kept: Vec<usize> = (0..x.rank()).filter(|axis| !axes.contains(axis)).collect();
    let back = |tensor: &Tensor| tensor.broadcast_along(x.dims(), &kept);
    Some(match combine {
        Combine::Add => back(ct),
        Combine::Maximum | Combine::Minimum => {
            // Equal extremes share the gradient.
            let is_extreme = x.equals(&back(out)).cast(x.dtype());
            let count = is_extreme.sum(&axes);
            &is_extreme * &back(&(ct / &count))
        }
        Combine::Multiply => {
            // The product of the others, exact also where elements are zero: products before and after along one axis.
            let mut order = kept.clone();
            order.extend(&axes);
            let count: usize = axes.iter().map(|&axis| x.dims()[axis]).product();
            let mut dims: Vec<usize> = kept.iter().map(|&axis| x.dims()[axis]).collect();
            dims.push(count);
            let flat = x.transpose(&order).reshape(&dims);
            let last = dims.len() as isize - 1;
            let shift_in_ones = |from: &Tensor| {
                let one = x.scalar_like(1.0);
                let (mut low, mut high) = (vec![0; dims.len()], vec![0; dims.len()]);
                (low[last as usize], high[last as usize]) = (1, -1);
                from.pad_all(&one, &low, &high, &vec![0; dims.len()])
            };
            let before = shift_in_ones(&flat.cumulative_product(last));
            let reversed = flat.reverse(&[last as usize]);
            let after = shift_in_ones(&reversed.cumulative_product(last)).reverse(&[last as usize]);
            let others = &before * &after;
            let flat_ct = &others * &ct.expand(-1).broadcast_to(&dims);
            let moved: Vec<usize> = order.iter().map(|&axis| x.dims()[axis]).collect();
            let mut inverse = vec![0; order.len()];
            for (to, &from) in order.iter().enumerate() {
                inverse[from] = to;
            }
            flat_ct.reshape(&moved).transpose(&inverse)
        }
        _ => return None,
    })
}

/// Attributes of a reduction with the axis of a batch in front.
pub(crate) fn batched(attrs: &Attrs) -> Attrs {
    let mut attrs = attrs.clone();
    shift_axes(&mut attrs, "dimensions", Shift::Only);
    attrs
}
