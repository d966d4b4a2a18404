//! Ops element by element.

use tensor::DType;
use trace::Tensor;

use crate::error::Error;
use crate::translate::call::{Call, Value};
use crate::translate::run::Rules;
use crate::translate::types::{Operand, Scalar, cast, join, promoted, wide};

type Answer = Result<Value, Error>;

/// In the recorded type.
pub(super) fn unary(call: &mut Call<'_, '_>, f: fn(&Tensor) -> Tensor) -> Answer {
    let (x, dtype) = (call.subject()?, call.result_type()?);
    Ok(f(&cast(&x, dtype)).into())
}

/// In at least f32, rounded once.
pub(super) fn smooth(call: &mut Call<'_, '_>, f: impl Fn(&Tensor) -> Tensor) -> Answer {
    let (x, dtype) = (call.subject()?, call.result_type()?);
    Ok(cast(&f(&cast(&x, wide(dtype))), dtype).into())
}

pub(super) fn operands(call: &mut Call<'_, '_>) -> Result<(Operand, Operand), Error> {
    Ok((call.operand("self")?, call.operand("other")?))
}

pub(super) fn binary(call: &mut Call<'_, '_>, f: fn(&Tensor, &Tensor) -> Tensor) -> Answer {
    let (a, b) = operands(call)?;
    let dtype = call.result_type()?;
    Ok(f(&a.cast(dtype), &b.cast(dtype)).into())
}

/// `self ± alpha * other`.
fn sum(call: &mut Call<'_, '_>, sign: f64, is_reversed: bool) -> Answer {
    let (mut a, mut b) = operands(call)?;
    let dtype = call.result_type()?;
    let alpha = call.scalar("alpha")?.unwrap_or(Scalar::Int(1));
    if is_reversed {
        std::mem::swap(&mut a, &mut b);
    }
    let (a, mut b) = (a.cast(dtype), b.cast(dtype));
    if dtype == DType::Bool {
        return Ok(a.or(&b).into());
    }
    if alpha.as_f64() != 1.0 {
        b = &b * &alpha.tensor(dtype);
    }
    Ok(if sign > 0.0 { a + b } else { a - b }.into())
}

fn product(call: &mut Call<'_, '_>) -> Answer {
    let (a, b) = operands(call)?;
    let dtype = call.result_type()?;
    let (a, b) = (a.cast(dtype), b.cast(dtype));
    Ok(if dtype == DType::Bool { a.and(&b) } else { a * b }.into())
}

fn compared(call: &mut Call<'_, '_>, f: fn(&Tensor, &Tensor) -> Tensor) -> Answer {
    let (a, b) = operands(call)?;
    let dtype = promoted(&a, &b);
    Ok(f(&a.cast(dtype), &b.cast(dtype)).into())
}

/// Rounded towards minus infinity, for integers too.
pub(super) fn floor_divided(a: &Tensor, b: &Tensor) -> Tensor {
    if a.dtype().is_float() {
        // What is left over is taken off first, so that the quotient is whole but for rounding.
        let (rest, zero) = (a.remainder(b), Tensor::scalar(a.dtype(), 0.0));
        let quotient = &(a - &rest) / b;
        let is_off = rest.differs(&zero).and(&rest.less(&zero).xor(&b.less(&zero)));
        let quotient = is_off.select(&(&quotient - 1.0), &quotient);
        let floor = quotient.floor();
        let floor = (&quotient - &floor).greater(&Tensor::scalar(a.dtype(), 0.5)).select(&(&floor + 1.0), &floor);
        return b.equals(&zero).select(&(a / b), &floor);
    }
    let (quotient, rest) = (a / b, a.remainder(b));
    let zero = Tensor::scalar(a.dtype(), 0.0);
    if !a.dtype().is_signed_integer() {
        return quotient;
    }
    let is_off = rest.differs(&zero).and(&rest.less(&zero).xor(&b.less(&zero)));
    is_off.select(&(&quotient - &Tensor::scalar(a.dtype(), 1.0)), &quotient)
}

/// With the sign of the divisor.
fn modulo(a: &Tensor, b: &Tensor) -> Tensor {
    let rest = a.remainder(b);
    let zero = Tensor::scalar(a.dtype(), 0.0);
    if !a.dtype().is_float() && !a.dtype().is_signed_integer() {
        return rest;
    }
    let is_off = rest.differs(&zero).and(&rest.less(&zero).xor(&b.less(&zero)));
    is_off.select(&(&rest + b), &rest)
}

fn divided(call: &mut Call<'_, '_>) -> Answer {
    let (a, b) = operands(call)?;
    let dtype = call.result_type()?;
    Ok(match call.text("rounding_mode") {
        None => a.cast(dtype) / b.cast(dtype),
        Some("floor") => floor_divided(&a.cast(dtype), &b.cast(dtype)),
        Some("trunc") if dtype.is_float() => truncated(&(a.cast(dtype) / b.cast(dtype))),
        Some("trunc") => a.cast(dtype) / b.cast(dtype),
        Some(other) => return Err(call.unsupported(format!("rounding mode `{other}`"))),
    }
    .into())
}

fn truncated(x: &Tensor) -> Tensor {
    x.less(&Tensor::scalar(x.dtype(), 0.0)).select(&x.ceil(), &x.floor())
}

fn power(call: &mut Call<'_, '_>) -> Answer {
    let (a, b) = (call.operand("self")?, call.operand("exponent")?);
    let dtype = call.result_type()?;
    let base = a.cast(dtype);
    Ok(match b {
        Operand::Scalar(exponent) if exponent.as_f64() == 2.0 => &base * &base,
        Operand::Scalar(exponent) if exponent.as_f64() == 1.0 => base,
        Operand::Scalar(exponent) if exponent.as_f64() == 0.5 && dtype.is_float() => base.sqrt(),
        Operand::Scalar(exponent) if exponent.as_f64() == -0.5 && dtype.is_float() => base.rsqrt(),
        Operand::Scalar(Scalar::Int(exponent @ 3..=8)) => (1..exponent).fold(base.clone(), |x, _| &x * &base),
        Operand::Scalar(Scalar::Float(3.0)) => &(&base * &base) * &base,
        exponent => base.pow(&exponent.cast(dtype)),
    }
    .into())
}

/// Held between bounds; at a bound, the gradient is the tensor's.
fn clamped(call: &mut Call<'_, '_>, low: &str, high: &str) -> Answer {
    let (mut x, dtype) = (call.subject()?, call.result_type()?);
    let dims = call.result_dims()?;
    x = cast(&x, dtype).broadcast_to(&dims);
    if call.has(low) {
        let low = call.operand(low)?.cast(dtype).broadcast_to(&dims);
        x = x.less(&low).select(&low, &x);
    }
    if call.has(high) {
        let high = call.operand(high)?.cast(dtype).broadcast_to(&dims);
        x = x.greater(&high).select(&high, &x);
    }
    Ok(x.into())
}

/// Numbers of a scalar type: a bound of a piecewise function.
pub(super) fn number(x: &Tensor, value: f64) -> Tensor {
    Tensor::scalar(x.dtype(), value)
}

/// Held between bounds; at a bound, the gradient is 0.
fn between(x: &Tensor, low: f64, high: f64) -> Tensor {
    let (low, high) = (number(x, low), number(x, high));
    let x = x.less_equal(&low).select(&low, x);
    x.greater_equal(&high).select(&high, &x)
}

/// What is positive; NaN stays, and at 0 the gradient is 0.
fn relu(x: &Tensor) -> Tensor {
    // One op forward: a comparison beside a convolution becomes a mask that TPUs write to memory.
    let positive = |x: &Tensor| x.maximum(&number(x, 0.0));
    if !x.dtype().is_float() {
        return positive(x);
    }
    trace::custom_vjp(x, positive, |x, _, gradient| x.less_equal(&number(x, 0.0)).select(&number(x, 0.0), gradient))
}

/// |x| with gradient 0 at 0.
fn size(x: &Tensor) -> Tensor {
    match x.dtype() {
        dtype if dtype.is_float() => x.equals(&number(x, 0.0)).select(&x.zeros_like(), &x.abs()),
        dtype if dtype.is_signed_integer() || dtype.is_complex() => x.abs(),
        _ => x.clone(),
    }
}

/// -1, 0 or 1; what has no sign is 0 or 1.
pub(super) fn sign(x: &Tensor) -> Tensor {
    match x.dtype() {
        DType::Bool => x.clone(),
        dtype if dtype.is_float() || dtype.is_signed_integer() || dtype.is_complex() => x.sign(),
        dtype => x.differs(&number(x, 0.0)).cast(dtype),
    }
}

/// What is not positive, 0 elsewhere.
fn below_zero(x: &Tensor) -> Tensor {
    x.greater(&number(x, 0.0)).select(&number(x, 0.0), x)
}

fn hard_swish(x: &Tensor) -> Tensor {
    let middle = x * &(&(x + 3.0) / 6.0);
    let upper = x.less_equal(&number(x, 3.0)).select(&middle, x);
    x.less(&number(x, -3.0)).select(&number(x, 0.0), &upper)
}

fn hard_sigmoid(x: &Tensor) -> Tensor {
    between(&(x + 3.0), 0.0, 6.0) / 6.0
}

fn softplus(call: &mut Call<'_, '_>) -> Answer {
    let (beta, threshold) = (call.float("beta", 1.0)?, call.float("threshold", 20.0)?);
    smooth(call, |x| {
        let scaled = x * beta;
        let is_large = scaled.greater(&number(x, threshold));
        let soft = is_large.select(&number(x, 0.0), &scaled).exp().log_1p() / beta;
        is_large.select(x, &soft)
    })
}

fn elu(call: &mut Call<'_, '_>, alpha: f64, scale: f64) -> Answer {
    let (alpha, scale) = (call.float("alpha", alpha)?, call.float("scale", scale)?);
    let input_scale = call.float("input_scale", 1.0)?;
    smooth(call, |x| {
        let below = (&below_zero(x) * input_scale).exp_m1() * (alpha * scale);
        x.greater(&number(x, 0.0)).select(&(x * scale), &below)
    })
}

fn selected(call: &mut Call<'_, '_>) -> Answer {
    let condition = cast(&call.tensor("condition")?, DType::Bool);
    let (a, b) = operands(call)?;
    let dtype = call.result_type()?;
    let dims = call.result_dims()?;
    let of = |operand: Operand| operand.cast(dtype).broadcast_to(&dims);
    Ok(condition.broadcast_to(&dims).select(&of(a), &of(b)).into())
}

fn logical(call: &mut Call<'_, '_>, f: fn(&Tensor, &Tensor) -> Tensor) -> Answer {
    let (a, b) = operands(call)?;
    Ok(f(&a.cast(DType::Bool), &b.cast(DType::Bool)).into())
}

fn filled(call: &mut Call<'_, '_>) -> Answer {
    let x = call.subject()?;
    let value = call.operand("value")?.cast(x.dtype());
    Ok(value.broadcast_to(x.dims()).into())
}

fn masked_fill(call: &mut Call<'_, '_>) -> Answer {
    let (x, mask) = (call.subject()?, call.tensor("mask")?);
    let dims = call.result_dims()?;
    let value = call.operand("value")?.cast(x.dtype()).broadcast_to(&dims);
    Ok(mask.broadcast_to(&dims).select(&value, &x.broadcast_to(&dims)).into())
}

fn converted(call: &mut Call<'_, '_>) -> Answer {
    let (x, dtype) = (call.subject()?, call.result_type()?);
    Ok(cast(&x, dtype).into())
}

fn gelu(call: &mut Call<'_, '_>) -> Answer {
    match call.text("approximate") {
        Some("tanh") => smooth(call, Tensor::gelu_tanh),
        _ => smooth(call, Tensor::gelu),
    }
}

fn lerp(call: &mut Call<'_, '_>) -> Answer {
    let (start, end, dtype) = (call.subject()?, call.tensor("end")?, call.result_type()?);
    let weight = call.operand("weight")?.cast(dtype);
    let (start, end) = (cast(&start, dtype), cast(&end, dtype));
    // From the nearer end.
    let (from_start, from_end) = (&start + &(&weight * &(&end - &start)), &end - &((&end - &start) * (1.0 - &weight)));
    Ok(weight.abs().less(&number(&weight, 0.5)).select(&from_start, &from_end).into())
}

/// `self + value * tensor1 (* or /) tensor2`.
fn with_pair(call: &mut Call<'_, '_>, f: fn(&Tensor, &Tensor) -> Tensor) -> Answer {
    let (x, dtype) = (call.subject()?, call.result_type()?);
    let (a, b) = (call.tensor("tensor1")?, call.tensor("tensor2")?);
    let value = call.float("value", 1.0)?;
    Ok((cast(&x, dtype) + f(&cast(&a, dtype), &cast(&b, dtype)) * value).into())
}

fn glu(call: &mut Call<'_, '_>) -> Answer {
    let x = call.subject()?;
    let axis = call.axis("dim", -1, x.rank())? as isize;
    let halves = x.split(axis, 2);
    Ok((&halves[0] * &halves[1].logistic()).into())
}

fn prelu(call: &mut Call<'_, '_>) -> Answer {
    let (x, weight) = (call.subject()?, call.tensor("weight")?);
    let weight = match (weight.num_elements(), x.rank()) {
        (1, _) => weight.reshape(&[]),
        (count, rank) if rank >= 2 => {
            let mut dims = vec![1; rank];
            dims[1] = count;
            weight.reshape(&dims)
        }
        _ => weight,
    };
    Ok(x.greater(&number(&x, 0.0)).select(&x, &(&x * &weight)).into())
}

fn nan_to_num(call: &mut Call<'_, '_>) -> Answer {
    let x = call.subject()?;
    if !x.dtype().is_float() {
        return Ok(x.into());
    }
    let limit = match x.dtype() {
        DType::F16 => 65504.0,
        DType::BF16 => 3.389_531_389_251_535_5e38,
        DType::F64 => f64::MAX,
        _ => f64::from(f32::MAX),
    };
    let (nan, high, low) = (call.float("nan", 0.0)?, call.float("posinf", limit)?, call.float("neginf", -limit)?);
    let same = |value: f64| number(&x, value).broadcast_to(x.dims());
    let y = x.is_nan().select(&same(nan), &x);
    let y = x.equals(&number(&x, f64::INFINITY)).select(&same(high), &y);
    Ok(x.equals(&number(&x, f64::NEG_INFINITY)).select(&same(low), &y).into())
}

fn leaky_relu(call: &mut Call<'_, '_>) -> Answer {
    let slope = call.float("negative_slope", 0.01)?;
    smooth(call, |x| x.greater(&number(x, 0.0)).select(x, &(x * slope)))
}

fn is_nan(call: &mut Call<'_, '_>) -> Answer {
    let x = call.subject()?;
    Ok(if x.dtype().is_float() { x.is_nan() } else { Tensor::zeros(DType::Bool, x.dims()) }.into())
}

fn is_inf(call: &mut Call<'_, '_>) -> Answer {
    let x = call.subject()?;
    Ok(match x.dtype().is_float() {
        true => x.abs().equals(&number(&x, f64::INFINITY)),
        false => Tensor::zeros(DType::Bool, x.dims()),
    }
    .into())
}

fn rounded(call: &mut Call<'_, '_>) -> Answer {
    let scale = 10f64.powi(i32::try_from(call.int("decimals", 0)?.clamp(-30, 30)).unwrap_or(0));
    let x = call.subject()?;
    Ok(match x.dtype().is_float() {
        false => x,
        true if scale == 1.0 => x.round(),
        true if scale < 1.0 => &(&x / (1.0 / scale)).round() * (1.0 / scale),
        true => &(&x * scale).round() / scale,
    }
    .into())
}

/// Floats round, integers stay.
fn whole(call: &mut Call<'_, '_>, f: fn(&Tensor) -> Tensor) -> Answer {
    let x = call.subject()?;
    Ok(if x.dtype().is_float() { f(&x) } else { x }.into())
}

fn complex_of(call: &mut Call<'_, '_>) -> Answer {
    let (real, imaginary) = (call.tensor("real")?, call.tensor("imag")?);
    Ok(real.complex(&imaginary).into())
}

fn polar(call: &mut Call<'_, '_>) -> Answer {
    let (length, angle) = (call.tensor("abs")?, call.tensor("angle")?);
    Ok((&length * &angle.cos()).complex(&(&length * &angle.sin())).into())
}

fn mixed(call: &mut Call<'_, '_>, f: fn(&Tensor, &Tensor) -> Tensor) -> Answer {
    let (a, b) = operands(call)?;
    let dtype = match (&a, &b) {
        (Operand::Tensor(a), Operand::Tensor(b)) => join(a.dtype(), b.dtype()),
        _ => call.result_type()?,
    };
    Ok(f(&a.cast(dtype), &b.cast(dtype)).into())
}

fn logit(call: &mut Call<'_, '_>) -> Answer {
    let epsilon = call.scalar("eps")?.map(Scalar::as_f64);
    smooth(call, |x| {
        let x = epsilon.map_or(x.clone(), |epsilon| between(x, epsilon, 1.0 - epsilon));
        x.log() - x.negate().log_1p()
    })
}

fn shifted_right(x: &Tensor, by: &Tensor) -> Tensor {
    if x.dtype().is_signed_integer() { x.shift_right_signed(by) } else { x.shift_right(by) }
}

fn silu(x: &Tensor) -> Tensor {
    x * &x.logistic()
}

fn square(x: &Tensor) -> Tensor {
    x * x
}

fn log2(x: &Tensor) -> Tensor {
    x.log() / std::f64::consts::LN_2
}

fn log10(x: &Tensor) -> Tensor {
    x.log() / std::f64::consts::LN_10
}

fn reciprocal(x: &Tensor) -> Tensor {
    &number(x, 1.0) / x
}

fn exp2(x: &Tensor) -> Tensor {
    (x * std::f64::consts::LN_2).exp()
}

pub(super) const RULES: Rules = &[
    ("abs", |c| {
        let (x, dtype) = (c.subject()?, c.result_type()?);
        Ok(cast(&size(&x), dtype).into())
    }),
    ("neg", |c| unary(c, Tensor::negate)),
    ("sign", |c| unary(c, sign)),
    ("relu", |c| unary(c, relu)),
    ("relu6", |c| unary(c, |x| between(x, 0.0, 6.0))),
    ("square", |c| unary(c, square)),
    ("exp", |c| smooth(c, Tensor::exp)),
    ("exp2", |c| smooth(c, exp2)),
    ("expm1", |c| smooth(c, Tensor::exp_m1)),
    ("log", |c| smooth(c, Tensor::log)),
    ("log1p", |c| smooth(c, Tensor::log_1p)),
    ("log2", |c| smooth(c, log2)),
    ("log10", |c| smooth(c, log10)),
    ("sqrt", |c| smooth(c, Tensor::sqrt)),
    ("rsqrt", |c| smooth(c, Tensor::rsqrt)),
    ("reciprocal", |c| smooth(c, reciprocal)),
    ("sin", |c| smooth(c, Tensor::sin)),
    ("cos", |c| smooth(c, Tensor::cos)),
    ("tan", |c| smooth(c, Tensor::tan)),
    ("asin", |c| smooth(c, Tensor::asin)),
    ("acos", |c| smooth(c, Tensor::acos)),
    ("atan", |c| smooth(c, Tensor::atan)),
    ("sinh", |c| smooth(c, Tensor::sinh)),
    ("cosh", |c| smooth(c, Tensor::cosh)),
    ("tanh", |c| smooth(c, Tensor::tanh)),
    ("asinh", |c| smooth(c, Tensor::asinh)),
    ("acosh", |c| smooth(c, Tensor::acosh)),
    ("atanh", |c| smooth(c, Tensor::atanh)),
    ("erf", |c| smooth(c, Tensor::erf)),
    ("erfc", |c| smooth(c, Tensor::erfc)),
    ("erfinv", |c| smooth(c, Tensor::erf_inv)),
    ("lgamma", |c| smooth(c, Tensor::lgamma)),
    ("digamma", |c| {
        smooth(c, |x| {
            let pole = x.full_like(f64::NEG_INFINITY);
            x.equals(&number(x, 0.0)).select(&pole, &x.digamma())
        })
    }),
    ("sigmoid", |c| smooth(c, Tensor::logistic)),
    ("log_sigmoid", |c| smooth(c, |x| x.negate().softplus().negate())),
    ("log_sigmoid_forward", |c| {
        let y = smooth(c, |x| x.negate().softplus().negate())?;
        Ok(Value::Several(vec![y, Value::Nothing]))
    }),
    ("silu", |c| smooth(c, silu)),
    ("mish", |c| smooth(c, |x| x * &x.softplus().tanh())),
    ("gelu", gelu),
    ("hardsigmoid", |c| smooth(c, hard_sigmoid)),
    ("hardswish", |c| smooth(c, hard_swish)),
    ("hardtanh", |c| {
        let (low, high) = (c.float("min_val", -1.0)?, c.float("max_val", 1.0)?);
        smooth(c, |x| between(x, low, high))
    }),
    ("leaky_relu", leaky_relu),
    ("elu", |c| elu(c, 1.0, 1.0)),
    ("celu", |c| {
        let alpha = c.float("alpha", 1.0)?;
        smooth(c, |x| {
            let below = (&below_zero(x) / alpha).exp_m1() * alpha;
            x.greater(&number(x, 0.0)).select(x, &below)
        })
    }),
    ("selu", |c| elu(c, 1.673_263_242_354_377_2, 1.050_700_987_355_480_5)),
    ("softplus", softplus),
    ("softsign", |c| smooth(c, |x| x / &(&x.abs() + 1.0))),
    ("logit", logit),
    ("glu", glu),
    ("prelu", prelu),
    ("_prelu_kernel", |c| {
        let (x, weight) = (c.subject()?, c.tensor("weight")?);
        Ok(x.greater(&number(&x, 0.0)).select(&x, &(&x * &weight)).into())
    }),
    ("threshold", |c| {
        let (threshold, value) = (c.float("threshold", 0.0)?, c.float("value", 0.0)?);
        unary(c, |x| x.clone()).map(|x| match x {
            Value::Tensor(x) => {
                let value = number(&x, value).broadcast_to(x.dims());
                x.less_equal(&number(&x, threshold)).select(&value, &x).into()
            }
            other => other,
        })
    }),
    ("floor", |c| whole(c, Tensor::floor)),
    ("ceil", |c| whole(c, Tensor::ceil)),
    ("trunc", |c| whole(c, truncated)),
    ("round", rounded),
    ("frac", |c| unary(c, |x| x - &truncated(x))),
    ("isnan", is_nan),
    ("isinf", is_inf),
    ("isfinite", |c| {
        let x = c.subject()?;
        Ok(if x.dtype().is_float() { x.is_finite() } else { Tensor::ones(DType::Bool, x.dims()) }.into())
    }),
    ("nan_to_num", nan_to_num),
    ("add", |c| sum(c, 1.0, false)),
    ("sub", |c| sum(c, -1.0, false)),
    ("rsub", |c| sum(c, -1.0, true)),
    ("mul", product),
    ("div", divided),
    ("true_divide", divided),
    ("floor_divide", |c| binary(c, floor_divided)),
    ("remainder", |c| binary(c, modulo)),
    ("fmod", |c| binary(c, Tensor::remainder)),
    ("pow", power),
    ("maximum", |c| binary(c, Tensor::maximum)),
    ("minimum", |c| binary(c, Tensor::minimum)),
    ("fmax", |c| binary(c, |a, b| a.is_nan().select(b, &b.is_nan().select(a, &a.maximum(b))))),
    ("fmin", |c| binary(c, |a, b| a.is_nan().select(b, &b.is_nan().select(a, &a.minimum(b))))),
    ("atan2", |c| binary(c, Tensor::atan2)),
    ("lerp", lerp),
    ("addcmul", |c| with_pair(c, |a, b| a * b)),
    ("addcdiv", |c| with_pair(c, |a, b| a / b)),
    ("clamp", |c| clamped(c, "min", "max")),
    ("clip", |c| clamped(c, "min", "max")),
    ("clamp_min", |c| clamped(c, "min", "")),
    ("clamp_max", |c| clamped(c, "", "max")),
    ("eq", |c| compared(c, Tensor::equals)),
    ("ne", |c| compared(c, Tensor::differs)),
    ("lt", |c| compared(c, Tensor::less)),
    ("le", |c| compared(c, Tensor::less_equal)),
    ("gt", |c| compared(c, Tensor::greater)),
    ("ge", |c| compared(c, Tensor::greater_equal)),
    ("logical_and", |c| logical(c, Tensor::and)),
    ("logical_or", |c| logical(c, Tensor::or)),
    ("logical_xor", |c| logical(c, Tensor::xor)),
    ("logical_not", |c| Ok(cast(&c.subject()?, DType::Bool).not().into())),
    ("bitwise_not", |c| unary(c, Tensor::not)),
    ("bitwise_and", |c| mixed(c, Tensor::and)),
    ("bitwise_or", |c| mixed(c, Tensor::or)),
    ("bitwise_xor", |c| mixed(c, Tensor::xor)),
    ("__and__", |c| mixed(c, Tensor::and)),
    ("__or__", |c| mixed(c, Tensor::or)),
    ("__xor__", |c| mixed(c, Tensor::xor)),
    ("bitwise_left_shift", |c| binary(c, Tensor::shift_left)),
    ("bitwise_right_shift", |c| binary(c, shifted_right)),
    ("__lshift__", |c| binary(c, Tensor::shift_left)),
    ("__rshift__", |c| binary(c, shifted_right)),
    ("where", selected),
    ("fill", filled),
    ("masked_fill", masked_fill),
    ("zero", |c| Ok(c.subject()?.zeros_like().into())),
    ("copy", |c| {
        let (x, source) = (c.subject()?, c.tensor("src")?);
        Ok(cast(&source, x.dtype()).broadcast_to(x.dims()).into())
    }),
    ("_to_copy", converted),
    ("to", converted),
    ("type_as", converted),
    ("convert_element_type", converted),
    ("clone", converted),
    ("contiguous", converted),
    ("lift_fresh_copy", converted),
    ("detach_copy", converted),
    ("conj", |c| Ok(c.subject()?.conj().into())),
    ("_conj", |c| Ok(c.subject()?.conj().into())),
    ("complex", complex_of),
    ("polar", polar),
];

#[cfg(test)]
mod tests {
    use trace::{Donate, Spec, grad};

    use super::*;

    fn text(f: impl FnOnce(&Tensor) -> Tensor) -> String {
        let x = Tensor::of(Spec::new(DType::F32, [4]));
        let (function, _) = trace::trace("relu", &x, Donate::Nothing, f).unwrap();
        hlo::text::print(&function.module)
    }

    #[test]
    fn relu_is_one_op_and_its_gradient_a_choice() {
        let forward = text(relu);
        assert!(forward.contains("stablehlo.maximum") && !forward.contains("stablehlo.compare"), "{forward}");
        let backward = text(|x| grad(|x: &Tensor| relu(x).sum_all(), x));
        assert!(backward.contains("stablehlo.compare LE") && backward.contains("stablehlo.select"), "{backward}");
    }
}
