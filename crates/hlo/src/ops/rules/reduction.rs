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

/// Region `n` takes a pair of scalars for each input and returns the combined ones: all of one type, which the input and
/// the initial value promote to.
pub(crate) fn body(
    op: &OpView<'_>,
    region: usize,
    inputs: &[&TensorType],
    inits: &[&TensorType],
    clause: &'static str,
) -> Checked {
    let count = inputs.len();
    let args = op.region_inputs(region)?;
    let outputs = op.region_outputs(region)?;
    require!(args.len() == 2 * count, clause, "the body takes {} arguments, {} expected", args.len(), 2 * count);
    require!(outputs.len() == count, clause, "the body returns {} values, {count} expected", outputs.len());
    for n in 0..count {
        let output = tensor(clause, "result", n, outputs[n])?;
        require!(
            output.rank() == 0,
            clause,
            "the body's result {n} is {}, a scalar expected",
            spelling::tensor(output)
        );
        for at in [n, count + n] {
            let argument = tensor(clause, "argument", at, args[at])?;
            require!(
                shapes::tensors_agree(argument, output),
                clause,
                "the body's argument {at} is {}, its result {n} is {}",
                spelling::tensor(argument),
                spelling::tensor(output)
            );
        }
        require!(
            inits[n].rank() == 0,
            clause,
            "initial value {n} is {}, a scalar expected",
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
    }
    Ok(())
}

fn tensor<'a>(clause: &'static str, name: &str, n: usize, ty: &'a Type) -> Result<&'a TensorType, Violation> {
    ty.as_tensor()
        .ok_or_else(|| Violation::new(clause, format!("the body's {name} {n} is {}, not a tensor", spelling::ty(ty))))
}

/// Whether a value of the first element type may be accumulated in the second: the same kind, and no narrower (spec:
/// `is_promotable`). Booleans are integers of one bit, as in the reference implementation.
pub(crate) fn is_promotable(from: &ElementType, to: &ElementType) -> bool {
    match (from, to) {
        (ElementType::Plain(a), ElementType::Plain(b)) => {
            let integers = |d: tensor::DType| d.is_integer() || d.is_bool();
            let is_same_kind =
                (a.is_float() && b.is_float()) || (integers(*a) && integers(*b)) || (a.is_complex() && b.is_complex());
            is_same_kind && a.bits() <= b.bits()
        }
        (ElementType::Quantized(a), ElementType::Quantized(b)) => {
            a.expressed == b.expressed && a.storage.bits() <= b.storage.bits()
        }
        _ => from == to,
    }
}
