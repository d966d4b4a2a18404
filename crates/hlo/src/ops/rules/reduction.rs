//! Regions that combine two values into one.

use crate::ir::{ElementType, TensorType, Type};
use crate::ops::def::{OpView, Violation};

use super::{Checked, require, shapes, spelling};

/// Element types of the values that region `n` accumulates.
pub(crate) fn accumulators(
    op: &OpView<'_>,
    region: usize,
    count: usize,
    clause: &'static str,
) -> Result<Vec<ElementType>, Violation> {
    let outputs = op.region_outputs(region)?;
    require!(outputs.len() == count, clause, "the body returns {} values, {count} expected", outputs.len());
    outputs
        .iter()
        .enumerate()
        .map(|(n, ty)| match ty.as_tensor() {
            Some(tensor) => Ok(tensor.element.clone()),
            None => Err(Violation::new(clause, format!("the body's result {n} is {}", spelling::ty(ty)))),
        })
        .collect()
}

/// Region `n` takes a pair of values for each input and returns the combined ones, in types that the inputs promote to.
///
/// Reference programs written before the specification use tensors of a rank up to that of `allowed` in the body, and
/// a parameter of another float width; both are accepted.
pub(crate) fn body(
    op: &OpView<'_>,
    region: usize,
    inputs: &[&TensorType],
    inits: &[&TensorType],
    allowed: &[i64],
    clause: &'static str,
) -> Checked {
    let count = inputs.len();
    let args = op.region_inputs(region)?;
    let outputs = op.region_outputs(region)?;
    require!(args.len() == 2 * count, clause, "the body takes {} arguments, {} expected", args.len(), 2 * count);
    require!(outputs.len() == count, clause, "the body returns {} values, {count} expected", outputs.len());
    for n in 0..count {
        let output = tensor(clause, "result", n, outputs[n])?;
        let first = tensor(clause, "argument", n, args[n])?;
        let second = tensor(clause, "argument", count + n, args[count + n])?;
        require!(
            shapes::tensors_agree(first, output),
            clause,
            "the body's argument {n} is {}, its result {n} is {}",
            spelling::tensor(first),
            spelling::tensor(output)
        );
        require!(
            shapes::shapes_agree(&second.dims, &output.dims) && same_kind(&second.element, &output.element),
            clause,
            "the body's argument {} is {}, its result {n} is {}",
            count + n,
            spelling::tensor(second),
            spelling::tensor(output)
        );
        require!(
            shapes::shapes_agree(&inits[n].dims, &output.dims),
            clause,
            "the body's result {n} is {}, the initial value is {}",
            spelling::tensor(output),
            spelling::tensor(inits[n])
        );
        for (name, from) in [("input", inputs[n]), ("initial value", inits[n])] {
            require!(
                is_promotable(&from.element, &output.element),
                clause,
                "{name} {n} has elements {}, which do not promote to {}",
                spelling::element(&from.element),
                spelling::element(&output.element)
            );
        }
        require!(
            is_subsequence(&second.dims, allowed),
            clause,
            "the body's argument {} has shape {}, which does not fit {}",
            count + n,
            spelling::dims(&second.dims),
            spelling::dims(allowed)
        );
    }
    Ok(())
}

fn tensor<'a>(clause: &'static str, name: &str, n: usize, ty: &'a Type) -> Result<&'a TensorType, Violation> {
    ty.as_tensor()
        .ok_or_else(|| Violation::new(clause, format!("the body's {name} {n} is {}, not a tensor", spelling::ty(ty))))
}

fn is_subsequence(dims: &[i64], of: &[i64]) -> bool {
    let mut rest = dims.iter().peekable();
    for &dim in of {
        if rest.peek().is_some_and(|&&want| shapes::dims_agree(want, dim)) {
            rest.next();
        }
    }
    rest.peek().is_none()
}

fn same_kind(a: &ElementType, b: &ElementType) -> bool {
    match (a.plain(), b.plain()) {
        (Some(a), Some(b)) if a.is_float() && b.is_float() => true,
        _ => shapes::elements_agree(a, b),
    }
}

/// Whether a value of the first element type may be accumulated in the second.
pub(crate) fn is_promotable(from: &ElementType, to: &ElementType) -> bool {
    match (from, to) {
        (ElementType::Plain(a), ElementType::Plain(b)) => {
            let integers = |d: tensor::DType| d.is_integer() || d.is_bool();
            (a.is_float() && b.is_float())
                || (integers(*a) && integers(*b) && a.bits() <= b.bits())
                || (a.is_complex() && b.is_complex() && a.bits() <= b.bits())
        }
        (ElementType::Quantized(a), ElementType::Quantized(b)) => {
            a.expressed == b.expressed && a.storage.bits() <= b.storage.bits()
        }
        _ => from == to,
    }
}
