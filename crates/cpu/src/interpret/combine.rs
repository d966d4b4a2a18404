//! Regions as functions of scalars: single known ops are applied directly, everything else runs the region.

use hlo::{Attr, Func, Keyword, OpKind, Region, TensorType};

use super::context::Context;
use super::scalar::{self, Scalar, TotalOrder};
use super::value::{InterpreterValue, TensorValue, storage};
use crate::error::Error;

/// What a region of a reduction, scatter or sort computes.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Meaning {
    /// One binary op on arguments `0` and `1`, in that order.
    Binary(OpKind),
    /// A comparison of two arguments.
    Compare(Keyword, TotalOrder, [usize; 2]),
    /// One of the arguments.
    Argument(usize),
    /// Anything else.
    General,
}

/// Region `n` of an op, as a function of scalars.
pub(crate) struct Combine {
    region: usize,
    meaning: Meaning,
    argument_types: Vec<TensorType>,
}

impl Combine {
    /// Looks at region `n` of the op.
    pub(crate) fn new(context: &Context<'_, '_>, n: usize) -> Result<Combine, Error> {
        let region = *context.op.regions.get(n).ok_or_else(|| Error::Internal(format!("region {n} is missing")))?;
        let func = context.frame.func;
        let argument_types = func
            .region(region)
            .args
            .iter()
            .map(|&arg| func.ty(arg).as_tensor().cloned())
            .collect::<Option<Vec<_>>>()
            .ok_or_else(|| Error::Internal("a region takes something that is no tensor".into()))?;
        Ok(Combine { region: n, meaning: recognise(func, region), argument_types })
    }

    /// Element type of argument `n`.
    pub(crate) fn argument(&self, n: usize) -> Result<&TensorType, Error> {
        self.argument_types.get(n).ok_or_else(|| Error::Internal(format!("a region has no argument {n}")))
    }

    /// The region's results for the given arguments.
    pub(crate) fn apply(&self, context: &mut Context<'_, '_>, arguments: &[Scalar]) -> Result<Vec<Scalar>, Error> {
        match (self.meaning, arguments) {
            (Meaning::Binary(kind), [a, b]) => {
                let dtype = storage(&self.argument(0)?.element);
                if let Some(result) = scalar::binary(kind, dtype, *a, *b) {
                    return Ok(vec![result]);
                }
            }
            (Meaning::Compare(direction, total, [a, b]), _) if a.max(b) < arguments.len() => {
                if let Some(result) = scalar::compare(direction, total, arguments[a], arguments[b]) {
                    return Ok(vec![Scalar::Bool(result)]);
                }
            }
            (Meaning::Argument(n), _) if n < arguments.len() => return Ok(vec![arguments[n]]),
            _ => {}
        }
        let arguments = arguments
            .iter()
            .zip(&self.argument_types)
            .map(|(&scalar, ty)| InterpreterValue::Tensor(TensorValue { ty: ty.clone(), elements: scalar.repeat(1) }))
            .collect();
        context
            .region(self.region, arguments)?
            .iter()
            .map(|value| Ok(Scalar::get(&value.tensor()?.elements, 0)))
            .collect()
    }

    /// The only result of a binary region.
    pub(crate) fn fold(&self, context: &mut Context<'_, '_>, a: Scalar, b: Scalar) -> Result<Scalar, Error> {
        if let Meaning::Binary(kind) = self.meaning
            && let Some(result) = scalar::binary(kind, storage(&self.argument_types[0].element), a, b)
        {
            return Ok(result);
        }
        self.apply(context, &[a, b])?
            .first()
            .copied()
            .ok_or_else(|| Error::Internal("a region returned nothing".into()))
    }

    /// The answer of a region that returns one boolean.
    pub(crate) fn ask(&self, context: &mut Context<'_, '_>, arguments: &[Scalar]) -> Result<bool, Error> {
        match self.apply(context, arguments)?.first() {
            Some(Scalar::Bool(answer)) => Ok(*answer),
            other => Err(Error::Internal(format!("a comparison returned {other:?}"))),
        }
    }
}

fn recognise(func: &Func, region: Region) -> Meaning {
    let data = func.region(region);
    let argument = |value: hlo::Value| data.args.iter().position(|&arg| arg == value);
    let is_plain = |arg: &hlo::Value| func.ty(*arg).as_tensor().is_some_and(|ty| ty.element.plain().is_some());
    if !data.args.iter().all(is_plain) {
        return Meaning::General;
    }
    match data.ops[..] {
        [end] => match func.op(end).operands[..] {
            [value] => argument(value).map_or(Meaning::General, Meaning::Argument),
            _ => Meaning::General,
        },
        [only, end] => {
            let op = func.op(only);
            let (Some(kind), [a, b]) = (op.kind(), &op.operands[..]) else { return Meaning::General };
            if func.op(end).operands != [op.first_result] {
                return Meaning::General;
            }
            let (Some(a), Some(b)) = (argument(*a), argument(*b)) else { return Meaning::General };
            match kind {
                OpKind::Add
                | OpKind::Multiply
                | OpKind::Maximum
                | OpKind::Minimum
                | OpKind::And
                | OpKind::Or
                | OpKind::Xor
                    if data.args.len() == 2 && a != b =>
                {
                    // All of these commute in the arithmetic of `scalar`, so the order of the arguments is free.
                    Meaning::Binary(kind)
                }
                OpKind::Compare => match op.attr("comparison_direction").and_then(Attr::as_keyword) {
                    Some(direction) => {
                        let total =
                            op.attr("compare_type").and_then(Attr::as_keyword) == Some(Keyword::CompareTotalOrder);
                        Meaning::Compare(direction, if total { TotalOrder::Yes } else { TotalOrder::No }, [a, b])
                    }
                    None => Meaning::General,
                },
                _ => Meaning::General,
            }
        }
        _ => Meaning::General,
    }
}
