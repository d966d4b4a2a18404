//! Less common functions, element by element.

use std::f64::consts::{FRAC_1_SQRT_2, LN_2, PI};

use tensor::DType;
use trace::Tensor;

use crate::error::Error;
use crate::translate::call::{Call, Value};
use crate::translate::ops::elementwise::{binary, number, operands, sign, smooth, unary};
use crate::translate::ops::loss::x_log_y;
use crate::translate::run::Rules;
use crate::translate::types::{cast, promoted, wide};

type Answer = Result<Value, Error>;

/// Two operands in at least f32, rounded once.
fn smooth_binary(call: &mut Call<'_, '_>, f: fn(&Tensor, &Tensor) -> Tensor) -> Answer {
    let (a, b) = operands(call)?;
    let dtype = call.result_type()?;
    Ok(cast(&f(&a.cast(wide(dtype)), &b.cast(wide(dtype))), dtype).into())
}

/// Whether the sign is minus, which a zero has too.
fn is_negative(x: &Tensor) -> Tensor {
    if !x.dtype().is_float() {
        return match x.dtype().is_signed_integer() {
            true => x.less(&number(x, 0.0)),
            false => Tensor::zeros(DType::Bool, x.dims()),
        };
    }
    let zero = number(x, 0.0);
    let below = (&x.full_like(1.0) / x).less(&zero);
    x.less(&zero).or(&x.equals(&zero).and(&below))
}

fn copysign(a: &Tensor, b: &Tensor) -> Tensor {
    let size = a.equals(&number(a, 0.0)).select(&a.zeros_like(), &a.abs());
    is_negative(b).select(&size.negate(), &size)
}

fn heaviside(call: &mut Call<'_, '_>) -> Answer {
    let (x, values, dtype) = (call.subject()?, call.tensor("values")?, call.result_type()?);
    let (x, values) = (cast(&x, dtype), cast(&values, dtype));
    let step = x.greater(&number(&x, 0.0)).cast(dtype);
    let y = x.equals(&number(&x, 0.0)).select(&values, &step);
    Ok(if dtype.is_float() { x.is_nan().select(&x, &y) } else { y }.into())
}

fn log_add_exp(a: &Tensor, b: &Tensor) -> Tensor {
    let most = a.maximum(b);
    let finite = most.is_finite().select(&most, &most.zeros_like()).stop_gradient();
    ((a - &finite).exp() + (b - &finite).exp()).log() + finite
}

fn log_add_exp2(a: &Tensor, b: &Tensor) -> Tensor {
    log_add_exp(&(a * LN_2), &(b * LN_2)) / LN_2
}

fn sinc(x: &Tensor) -> Tensor {
    let is_zero = x.equals(&number(x, 0.0));
    let angle = &is_zero.select(&x.full_like(1.0), x) * PI;
    is_zero.select(&x.full_like(1.0), &(angle.sin() / angle))
}

fn entropy(x: &Tensor) -> Tensor {
    let zero = number(x, 0.0);
    let inside = x.greater(&zero);
    let safe = inside.select(x, &x.full_like(1.0));
    let y = (&safe * &safe.log()).negate();
    let outside = x.equals(&zero).select(&x.zeros_like(), &x.full_like(f64::NEG_INFINITY));
    x.is_nan().select(x, &inside.select(&y, &outside))
}

fn is_close(call: &mut Call<'_, '_>) -> Answer {
    let (a, b) = operands(call)?;
    let (relative, absolute) = (call.float("rtol", 1e-5)?, call.float("atol", 1e-8)?);
    let dtype = promoted(&a, &b);
    let (a, b) = (a.cast(dtype), b.cast(dtype));
    let mut close = a.equals(&b);
    if dtype.is_float() && call.bool("equal_nan", false)? {
        close = close.or(&a.is_nan().and(&b.is_nan()));
    }
    let work = if dtype.is_float() { dtype } else { DType::F64 };
    let (a, b) = (cast(&a, work), cast(&b, work));
    let difference = (&a - &b).abs();
    let allowed = &(&b.abs() * relative) + absolute;
    Ok(close.or(&difference.is_finite().and(&difference.less_equal(&allowed))).into())
}

fn angle(call: &mut Call<'_, '_>) -> Answer {
    let (x, dtype) = (call.subject()?, call.result_type()?);
    if x.dtype().is_complex() {
        return Ok(x.imag().atan2(&x.real()).into());
    }
    let x = cast(&x, dtype);
    let y = x.less(&number(&x, 0.0)).select(&x.full_like(PI), &x.zeros_like());
    Ok(x.is_nan().select(&x, &y).into())
}

fn shrink(call: &mut Call<'_, '_>, is_soft: bool) -> Answer {
    let by = call.float("lambd", 0.5)?;
    unary(call, Tensor::clone).map(|x| match x {
        Value::Tensor(x) => {
            let (high, low) = (x.greater(&number(&x, by)), x.less(&number(&x, -by)));
            let (above, below) = if is_soft { (&x - by, &x + by) } else { (x.clone(), x.clone()) };
            let y = high.select(&above, &low.select(&below, &x.zeros_like()));
            x.is_nan().select(&x, &y).into()
        }
        other => other,
    })
}

/// In training its slope is random; otherwise it is the mean of the bounds.
fn rrelu(call: &mut Call<'_, '_>) -> Answer {
    if call.bool("training", false)? {
        return super::refused::random(call);
    }
    let slope = (call.float("lower", 0.125)? + call.float("upper", 1.0 / 3.0)?) / 2.0;
    smooth(call, |x| x.greater(&number(x, 0.0)).select(x, &(x * slope)))
}

fn float_power(call: &mut Call<'_, '_>) -> Answer {
    let (a, b, dtype) = (call.operand("self")?, call.operand("exponent")?, call.result_type()?);
    Ok(a.cast(dtype).pow(&b.cast(dtype)).into())
}

fn nothing_infinite(call: &mut Call<'_, '_>, value: f64) -> Answer {
    let x = call.subject()?;
    Ok(match x.dtype().is_float() {
        true => x.equals(&number(&x, value)),
        false => Tensor::zeros(DType::Bool, x.dims()),
    }
    .into())
}

pub(super) const RULES: Rules = &[
    ("sgn", |c| unary(c, sign)),
    ("signbit", |c| Ok(is_negative(&c.subject()?).into())),
    ("copysign", |c| binary(c, copysign)),
    ("heaviside", heaviside),
    ("isposinf", |c| nothing_infinite(c, f64::INFINITY)),
    ("isneginf", |c| nothing_infinite(c, f64::NEG_INFINITY)),
    ("isreal", |c| {
        let x = c.subject()?;
        Ok(if x.dtype().is_complex() {
            x.imag().equals(&number(&x.imag(), 0.0))
        } else {
            Tensor::ones(DType::Bool, x.dims())
        }
        .into())
    }),
    ("isclose", is_close),
    ("angle", angle),
    ("conj_physical", |c| {
        let x = c.subject()?;
        Ok(if x.dtype().is_complex() { x.conj() } else { x }.into())
    }),
    ("deg2rad", |c| smooth(c, |x| x * (PI / 180.0))),
    ("rad2deg", |c| smooth(c, |x| x * (180.0 / PI))),
    ("hypot", |c| smooth_binary(c, |a, b| super::reduce::root(&(a * a + b * b)))),
    ("ldexp", |c| smooth_binary(c, |a, b| a * &Tensor::scalar(b.dtype(), 2.0).pow(b))),
    ("logaddexp", |c| smooth_binary(c, log_add_exp)),
    ("logaddexp2", |c| smooth_binary(c, log_add_exp2)),
    ("xlogy", |c| smooth_binary(c, x_log_y)),
    ("special_xlog1py", |c| smooth_binary(c, |x, y| x_log_y(x, &(y + 1.0)))),
    ("special_entr", |c| smooth(c, entropy)),
    ("special_ndtr", |c| smooth(c, |x| &(x * -FRAC_1_SQRT_2).erfc() * 0.5)),
    ("sinc", |c| smooth(c, sinc)),
    ("hardshrink", |c| shrink(c, false)),
    ("softshrink", |c| shrink(c, true)),
    ("rrelu", rrelu),
    ("float_power", float_power),
    ("special_expit", |c| smooth(c, Tensor::logistic)),
    ("special_erf", |c| smooth(c, Tensor::erf)),
    ("special_erfc", |c| smooth(c, Tensor::erfc)),
    ("special_log1p", |c| smooth(c, Tensor::log_1p)),
    ("special_expm1", |c| smooth(c, Tensor::exp_m1)),
];
