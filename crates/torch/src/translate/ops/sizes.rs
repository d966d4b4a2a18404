//! Numbers of sizes: they are known when a program is translated.

use tensor::DType;

use crate::error::Error;
use crate::graph::{NodeArgument, apply};
use crate::translate::call::{Call, Value, in_rank};
use crate::translate::run::Rules;
use crate::translate::types::Scalar;

type Answer = Result<Value, Error>;

fn size(call: &mut Call<'_, '_>) -> Answer {
    let x = call.subject()?;
    let axis = in_rank(call.int("dim", 0)?, x.rank())?;
    let size = x.dims().get(axis).copied().ok_or_else(|| Error::damaged("a size of an axis that is not there"))?;
    Ok(Value::Scalar(Scalar::Int(size as i64)))
}

/// The recorded stride of an axis.
fn stride(call: &mut Call<'_, '_>) -> Answer {
    let Some((_, NodeArgument::Tensor(name))) = call.node.inputs.first() else {
        return Err(Error::damaged("a stride of what is no tensor"));
    };
    let layout = call.translator.layout(name);
    let (_, strides) = layout.ok_or_else(|| Error::damaged("a tensor without recorded strides"))?;
    let axis = in_rank(call.int("dim", 0)?, strides.len())?;
    let stride = strides.get(axis).ok_or_else(|| Error::damaged("a stride of an axis that is not there"))?;
    Ok(Value::Scalar(Scalar::Int(*stride)))
}

/// Where a tensor begins in its storage: known of a whole one.
fn storage_offset(call: &mut Call<'_, '_>) -> Answer {
    let Some((_, NodeArgument::Tensor(name))) = call.node.inputs.first() else {
        return Err(Error::damaged("the place of what is no tensor"));
    };
    match call.translator.storage_of(name) {
        Some((_, true)) => Ok(Value::Scalar(Scalar::Int(0))),
        _ => Err(call.unsupported("the place of a view in its storage")),
    }
}

fn numbers(call: &mut Call<'_, '_>) -> Result<Vec<Scalar>, Error> {
    let all = call.node.inputs.iter().map(|(_, argument)| call.translator.scalar(argument));
    let all: Option<Vec<Scalar>> = all.collect::<Result<_, Error>>()?;
    all.ok_or_else(|| Error::damaged("an argument is not a number"))
}

/// Of integers where all are, else of floats.
fn computed(call: &mut Call<'_, '_>, name: &str, f: fn(f64, f64) -> f64) -> Answer {
    let values = numbers(call)?;
    let ints: Option<Vec<i64>> = values
        .iter()
        .map(|value| match value {
            Scalar::Int(value) => Some(*value),
            Scalar::Bool(value) => Some(i64::from(*value)),
            Scalar::Float(_) => None,
        })
        .collect();
    if let Some(result) = ints.and_then(|ints| apply(name, &ints)) {
        return Ok(Value::Scalar(Scalar::Int(result)));
    }
    let mut floats = values.iter().map(|value| value.as_f64());
    let first = floats.next().unwrap_or(0.0);
    Ok(Value::Scalar(Scalar::Float(floats.fold(first, f))))
}

fn compared(call: &mut Call<'_, '_>, f: fn(f64, f64) -> bool) -> Answer {
    match numbers(call)?.as_slice() {
        [a, b] => Ok(Value::Scalar(Scalar::Bool(f(a.as_f64(), b.as_f64())))),
        _ => Err(Error::damaged("a comparison has two sides")),
    }
}

fn one(call: &mut Call<'_, '_>, f: fn(f64) -> Scalar) -> Answer {
    match numbers(call)?.as_slice() {
        [x] => Ok(Value::Scalar(f(x.as_f64()))),
        _ => Err(Error::damaged("it takes one number")),
    }
}

fn item(call: &mut Call<'_, '_>) -> Answer {
    let x = call.subject()?;
    // A constant's value is known; others are only when the program runs.
    if let Some(literal) = x.host_value() {
        return Ok(Value::Scalar(match literal.dtype() {
            dtype if dtype.is_float() => Scalar::Float(literal.cast(DType::F64)?.item::<f64>()?),
            DType::Bool => Scalar::Bool(literal.item::<bool>()?),
            DType::I64 => Scalar::Int(literal.item::<i64>()?),
            DType::I32 => Scalar::Int(i64::from(literal.item::<i32>()?)),
            dtype => return Err(call.unsupported(format!("a Python number of {dtype}"))),
        }));
    }
    Err(Error::new(
        "it makes a Python number of a tensor's value, which no TPU program can do",
        "keep the value as a tensor, or pass it as an argument",
    ))
}

/// A list's element; `getitem` of results is folded into the ops that give them.
fn nothing(_: &mut Call<'_, '_>) -> Answer {
    Ok(Value::Nothing)
}

fn numel(call: &mut Call<'_, '_>) -> Answer {
    Ok(Value::Scalar(Scalar::Int(call.subject()?.num_elements() as i64)))
}

fn assertion(call: &mut Call<'_, '_>) -> Answer {
    if let Some((_, argument)) = call.node.inputs.first()
        && !matches!(argument, NodeArgument::Tensor(_))
        && call.translator.scalar(argument)?.is_some_and(|value| value.as_f64() == 0.0)
    {
        let message = call.text("assert_msg").unwrap_or("a condition on sizes").to_string();
        return Err(Error::new(format!("the program's own check fails: {message}"), "give inputs of other shapes"));
    }
    Ok(Value::Nothing)
}

pub(super) const RULES: Rules = &[
    ("sym_size", size),
    ("size", size),
    ("sym_stride", stride),
    ("sym_storage_offset", storage_offset),
    ("sym_numel", numel),
    ("numel", numel),
    ("item", item),
    ("_local_scalar_dense", item),
    ("_assert_tensor_metadata", nothing),
    ("_assert_async", nothing),
    ("_assert_scalar", assertion),
    ("sym_constrain_range_for_size", nothing),
    ("sym_constrain_range", nothing),
    ("_operator.add", |c| computed(c, "Add", |a, b| a + b)),
    ("_operator.sub", |c| computed(c, "Sub", |a, b| a - b)),
    ("_operator.mul", |c| computed(c, "Mul", |a, b| a * b)),
    ("_operator.floordiv", |c| computed(c, "FloorDiv", |a, b| (a / b).floor())),
    ("_operator.truediv", |c| computed(c, "", |a, b| a / b)),
    ("_operator.mod", |c| computed(c, "Mod", f64::rem_euclid)),
    ("_operator.pow", |c| computed(c, "Pow", f64::powf)),
    ("_operator.neg", |c| match numbers(c)?.as_slice() {
        [Scalar::Int(x)] => Ok(Value::Scalar(Scalar::Int(x.wrapping_neg()))),
        [x] => Ok(Value::Scalar(Scalar::Float(-x.as_f64()))),
        _ => Err(Error::damaged("it takes one number")),
    }),
    ("_operator.and_", |c| compared(c, |a, b| a != 0.0 && b != 0.0)),
    ("_operator.or_", |c| compared(c, |a, b| a != 0.0 || b != 0.0)),
    ("_operator.not_", |c| one(c, |x| Scalar::Bool(x == 0.0))),
    ("_operator.eq", |c| compared(c, |a, b| a == b)),
    ("_operator.ne", |c| compared(c, |a, b| a != b)),
    ("_operator.lt", |c| compared(c, |a, b| a < b)),
    ("_operator.le", |c| compared(c, |a, b| a <= b)),
    ("_operator.gt", |c| compared(c, |a, b| a > b)),
    ("_operator.ge", |c| compared(c, |a, b| a >= b)),
    ("torch.sym_max", |c| computed(c, "Max", f64::max)),
    ("torch.sym_min", |c| computed(c, "Min", f64::min)),
    ("torch.sym_float", |c| one(c, Scalar::Float)),
    ("torch.sym_int", |c| one(c, |x| Scalar::Int(x.trunc() as i64))),
    ("torch.sym_not", |c| one(c, |x| Scalar::Bool(x == 0.0))),
    ("torch.sym_sum", |c| computed(c, "Add", |a, b| a + b)),
    ("torch._sym_sqrt", |c| one(c, |x| Scalar::Float(x.sqrt()))),
    ("math.ceil", |c| one(c, |x| Scalar::Int(x.ceil() as i64))),
    ("math.floor", |c| one(c, |x| Scalar::Int(x.floor() as i64))),
    ("math.trunc", |c| one(c, |x| Scalar::Int(x.trunc() as i64))),
];
