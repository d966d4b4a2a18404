//! Classes of element types that an op accepts.

use crate::ir::{ElementType, TensorType};
use crate::ops::def::{OpView, Violation};

use super::{Checked, spelling};

/// A set of classes of element types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Elements(u16);

impl Elements {
    pub(crate) const BOOL: Elements = Elements(1);
    pub(crate) const SIGNED: Elements = Elements(2);
    pub(crate) const UNSIGNED: Elements = Elements(4);
    pub(crate) const FLOAT: Elements = Elements(8);
    pub(crate) const COMPLEX: Elements = Elements(16);
    /// One scale for the tensor.
    pub(crate) const QUANTIZED: Elements = Elements(32);
    /// One scale for each index along an axis.
    pub(crate) const PER_AXIS: Elements = Elements(64);
    pub(crate) const INDEX: Elements = Elements(128);

    pub(crate) const INTEGER: Elements = Self::SIGNED.or(Self::UNSIGNED);
    pub(crate) const BOOL_INTEGER: Elements = Self::BOOL.or(Self::INTEGER);
    pub(crate) const FLOAT_QUANTIZED: Elements = Self::FLOAT.or(Self::QUANTIZED);
    pub(crate) const FLOAT_COMPLEX: Elements = Self::FLOAT.or(Self::COMPLEX);
    pub(crate) const FLOAT_COMPLEX_QUANTIZED: Elements = Self::FLOAT_COMPLEX.or(Self::QUANTIZED);
    pub(crate) const SIGNED_FLOAT_COMPLEX_QUANTIZED: Elements = Self::SIGNED.or(Self::FLOAT_COMPLEX_QUANTIZED);
    pub(crate) const NUMBER: Elements = Self::INTEGER.or(Self::FLOAT_COMPLEX_QUANTIZED);
    pub(crate) const PLAIN: Elements = Self::BOOL_INTEGER.or(Self::FLOAT_COMPLEX);
    pub(crate) const TENSOR: Elements = Self::PLAIN.or(Self::QUANTIZED);
    pub(crate) const ANY: Elements = Self::TENSOR.or(Self::PER_AXIS);
    pub(crate) const INDICES: Elements = Self::INTEGER.or(Self::INDEX);

    pub(crate) const fn or(self, other: Elements) -> Elements {
        Elements(self.0 | other.0)
    }

    fn of(element: &ElementType) -> Elements {
        match element {
            ElementType::Plain(d) if d.is_bool() => Self::BOOL,
            ElementType::Plain(d) if d.is_signed_integer() => Self::SIGNED,
            ElementType::Plain(d) if d.is_unsigned_integer() => Self::UNSIGNED,
            ElementType::Plain(d) if d.is_float() => Self::FLOAT,
            ElementType::Plain(_) => Self::COMPLEX,
            ElementType::Index => Self::INDEX,
            ElementType::Quantized(q) if q.axis.is_some() => Self::PER_AXIS,
            ElementType::Quantized(_) => Self::QUANTIZED,
            ElementType::Tf32 => Elements(0),
        }
    }

    /// Whether the element type is in one of the classes.
    pub(crate) fn contains(self, element: &ElementType) -> bool {
        self.0 & Self::of(element).0 != 0
    }

    fn describe(self) -> String {
        let names = [
            (Self::BOOL, "boolean"),
            (Self::SIGNED, "signed integer"),
            (Self::UNSIGNED, "unsigned integer"),
            (Self::FLOAT, "floating-point"),
            (Self::COMPLEX, "complex"),
            (Self::QUANTIZED, "per-tensor quantized"),
            (Self::PER_AXIS, "per-axis quantized"),
            (Self::INDEX, "index"),
        ];
        let have: Vec<&str> = names.iter().filter(|(class, _)| self.0 & class.0 != 0).map(|(_, name)| *name).collect();
        have.join(" or ")
    }
}

/// Whether the element type is quantized.
pub(crate) fn is_quantized(ty: &TensorType) -> bool {
    matches!(ty.element, ElementType::Quantized(_))
}

/// The tensor's element type is in one of the classes.
pub(crate) fn tensor(clause: &'static str, name: &str, ty: &TensorType, accepted: Elements) -> Checked {
    if accepted.contains(&ty.element) {
        return Ok(());
    }
    let message = format!("{name} must be a tensor of {} type, is {}", accepted.describe(), spelling::tensor(ty));
    Err(Violation::new(clause, message))
}

/// Operand `n` is a tensor of an accepted element type.
pub(crate) fn operand(op: &OpView<'_>, n: usize, accepted: Elements, clause: &'static str) -> Checked {
    let ty = operand_tensor(op, n, clause)?;
    tensor(clause, &format!("operand {n}"), ty, accepted)
}

/// Operands from number `n` are tensors of an accepted element type.
pub(crate) fn operands_from(op: &OpView<'_>, n: usize, accepted: Elements, clause: &'static str) -> Checked {
    (n..op.operands.len()).try_for_each(|n| operand(op, n, accepted, clause))
}

/// Result `n` is a tensor of an accepted element type.
pub(crate) fn result(op: &OpView<'_>, n: usize, accepted: Elements, clause: &'static str) -> Checked {
    tensor(clause, &format!("result {n}"), op.result_tensor(n)?, accepted)
}

/// Operand `n` is a scalar tensor of an accepted element type.
pub(crate) fn scalar(op: &OpView<'_>, n: usize, accepted: Elements, clause: &'static str) -> Checked {
    rank(op, n, 0, clause)?;
    operand(op, n, accepted, clause)
}

/// Operand `n` is a 1-dimensional tensor of an accepted element type.
pub(crate) fn vector(op: &OpView<'_>, n: usize, accepted: Elements, clause: &'static str) -> Checked {
    rank(op, n, 1, clause)?;
    operand(op, n, accepted, clause)
}

/// Operand `n` is a 1-dimensional tensor of integers of known length: a shape or a list of sizes.
pub(crate) fn sizes(op: &OpView<'_>, n: usize, clause: &'static str) -> Checked {
    vector(op, n, Elements::INDICES, clause)?;
    super::require!(op.tensor(n)?.is_static(), clause, "operand {n} must have a known number of elements");
    Ok(())
}

/// Operand `n` has that rank.
pub(crate) fn rank(op: &OpView<'_>, n: usize, rank: usize, clause: &'static str) -> Checked {
    let ty = operand_tensor(op, n, clause)?;
    super::require!(
        ty.rank() == rank,
        clause,
        "operand {n} must be a {rank}-dimensional tensor, is {}",
        spelling::tensor(ty)
    );
    Ok(())
}

fn operand_tensor<'a>(op: &OpView<'a>, n: usize, clause: &'static str) -> Result<&'a TensorType, Violation> {
    op.tensor(n).map_err(|violation| Violation { clause, ..violation })
}
