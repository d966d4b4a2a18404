//! Constants of the program: their elements, and which of them change nothing.

use hlo::{Attr, DenseData, Op, OpKind};
use tensor::{DType, decode_float};

use crate::kernels::loops::ir::Fold;

/// The element that fills a constant.
pub(crate) fn splat(op: &Op) -> Option<&[u8]> {
    if !matches!(op.kind(), Some(OpKind::Constant | OpKind::SdyConstant | OpKind::ChloConstant)) {
        return None;
    }
    match op.attr("value") {
        Some(Attr::Dense(dense)) => match &dense.data {
            DenseData::Splat(element) => Some(element),
            // One element fills its tensor.
            DenseData::Elements(bytes) if dense.ty.num_elements() == Some(1) => Some(bytes),
            _ => None,
        },
        _ => None,
    }
}

/// Whether folding with an element changes nothing.
pub(crate) fn is_identity(fold: Fold, dtype: DType, element: &[u8]) -> bool {
    let mut word = [0; 8];
    let width = element.len().min(8);
    word[..width].copy_from_slice(&element[..width]);
    let bits = u64::from_le_bytes(word);
    if dtype.is_bool() {
        return match fold {
            Fold::And | Fold::Min | Fold::MinU | Fold::Product => bits & 1 == 1,
            _ => bits & 1 == 0,
        };
    }
    if dtype.is_float() {
        let Some(value) = decode_float(dtype, bits) else { return false };
        return match fold {
            // Not +0, which turns a sum of -0 into +0; the difference is none that a comparison sees.
            Fold::Sum => value == 0.0,
            Fold::Product => value == 1.0,
            Fold::Min => value == f64::INFINITY,
            Fold::Max => value == f64::NEG_INFINITY,
            _ => false,
        };
    }
    let unused = 64 - dtype.bits();
    let (low, high) = (bits << unused >> unused, u64::MAX << unused >> unused);
    match fold {
        Fold::Sum | Fold::Or | Fold::Xor | Fold::MaxU => low == 0,
        Fold::Product => low == 1,
        Fold::And | Fold::MinU => low == high,
        Fold::Min => low == high >> u32::from(dtype.is_signed_integer()),
        Fold::Max if dtype.is_signed_integer() => low == (high >> 1) + 1,
        Fold::Max => low == 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identities_of_folds() {
        let check = |fold, dtype, element: &[u8], expected| assert_eq!(is_identity(fold, dtype, element), expected);
        check(Fold::Sum, DType::F32, &0f32.to_le_bytes(), true);
        check(Fold::Max, DType::F32, &f32::NEG_INFINITY.to_le_bytes(), true);
        check(Fold::Max, DType::F32, &0f32.to_le_bytes(), false);
        check(Fold::Max, DType::I8, &[0x80], true);
        check(Fold::Min, DType::I8, &[0x7f], true);
        check(Fold::Min, DType::U16, &[0xff, 0xff], true);
        check(Fold::And, DType::Bool, &[1], true);
        check(Fold::Product, DType::I64, &1i64.to_le_bytes(), true);
    }
}
