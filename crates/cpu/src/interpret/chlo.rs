//! CHLO: functions StableHLO leaves to clients, and ops that broadcast their operands first.

use std::cmp::Ordering;

use hlo::{Attr, OpKind};
use tensor::{DType, decode_float, encode_float};

use super::context::{Context, Eval};
use super::scalar::Scalar;
use super::value::{Complex, Elements, InterpreterValue, TensorValue, round, storage, wrap};
use super::{elementwise, real_math, shape};
use crate::attributes;
use crate::error::Error;

pub(crate) fn eval(kind: OpKind) -> Option<Eval> {
    use OpKind as K;
    Some(match kind {
        K::ChloAcos | K::ChloAcosh | K::ChloAsin | K::ChloAsinh | K::ChloAtan | K::ChloAtanh | K::ChloBesselI1e => {
            unary
        }
        K::ChloConj | K::ChloCosh | K::ChloDigamma | K::ChloErf | K::ChloErfInv | K::ChloErfc | K::ChloLgamma => unary,
        K::ChloSinh | K::ChloSquare | K::ChloTan | K::ChloAsinAcosKernel => unary,
        K::ChloIsInf => |c| is_infinite(c, |x| x.is_infinite()),
        K::ChloIsPosInf => |c| is_infinite(c, |x| x == f64::INFINITY),
        K::ChloIsNegInf => |c| is_infinite(c, |x| x == f64::NEG_INFINITY),
        K::ChloMulhi | K::ChloNextAfter | K::ChloPolygamma | K::ChloZeta => binary,
        K::ChloConstantLike => constant_like,
        K::ChloTopK => top_k,
        K::ChloBroadcastSelect => broadcast_select,
        _ if kind.broadcasts().is_some() => broadcast_binary,
        _ => return None,
    })
}

fn unary(context: &mut Context<'_, '_>) -> Result<Vec<InterpreterValue>, Error> {
    let element = context.result_tensor(0)?.element.clone();
    let dtype = storage(&element);
    let operand = context.tensor(0)?;
    let kind = context.kind()?;
    let elements = match &operand.elements {
        Elements::Float(v) => {
            real_function(kind).map(|f| Elements::Float(v.iter().map(|&x| round(dtype, f(x))).collect()))
        }
        Elements::Complex(v) => {
            complex_function(kind).map(|f| Elements::Complex(v.iter().map(|&x| f(x).rounded(dtype)).collect()))
        }
        Elements::Int(v) if kind == OpKind::ChloSquare => {
            Some(Elements::Int(v.iter().map(|&x| wrap(dtype, x.wrapping_mul(x))).collect()))
        }
        _ => None,
    };
    match elements {
        Some(elements) => Ok(vec![TensorValue::new(operand.dims(), element, elements).into()]),
        None => context.fail(format!("has no meaning for {}", operand.dtype())),
    }
}

fn real_function(kind: OpKind) -> Option<fn(f64) -> f64> {
    use OpKind as K;
    Some(match kind {
        K::ChloAcos => f64::acos,
        K::ChloAcosh => real_math::acosh,
        K::ChloAsin => f64::asin,
        K::ChloAsinh => real_math::asinh,
        K::ChloAtan => f64::atan,
        K::ChloAtanh => f64::atanh,
        K::ChloBesselI1e => real_math::bessel_i1e,
        K::ChloConj => |x| x,
        K::ChloCosh => f64::cosh,
        K::ChloDigamma => real_math::digamma,
        K::ChloErf => real_math::erf,
        K::ChloErfInv => real_math::erf_inv,
        K::ChloErfc => real_math::erfc,
        K::ChloLgamma => real_math::lgamma,
        K::ChloSinh => f64::sinh,
        K::ChloSquare => |x| x * x,
        K::ChloTan => f64::tan,
        _ => return None,
    })
}

fn complex_function(kind: OpKind) -> Option<fn(Complex) -> Complex> {
    use OpKind as K;
    Some(match kind {
        K::ChloAcos => Complex::acos,
        K::ChloAcosh => Complex::acosh,
        K::ChloAsin => Complex::asin,
        K::ChloAsinh => Complex::asinh,
        K::ChloAsinAcosKernel => Complex::asin_acos_kernel,
        K::ChloAtan => Complex::atan,
        K::ChloAtanh => Complex::atanh,
        K::ChloConj => Complex::conjugate,
        K::ChloCosh => Complex::cosh,
        K::ChloSinh => Complex::sinh,
        K::ChloSquare => |x| x.times(x),
        K::ChloTan => Complex::tan,
        _ => return None,
    })
}

fn is_infinite(context: &mut Context<'_, '_>, is: fn(f64) -> bool) -> Result<Vec<InterpreterValue>, Error> {
    let operand = context.tensor(0)?;
    let Elements::Float(values) = &operand.elements else { return context.fail("the operand is not real") };
    let answers = Elements::Bool(values.iter().map(|&x| is(x)).collect());
    Ok(vec![TensorValue::new(operand.dims(), DType::Bool, answers).into()])
}

fn binary(context: &mut Context<'_, '_>) -> Result<Vec<InterpreterValue>, Error> {
    let (lhs, rhs) = (context.tensor(0)?, context.tensor(1)?);
    if lhs.dims() != rhs.dims() {
        return context.fail(format!("the operands have sizes {:?} and {:?}", lhs.dims(), rhs.dims()));
    }
    match apply(context.kind()?, lhs.dtype(), &lhs.elements, &rhs.elements) {
        Some(elements) => Ok(vec![TensorValue { ty: lhs.ty.clone(), elements }.into()]),
        None => context.fail(format!("has no meaning for {}", lhs.dtype())),
    }
}

/// A binary function of this dialect.
fn apply(kind: OpKind, dtype: DType, lhs: &Elements, rhs: &Elements) -> Option<Elements> {
    Some(match (lhs, rhs) {
        (Elements::Int(a), Elements::Int(b)) if kind == OpKind::ChloMulhi => {
            Elements::Int(a.iter().zip(b).map(|(&a, &b)| high_half(dtype, a, b)).collect())
        }
        (Elements::Float(a), Elements::Float(b)) => {
            let f: fn(DType, f64, f64) -> f64 = match kind {
                OpKind::ChloNextAfter => next_after,
                OpKind::ChloPolygamma => |dtype, n, x| round(dtype, real_math::polygamma(n, x)),
                OpKind::ChloZeta => |dtype, x, q| round(dtype, real_math::zeta(x, q)),
                _ => return None,
            };
            Elements::Float(a.iter().zip(b).map(|(&a, &b)| f(dtype, a, b)).collect())
        }
        _ => return None,
    })
}

/// The high half of a product twice as wide.
fn high_half(dtype: DType, a: i128, b: i128) -> i128 {
    let bits = dtype.bits();
    // Only a product of two ui64 needs all 128 bits, and those are unsigned.
    if dtype.is_signed_integer() {
        wrap(dtype, (a * b) >> bits)
    } else {
        ((a as u128).wrapping_mul(b as u128) >> bits) as i128
    }
}

/// The next value of the type from `from` towards `to`.
fn next_after(dtype: DType, from: f64, to: f64) -> f64 {
    if from.is_nan() || to.is_nan() {
        return f64::NAN;
    }
    if from == to {
        return to;
    }
    if from == 0.0 {
        return decode_float(dtype, 1).map_or(f64::NAN, |least| least.copysign(to));
    }
    let Some(bits) = encode_float(dtype, from.abs()) else { return f64::NAN };
    let away = (to > from) == (from > 0.0);
    decode_float(dtype, if away { bits + 1 } else { bits - 1 }).map_or(f64::NAN, |next| next.copysign(from))
}

fn constant_like(context: &mut Context<'_, '_>) -> Result<Vec<InterpreterValue>, Error> {
    let element = context.result_tensor(0)?.element.clone();
    let dtype = storage(&element);
    let dims = context.tensor(0)?.dims().to_vec();
    let count = context.count(&dims)?;
    let scalar = match context.op.attr("value") {
        Some(Attr::Bool(value)) => Scalar::Bool(*value),
        Some(Attr::Int(value, _)) => Scalar::Int(wrap(dtype, i128::from(*value))),
        Some(Attr::Float(value, _)) => Scalar::Float(round(dtype, value.get())),
        Some(Attr::Dense(dense)) if dense.ty.num_elements() == Some(1) => {
            Scalar::get(&TensorValue::from_dense(dense)?.elements, 0)
        }
        _ => return Err(Error::Unsupported { what: "the value of chlo.constant_like".into() }),
    };
    Ok(vec![TensorValue::new(dims, element, scalar.repeat(count)).into()])
}

/// Largest elements of each row first, equal ones in their order; NaN counts as larger than every number.
fn top_k(context: &mut Context<'_, '_>) -> Result<Vec<InterpreterValue>, Error> {
    let k = attributes::int(context.op, "k")?;
    let operand = context.tensor(0)?;
    let Some(&row) = operand.dims().last() else { return context.fail("the operand has no dimension") };
    if k < 0 || k > row {
        return context.fail(format!("k is {k} for rows of {row}"));
    }
    let (k, row) = (k as usize, row as usize);
    let mut picked = Vec::new();
    for begin in (0..operand.elements.len()).step_by(row.max(1)) {
        let mut order: Vec<usize> = (begin..begin + row).collect();
        order.sort_by(|&a, &b| descending(&operand.elements, a, b));
        picked.extend(order.into_iter().take(k));
    }
    let mut dims = operand.dims().to_vec();
    if let Some(last) = dims.last_mut() {
        *last = k as i64;
    }
    let indices = picked.iter().map(|&at| (at % row.max(1)) as i128).collect();
    let values = operand.elements.pick(picked.into_iter());
    Ok(vec![
        TensorValue::new(dims.clone(), operand.ty.element.clone(), values).into(),
        TensorValue::new(dims, context.result_tensor(1)?.element.clone(), Elements::Int(indices)).into(),
    ])
}

fn descending(elements: &Elements, a: usize, b: usize) -> Ordering {
    match elements {
        Elements::Bool(v) => v[b].cmp(&v[a]),
        Elements::Int(v) => v[b].cmp(&v[a]),
        Elements::Float(v) => v[b].total_cmp(&v[a]),
        Elements::Complex(_) => Ordering::Equal,
    }
}

/// Operands spread to a shape both fit: sizes of 1 stretch, missing dimensions are leading ones or as `broadcast_dimensions` says.
fn together(context: &Context<'_, '_>, operands: &[&TensorValue]) -> Result<Vec<TensorValue>, Error> {
    let rank = operands.iter().map(|t| t.dims().len()).max().unwrap_or(0);
    let along = |tensor: &TensorValue| -> Vec<i64> {
        let own = tensor.dims().len();
        match context.op.attr("broadcast_dimensions").and_then(Attr::as_i64s) {
            Some(written) if own < rank && written.len() == own => written.to_vec(),
            _ => (rank - own..rank).map(|d| d as i64).collect(),
        }
    };
    let mut dims = vec![1; rank];
    for tensor in operands {
        for (&size, &to) in tensor.dims().iter().zip(&along(tensor)) {
            let Some(to) = dims.get_mut(to as usize) else {
                return context.fail("broadcast_dimensions are out of range");
            };
            if *to == 1 {
                *to = size;
            } else if size != 1 && size != *to {
                return context.fail(format!("sizes {size} and {to} do not broadcast together"));
            }
        }
    }
    operands.iter().map(|tensor| shape::spread(context, tensor, &dims, &along(tensor))).collect()
}

fn broadcast_binary(context: &mut Context<'_, '_>) -> Result<Vec<InterpreterValue>, Error> {
    let element = context.result_tensor(0)?.element.clone();
    let kind =
        context.kind()?.broadcasts().ok_or_else(|| Error::Internal("a broadcasting op without a plain form".into()))?;
    let operands = together(context, &[context.tensor(0)?, context.tensor(1)?])?;
    let (lhs, rhs) = (&operands[0], &operands[1]);
    let elements = match kind {
        OpKind::Compare => {
            let direction = attributes::keyword(context.op, "comparison_direction")?;
            elementwise::compare(direction, elementwise::total_order(context), &lhs.elements, &rhs.elements)
                .map(Elements::Bool)
        }
        OpKind::ChloNextAfter | OpKind::ChloPolygamma | OpKind::ChloZeta => {
            apply(kind, storage(&element), &lhs.elements, &rhs.elements)
        }
        _ => elementwise::binary(kind, storage(&element), &lhs.elements, &rhs.elements),
    };
    match elements {
        Some(elements) => Ok(vec![TensorValue::new(lhs.dims(), element, elements).into()]),
        None => context.fail(format!("has no meaning for {}", lhs.dtype())),
    }
}

fn broadcast_select(context: &mut Context<'_, '_>) -> Result<Vec<InterpreterValue>, Error> {
    let operands = together(context, &[context.tensor(0)?, context.tensor(1)?, context.tensor(2)?])?;
    match elementwise::select(&operands[0], &operands[1], &operands[2]) {
        Some(result) => Ok(vec![result.into()]),
        None => context.fail("the operands do not select"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_those_of_the_type() {
        assert_eq!(next_after(DType::F32, 1.0, 2.0), f64::from(f32::from_bits(1f32.to_bits() + 1)));
        assert_eq!(next_after(DType::BF16, 0.0, -1.0), -decode_float(DType::BF16, 1).unwrap());
        assert_eq!(next_after(DType::F32, f64::INFINITY, 0.0), f64::from(f32::MAX));
        assert_eq!(next_after(DType::F64, -1.0, -1.0), -1.0);
    }

    #[test]
    fn products_keep_their_high_half() {
        assert_eq!(high_half(DType::I8, -64, 4), -1);
        assert_eq!(high_half(DType::U64, i128::from(u64::MAX), i128::from(u64::MAX)), i128::from(u64::MAX) - 1);
        assert_eq!(high_half(DType::I64, i128::from(i64::MIN), i128::from(i64::MIN)), 1 << 62);
    }
}
