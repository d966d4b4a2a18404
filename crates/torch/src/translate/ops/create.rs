//! Ops that make tensors from nothing but sizes.

use tensor::{DType, Literal};
use trace::Tensor;

use crate::error::Error;
use crate::translate::call::{Call, Value};
use crate::translate::run::Rules;
use crate::translate::types::{Scalar, cast};

type Answer = Result<Value, Error>;

fn filled(call: &mut Call<'_, '_>, value: Scalar) -> Answer {
    let (dtype, dims) = (call.result_type()?, call.result_dims()?);
    Ok(value.tensor(dtype).broadcast_to(&dims).into())
}

fn full(call: &mut Call<'_, '_>) -> Answer {
    let value = call.operand("fill_value")?;
    let (dtype, dims) = (call.result_type()?, call.result_dims()?);
    Ok(value.cast(dtype).broadcast_to(&dims).into())
}

fn arange(call: &mut Call<'_, '_>) -> Answer {
    let start = call.scalar("start")?.unwrap_or(Scalar::Int(0));
    let step = call.scalar("step")?.unwrap_or(Scalar::Int(1));
    let (dtype, dims) = (call.result_type()?, call.result_dims()?);
    let count = dims.first().copied().unwrap_or(0);
    if let (Scalar::Int(start), Scalar::Int(step)) = (start, step)
        && !dtype.is_float()
    {
        let numbers = Tensor::iota(DType::I64, &[count], 0);
        let scaled = &numbers * &Scalar::Int(step).tensor(DType::I64);
        return Ok(cast(&(scaled + Scalar::Int(start).tensor(DType::I64)), dtype).into());
    }
    let values: Vec<f64> = (0..count).map(|n| start.as_f64() + n as f64 * step.as_f64()).collect();
    constant(&values, dtype)
}

fn constant(values: &[f64], dtype: DType) -> Answer {
    let literal = Literal::from_slice(values, [values.len()])?;
    match dtype.is_float() {
        true => Ok(Tensor::constant(&literal.cast(dtype)?).into()),
        false => Ok(cast(&Tensor::constant(&literal), dtype).into()),
    }
}

/// Between ends that are tensors.
fn linspace_of(call: &mut Call<'_, '_>) -> Answer {
    let (dtype, dims) = (call.result_type()?, call.result_dims()?);
    let work = if dtype == DType::F64 { DType::F64 } else { DType::F32 };
    let (start, end) = (call.operand("start")?.cast(work).reshape(&[]), call.operand("end")?.cast(work).reshape(&[]));
    let count = dims.first().copied().unwrap_or(0);
    let step = (&end - &start) / (count.saturating_sub(1)).max(1) as f64;
    let at = Tensor::iota(work, &[count], 0);
    let (from_start, from_end) = (&start + &(&step * &at), &end - &(&step * &(count as f64 - 1.0 - &at)));
    let is_first_half = at.less(&Tensor::scalar(work, (count / 2) as f64));
    Ok(cast(&is_first_half.select(&from_start, &from_end), dtype).into())
}

fn linspace(call: &mut Call<'_, '_>) -> Answer {
    let is_tensor = |name: &str| matches!(call.argument(name), Some(crate::graph::NodeArgument::Tensor(_)));
    if is_tensor("start") || is_tensor("end") {
        return linspace_of(call);
    }
    let (start, end) = (call.float("start", 0.0)?, call.float("end", 1.0)?);
    let (dtype, dims) = (call.result_type()?, call.result_dims()?);
    let count = dims.first().copied().unwrap_or(0);
    let step = (end - start) / (count.saturating_sub(1)).max(1) as f64;
    // From both ends, as PyTorch does.
    let value = |n: usize| if n < count / 2 { start + step * n as f64 } else { end - step * (count - 1 - n) as f64 };
    constant(&(0..count).map(value).collect::<Vec<_>>(), dtype)
}

fn scalar_tensor(call: &mut Call<'_, '_>) -> Answer {
    let scalar = call.scalar(if call.has("s") { "s" } else { "data" })?.unwrap_or(Scalar::Int(0));
    Ok(scalar.tensor(call.result_type()?).into())
}

fn one_hot(call: &mut Call<'_, '_>) -> Answer {
    let x = call.subject()?;
    let dims = call.result_dims()?;
    let classes = dims.last().copied().unwrap_or(0);
    Ok(x.one_hot(classes, DType::I64).into())
}

fn eye(call: &mut Call<'_, '_>) -> Answer {
    let (dtype, dims) = (call.result_type()?, call.result_dims()?);
    let same = Tensor::iota(DType::I32, &dims, 0).equals(&Tensor::iota(DType::I32, &dims, 1));
    Ok(cast(&same, dtype).into())
}

pub(super) const RULES: Rules = &[
    ("zeros", |c| filled(c, Scalar::Int(0))),
    ("ones", |c| filled(c, Scalar::Int(1))),
    ("empty", |c| filled(c, Scalar::Int(0))),
    ("empty_permuted", |c| filled(c, Scalar::Int(0))),
    ("empty_strided", |c| filled(c, Scalar::Int(0))),
    ("zeros_like", |c| filled(c, Scalar::Int(0))),
    ("ones_like", |c| filled(c, Scalar::Int(1))),
    ("empty_like", |c| filled(c, Scalar::Int(0))),
    ("new_zeros", |c| filled(c, Scalar::Int(0))),
    ("new_ones", |c| filled(c, Scalar::Int(1))),
    ("new_empty", |c| filled(c, Scalar::Int(0))),
    ("new_empty_strided", |c| filled(c, Scalar::Int(0))),
    ("full", full),
    ("full_like", full),
    ("new_full", full),
    ("arange", arange),
    ("linspace", linspace),
    ("scalar_tensor", scalar_tensor),
    ("one_hot", one_hot),
    ("eye", eye),
];
