//! Reductions, scans along an axis, softmax.

use tensor::DType;
use trace::Tensor;

use crate::error::Error;
use crate::translate::call::{Call, Value, positive};
use crate::translate::run::Rules;
use crate::translate::types::{cast, wide};

type Answer = Result<Value, Error>;

/// The shape of a reduction's result.
fn kept(x: &Tensor, axes: &[usize], reduced: Tensor, keep: bool) -> Tensor {
    match keep {
        false => reduced,
        true => {
            let dims: Vec<usize> =
                x.dims().iter().enumerate().map(|(axis, size)| if axes.contains(&axis) { 1 } else { *size }).collect();
            reduced.reshape(&dims)
        }
    }
}

/// The square root, with gradient 0 at 0.
pub(super) fn root(x: &Tensor) -> Tensor {
    let is_zero = x.equals(&Tensor::scalar(x.dtype(), 0.0));
    let safe = is_zero.select(&x.zeros_like().full_like(1.0), x).sqrt();
    is_zero.select(&x.zeros_like(), &safe)
}

fn reduced(call: &mut Call<'_, '_>, f: fn(&Tensor, &[usize]) -> Tensor) -> Answer {
    let (x, dtype) = (call.subject()?, call.result_type()?);
    let axes = call.axes("dim", x.rank())?;
    let keep = call.bool("keepdim", false)?;
    let x = cast(&x, wide(dtype));
    Ok(cast(&kept(&x, &axes, f(&x, &axes), keep), dtype).into())
}

/// `any` and `all`.
fn logical(call: &mut Call<'_, '_>, f: fn(&Tensor, &[usize]) -> Tensor) -> Answer {
    let (x, dtype) = (call.subject()?, call.result_type()?);
    let axes = call.axes("dim", x.rank())?;
    let keep = call.bool("keepdim", false)?;
    let x = cast(&x, DType::Bool);
    Ok(cast(&kept(&x, &axes, f(&x, &axes), keep), dtype).into())
}

/// `max` and `min`: of everything, of two tensors, or along an axis with positions.
fn extreme(
    call: &mut Call<'_, '_>,
    of: fn(&Tensor, &[usize]) -> Tensor,
    pair: fn(&Tensor, &Tensor) -> Tensor,
    position: fn(&Tensor, isize) -> Tensor,
) -> Answer {
    let x = call.subject()?;
    if call.has("other") {
        let (other, dtype) = (call.operand("other")?, call.result_type()?);
        return Ok(pair(&cast(&x, dtype), &other.cast(dtype)).into());
    }
    if !call.has("dim") && x.dtype() == DType::Bool {
        let all: Vec<usize> = (0..x.rank()).collect();
        return Ok(cast(&of(&x.cast(DType::I32), &all), DType::Bool).into());
    }
    if !call.has("dim") {
        return Ok(of(&x, &(0..x.rank()).collect::<Vec<_>>()).into());
    }
    if x.rank() == 0 {
        return Ok(vec![x, Tensor::zeros(DType::I64, &[])].into());
    }
    let axis = call.axis("dim", 0, x.rank())?;
    let keep = call.bool("keepdim", false)?;
    let key = if x.dtype() == DType::Bool { x.cast(DType::I32) } else { x.clone() };
    let positions = position(&key, axis as isize).cast(DType::I64).expand(axis as isize);
    // The gradient is that of the one position.
    let values = x.take_along(axis as isize, &positions);
    let shaped = |y: Tensor| if keep { y } else { y.squeeze(axis as isize) };
    Ok(vec![shaped(values), shaped(positions)].into())
}

fn arg_extreme(call: &mut Call<'_, '_>, position: fn(&Tensor, isize) -> Tensor) -> Answer {
    let x = call.subject()?;
    let keep = call.bool("keepdim", false)?;
    if !call.has("dim") || x.rank() == 0 {
        let all = x.reshape(&[x.num_elements()]);
        let dims = call.result_dims()?;
        return Ok(position(&all, 0).cast(DType::I64).reshape(&dims).into());
    }
    let axis = call.axis("dim", 0, x.rank())?;
    Ok(kept(&x, &[axis], position(&x, axis as isize).cast(DType::I64), keep).into())
}

/// Variance in the type that it is computed in, and the mean beside it.
fn moments(call: &mut Call<'_, '_>) -> Result<(Tensor, Tensor), Error> {
    let x = call.subject()?;
    let axes = call.axes("dim", x.rank())?;
    let keep = call.bool("keepdim", false)?;
    let unbiased = call.bool("unbiased", true)?;
    let correction = call.float("correction", if unbiased { 1.0 } else { 0.0 })?;
    let dtype = x.dtype();
    let x = cast(&x, wide(dtype));
    let count: usize = axes.iter().map(|axis| x.dim(*axis as isize)).product();
    let mean = kept(&x, &axes, x.mean(&axes), true);
    let squares = (&x - &mean).square().sum(&axes);
    let variance = squares / (count as f64 - correction).max(0.0);
    let mean = if keep { mean } else { x.mean(&axes) };
    Ok((kept(&x, &axes, variance, keep), cast(&mean, dtype)))
}

fn softmax(call: &mut Call<'_, '_>, f: fn(&Tensor, isize) -> Tensor) -> Answer {
    let (x, dtype) = (call.subject()?, call.result_type()?);
    let axis = call.axis("dim", -1, x.rank())?;
    if x.rank() == 0 {
        let one = cast(&x.reshape(&[1]), wide(dtype));
        return Ok(cast(&f(&one, 0).reshape(&[]), dtype).into());
    }
    Ok(cast(&f(&cast(&x, wide(dtype)), axis as isize), dtype).into())
}

fn along(call: &mut Call<'_, '_>, f: fn(&Tensor, isize) -> Tensor) -> Answer {
    let (x, dtype) = (call.subject()?, call.result_type()?);
    let x = cast(&x, wide(dtype));
    if x.rank() == 0 {
        return Ok(cast(&x, dtype).into());
    }
    let axis = call.axis("dim", 0, x.rank())?;
    Ok(cast(&f(&x, axis as isize), dtype).into())
}

/// Counts of values in equal bins; without a range, it is from the least to the most of the values.
fn histc(call: &mut Call<'_, '_>) -> Answer {
    let (x, dtype) = (call.subject()?, call.result_type()?);
    let bins = positive(call.int("bins", 100)?)?;
    let (low, high) = (call.float("min", 0.0)?, call.float("max", 0.0)?);
    let count = x.num_elements();
    if count == 0 || bins == 0 || bins.saturating_mul(count) > 1 << 28 {
        return Err(call.unsupported(format!("a histogram of {bins} bins of {}", x.spec())));
    }
    let x = cast(&x.reshape(&[count]), DType::F32);
    let number = |value: f64| Tensor::scalar(DType::F32, value);
    let (low, high) = match low == high {
        true => (x.min(&[0]), x.max(&[0])),
        false => (number(low), number(high)),
    };
    let is_point = low.equals(&high);
    let (low, high) = (is_point.select(&(&low - 1.0), &low), is_point.select(&(&high + 1.0), &high));
    let scaled = ((&x - &low) * (&number(bins as f64) / &(&high - &low))).floor();
    // The upper end belongs to the last bin.
    let bin = x.equals(&high).select(&number(bins as f64 - 1.0).broadcast_to(x.dims()), &scaled);
    let inside = x.greater_equal(&low).and(&x.less_equal(&high));
    let bin = inside.select(&bin, &bin.full_like(-1.0));
    let numbers = Tensor::iota(DType::F32, &[bins, count], 0);
    let hits = numbers.equals(&bin.broadcast_to(&[bins, count]));
    Ok(cast(&hits.cast(DType::F32).sum(&[1]), dtype).into())
}

fn spread(call: &mut Call<'_, '_>, f: fn(&Tensor) -> Tensor, with_mean: bool) -> Answer {
    let (variance, mean) = moments(call)?;
    let variance = cast(&f(&variance), mean.dtype());
    Ok(if with_mean { vec![variance, mean].into() } else { variance.into() })
}

fn vector_norm(call: &mut Call<'_, '_>, order: &str) -> Answer {
    if call.text(order).is_some() {
        return Err(call.unsupported("a norm of matrices"));
    }
    let p = call.float(order, 2.0)?;
    let (x, dtype) = (call.subject()?, call.result_type()?);
    let axes = call.axes("dim", x.rank())?;
    let keep = call.bool("keepdim", false)?;
    let x = cast(&x, wide(dtype));
    Ok(cast(&kept(&x, &axes, norm(&x, &axes, p), keep), dtype).into())
}

/// The p-norm over axes; where it is 0, its gradient is 0.
pub(super) fn norm(x: &Tensor, axes: &[usize], p: f64) -> Tensor {
    let zero = Tensor::scalar(x.dtype(), 0.0);
    let size = x.equals(&zero).select(&x.zeros_like(), &x.abs());
    match p {
        p if p == f64::INFINITY => size.max(axes),
        p if p == f64::NEG_INFINITY => size.min(axes),
        0.0 => cast(&x.differs(&zero), x.dtype()).sum(axes),
        1.0 => size.sum(axes),
        2.0 => root(&x.square().sum(axes)),
        p => {
            let sum = size.powf(p).sum(axes);
            let is_zero = sum.equals(&zero);
            let safe = is_zero.select(&sum.full_like(1.0), &sum).powf(1.0 / p);
            is_zero.select(&sum.zeros_like(), &safe)
        }
    }
}

/// NaN counts as nothing.
fn without_nan(call: &mut Call<'_, '_>, is_mean: bool) -> Answer {
    let (x, dtype) = (call.subject()?, call.result_type()?);
    let axes = call.axes("dim", x.rank())?;
    let keep = call.bool("keepdim", false)?;
    let is_nan = if x.dtype().is_float() { x.is_nan() } else { Tensor::zeros(DType::Bool, x.dims()) };
    let x = cast(&x, wide(dtype));
    let mut sum = is_nan.select(&x.zeros_like(), &x).sum(&axes);
    if is_mean {
        sum = sum / is_nan.not().cast(x.dtype()).sum(&axes);
    }
    Ok(cast(&kept(&x, &axes, sum, keep), dtype).into())
}

fn count_nonzero(call: &mut Call<'_, '_>) -> Answer {
    let x = call.subject()?;
    let axes = call.axes("dim", x.rank())?;
    Ok(cast(&x, DType::Bool).cast(DType::I64).sum(&axes).into())
}

fn both_extremes(call: &mut Call<'_, '_>) -> Answer {
    let x = call.subject()?;
    let axes = match call.has("dim") {
        true => call.axes("dim", x.rank())?,
        false => (0..x.rank()).collect(),
    };
    let keep = call.bool("keepdim", false)?;
    let work = if x.dtype() == DType::Bool { x.cast(DType::I32) } else { x.clone() };
    let of = |y: Tensor| {
        let dims: Vec<usize> =
            (0..x.rank()).map(|axis| if axes.contains(&axis) { 1 } else { x.dims()[axis] }).collect();
        cast(&if keep { y.reshape(&dims) } else { y }, x.dtype())
    };
    Ok(vec![of(work.min(&axes)), of(work.max(&axes))].into())
}

fn log_sum_exp(call: &mut Call<'_, '_>) -> Answer {
    reduced(call, |x, axes| {
        let largest = kept(x, axes, x.max(axes), true);
        let finite = largest.is_finite().select(&largest, &largest.zeros_like()).stop_gradient();
        let sum = (x - &finite).exp().sum(axes).log();
        &sum + &finite.reshape(sum.dims())
    })
}

pub(super) const RULES: Rules = &[
    ("sum", |c| reduced(c, Tensor::sum)),
    ("mean", |c| reduced(c, Tensor::mean)),
    ("prod", |c| reduced(c, Tensor::product)),
    ("amax", |c| reduced(c, Tensor::max)),
    ("amin", |c| reduced(c, Tensor::min)),
    ("max", |c| extreme(c, Tensor::max, Tensor::maximum, Tensor::argmax)),
    ("min", |c| extreme(c, Tensor::min, Tensor::minimum, Tensor::argmin)),
    ("argmax", |c| arg_extreme(c, Tensor::argmax)),
    ("argmin", |c| arg_extreme(c, Tensor::argmin)),
    ("any", |c| logical(c, Tensor::any)),
    ("all", |c| logical(c, Tensor::all)),
    ("var", |c| spread(c, Tensor::clone, false)),
    ("std", |c| spread(c, root, false)),
    ("var_mean", |c| spread(c, Tensor::clone, true)),
    ("std_mean", |c| spread(c, root, true)),
    ("softmax", |c| softmax(c, Tensor::softmax)),
    ("_softmax", |c| softmax(c, Tensor::softmax)),
    ("_safe_softmax", |c| {
        softmax(c, |x, axis| {
            let empty = x.equals(&Tensor::scalar(x.dtype(), f64::NEG_INFINITY)).all(&[axis as usize]);
            let soft = x.softmax(axis);
            empty.expand(axis).broadcast_to(x.dims()).select(&soft.zeros_like(), &soft)
        })
    }),
    ("log_softmax", |c| softmax(c, Tensor::log_softmax)),
    ("_log_softmax", |c| softmax(c, Tensor::log_softmax)),
    ("cumsum", |c| along(c, Tensor::cumulative_sum)),
    ("cumprod", |c| along(c, Tensor::cumulative_product)),
    ("logsumexp", log_sum_exp),
    ("nansum", |c| without_nan(c, false)),
    ("nanmean", |c| without_nan(c, true)),
    ("count_nonzero", count_nonzero),
    ("aminmax", both_extremes),
    ("dist", |c| {
        let (x, other, p, dtype) = (c.subject()?, c.tensor("other")?, c.float("p", 2.0)?, c.result_type()?);
        let difference = cast(&x, wide(dtype)) - cast(&other, wide(dtype));
        let axes: Vec<usize> = (0..difference.rank()).collect();
        Ok(cast(&norm(&difference, &axes, p), dtype).into())
    }),
    ("linalg_vector_norm", |c| vector_norm(c, "ord")),
    ("norm", |c| vector_norm(c, "p")),
    ("histc", histc),
];
