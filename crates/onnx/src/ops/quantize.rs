//! Numbers of few bits with scales and zero points.

use tensor::DType;
use trace::Tensor;

use super::convolution::convolved;
use super::{Answer, Rules, one};
use crate::call::{Call, cast, size};
use crate::data;
use crate::error::Error;

/// A scale or zero point as the input sees it: one for all, one for each place of an axis, or one for each block along it.
fn spread(part: &Tensor, x: &Tensor, axis: i64, block: usize) -> Result<Tensor, Error> {
    if part.num_elements() == 1 && block == 0 {
        return Ok(part.reshape(&[]));
    }
    let axis = crate::call::in_rank(axis, x.rank())?;
    let wrong = || Error::damaged(format!("a scale {} for {}", part.spec(), x.spec()));
    if block == 0 {
        return match part.dims() == [x.dims()[axis]] {
            true => Ok(part.broadcast_along(x.dims(), &[axis])),
            false => Err(wrong()),
        };
    }
    if part.rank() != x.rank() || part.dims()[axis].checked_mul(block).is_none_or(|count| count < x.dims()[axis]) {
        return Err(wrong());
    }
    let mut dims = part.dims().to_vec();
    dims.insert(axis + 1, block);
    let along: Vec<usize> = (0..dims.len()).filter(|n| *n != axis + 1).collect();
    let whole = part.broadcast_along(&dims, &along);
    dims.remove(axis + 1);
    dims[axis] *= block;
    Ok(whole.reshape(&dims).slice(axis as isize, 0..x.dims()[axis]))
}

/// Limits of a type of whole numbers.
fn limits(dtype: DType) -> (f64, f64) {
    let bits = dtype.bits();
    match dtype.is_signed_integer() {
        true => (-((1u64 << (bits - 1)) as f64), ((1u64 << (bits - 1)) - 1) as f64),
        false => (0.0, ((1u64 << bits) - 1) as f64),
    }
}

/// Rounded to the nearest, shifted, and kept within the type.
fn quantized(x: &Tensor, zero_point: &Tensor, dtype: DType) -> Result<Tensor, Error> {
    if dtype.is_float() {
        let most = match dtype {
            DType::F8E4M3FN => 448.0,
            DType::F8E4M3FNUZ => 240.0,
            DType::F8E5M2 | DType::F8E5M2FNUZ => 57344.0,
            other => return Err(Error::unsupported(format!("quantization to {other}"))),
        };
        let limited = x.clamp(&Tensor::scalar(x.dtype(), -most), &Tensor::scalar(x.dtype(), most));
        return Ok(cast(&limited, dtype));
    }
    let (least, most) = limits(dtype);
    let y = x.round() + zero_point;
    Ok(cast(&y.clamp(&Tensor::scalar(y.dtype(), least), &Tensor::scalar(y.dtype(), most)), dtype))
}

fn quantize_linear(call: &Call<'_>) -> Answer {
    let (x, scale) = (call.input(0)?, call.input(1)?);
    let dtype = match (call.optional(2), call.attributes.int("output_dtype", 0)) {
        (Some(zero), _) => zero.dtype(),
        (None, 0) => DType::U8,
        (None, number) => data::dtype(i32::try_from(number).unwrap_or(0))?,
    };
    let (axis, block) = (call.attributes.int("axis", 1), size(call.attributes.int("block_size", 0))?);
    let part = |tensor: &Tensor| spread(&cast(tensor, DType::F32), x, axis, block);
    let zero = match call.optional(2).filter(|_| !dtype.is_float()) {
        Some(zero) => part(zero)?,
        None => Tensor::scalar(DType::F32, 0.0),
    };
    one(quantized(&(cast(x, DType::F32) / part(scale)?), &zero, dtype)?)
}

fn dequantize_linear(call: &Call<'_>) -> Answer {
    let (x, scale) = (call.input(0)?, call.input(1)?);
    let (axis, block) = (call.attributes.int("axis", 1), size(call.attributes.int("block_size", 0))?);
    let dtype = match call.attributes.int("output_dtype", 0) {
        0 => scale.dtype(),
        number => data::dtype(i32::try_from(number).unwrap_or(0))?,
    };
    let part = |tensor: &Tensor| spread(&cast(tensor, DType::F32), x, axis, block);
    let mut y = cast(x, DType::F32);
    if let Some(zero) = call.optional(2) {
        y = y - part(zero)?;
    }
    one(cast(&(y * part(scale)?), dtype))
}

fn dynamic(call: &Call<'_>) -> Answer {
    let x = call.input(0)?;
    let axes: Vec<usize> = (0..x.rank()).collect();
    let zero = Tensor::scalar(DType::F32, 0.0);
    let (least, most) = (x.min(&axes).minimum(&zero), x.max(&axes).maximum(&zero));
    let scale = (&most - &least) / 255.0;
    let is_flat = scale.equals(&zero);
    let divisor = is_flat.select(&Tensor::scalar(DType::F32, 1.0), &scale);
    let limited = |x: &Tensor| x.clamp(&zero, &Tensor::scalar(DType::F32, 255.0));
    let zero_point = limited(&(-(&least / &divisor))).round();
    let y = limited(&((x / &divisor).round() + &zero_point)).cast(DType::U8);
    Ok(vec![y, scale, zero_point.cast(DType::U8)])
}

/// Whole numbers without their zero point; of a matrix one for all, or one for each row or column.
fn centered(x: &Tensor, zero: Option<&Tensor>, axis: isize) -> Result<Tensor, Error> {
    let x = x.cast(DType::I32);
    let Some(zero) = zero else { return Ok(x) };
    let zero = zero.cast(DType::I32);
    if zero.num_elements() == 1 {
        return Ok(x - zero.reshape(&[]));
    }
    let axis = crate::call::in_rank(axis as i64, x.rank())?;
    match zero.rank() {
        1 if zero.dims()[0] == x.dims()[axis] => Ok(&x - &zero.broadcast_along(x.dims(), &[axis])),
        rank if rank == x.rank() => Ok(&x - &zero.broadcast_to(x.dims())),
        _ => Err(Error::damaged(format!("a zero point {} for {}", zero.spec(), x.spec()))),
    }
}

fn matmul_integer(call: &Call<'_>) -> Answer {
    let (a, b) = (centered(call.input(0)?, call.optional(2), -2)?, centered(call.input(1)?, call.optional(3), -1)?);
    one(a.matmul(&b))
}

fn conv_integer(call: &Call<'_>) -> Answer {
    let x = centered(call.input(0)?, call.optional(2), 1)?;
    let weight = centered(call.input(1)?, call.optional(3), 0)?;
    one(convolved(call, &x, &weight)?)
}

/// Scales of the inputs over that of the result; those of a weight are one for each feature.
fn rescaled(y: &Tensor, scales: [&Tensor; 3], zero: &Tensor, axis: i64) -> Answer {
    let part = |scale: &Tensor, axis: i64| spread(&cast(scale, DType::F32), y, axis, 0);
    let factor = part(scales[0], -2)? * part(scales[1], axis)?;
    let real = cast(y, DType::F32) * factor / part(scales[2], axis)?;
    one(quantized(&real, &cast(zero, DType::F32).reshape(&[]), zero.dtype())?)
}

fn qlinear_matmul(call: &Call<'_>) -> Answer {
    let a = centered(call.input(0)?, call.optional(2), -2)?;
    let b = centered(call.input(3)?, call.optional(5), -1)?;
    rescaled(&a.matmul(&b), [call.input(1)?, call.input(4)?, call.input(6)?], call.input(7)?, -1)
}

fn qlinear_conv(call: &Call<'_>) -> Answer {
    let x = centered(call.input(0)?, call.optional(2), 1)?;
    let weight = centered(call.input(3)?, call.optional(5), 0)?;
    let mut y = convolved(call, &x, &weight)?;
    if let Some(bias) = call.optional(8) {
        y = &y + &super::convolution::by_feature(&cast(bias, DType::I32), &y)?;
    }
    rescaled(&y, [call.input(1)?, call.input(4)?, call.input(6)?], call.input(7)?, 1)
}

pub(super) const RULES: Rules = &[
    ("ConvInteger", conv_integer),
    ("DequantizeLinear", dequantize_linear),
    ("DynamicQuantizeLinear", dynamic),
    ("MatMulInteger", matmul_integer),
    ("QLinearConv", qlinear_conv),
    ("QLinearMatMul", qlinear_matmul),
    ("QuantizeLinear", quantize_linear),
];
