//! Self-checking programs: ops of the check dialect, and the custom calls of the same names.

use hlo::{Attr, OpKind};
use tensor::{DType, encode_float};

use super::context::{Context, Eval};
use super::scalar::Scalar;
use super::value::{Complex, InterpreterValue, TensorValue};
use crate::error::Error;

/// Absolute difference the op `expect_almost_eq` allows where none is written.
const OP_TOLERANCE: f64 = 1e-4;
/// Absolute difference the custom call `check.expect_almost_eq` allows, which has no place to write one.
const CALL_TOLERANCE: f64 = 1e-3;
/// Units in the last place the op `expect_close` allows where none are written.
const OP_ULPS: u64 = 1;
/// Units in the last place the custom call `check.expect_close` allows, which has no place to write them.
const CALL_ULPS: u64 = 3;
/// Differences told at most.
const MAX_TOLD: usize = 5;

pub(crate) fn eval(kind: OpKind) -> Option<Eval> {
    use OpKind as K;
    Some(match kind {
        K::CheckExpectEq => |c| equal(c.tensor(0)?, c.tensor(1)?),
        K::CheckExpectEqConst => |c| equal(c.tensor(0)?, &written(c)?),
        K::CheckExpectAlmostEq => |c| almost_equal(c.tensor(0)?, c.tensor(1)?, tolerance(c)),
        K::CheckExpectAlmostEqConst => |c| almost_equal(c.tensor(0)?, &written(c)?, tolerance(c)),
        K::CheckExpectClose => |c| {
            let bound = |name: &str, default| c.op.attr(name).and_then(Attr::as_int).map_or(default, |n| n as u64);
            close(c.tensor(0)?, c.tensor(1)?, bound("min_ulp_difference", 0), bound("max_ulp_difference", OP_ULPS))
        },
        K::CheckExpectSerializedEq => serialized,
        _ => return None,
    })
}

/// The check a custom call of two tensors names.
pub(crate) fn custom_call(target: &str) -> Option<Eval> {
    Some(match target {
        "check.expect_eq" => |c| equal(c.tensor(0)?, c.tensor(1)?),
        "check.expect_almost_eq" => |c| almost_equal(c.tensor(0)?, c.tensor(1)?, CALL_TOLERANCE),
        "check.expect_close" => |c| close(c.tensor(0)?, c.tensor(1)?, 0, CALL_ULPS),
        _ => return None,
    })
}

fn written(context: &Context<'_, '_>) -> Result<TensorValue, Error> {
    match context.op.attr("value") {
        Some(Attr::Dense(dense)) => {
            context.count(&dense.ty.dims)?;
            TensorValue::from_dense(dense)
        }
        _ => context.fail("the value is not dense"),
    }
}

fn tolerance(context: &Context<'_, '_>) -> f64 {
    match context.op.attr("tolerance") {
        Some(Attr::Float(value, _)) => value.get(),
        _ => OP_TOLERANCE,
    }
}

fn equal(got: &TensorValue, expected: &TensorValue) -> Result<Vec<InterpreterValue>, Error> {
    compare(got, expected, |got, expected| match (got, expected) {
        // A program that should give NaN is right when it does.
        (Scalar::Float(a), Scalar::Float(b)) => same(a, b).then_some(()).ok_or_else(String::new),
        (Scalar::Complex(a), Scalar::Complex(b)) => {
            (same(a.re, b.re) && same(a.im, b.im)).then_some(()).ok_or_else(String::new)
        }
        (a, b) => (a == b).then_some(()).ok_or_else(String::new),
    })
}

fn same(a: f64, b: f64) -> bool {
    a == b || (a.is_nan() && b.is_nan())
}

fn almost_equal(got: &TensorValue, expected: &TensorValue, tolerance: f64) -> Result<Vec<InterpreterValue>, Error> {
    let near = |a: f64, b: f64| same(a, b) || (a.is_finite() && b.is_finite() && (a - b).abs() <= tolerance);
    compare(got, expected, |got, expected| {
        let near = match (got, expected) {
            (Scalar::Float(a), Scalar::Float(b)) => near(a, b),
            (Scalar::Complex(a), Scalar::Complex(b)) => near(a.re, b.re) && near(a.im, b.im),
            (a, b) => a == b,
        };
        near.then_some(()).ok_or_else(|| format!(", tolerance {tolerance}"))
    })
}

fn close(got: &TensorValue, expected: &TensorValue, least: u64, most: u64) -> Result<Vec<InterpreterValue>, Error> {
    let dtype = got.dtype();
    let part = dtype.complex_part().unwrap_or(dtype);
    compare(got, expected, |got, expected| {
        let apart = match (got, expected) {
            (Scalar::Float(a), Scalar::Float(b)) => ulps(part, a, b),
            (Scalar::Complex(a), Scalar::Complex(b)) => ulps(part, a.re, b.re).max(ulps(part, a.im, b.im)),
            (a, b) if a == b => 0,
            _ => u64::MAX,
        };
        if (least..=most).contains(&apart) {
            Ok(())
        } else if apart == u64::MAX {
            Err(String::new())
        } else {
            Err(format!(", {apart} units in the last place apart, {most} allowed"))
        }
    })
}

/// Distance in units in the last place; `u64::MAX` where one is not finite and they are not the same.
fn ulps(dtype: DType, a: f64, b: f64) -> u64 {
    if a.is_nan() && b.is_nan() {
        return 0;
    }
    let bits = |x: f64| encode_float(dtype, x.abs()).unwrap_or(0);
    if a.is_finite() && b.is_finite() {
        let (x, y) = (bits(a), bits(b));
        // The two zeros are as far apart as they are from zero: not at all.
        return if a.is_sign_negative() == b.is_sign_negative() { x.abs_diff(y) } else { x.saturating_add(y) };
    }
    if a == b { 0 } else { u64::MAX }
}

fn compare(
    got: &TensorValue,
    expected: &TensorValue,
    accept: impl Fn(Scalar, Scalar) -> Result<(), String>,
) -> Result<Vec<InterpreterValue>, Error> {
    if got.dims() != expected.dims() || got.dtype() != expected.dtype() {
        let message =
            format!("expected {}, got {}", hlo::Type::from(expected.ty.clone()), hlo::Type::from(got.ty.clone()));
        return Err(Error::Check { message });
    }
    let mut told = Vec::new();
    let mut differences = 0usize;
    for n in 0..got.elements.len() {
        let (a, b) = (Scalar::get(&got.elements, n), Scalar::get(&expected.elements, n));
        if let Err(why) = accept(a, b) {
            differences += 1;
            if told.len() < MAX_TOLD {
                told.push(format!("at {:?} expected {}, got {}{why}", index(got.dims(), n), spell(b), spell(a)));
            }
        }
    }
    if differences == 0 {
        return Ok(Vec::new());
    }
    if differences > told.len() {
        told.push(format!("{} more of {} elements", differences - told.len(), got.elements.len()));
    }
    Err(Error::Check { message: told.join("; ") })
}

fn index(dims: &[i64], mut position: usize) -> Vec<usize> {
    let mut index = vec![0; dims.len()];
    for d in (0..dims.len()).rev() {
        let size = (dims[d] as usize).max(1);
        index[d] = position % size;
        position /= size;
    }
    index
}

fn spell(scalar: Scalar) -> String {
    match scalar {
        Scalar::Bool(x) => x.to_string(),
        Scalar::Int(x) => x.to_string(),
        Scalar::Float(x) => format!("{x:?}"),
        Scalar::Complex(Complex { re, im }) => format!("({re:?}, {im:?})"),
    }
}

/// What a probe recorded, the `iteration`-th time.
fn serialized(context: &mut Context<'_, '_>) -> Result<Vec<InterpreterValue>, Error> {
    let id = context.op.attr("probe_id").and_then(Attr::as_str).unwrap_or_default();
    let iteration = context.op.attr("iteration").and_then(Attr::as_int).unwrap_or(0).max(0) as usize;
    match context.run.probes.iter().filter(|(name, _)| name == id).nth(iteration) {
        Some((_, recorded)) => equal(recorded, context.tensor(0)?),
        None => Err(Error::Check { message: format!("probe {id:?} recorded nothing the {iteration}th time") }),
    }
}

#[cfg(test)]
mod tests {
    use super::super::value::Elements;
    use super::*;

    fn reals(values: &[f64]) -> TensorValue {
        TensorValue::new([values.len() as i64], DType::F32, Elements::Float(values.to_vec()))
    }

    #[test]
    fn a_difference_is_told_with_its_place() {
        let error = equal(&reals(&[1.0, 2.0]), &reals(&[1.0, 3.0])).unwrap_err();
        assert_eq!(error.to_string(), "check failed: at [1] expected 3.0, got 2.0");
    }

    #[test]
    fn closeness_counts_units_in_the_last_place() {
        let next = f64::from(f32::from_bits(1f32.to_bits() + 3));
        assert!(close(&reals(&[1.0, f64::NAN]), &reals(&[next, f64::NAN]), 0, 3).is_ok());
        assert!(close(&reals(&[1.0]), &reals(&[next]), 0, 2).is_err());
        assert!(close(&reals(&[f64::INFINITY]), &reals(&[f64::from(f32::MAX)]), 0, 3).is_err());
        assert_eq!(ulps(DType::F32, 0.0, -0.0), 0);
    }

    #[test]
    fn tolerance_is_absolute() {
        assert!(almost_equal(&reals(&[1.00005]), &reals(&[1.0]), 1e-4).is_ok());
        assert!(almost_equal(&reals(&[1.001]), &reals(&[1.0]), 1e-4).is_err());
        assert!(almost_equal(&reals(&[f64::INFINITY]), &reals(&[1.0]), 1e-4).is_err());
    }
}
