//! Ops that act on each element alone.

use crate::ir::{ElementType, TensorType};
use crate::ops::def::{OpView, Violation};

use super::elements::{self, Elements};
use super::shapes;
use super::{Checked, Inferred, require};

/// The one type that every operand has, as far as it is known.
pub(crate) fn infer(op: &OpView<'_>, clause: &'static str) -> Inferred {
    Ok(vec![merged(op, clause)?.into()])
}

fn merged(op: &OpView<'_>, clause: &'static str) -> Result<TensorType, Violation> {
    let types = op.tensors()?;
    let ty = shapes::meet(clause, &types)?;
    for (n, other) in types.iter().enumerate().skip(1) {
        shapes::same_element(clause, ("operand 0", &ty), (&format!("operand {n}"), other))?;
    }
    Ok(ty)
}

/// The operand's shape with another element type.
pub(crate) fn infer_element(op: &OpView<'_>, element: impl Into<ElementType>) -> Inferred {
    Ok(vec![shapes::with_element(op.tensor(0)?, element.into()).into()])
}

/// The operand's shape with the real type of its parts, if it is complex.
pub(crate) fn infer_real_part(op: &OpView<'_>) -> Inferred {
    let ty = op.tensor(0)?;
    match ty.element.plain().and_then(|dtype| dtype.complex_part()) {
        Some(part) => infer_element(op, part),
        None => Ok(vec![op.operands[0].clone()]),
    }
}

/// Operand and result of a unary op are of accepted element types.
pub(crate) fn unary(op: &OpView<'_>, accepted: Elements, input: &'static str) -> Checked {
    elements::operand(op, 0, accepted, input)?;
    accuracy(op)
}

/// Operands of a binary op are of accepted element types.
pub(crate) fn binary(op: &OpView<'_>, accepted: Elements, inputs: [&'static str; 2]) -> Checked {
    elements::operand(op, 0, accepted, inputs[0])?;
    elements::operand(op, 1, accepted, inputs[1])
}

/// Operand and result have the same shape, whatever their element types.
pub(crate) fn same_shape(op: &OpView<'_>, clause: &'static str) -> Checked {
    shapes::same_shape(clause, ("operand", op.tensor(0)?), ("result", op.result_tensor(0)?))
}

/// Tolerances go with the mode that uses them, and are not negative (spec: "Accuracy").
fn accuracy(op: &OpView<'_>) -> Checked {
    use crate::ir::{Attr, Keyword};
    let Some(Attr::ResultAccuracy(accuracy)) = op.attrs.get("result_accuracy") else { return Ok(()) };
    let (atol, rtol) = (accuracy.atol.get(), accuracy.rtol.get());
    let is_set = atol != 0.0 || rtol != 0.0 || accuracy.ulps != 0;
    match accuracy.mode {
        Keyword::AccuracyTolerance => require!(
            atol >= 0.0 && rtol >= 0.0 && accuracy.ulps >= 0,
            "",
            "result_accuracy has a negative tolerance: atol {atol}, rtol {rtol}, ulps {}",
            accuracy.ulps
        ),
        mode => require!(!is_set, "", "result_accuracy has tolerances but its mode is {}", mode.word()),
    }
    Ok(())
}
