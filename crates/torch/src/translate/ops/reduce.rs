//! Reductions, scans along an axis, softmax.

use tensor::DType;
use trace::{Order, Tensor};

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
    if !call.has("dim") {
        return Ok(of(&x, &(0..x.rank()).collect::<Vec<_>>()).into());
    }
    if x.rank() == 0 {
        return Ok(vec![x, Tensor::zeros(DType::I64, &[])].into());
    }
    let axis = call.axis("dim", 0, x.rank())?;
    let keep = call.bool("keepdim", false)?;
    let values = kept(&x, &[axis], of(&x, &[axis]), keep);
    let positions = kept(&x, &[axis], position(&x, axis as isize).cast(DType::I64), keep);
    Ok(vec![values, positions].into())
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

/// Variance, and the mean beside it.
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
    Ok((cast(&kept(&x, &axes, variance, keep), dtype), cast(&mean, dtype)))
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

fn sorted(call: &mut Call<'_, '_>) -> Answer {
    let x = call.subject()?;
    if x.rank() == 0 {
        return Ok(vec![x, Tensor::zeros(DType::I64, &[])].into());
    }
    let axis = call.axis("dim", -1, x.rank())? as isize;
    let order = if call.bool("descending", false)? { Order::Descending } else { Order::Ascending };
    let positions = Tensor::iota(DType::I64, x.dims(), axis as usize);
    Ok(trace::sort_together(&[x, positions], axis, order).into())
}

fn topk(call: &mut Call<'_, '_>) -> Answer {
    let x = call.subject()?;
    let k = positive(call.int("k", 1)?)?;
    if x.rank() == 0 {
        return Ok(vec![x, Tensor::zeros(DType::I64, &[])].into());
    }
    let axis = call.axis("dim", -1, x.rank())? as isize;
    let order = if call.bool("largest", true)? { Order::Descending } else { Order::Ascending };
    if k > x.dim(axis) {
        return Err(Error::damaged(format!("{k} of {} positions", x.dim(axis))));
    }
    let positions = Tensor::iota(DType::I64, x.dims(), axis as usize);
    let sorted = trace::sort_together(&[x, positions], axis, order);
    Ok(sorted.iter().map(|part| part.slice(axis, 0..k)).collect::<Vec<_>>().into())
}

/// Counts of values in equal bins.
fn histc(call: &mut Call<'_, '_>) -> Answer {
    let (x, dtype) = (call.subject()?, call.result_type()?);
    let bins = positive(call.int("bins", 100)?)?;
    let (low, high) = (call.float("min", 0.0)?, call.float("max", 0.0)?);
    if low >= high {
        return Err(call.unsupported("a histogram whose range depends on values"));
    }
    let x = cast(&x.reshape(&[x.num_elements()]), DType::F32);
    let scaled = ((&x - low) * (bins as f64 / (high - low))).floor();
    let last = Tensor::scalar(DType::F32, bins as f64 - 1.0);
    // The upper end belongs to the last bin.
    let bin = x.equals(&Tensor::scalar(DType::F32, high)).select(&last.broadcast_to(x.dims()), &scaled);
    let numbers = Tensor::iota(DType::F32, &[bins, x.num_elements()], 0);
    let hits = numbers.equals(&bin.broadcast_to(&[bins, x.num_elements()]));
    Ok(cast(&hits.cast(DType::F32).sum(&[1]), dtype).into())
}

fn vector_norm(call: &mut Call<'_, '_>, order: &str) -> Answer {
    let p = call.float(order, 2.0)?;
    let (x, dtype) = (call.subject()?, call.result_type()?);
    let axes = call.axes("dim", x.rank())?;
    let keep = call.bool("keepdim", false)?;
    let x = cast(&x, wide(dtype)).abs();
    let norm = match p {
        p if p == f64::INFINITY => x.max(&axes),
        p if p == f64::NEG_INFINITY => x.min(&axes),
        0.0 => cast(&x.differs(&Tensor::scalar(x.dtype(), 0.0)), x.dtype()).sum(&axes),
        1.0 => x.sum(&axes),
        2.0 => x.square().sum(&axes).sqrt(),
        p => x.powf(p).sum(&axes).powf(1.0 / p),
    };
    Ok(cast(&kept(&x, &axes, norm, keep), dtype).into())
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
    ("var", |c| moments(c).map(|(variance, _)| variance.into())),
    ("std", |c| moments(c).map(|(variance, _)| variance.sqrt().into())),
    ("var_mean", |c| moments(c).map(|(variance, mean)| vec![variance, mean].into())),
    ("std_mean", |c| moments(c).map(|(variance, mean)| vec![variance.sqrt(), mean].into())),
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
    ("linalg_vector_norm", |c| vector_norm(c, "ord")),
    ("norm", |c| vector_norm(c, "p")),
    ("sort", sorted),
    ("argsort", |c| match sorted(c)? {
        Value::Several(mut both) => Ok(both.pop().unwrap_or(Value::Nothing)),
        other => Ok(other),
    }),
    ("topk", topk),
    ("histc", histc),
];
