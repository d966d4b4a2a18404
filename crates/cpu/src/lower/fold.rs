//! Arithmetic on constants while the program is simplified: the interpreter's.

use hlo::{Dense, Op, OpKind, TensorType};

use crate::attributes;
use crate::interpret::scalar::TotalOrder;
use crate::interpret::{Elements, TensorValue, convert, elementwise, encode, storage};

/// Computes an elementwise op on constants, for [`hlo::passes::Options::evaluate`].
pub fn evaluate(op: &Op, operands: &[&Dense], result: &TensorType) -> Option<Dense> {
    let to = result.element.plain()?;
    let values: Vec<TensorValue> =
        operands.iter().map(|dense| TensorValue::from_dense(dense).ok()).collect::<Option<_>>()?;
    let elements = match (op.kind()?, &values[..]) {
        (OpKind::Convert, [a]) => {
            a.ty.element.plain()?;
            convert::to_type(&a.elements, to)
        }
        (OpKind::Compare, [a, b]) => {
            let direction = attributes::keyword(op, "comparison_direction").ok()?;
            Elements::Bool(elementwise::compare(direction, TotalOrder::of(op), &a.elements, &b.elements)?)
        }
        (OpKind::Select, [mask, a, b]) => elementwise::select(mask, a, b)?.elements,
        (kind, [a]) => elementwise::unary(kind, to, storage(&a.ty.element), &a.elements)?,
        (kind, [a, b]) if a.elements.len() == b.elements.len() => {
            elementwise::binary(kind, to, &a.elements, &b.elements)?
        }
        _ => return None,
    };
    Dense::from_elements(result.clone(), encode(to, &elements))
}
