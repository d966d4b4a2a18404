//! Ops that compute each element of the result from the elements at the same place.

use std::borrow::Cow;
use std::cmp::Ordering;

use hlo::{ElementType, Keyword, OpKind};
use tensor::DType;

use super::context::{Context, Eval};
use super::quantization;
use super::scalar::{self, Scalar, TotalOrder};
use super::value::{Complex, Elements, InterpreterValue, TensorValue, round, storage, wrap};
use crate::attributes;
use crate::error::Error;

pub(crate) fn eval(kind: OpKind) -> Option<Eval> {
    use OpKind as K;
    Some(match kind {
        K::Abs | K::Cbrt | K::Ceil | K::Cosine | K::CountLeadingZeros | K::Exponential | K::ExponentialMinusOne => {
            unary_op
        }
        K::Floor | K::Imag | K::IsFinite | K::Log | K::LogPlusOne | K::Logistic | K::Negate | K::Not | K::Popcnt => {
            unary_op
        }
        K::Real | K::RoundNearestAfz | K::RoundNearestEven | K::Rsqrt | K::Sign | K::Sine | K::Sqrt | K::Tan => {
            unary_op
        }
        K::Tanh => unary_op,
        K::Add | K::And | K::Atan2 | K::Complex | K::Divide | K::Maximum | K::Minimum | K::Multiply | K::Or => {
            binary_op
        }
        K::Power | K::Remainder | K::ShiftLeft | K::ShiftRightArithmetic | K::ShiftRightLogical => binary_op,
        K::Subtract | K::Xor => binary_op,
        K::Compare => compare_op,
        K::Select => select_op,
        K::Clamp => clamp_op,
        _ => return None,
    })
}

fn unary_op(context: &mut Context<'_, '_>) -> Result<Vec<InterpreterValue>, Error> {
    let element = context.result_tensor(0)?.element.clone();
    let operand = reals(context.tensor(0)?)?;
    let kind = context.kind()?;
    let plain = quantization::expressed_type(&element);
    match unary(kind, storage(&plain), operand.dtype(), &operand.elements) {
        Some(elements) => {
            Ok(vec![quantization::stored(&TensorValue::new(operand.dims(), plain, elements), &element)?.into()])
        }
        None => context.fail(format!("has no meaning for {}", operand.dtype())),
    }
}

fn binary_op(context: &mut Context<'_, '_>) -> Result<Vec<InterpreterValue>, Error> {
    let element = context.result_tensor(0)?.element.clone();
    let (lhs, rhs) = (reals(context.tensor(0)?)?, reals(context.tensor(1)?)?);
    if lhs.dims() != rhs.dims() {
        return context.fail(format!("the operands have sizes {:?} and {:?}", lhs.dims(), rhs.dims()));
    }
    let plain = quantization::expressed_type(&element);
    match binary(context.kind()?, storage(&plain), &lhs.elements, &rhs.elements) {
        Some(elements) => {
            Ok(vec![quantization::stored(&TensorValue::new(lhs.dims(), plain, elements), &element)?.into()])
        }
        None => context.fail(format!("has no meaning for {}", lhs.dtype())),
    }
}

/// The numbers a tensor stands for (spec: quantized ops dequantize, compute, quantize).
fn reals(tensor: &TensorValue) -> Result<Cow<'_, TensorValue>, Error> {
    match tensor.ty.element {
        ElementType::Quantized(_) => quantization::expressed(tensor).map(Cow::Owned),
        _ => Ok(Cow::Borrowed(tensor)),
    }
}

/// A unary op on elements of type `from`, giving type `to`; `None` where the op has no meaning for the type.
pub(crate) fn unary(kind: OpKind, to: DType, from: DType, elements: &Elements) -> Option<Elements> {
    use OpKind as K;
    Some(match elements {
        Elements::Bool(v) => match kind {
            K::Not => Elements::Bool(v.iter().map(|x| !x).collect()),
            _ => return None,
        },
        Elements::Int(v) => {
            let bits = from.bits();
            let f: &dyn Fn(i128) -> i128 = match kind {
                K::Abs => &|x| x.abs(),
                K::Negate => &|x| -x,
                K::Not => &|x| !x,
                K::Sign => &|x| x.signum(),
                K::Popcnt => &|x| i128::from((x as u128 & ((1u128 << bits) - 1)).count_ones()),
                K::CountLeadingZeros => {
                    &|x| i128::from((x as u128 & ((1u128 << bits) - 1)).leading_zeros() + bits - 128)
                }
                _ => return None,
            };
            Elements::Int(v.iter().map(|&x| wrap(to, f(x))).collect())
        }
        Elements::Float(v) => match kind {
            K::IsFinite => Elements::Bool(v.iter().map(|x| x.is_finite()).collect()),
            K::Imag => Elements::Float(vec![0.0; v.len()]),
            _ => {
                let f = real_function(kind)?;
                Elements::Float(v.iter().map(|&x| round(to, f(x))).collect())
            }
        },
        Elements::Complex(v) => match kind {
            K::Abs => Elements::Float(v.iter().map(|x| round(to, x.magnitude())).collect()),
            K::Real => Elements::Float(v.iter().map(|x| x.re).collect()),
            K::Imag => Elements::Float(v.iter().map(|x| x.im).collect()),
            _ => {
                let f = complex_function(kind)?;
                Elements::Complex(v.iter().map(|&x| f(x).rounded(to)).collect())
            }
        },
    })
}

fn real_function(kind: OpKind) -> Option<fn(f64) -> f64> {
    use OpKind as K;
    Some(match kind {
        K::Abs => f64::abs,
        K::Cbrt => f64::cbrt,
        K::Ceil => f64::ceil,
        K::Cosine => f64::cos,
        K::Exponential => f64::exp,
        K::ExponentialMinusOne => f64::exp_m1,
        K::Floor => f64::floor,
        K::Log => f64::ln,
        K::LogPlusOne => f64::ln_1p,
        K::Logistic => |x| 1.0 / (1.0 + (-x).exp()),
        K::Negate => |x| -x,
        K::Real => |x| x,
        K::RoundNearestAfz => f64::round,
        K::RoundNearestEven => f64::round_ties_even,
        K::Rsqrt => |x| 1.0 / x.sqrt(),
        K::Sign => |x| if x.is_nan() || x == 0.0 { x } else { x.signum() },
        K::Sine => f64::sin,
        K::Sqrt => f64::sqrt,
        K::Tan => f64::tan,
        K::Tanh => f64::tanh,
        _ => return None,
    })
}

fn complex_function(kind: OpKind) -> Option<fn(Complex) -> Complex> {
    use OpKind as K;
    Some(match kind {
        K::Cbrt => Complex::cbrt,
        K::Cosine => Complex::cos,
        K::Exponential => Complex::exp,
        K::ExponentialMinusOne => Complex::exp_m1,
        K::Log => Complex::ln,
        K::LogPlusOne => Complex::ln_1p,
        K::Logistic => Complex::logistic,
        K::Negate => Complex::negative,
        K::Rsqrt => Complex::reciprocal_sqrt,
        K::Sign => Complex::sign,
        K::Sine => Complex::sin,
        K::Sqrt => Complex::sqrt,
        K::Tan => Complex::tan,
        K::Tanh => Complex::tanh,
        _ => return None,
    })
}

/// A binary op giving elements of type `to`; `None` where the op has no meaning for the type.
pub(crate) fn binary(kind: OpKind, to: DType, lhs: &Elements, rhs: &Elements) -> Option<Elements> {
    use OpKind as K;
    fn zip<T: Copy, U>(a: &[T], b: &[T], mut f: impl FnMut(T, T) -> U) -> Vec<U> {
        a.iter().zip(b).map(|(&a, &b)| f(a, b)).collect()
    }
    Some(match (lhs, rhs) {
        (Elements::Bool(a), Elements::Bool(b)) => Elements::Bool(match kind {
            K::Add | K::Or | K::Maximum => zip(a, b, |a, b| a | b),
            K::Multiply | K::And | K::Minimum => zip(a, b, |a, b| a & b),
            K::Xor => zip(a, b, |a, b| a ^ b),
            _ => return None,
        }),
        (Elements::Int(a), Elements::Int(b)) => {
            integer_function(kind, to, 0, 0)?;
            Elements::Int(zip(a, b, |a, b| wrap(to, integer_function(kind, to, a, b).unwrap_or(0))))
        }
        (Elements::Float(a), Elements::Float(b)) => {
            if kind == K::Complex {
                return Some(Elements::Complex(zip(a, b, |re, im| Complex { re, im })));
            }
            let f: fn(f64, f64) -> f64 = match kind {
                K::Add => |a, b| a + b,
                K::Subtract => |a, b| a - b,
                K::Multiply => |a, b| a * b,
                K::Divide => |a, b| a / b,
                K::Remainder => |a, b| a % b,
                K::Power => power,
                K::Atan2 => f64::atan2,
                K::Maximum => scalar::maximum,
                K::Minimum => |a, b| -scalar::maximum(-a, -b),
                _ => return None,
            };
            Elements::Float(zip(a, b, |a, b| round(to, f(a, b))))
        }
        (Elements::Complex(a), Elements::Complex(b)) => {
            if kind == K::Multiply {
                return Some(Elements::Complex(zip(a, b, |a, b| scalar::complex_product(to, a, b))));
            }
            let f: fn(Complex, Complex) -> Complex = match kind {
                K::Add => Complex::plus,
                K::Subtract => Complex::minus,
                K::Divide => Complex::over,
                K::Power => Complex::powc,
                K::Atan2 => Complex::atan2,
                K::Maximum => |a, b| if lexicographic(a, b) == Some(Ordering::Less) { b } else { a },
                K::Minimum => |a, b| if lexicographic(a, b) == Some(Ordering::Greater) { b } else { a },
                _ => return None,
            };
            Elements::Complex(zip(a, b, |a, b| f(a, b).rounded(to)))
        }
        _ => return None,
    })
}

/// IEEE 754 `pow`.
fn power(base: f64, exponent: f64) -> f64 {
    base.powf(exponent)
}

/// The exact result, before it is brought into the range of the type.
fn integer_function(kind: OpKind, dtype: DType, a: i128, b: i128) -> Option<i128> {
    use OpKind as K;
    let bits = i128::from(dtype.bits());
    // A shift amount is read as unsigned, so a negative one is larger than any width.
    let within = (0..bits).contains(&b);
    Some(match kind {
        K::Add => a + b,
        K::Subtract => a - b,
        K::Multiply => a.wrapping_mul(b),
        // Division by zero is left to implementations; these are the results of XLA.
        K::Divide => {
            if b == 0 {
                -1
            } else {
                a / b
            }
        }
        K::Remainder => {
            if b == 0 {
                a
            } else {
                a % b
            }
        }
        K::Maximum => a.max(b),
        K::Minimum => a.min(b),
        K::And => a & b,
        K::Or => a | b,
        K::Xor => a ^ b,
        K::Power => integer_power(dtype, a, b),
        K::ShiftLeft => {
            if within {
                a << b
            } else {
                0
            }
        }
        K::ShiftRightArithmetic => {
            let signed = (a << (128 - bits)) >> (128 - bits);
            if within { signed >> b } else { signed >> (bits - 1) }
        }
        K::ShiftRightLogical => {
            if within {
                (a as u128 & ((1u128 << bits) - 1)) as i128 >> b
            } else {
                0
            }
        }
        _ => return None,
    })
}

fn integer_power(dtype: DType, base: i128, mut exponent: i128) -> i128 {
    if exponent < 0 {
        return match base {
            1 => 1,
            -1 => {
                if exponent % 2 == 0 {
                    1
                } else {
                    -1
                }
            }
            _ => 0,
        };
    }
    let (mut result, mut square) = (1i128, base);
    while exponent > 0 {
        if exponent & 1 == 1 {
            result = wrap(dtype, result.wrapping_mul(square));
        }
        square = wrap(dtype, square.wrapping_mul(square));
        exponent >>= 1;
    }
    result
}

fn lexicographic(a: Complex, b: Complex) -> Option<Ordering> {
    match a.re.partial_cmp(&b.re) {
        Some(Ordering::Equal) => a.im.partial_cmp(&b.im),
        order => order,
    }
}

fn compare_op(context: &mut Context<'_, '_>) -> Result<Vec<InterpreterValue>, Error> {
    let direction = attributes::keyword(context.op, "comparison_direction")?;
    let total = total_order(context);
    let (lhs, rhs) = (reals(context.tensor(0)?)?, reals(context.tensor(1)?)?);
    if lhs.dims() != rhs.dims() {
        return context.fail(format!("the operands have sizes {:?} and {:?}", lhs.dims(), rhs.dims()));
    }
    match compare(direction, total, &lhs.elements, &rhs.elements) {
        Some(answers) => Ok(vec![TensorValue::new(lhs.dims(), DType::Bool, Elements::Bool(answers)).into()]),
        None => context.fail(format!("has no meaning for {}", lhs.dtype())),
    }
}

/// The order a comparison asks for.
pub(crate) fn total_order(context: &Context<'_, '_>) -> TotalOrder {
    TotalOrder::of(context.op)
}

/// The answers of a comparison of equally many elements.
pub(crate) fn compare(direction: Keyword, total: TotalOrder, lhs: &Elements, rhs: &Elements) -> Option<Vec<bool>> {
    if let (Elements::Complex(a), Elements::Complex(b)) = (lhs, rhs) {
        return a
            .iter()
            .zip(b)
            .map(|(a, b)| {
                let order = lexicographic(*a, *b);
                Some(match direction {
                    Keyword::Eq => a == b,
                    Keyword::Ne => a != b,
                    Keyword::Lt => order == Some(Ordering::Less),
                    Keyword::Le => matches!(order, Some(Ordering::Less | Ordering::Equal)),
                    Keyword::Gt => order == Some(Ordering::Greater),
                    Keyword::Ge => matches!(order, Some(Ordering::Greater | Ordering::Equal)),
                    _ => return None,
                })
            })
            .collect();
    }
    (0..lhs.len()).map(|n| scalar::compare(direction, total, Scalar::get(lhs, n), Scalar::get(rhs, n))).collect()
}

fn select_op(context: &mut Context<'_, '_>) -> Result<Vec<InterpreterValue>, Error> {
    let (predicate, on_true, on_false) = (context.tensor(0)?, context.tensor(1)?, context.tensor(2)?);
    match select(predicate, on_true, on_false) {
        Some(result) => Ok(vec![result.into()]),
        None => context.fail(format!(
            "the operands have sizes {:?}, {:?} and {:?}",
            predicate.dims(),
            on_true.dims(),
            on_false.dims()
        )),
    }
}

/// Elements of one or the other; a rank-0 predicate decides for all.
pub(crate) fn select(predicate: &TensorValue, on_true: &TensorValue, on_false: &TensorValue) -> Option<TensorValue> {
    let Elements::Bool(answers) = &predicate.elements else { return None };
    let all = predicate.dims().is_empty();
    if on_true.dims() != on_false.dims() || !(all || predicate.dims() == on_true.dims()) {
        return None;
    }
    let mut result = on_false.clone();
    for n in 0..result.elements.len() {
        if answers[if all { 0 } else { n }] {
            result.elements.set(n, &on_true.elements, n).ok()?;
        }
    }
    Some(result)
}

fn clamp_op(context: &mut Context<'_, '_>) -> Result<Vec<InterpreterValue>, Error> {
    let element = context.result_tensor(0)?.element.clone();
    let (low, operand, high) = (reals(context.tensor(0)?)?, reals(context.tensor(1)?)?, reals(context.tensor(2)?)?);
    let spread = |bound: &TensorValue| {
        if bound.dims() == operand.dims() {
            Ok(bound.elements.clone())
        } else if bound.dims().is_empty() {
            Ok(Scalar::get(&bound.elements, 0).repeat(operand.elements.len()))
        } else {
            context.fail(format!("a bound has sizes {:?}, the operand {:?}", bound.dims(), operand.dims()))
        }
    };
    let (low, high) = (spread(&low)?, spread(&high)?);
    let dtype = operand.dtype();
    let clamped = binary(OpKind::Maximum, dtype, &operand.elements, &low)
        .and_then(|raised| binary(OpKind::Minimum, dtype, &raised, &high));
    match clamped {
        Some(elements) => {
            Ok(vec![quantization::stored(&TensorValue { ty: operand.ty.clone(), elements }, &element)?.into()])
        }
        None => context.fail(format!("has no meaning for {dtype}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ints(kind: OpKind, dtype: DType, a: i128, b: i128) -> i128 {
        match binary(kind, dtype, &Elements::Int(vec![a]), &Elements::Int(vec![b])) {
            Some(Elements::Int(v)) => v[0],
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn integers_wrap() {
        assert_eq!(ints(OpKind::Add, DType::I8, 127, 1), -128);
        assert_eq!(ints(OpKind::Multiply, DType::U64, i128::from(u64::MAX), i128::from(u64::MAX)), 1);
        assert_eq!(ints(OpKind::Divide, DType::I8, -128, -1), -128);
        assert_eq!(ints(OpKind::Divide, DType::U8, 5, 0), 255);
        assert_eq!(ints(OpKind::Remainder, DType::I32, -7, 2), -1);
        assert_eq!(ints(OpKind::Power, DType::I32, 3, 40), i128::from(3i32.wrapping_pow(40)));
        assert_eq!(ints(OpKind::Power, DType::I32, 2, -1), 0);
        assert_eq!(ints(OpKind::Power, DType::I32, -1, -3), -1);
    }

    #[test]
    fn shifts_beyond_the_width_leave_nothing_or_the_sign() {
        assert_eq!(ints(OpKind::ShiftLeft, DType::I8, 1, 8), 0);
        assert_eq!(ints(OpKind::ShiftLeft, DType::I8, 1, 7), -128);
        assert_eq!(ints(OpKind::ShiftRightLogical, DType::I8, -1, 1), 127);
        assert_eq!(ints(OpKind::ShiftRightArithmetic, DType::I8, -128, 9), -1);
        assert_eq!(ints(OpKind::ShiftRightArithmetic, DType::U8, 255, 9), 255);
        assert_eq!(ints(OpKind::ShiftRightLogical, DType::I8, 1, -1), 0);
    }

    #[test]
    fn counts_of_bits_respect_the_width() {
        let bits = Elements::Int(vec![-1, 1]);
        assert_eq!(unary(OpKind::Popcnt, DType::I16, DType::I16, &bits), Some(Elements::Int(vec![16, 1])));
        assert_eq!(unary(OpKind::CountLeadingZeros, DType::I16, DType::I16, &bits), Some(Elements::Int(vec![0, 15])));
    }
}
