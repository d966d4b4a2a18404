//! How types and shapes are spelled in findings.

use std::fmt::Write as _;

use crate::ty::{DYNAMIC, ElementType, TensorType, Type};

/// Types nested deeper than this are cut short, so that spelling needs no deep recursion.
const MAX_DEPTH: usize = 8;

/// One dimension, `?` when unknown.
pub(crate) fn dim(size: i64) -> String {
    if size == DYNAMIC { "?".into() } else { size.to_string() }
}

/// Dimensions, as in `[2, ?]`.
pub(crate) fn dims(sizes: &[i64]) -> String {
    let all: Vec<String> = sizes.iter().map(|&size| dim(size)).collect();
    format!("[{}]", all.join(", "))
}

/// An element type.
pub(crate) fn element(element: &ElementType) -> String {
    match element {
        ElementType::Plain(dtype) => dtype.name().into(),
        ElementType::Index => "index".into(),
        ElementType::Tf32 => "tf32".into(),
        ElementType::Quantized(q) => {
            let axis = q.axis.map_or(String::new(), |axis| format!(":{axis}"));
            let (scale, zero) = (q.scales.first(), q.zero_points.first());
            let rest = if q.scales.len() > 1 { ", …" } else { "" };
            format!(
                "!quant.uniform<{}:{}{axis}, {}:{}{rest}>",
                q.storage,
                q.expressed,
                scale.map_or(0.0, |s| s.get()),
                zero.copied().unwrap_or(0)
            )
        }
    }
}

/// A tensor type.
pub(crate) fn tensor(ty: &TensorType) -> String {
    let mut text = String::from("tensor<");
    for &size in &ty.dims {
        let _ = write!(text, "{}x", dim(size));
    }
    text.push_str(&element(&ty.element));
    if let Some(bounds) = ty.bounds() {
        let _ = write!(text, ", bounds {}", dims(bounds));
    }
    text.push('>');
    text
}

/// Any type.
pub(crate) fn ty(ty: &Type) -> String {
    nested(ty, 0)
}

/// Types in parentheses.
pub(crate) fn types<'a>(all: impl IntoIterator<Item = &'a Type>) -> String {
    let all: Vec<String> = all.into_iter().map(ty).collect();
    format!("({})", all.join(", "))
}

fn nested(ty: &Type, depth: usize) -> String {
    if depth > MAX_DEPTH {
        return "…".into();
    }
    let list = |types: &[Type]| types.iter().map(|t| nested(t, depth + 1)).collect::<Vec<_>>().join(", ");
    match ty {
        Type::Tensor(t) => tensor(t),
        Type::Buffer(t) => tensor(t).replacen("tensor", "memref", 1),
        Type::Token => "!stablehlo.token".into(),
        Type::Tuple(types) => format!("tuple<{}>", list(types)),
        Type::Future(types) => format!("!stablehlo.future<{}>", list(types)),
        Type::Function(f) => format!("({}) -> ({})", list(&f.inputs), list(&f.outputs)),
        Type::Element(e) => element(e),
        Type::None => "none".into(),
        Type::Opaque(text) => text.to_string(),
    }
}
