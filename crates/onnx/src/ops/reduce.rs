//! Reductions, and positions of the largest and smallest.

use tensor::DType;
use trace::Tensor;

use super::{Answer, Rules, one};
use crate::call::{Call, all_in_rank, cast, wide};

/// Axes by input or attribute; none means all, or with `noop_with_empty_axes` no axis at all.
fn reduced(call: &Call<'_>, f: impl FnOnce(&Tensor, &[usize]) -> Tensor) -> Answer {
    let x = call.input(0)?;
    let named = call.ints_or(1, "axes")?.unwrap_or_default();
    let axes = match named.is_empty() {
        true if call.attributes.int("noop_with_empty_axes", 0) != 0 => Vec::new(),
        true => (0..x.rank()).collect(),
        false => all_in_rank(&named, x.rank())?,
    };
    let work = cast(x, wide(x.dtype()));
    let mut y = f(&work, &axes);
    if call.attributes.int("keepdims", 1) != 0 {
        let kept = |axis: usize| if axes.contains(&axis) { 1 } else { x.dims()[axis] };
        y = y.reshape(&(0..x.rank()).map(kept).collect::<Vec<_>>());
    }
    one(cast(&y, x.dtype()))
}

fn mean(x: &Tensor, axes: &[usize]) -> Tensor {
    let count: usize = axes.iter().map(|axis| x.dims()[*axis]).product();
    let sum = x.sum(axes);
    let count = Tensor::scalar(sum.dtype(), count as f64);
    sum / count
}

/// Bounded by what is largest, so that nothing overflows.
fn log_sum_exp(x: &Tensor, axes: &[usize]) -> Tensor {
    if axes.is_empty() || axes.iter().any(|axis| x.dims()[*axis] == 0) {
        return x.exp().sum(axes).log();
    }
    let most = x.max(axes);
    let finite = most.is_finite().select(&most, &most.zeros_like());
    let kept: Vec<usize> = (0..x.rank()).filter(|axis| !axes.contains(axis)).collect();
    let shifted = x - &finite.broadcast_along(x.dims(), &kept);
    shifted.exp().sum(axes).log() + finite
}

/// Booleans are ordered too.
fn extreme(x: &Tensor, f: impl FnOnce(&Tensor) -> Tensor) -> Tensor {
    match x.dtype() {
        DType::Bool => f(&x.cast(DType::I32)).greater(&Tensor::scalar(DType::I32, 0.0)),
        _ => f(x),
    }
}

fn arg(call: &Call<'_>, f: impl FnOnce(&Tensor, isize) -> Tensor) -> Answer {
    let x = call.input(0)?;
    let axis = call.axis(0, x.rank())?;
    let takes_last = call.attributes.int("select_last_index", 0) != 0;
    let from = if takes_last { x.reverse(&[axis]) } else { x.clone() };
    let mut at = f(&from, axis as isize).cast(DType::I64);
    if takes_last {
        at = Tensor::scalar(DType::I64, x.dims()[axis] as f64 - 1.0) - at;
    }
    one(if call.attributes.int("keepdims", 1) != 0 { at.expand(axis as isize) } else { at })
}

pub(super) const RULES: Rules = &[
    ("ArgMax", |c| arg(c, Tensor::argmax)),
    ("ArgMin", |c| arg(c, Tensor::argmin)),
    ("ReduceL1", |c| reduced(c, |x, axes| x.abs().sum(axes))),
    ("ReduceL2", |c| {
        reduced(c, |x, axes| {
            let work = if x.dtype().is_float() { x.clone() } else { x.cast(DType::F64) };
            cast(&work.square().sum(axes).sqrt(), x.dtype())
        })
    }),
    ("ReduceLogSum", |c| reduced(c, |x, axes| x.sum(axes).log())),
    ("ReduceLogSumExp", |c| reduced(c, log_sum_exp)),
    ("ReduceMax", |c| reduced(c, |x, axes| extreme(x, |x| x.max(axes)))),
    ("ReduceMean", |c| reduced(c, mean)),
    ("ReduceMin", |c| reduced(c, |x, axes| extreme(x, |x| x.min(axes)))),
    ("ReduceProd", |c| reduced(c, |x, axes| x.product(axes))),
    ("ReduceSum", |c| reduced(c, |x, axes| x.sum(axes))),
    ("ReduceSumSquare", |c| reduced(c, |x, axes| x.square().sum(axes))),
];
