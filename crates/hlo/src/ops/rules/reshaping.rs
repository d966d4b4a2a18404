//! Ops that keep every element and change the shape.

use crate::ir::TensorType;

use super::{Checked, require, spelling};

/// Both tensors have as many elements, if both shapes are known.
pub(crate) fn same_size(clause: &'static str, operand: &TensorType, result: &TensorType) -> Checked {
    if let (Some(a), Some(b)) = (operand.num_elements(), result.num_elements()) {
        require!(a == b, clause, "the operand has {a} elements, the result has {b}");
    }
    Ok(())
}

/// A constant shape operand agrees with the result.
pub(crate) fn shape_operand(clause: &'static str, shape: Option<&[i64]>, result: &TensorType) -> Checked {
    let Some(shape) = shape else { return Ok(()) };
    require!(
        shape.iter().all(|&d| d >= 0) && super::shapes::shapes_agree(shape, &result.dims),
        clause,
        "the shape operand is {shape:?}, the result is {}",
        spelling::tensor(result)
    );
    Ok(())
}
