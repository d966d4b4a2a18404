//! Types and regions as `hlo` has them: how a node's op is written, and checked while it is traced.

use hlo::ops::Violation;
use hlo::{Attr, Attrs, FuncBuilder, Keyword, OpKind, Region, Type, Value};
use tensor::DType;

use crate::Spec;
use crate::graph::Combine;

/// The type of a value in a program.
pub(crate) fn type_of(spec: &Spec) -> Type {
    Type::tensor(spec.dims.iter().map(|&size| size as i64).collect::<Vec<_>>(), spec.dtype)
}

/// Type and shape of a value of a program; traced programs have no dynamic sizes.
pub(crate) fn spec_of(ty: &Type) -> Result<Spec, Violation> {
    let tensor = ty.as_tensor().ok_or_else(|| Violation::new("", "a result is no tensor"))?;
    let dims = tensor.dims.iter().map(|&size| usize::try_from(size)).collect::<Result<Vec<_>, _>>();
    match (dims, tensor.element.plain()) {
        (Ok(dims), Some(dtype)) => Ok(Spec { dtype, dims }),
        _ => Err(Violation::new("", "a result has no static type")),
    }
}

/// Writes an op with its region.
pub(crate) fn write(
    f: &mut FuncBuilder,
    (kind, attrs, combine): (OpKind, Attrs, Option<Combine>),
    operands: &[Value],
    results: Option<&[Spec]>,
) -> Result<Vec<Value>, Violation> {
    let regions = regions(f, kind, combine, operands)?;
    match results {
        Some(results) => f.op_with_types(kind, operands, attrs, &regions, results.iter().map(type_of).collect()),
        None => f.op_with_regions(kind, operands, attrs, &regions),
    }
}

/// Result types of an op, found by writing it into a function of its own; what breaks the specification is refused.
pub(crate) fn infer(
    (kind, attrs, combine): (OpKind, &Attrs, Option<Combine>),
    operands: &[&Spec],
    results: Option<&[Spec]>,
) -> Result<Vec<Spec>, Violation> {
    let mut f = FuncBuilder::new("checked");
    let operands: Vec<Value> = operands.iter().map(|spec| f.arg(type_of(spec))).collect();
    let written = write(&mut f, (kind, attrs.clone(), combine), &operands, results)?;
    written.iter().map(|&value| spec_of(f.ty(value))).collect()
}

fn regions(
    f: &mut FuncBuilder,
    kind: OpKind,
    combine: Option<Combine>,
    operands: &[Value],
) -> Result<Vec<Region>, Violation> {
    let Some(combine) = combine else { return Ok(Vec::new()) };
    let element = |f: &FuncBuilder, n: usize| -> Result<Type, Violation> {
        let ty = operands.get(n).map(|&value| f.ty(value).clone());
        let spec = spec_of(&ty.ok_or_else(|| Violation::new("", "an operand is missing"))?)?;
        Ok(Type::scalar(spec.dtype))
    };
    match kind {
        OpKind::Sort => {
            let mut args = Vec::new();
            for n in 0..operands.len() {
                args.extend([element(f, n)?, element(f, n)?]);
            }
            let direction = if combine == Combine::Descending { Keyword::Gt } else { Keyword::Lt };
            Ok(vec![f.region(&args, |f, args| Ok(vec![compare(f, direction, args[0], args[1])?]))?])
        }
        OpKind::SelectAndScatter => {
            let scalar = element(f, 0)?;
            let direction = if combine == Combine::Minimum { Keyword::Le } else { Keyword::Ge };
            let select = f.region(&[scalar.clone(), scalar.clone()], |f, args| {
                Ok(vec![compare(f, direction, args[0], args[1])?])
            })?;
            let scatter =
                f.region(&[scalar.clone(), scalar], |f, args| Ok(vec![f.op(OpKind::Add, args, Attrs::new())?]))?;
            Ok(vec![select, scatter])
        }
        _ if matches!(combine, Combine::ArgMaximum | Combine::ArgMinimum) => {
            let (value, index) = (element(f, 0)?, element(f, 1)?);
            let args = [value.clone(), index.clone(), value, index];
            let direction = if combine == Combine::ArgMaximum { Keyword::Gt } else { Keyword::Lt };
            Ok(vec![f.region(&args, |f, args| arg_extreme(f, direction, args))?])
        }
        _ => {
            let scalar = element(f, 0)?;
            Ok(vec![f.region(&[scalar.clone(), scalar], |f, args| {
                let kind = match combine {
                    Combine::Add => OpKind::Add,
                    Combine::Multiply => OpKind::Multiply,
                    Combine::Maximum => OpKind::Maximum,
                    Combine::Minimum => OpKind::Minimum,
                    Combine::And => OpKind::And,
                    Combine::Or => OpKind::Or,
                    _ => return Ok(vec![args[1]]),
                };
                Ok(vec![f.op(kind, args, Attrs::new())?])
            })?])
        }
    }
}

/// Of two values with indices the more extreme, a NaN before all, at equal values the smaller index.
fn arg_extreme(f: &mut FuncBuilder, direction: Keyword, args: &[Value]) -> Result<Vec<Value>, Violation> {
    let [left, left_at, right, right_at] = args[..] else {
        return Err(Violation::new("", "an argument is missing"));
    };
    let mut wins = compare(f, direction, left, right)?;
    if spec_of(f.ty(left))?.dtype.is_float() {
        let is_nan = compare(f, Keyword::Ne, left, left)?;
        wins = f.op(OpKind::Or, &[wins, is_nan], Attrs::new())?;
    }
    let is_equal = compare(f, Keyword::Eq, left, right)?;
    let is_before = compare(f, Keyword::Lt, left_at, right_at)?;
    let wins_tie = f.op(OpKind::And, &[is_equal, is_before], Attrs::new())?;
    let takes = f.op(OpKind::Or, &[wins, wins_tie], Attrs::new())?;
    let value = f.op(OpKind::Select, &[wins, left, right], Attrs::new())?;
    let at = f.op(OpKind::Select, &[takes, left_at, right_at], Attrs::new())?;
    Ok(vec![value, at])
}

/// A comparison in the order of its operands' type.
fn compare(f: &mut FuncBuilder, direction: Keyword, lhs: Value, rhs: Value) -> Result<Value, Violation> {
    let dtype = spec_of(f.ty(lhs))?.dtype;
    f.op(OpKind::Compare, &[lhs, rhs], comparison(direction, dtype))
}

/// Attributes of a comparison of elements of a type.
pub(crate) fn comparison(direction: Keyword, dtype: DType) -> Attrs {
    let kind = if dtype.is_float() || dtype.is_complex() {
        Keyword::CompareFloat
    } else if dtype.is_unsigned_integer() || dtype == DType::Bool {
        Keyword::CompareUnsigned
    } else {
        Keyword::CompareSigned
    };
    let mut attrs = Attrs::new();
    attrs.set("comparison_direction", Attr::Keyword(direction));
    attrs.set("compare_type", Attr::Keyword(kind));
    attrs
}
