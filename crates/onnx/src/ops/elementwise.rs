//! Ops on each element: arithmetic, comparisons, activations, casts.

use tensor::DType;
use trace::Tensor;

use super::{Answer, Rules, one};
use crate::call::{Call, cast, wide};
use crate::data;
use crate::error::Error;

fn unary(call: &Call<'_>, f: impl FnOnce(&Tensor) -> Tensor) -> Answer {
    one(f(call.input(0)?))
}

/// An activation: few bits are computed in f32.
fn smooth(call: &Call<'_>, f: impl FnOnce(&Tensor) -> Tensor) -> Answer {
    let x = call.input(0)?;
    one(cast(&f(&cast(x, wide(x.dtype()))), x.dtype()))
}

fn binary(call: &Call<'_>, f: impl FnOnce(&Tensor, &Tensor) -> Tensor) -> Answer {
    let (a, b) = (call.input(0)?, call.input(1)?);
    if call.opset < 7 && call.attributes.has("axis") {
        // Before opset 7 the second input could stand at an axis of the first.
        let axis = call.axis(0, a.rank())?;
        let after = a.rank().checked_sub(axis + b.rank());
        let after = after.ok_or_else(|| Error::damaged(format!("{} at axis {axis} of {}", b.spec(), a.spec())))?;
        return one(f(a, &b.reshape(&[b.dims(), &vec![1; after]].concat())));
    }
    one(f(a, b))
}

/// Any number of inputs, one after the other.
fn several(call: &Call<'_>, f: impl Fn(&Tensor, &Tensor) -> Tensor) -> Result<Tensor, Error> {
    let all = call.all()?;
    let (first, rest) = all.split_first().ok_or_else(|| Error::damaged("it has no input"))?;
    Ok(rest.iter().fold((*first).clone(), |sum, next| f(&sum, next)))
}

fn like(x: &Tensor, value: f64) -> Tensor {
    Tensor::scalar(x.dtype(), value)
}

/// `on_positive` where the element is positive, else the other.
fn by_sign(x: &Tensor, on_positive: &Tensor, otherwise: &Tensor) -> Tensor {
    x.greater(&like(x, 0.0)).select(&on_positive.broadcast_to(x.dims()), &otherwise.broadcast_to(x.dims()))
}

/// Limits by inputs, or by attributes as older opsets have them.
fn clip(call: &Call<'_>) -> Answer {
    let mut x = call.input(0)?.clone();
    let by_attribute = |name: &str| call.attributes.has(name).then(|| like(&x, call.attributes.float(name, 0.0)));
    let low = call.optional(1).cloned().or_else(|| by_attribute("min"));
    let high = call.optional(2).cloned().or_else(|| by_attribute("max"));
    if let Some(low) = low {
        x = x.maximum(&low.reshape(&[]));
    }
    if let Some(high) = high {
        x = x.minimum(&high.reshape(&[]));
    }
    one(x)
}

/// Remainder with the sign of the divisor, or of the dividend with `fmod`.
fn modulo(call: &Call<'_>) -> Answer {
    let (a, b) = (call.input(0)?, call.input(1)?);
    let rest = a.remainder(b);
    if call.attributes.int("fmod", 0) != 0 || !(a.dtype().is_float() || a.dtype().is_signed_integer()) {
        return one(rest);
    }
    let zero = like(&rest, 0.0);
    let b = b.broadcast_to(rest.dims());
    let is_other = rest.differs(&zero).and(&rest.less(&zero).xor(&b.less(&zero)));
    one(is_other.select(&(&rest + &b), &rest))
}

/// The result has the type of the base; the exponent may have another.
fn power(call: &Call<'_>) -> Answer {
    let (a, b) = (call.input(0)?, call.input(1)?);
    if a.dtype() == b.dtype() {
        return one(a.pow(b));
    }
    let work = match (a.dtype().is_float(), b.dtype().is_float()) {
        (true, _) => a.dtype(),
        (false, true) => b.dtype(),
        (false, false) => a.dtype(),
    };
    one(cast(&cast(a, work).pow(&cast(b, work)), a.dtype()))
}

/// Division of whole numbers rounds towards zero, which StableHLO's does.
fn divide(call: &Call<'_>) -> Answer {
    binary(call, |a, b| a / b)
}

fn shift(call: &Call<'_>) -> Answer {
    match call.attributes.text("direction", "").as_str() {
        "LEFT" => binary(call, |a, b| a.shift_left(b)),
        "RIGHT" => binary(call, |a, b| match a.dtype().is_signed_integer() {
            true => a.shift_right_signed(b),
            false => a.shift_right(b),
        }),
        other => Err(Error::damaged(format!("a shift to `{other}`"))),
    }
}

fn is_infinite(call: &Call<'_>) -> Answer {
    let x = call.input(0)?;
    let is = |value: f64| x.equals(&like(x, value));
    let (positive, negative) = (call.attributes.int("detect_positive", 1), call.attributes.int("detect_negative", 1));
    one(match (positive != 0, negative != 0) {
        (true, true) => is(f64::INFINITY).or(&is(f64::NEG_INFINITY)),
        (true, false) => is(f64::INFINITY),
        (false, true) => is(f64::NEG_INFINITY),
        (false, false) => Tensor::full(DType::Bool, x.dims(), 0.0),
    })
}

/// A cast as ONNX means it: floats to integers are cut, out of 8-bit floats' range they saturate.
fn cast_to(call: &Call<'_>, to: DType) -> Answer {
    let x = call.input(0)?;
    let saturates = call.attributes.int("saturate", 1) != 0;
    let is_eight = |dtype: DType| dtype.is_float() && dtype.bits() == 8;
    if is_eight(to) && x.dtype().is_float() && saturates {
        let most = match to {
            DType::F8E4M3FN => 448.0,
            DType::F8E4M3FNUZ => 240.0,
            DType::F8E5M2 | DType::F8E5M2FNUZ => 57344.0,
            other => return Err(Error::unsupported(format!("a cast to {other}"))),
        };
        let work = cast(x, DType::F32);
        let limited = work.clamp(&Tensor::scalar(DType::F32, -most), &Tensor::scalar(DType::F32, most));
        return one(cast(&work.is_nan().select(&work, &limited), to));
    }
    // Into few bits whole numbers are cut, not limited.
    if !to.is_float() && to != DType::Bool && to.bits() < 8 && x.dtype().is_float() {
        return one(x.cast(DType::I32).cast(to));
    }
    one(cast(x, to))
}

/// The slope is broadcast to the input from its last axis on; before opset 7 it is one for each feature.
fn prelu(call: &Call<'_>) -> Answer {
    let (x, slope) = (call.input(0)?, call.input(1)?);
    let by_feature = call.opset < 7 && x.rank() > 1 && slope.dims() == [x.dims()[1]];
    let slope = if by_feature { &slope.broadcast_along(x.dims(), &[1]) } else { slope };
    one(x.less(&like(x, 0.0)).select(&(x * slope).broadcast_to(x.dims()), x))
}

fn gelu(call: &Call<'_>) -> Answer {
    match call.attributes.text("approximate", "none").as_str() {
        "tanh" => smooth(call, Tensor::gelu_tanh),
        _ => smooth(call, Tensor::gelu),
    }
}

fn elu(x: &Tensor, alpha: f64) -> Tensor {
    by_sign(x, x, &(x.exp_m1() * alpha))
}

fn swish(call: &Call<'_>) -> Answer {
    let alpha = call.attributes.float("alpha", 1.0);
    smooth(call, |x| x * &(x * alpha).logistic())
}

fn where_(call: &Call<'_>) -> Answer {
    let (condition, a, b) = (call.input(0)?, call.input(1)?, call.input(2)?);
    // Shapes of all three together: adding zeros of the shapes finds it.
    let shape = |tensor: &Tensor| Tensor::zeros(DType::I32, tensor.dims());
    let dims = shape(condition).plus(&shape(a)).plus(&shape(b));
    let to = |tensor: &Tensor| tensor.broadcast_to(dims.dims());
    one(to(condition).select(&to(a), &to(b)))
}

/// Inference: nothing is dropped, and the mask has nothing to say.
fn dropout(call: &Call<'_>) -> Answer {
    let x = call.input(0)?;
    let is_training = match call.ints(2) {
        Ok(values) => values.is_some_and(|values| values.first().is_some_and(|value| *value != 0)),
        Err(_) => true,
    };
    let rate = match call.numbers(1)? {
        Some(values) => values.first().copied().unwrap_or(0.5),
        None => call.attributes.float("ratio", 0.5),
    };
    if is_training && rate > 0.0 {
        return Err(Error::new("dropout in training mode draws random numbers", "export the model for inference"));
    }
    let mut results = vec![x.clone()];
    if call.num_outputs > 1 {
        results.push(Tensor::full(DType::Bool, x.dims(), 1.0));
    }
    Ok(results)
}

/// Rounded to the nearest, halves to even; integers are whole already.
fn rounding(call: &Call<'_>, f: impl FnOnce(&Tensor) -> Tensor) -> Answer {
    unary(call, |x| if x.dtype().is_float() { f(x) } else { x.clone() })
}

pub(super) const RULES: Rules = &[
    ("Abs", |c| unary(c, |x| if x.dtype().is_float() || x.dtype().is_signed_integer() { x.abs() } else { x.clone() })),
    ("Acos", |c| smooth(c, Tensor::acos)),
    ("Acosh", |c| smooth(c, Tensor::acosh)),
    ("Add", |c| binary(c, |a, b| a + b)),
    ("And", |c| binary(c, Tensor::and)),
    ("Asin", |c| smooth(c, Tensor::asin)),
    ("Asinh", |c| smooth(c, Tensor::asinh)),
    ("Atan", |c| smooth(c, Tensor::atan)),
    ("Atanh", |c| smooth(c, Tensor::atanh)),
    ("BitCast", |c| {
        let to = data::dtype(i32::try_from(c.attributes.int("to", 0)).unwrap_or(0))?;
        let x = c.input(0)?;
        match to.bits() == x.dtype().bits() && ![to, x.dtype()].contains(&DType::Bool) {
            true => one(x.bitcast(to)),
            false => Err(Error::unsupported(format!("bits of {} as {to}", x.spec()))),
        }
    }),
    ("BitShift", shift),
    ("BitwiseAnd", |c| binary(c, Tensor::and)),
    ("BitwiseNot", |c| unary(c, Tensor::not)),
    ("BitwiseOr", |c| binary(c, Tensor::or)),
    ("BitwiseXor", |c| binary(c, Tensor::xor)),
    ("Cast", |c| cast_to(c, data::dtype(i32::try_from(c.attributes.int("to", 0)).unwrap_or(0))?)),
    ("CastLike", |c| cast_to(c, c.input(1)?.dtype())),
    ("Ceil", |c| rounding(c, Tensor::ceil)),
    ("Celu", |c| {
        let alpha = c.attributes.float("alpha", 1.0);
        smooth(c, |x| x.maximum(&like(x, 0.0)) + ((x / alpha).exp_m1() * alpha).minimum(&like(x, 0.0)))
    }),
    ("Clip", clip),
    ("Cos", |c| smooth(c, Tensor::cos)),
    ("Cosh", |c| smooth(c, Tensor::cosh)),
    ("Div", divide),
    ("Dropout", dropout),
    ("Elu", |c| {
        let alpha = c.attributes.float("alpha", 1.0);
        smooth(c, |x| elu(x, alpha))
    }),
    ("Equal", |c| binary(c, Tensor::equals)),
    ("Erf", |c| smooth(c, Tensor::erf)),
    ("Exp", |c| smooth(c, Tensor::exp)),
    ("Floor", |c| rounding(c, Tensor::floor)),
    ("Gelu", gelu),
    ("Greater", |c| binary(c, Tensor::greater)),
    ("GreaterOrEqual", |c| binary(c, Tensor::greater_equal)),
    ("HardSigmoid", |c| {
        let (alpha, beta) = (c.attributes.float("alpha", 0.2), c.attributes.float("beta", 0.5));
        smooth(c, |x| (x * alpha + beta).maximum(&like(x, 0.0)).minimum(&like(x, 1.0)))
    }),
    ("HardSwish", |c| smooth(c, |x| x * &(x * (1.0 / 6.0) + 0.5).maximum(&like(x, 0.0)).minimum(&like(x, 1.0)))),
    ("Identity", |c| unary(c, Tensor::clone)),
    ("IsInf", is_infinite),
    ("IsNaN", |c| unary(c, Tensor::is_nan)),
    ("LeakyRelu", |c| {
        let alpha = c.attributes.float("alpha", 0.01);
        smooth(c, |x| by_sign(x, x, &(x * alpha)))
    }),
    ("Less", |c| binary(c, Tensor::less)),
    ("LessOrEqual", |c| binary(c, Tensor::less_equal)),
    ("Log", |c| smooth(c, Tensor::log)),
    ("Max", |c| one(several(c, Tensor::maximum)?)),
    ("Mean", |c| one(several(c, |a, b| a + b)? / c.inputs.len() as f64)),
    ("Min", |c| one(several(c, Tensor::minimum)?)),
    ("Mish", |c| smooth(c, |x| x * &x.softplus().tanh())),
    ("Mod", modulo),
    ("Mul", |c| binary(c, |a, b| a * b)),
    ("Neg", |c| unary(c, Tensor::negate)),
    ("Not", |c| unary(c, Tensor::not)),
    ("Or", |c| binary(c, Tensor::or)),
    ("PRelu", prelu),
    ("Pow", power),
    ("Reciprocal", |c| unary(c, |x| like(x, 1.0) / x)),
    ("Relu", |c| unary(c, |x| x.maximum(&like(x, 0.0)))),
    ("Round", |c| rounding(c, Tensor::round)),
    ("Selu", |c| {
        // The constants of the paper, in f32 as ONNX has them.
        let alpha = c.attributes.float("alpha", f64::from(1.673_263_2_f32));
        let gamma = c.attributes.float("gamma", f64::from(1.050_701_f32));
        smooth(c, |x| elu(x, alpha) * gamma)
    }),
    ("Shrink", |c| {
        let (bias, limit) = (c.attributes.float("bias", 0.0), c.attributes.float("lambd", 0.5));
        unary(c, |x| {
            let high = x.greater(&like(x, limit)).select(&(x - bias), &x.zeros_like());
            x.less(&like(x, -limit)).select(&(x + bias), &high)
        })
    }),
    ("Sigmoid", |c| smooth(c, Tensor::logistic)),
    ("Sign", |c| {
        unary(c, |x| match x.dtype().is_float() || x.dtype().is_signed_integer() {
            true => x.sign(),
            false => x.minimum(&like(x, 1.0)),
        })
    }),
    ("Sin", |c| smooth(c, Tensor::sin)),
    ("Sinh", |c| smooth(c, Tensor::sinh)),
    ("Softplus", |c| smooth(c, Tensor::softplus)),
    ("Softsign", |c| smooth(c, |x| x / &(x.abs() + 1.0))),
    ("Sqrt", |c| smooth(c, Tensor::sqrt)),
    ("Sub", |c| binary(c, |a, b| a - b)),
    ("Sum", |c| one(several(c, |a, b| a + b)?)),
    ("Swish", swish),
    ("Tan", |c| smooth(c, Tensor::tan)),
    ("Tanh", |c| smooth(c, Tensor::tanh)),
    ("ThresholdedRelu", |c| {
        let alpha = c.attributes.float("alpha", 1.0);
        unary(c, |x| x.greater(&like(x, alpha)).select(x, &x.zeros_like()))
    }),
    ("Where", where_),
    ("Xor", |c| binary(c, Tensor::xor)),
];
