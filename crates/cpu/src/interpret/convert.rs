//! Changes of element type: by value (`convert`), by bits (`bitcast_convert`), and to fewer bits (`reduce_precision`).

use hlo::OpKind;
use tensor::DType;

use super::context::{Context, Eval};
use super::value::{Complex, Elements, InterpreterValue, TensorValue, decode, encode, round, storage, wrap};
use crate::attributes;
use crate::error::Error;

pub(crate) fn eval(kind: OpKind) -> Option<Eval> {
    Some(match kind {
        OpKind::Convert => convert,
        OpKind::BitcastConvert => bitcast_convert,
        OpKind::ReducePrecision => reduce_precision,
        _ => return None,
    })
}

fn convert(context: &mut Context<'_, '_>) -> Result<Vec<InterpreterValue>, Error> {
    let element = context.result_tensor(0)?.element.clone();
    let operand = context.tensor(0)?;
    let elements = to_type(&operand.elements, storage(&element));
    Ok(vec![TensorValue::new(operand.dims(), element, elements).into()])
}

/// The elements as values of another type. Reals outside an integer type saturate and NaN becomes zero; the
/// specification leaves both to the implementation.
pub(crate) fn to_type(elements: &Elements, to: DType) -> Elements {
    let part = to.complex_part();
    if to.is_bool() {
        return Elements::Bool(match elements {
            Elements::Bool(v) => v.clone(),
            Elements::Int(v) => v.iter().map(|&x| x != 0).collect(),
            Elements::Float(v) => v.iter().map(|&x| x != 0.0).collect(),
            Elements::Complex(v) => v.iter().map(|x| x.re != 0.0).collect(),
        });
    }
    if to.is_integer() {
        return Elements::Int(match elements {
            Elements::Bool(v) => v.iter().map(|&x| i128::from(x)).collect(),
            Elements::Int(v) => v.iter().map(|&x| wrap(to, x)).collect(),
            Elements::Float(v) => v.iter().map(|&x| saturate(to, x)).collect(),
            Elements::Complex(v) => v.iter().map(|x| saturate(to, x.re)).collect(),
        });
    }
    let real = part.unwrap_or(to);
    if part.is_none()
        && let Elements::Complex(v) = elements
    {
        return Elements::Float(v.iter().map(|x| round(real, x.re)).collect());
    }
    if let Elements::Complex(v) = elements {
        return Elements::Complex(v.iter().map(|x| x.rounded(to)).collect());
    }
    let values: Vec<f64> = match elements {
        Elements::Bool(v) => v.iter().map(|&x| round(real, f64::from(u8::from(x)))).collect(),
        Elements::Int(v) => v.iter().map(|&x| from_int(real, x)).collect(),
        Elements::Float(v) => v.iter().map(|&x| round(real, x)).collect(),
        Elements::Complex(_) => Vec::new(),
    };
    match part {
        None => Elements::Float(values),
        Some(_) => Elements::Complex(values.into_iter().map(|re| Complex { re, im: 0.0 }).collect()),
    }
}

fn saturate(to: DType, value: f64) -> i128 {
    let bits = to.bits();
    let (low, high) = if to.is_signed_integer() {
        (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1)
    } else {
        (0, (1i128 << bits) - 1)
    };
    // A cast truncates towards zero, saturates at i128 and takes NaN to zero.
    (value as i128).clamp(low, high)
}

/// An integer as the nearest value of a real type, rounded once.
pub(crate) fn from_int(to: DType, value: i128) -> f64 {
    if to == DType::F64 || value.unsigned_abs() < 1 << 53 {
        return round(to, value as f64);
    }
    // Cut to 53 bits with a sticky last bit, so that the second rounding sees which side of a tie it is on.
    let magnitude = value.unsigned_abs();
    let drop = (128 - magnitude.leading_zeros()) - 53;
    let kept = magnitude >> drop;
    let sticky = u128::from(kept << drop != magnitude);
    let cut = (kept | sticky) as f64 * 2f64.powi(drop as i32);
    round(to, if value < 0 { -cut } else { cut })
}

fn bitcast_convert(context: &mut Context<'_, '_>) -> Result<Vec<InterpreterValue>, Error> {
    let element = context.result_tensor(0)?.element.clone();
    let operand = context.tensor(0)?;
    let (from, to) = (operand.dtype(), storage(&element));
    let mut dims = operand.dims().to_vec();
    if from.bits() > to.bits() {
        dims.push(i64::from(from.bits() / to.bits()));
    } else if from.bits() < to.bits() && dims.pop() != Some(i64::from(to.bits() / from.bits())) {
        return context.fail("the last dimension does not hold the bits of one element");
    }
    let elements = rebit(from, to, &operand.elements);
    if context.count(&dims)? != elements.len() {
        return context.fail(format!("{from} cannot be read as {to}"));
    }
    Ok(vec![TensorValue::new(dims, element, elements).into()])
}

/// The same bits as elements of another width, the low bits first.
fn rebit(from: DType, to: DType, elements: &Elements) -> Elements {
    let bytes = encode(from, elements);
    if from.bits() >= 8 && to.bits() >= 8 {
        return decode(to, &bytes);
    }
    // Narrow elements take a byte each in host form, so their bits are moved one by one.
    let bit = |n: usize| {
        bytes[n / from.bits() as usize * from.size_bytes() + n % from.bits() as usize / 8]
            >> (n % from.bits() as usize % 8)
            & 1
    };
    let total = elements.len() * from.bits() as usize;
    let mut out = vec![0u8; total / to.bits() as usize * to.size_bytes()];
    for n in 0..total {
        let within = n % to.bits() as usize;
        out[n / to.bits() as usize * to.size_bytes() + within / 8] |= bit(n) << (within % 8);
    }
    decode(to, &out)
}

fn reduce_precision(context: &mut Context<'_, '_>) -> Result<Vec<InterpreterValue>, Error> {
    let exponent_bits = attributes::int(context.op, "exponent_bits")?;
    let mantissa_bits = attributes::int(context.op, "mantissa_bits")?;
    let operand = context.tensor(0)?;
    let Elements::Float(values) = &operand.elements else { return context.fail("the operand is not real") };
    let dtype = operand.dtype();
    let narrows_exponent = exponent_bits < own_exponent_bits(dtype);
    let reduced = values
        .iter()
        .map(|&x| {
            // Without mantissa bits there is no NaN: its exponent alone is infinity.
            let x = if x.is_nan() && mantissa_bits == 0 { f64::INFINITY.copysign(x) } else { x };
            let x = if mantissa_bits < 52 { round_mantissa(x, mantissa_bits) } else { x };
            round(dtype, if narrows_exponent { clamp_exponent(x, exponent_bits) } else { x })
        })
        .collect();
    Ok(vec![TensorValue { ty: operand.ty.clone(), elements: Elements::Float(reduced) }.into()])
}

fn own_exponent_bits(dtype: DType) -> i64 {
    match dtype {
        DType::F64 => 11,
        DType::F32 | DType::BF16 | DType::F8E8M0FNU => 8,
        DType::F16 | DType::F8E5M2 | DType::F8E5M2FNUZ => 5,
        DType::F8E4M3 | DType::F8E4M3FN | DType::F8E4M3FNUZ | DType::F8E4M3B11FNUZ => 4,
        DType::F8E3M4 | DType::F6E3M2FN => 3,
        _ => 2,
    }
}

/// Rounds to `bits` mantissa bits after the leading one, ties to even.
fn round_mantissa(value: f64, bits: i64) -> f64 {
    if !value.is_finite() {
        return value;
    }
    let drop = 52 - bits.clamp(0, 52) as u32;
    let raw = value.to_bits();
    let half = if drop == 0 { 0 } else { (1u64 << (drop - 1)) - 1 + (raw >> drop & 1) };
    f64::from_bits((raw + half) & !((1u64 << drop) - 1))
}

/// Values beyond the exponent's range become infinite, values below its normal range zero.
fn clamp_exponent(value: f64, bits: i64) -> f64 {
    if !value.is_finite() || value == 0.0 {
        return value;
    }
    let bias = (1i64 << (bits.clamp(1, 11) - 1)) - 1;
    let exponent = (value.to_bits() >> 52 & 0x7ff) as i64 - 1023;
    if exponent > bias {
        f64::INFINITY.copysign(value)
    } else if exponent < 1 - bias {
        0f64.copysign(value)
    } else {
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_round_once() {
        // 2^60 + 2^36 + 1 is just above a tie of f32; rounding through f64 would lose the last bit and tie to even.
        let value = (1i128 << 60) + (1 << 36) + 1;
        assert_eq!(from_int(DType::F32, value), ((1i128 << 60) + (1 << 37)) as f64);
        assert_eq!(from_int(DType::F64, i128::from(i64::MAX)), 9_223_372_036_854_775_808.0);
    }

    #[test]
    fn reals_saturate() {
        let reals = Elements::Float(vec![300.0, -300.0, f64::NAN, -1.9, f64::INFINITY]);
        assert_eq!(to_type(&reals, DType::I8), Elements::Int(vec![127, -128, 0, -1, 127]));
        assert_eq!(to_type(&reals, DType::U8), Elements::Int(vec![255, 0, 0, 0, 255]));
    }

    #[test]
    fn narrow_bits_regroup() {
        let bytes = Elements::Int(vec![0x21, 0x43]);
        let nibbles = rebit(DType::U8, DType::U4, &bytes);
        assert_eq!(nibbles, Elements::Int(vec![1, 2, 3, 4]));
        assert_eq!(rebit(DType::U4, DType::U8, &nibbles), bytes);
        assert_eq!(rebit(DType::U4, DType::U16, &nibbles), Elements::Int(vec![0x4321]));
    }

    #[test]
    fn precision_is_reduced_by_rounding() {
        assert_eq!(round_mantissa(1.0 + 2f64.powi(-3), 2), 1.0);
        assert_eq!(round_mantissa(1.0 + 3.0 * 2f64.powi(-3), 2), 1.5);
        assert_eq!(clamp_exponent(1e6, 5), f64::INFINITY);
        assert_eq!(clamp_exponent(-1e-6, 5), -0.0);
    }
}
