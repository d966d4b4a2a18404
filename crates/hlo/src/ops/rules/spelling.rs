//! How types and shapes are spelled in findings: as the printer does, cut short where a type is long.

use std::sync::Arc;

use crate::ir::{DYNAMIC, ElementType, TensorType, Type};

/// Characters of one type; a quantized type can hold thousands of scales.
const MAX_LENGTH: usize = 200;

/// One dimension, `?` when unknown.
pub(crate) fn dim(size: i64) -> String {
    if size == DYNAMIC { "?".into() } else { size.to_string() }
}

/// An element type.
pub(crate) fn element(element: &ElementType) -> String {
    ty(&Type::Element(element.clone()))
}

/// A tensor type.
pub(crate) fn tensor(tensor: &TensorType) -> String {
    ty(&Type::Tensor(Arc::new(tensor.clone())))
}

/// Any type.
pub(crate) fn ty(ty: &Type) -> String {
    let text = crate::print::print_type(ty);
    match text.char_indices().nth(MAX_LENGTH) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text,
    }
}

/// Types in parentheses.
pub(crate) fn types<'a>(all: impl IntoIterator<Item = &'a Type>) -> String {
    let all: Vec<String> = all.into_iter().map(ty).collect();
    format!("({})", all.join(", "))
}
