//! Printing of types.

use std::fmt::Write;

use crate::ir::{DYNAMIC, ElementType, FunctionType, Quantized, TensorType, Type};
use crate::print::attr::write_attr;
use crate::print::float::write_float;

/// Appends a type.
pub(crate) fn write_type(out: &mut String, ty: &Type) {
    match ty {
        Type::Tensor(tensor) => write_shaped(out, "tensor", tensor),
        Type::Buffer(tensor) => write_shaped(out, "memref", tensor),
        Type::Token => out.push_str("!stablehlo.token"),
        Type::Tuple(parts) => {
            out.push_str("tuple<");
            write_types(out, parts.iter());
            out.push('>');
        }
        Type::Future(parts) => {
            out.push_str("!stablehlo.future<");
            write_types(out, parts.iter());
            out.push('>');
        }
        Type::Function(function) => write_function(out, function),
        Type::Element(element) => write_element(out, element),
        Type::None => out.push_str("none"),
        Type::Opaque(text) => out.push_str(text),
    }
}

/// Appends types separated by commas.
pub(crate) fn write_types<'t>(out: &mut String, types: impl IntoIterator<Item = &'t Type>) {
    for (i, ty) in types.into_iter().enumerate() {
        if i > 0 {
            out.push_str(", ");
        }
        write_type(out, ty);
    }
}

pub(super) fn write_tensor(out: &mut String, tensor: &TensorType) {
    write_shaped(out, "tensor", tensor);
}

fn write_shaped(out: &mut String, word: &str, tensor: &TensorType) {
    out.push_str(word);
    out.push('<');
    for &dim in &tensor.dims {
        if dim == DYNAMIC {
            out.push('?');
        } else {
            let _ = write!(out, "{dim}");
        }
        out.push('x');
    }
    write_element(out, &tensor.element);
    if let Some(encoding) = &tensor.encoding {
        out.push_str(", ");
        write_attr(out, encoding);
    }
    out.push('>');
}

fn write_function(out: &mut String, function: &FunctionType) {
    out.push('(');
    write_types(out, &function.inputs);
    out.push_str(") -> ");
    write_results(out, function.outputs.iter());
}

/// Appends result types behind an arrow: one bare, others in parentheses.
pub(crate) fn write_results<'t>(out: &mut String, types: impl ExactSizeIterator<Item = &'t Type>) {
    let mut types = types.peekable();
    if types.len() == 1 && !matches!(types.peek(), Some(Type::Function(_))) {
        write_types(out, types);
    } else {
        out.push('(');
        write_types(out, types);
        out.push(')');
    }
}

/// Appends an element type.
pub(super) fn write_element(out: &mut String, element: &ElementType) {
    match element {
        ElementType::Plain(dtype) => out.push_str(dtype.name()),
        ElementType::Index => out.push_str("index"),
        ElementType::Tf32 => out.push_str("tf32"),
        ElementType::Quantized(quantized) => write_quantized(out, quantized),
    }
}

fn write_quantized(out: &mut String, q: &Quantized) {
    // Unsigned storage is spelled `u8` here, not `ui8`.
    let storage = q.storage.name();
    let _ = match storage.strip_prefix("ui") {
        Some(bits) => write!(out, "!quant.uniform<u{bits}"),
        None => write!(out, "!quant.uniform<{storage}"),
    };
    if (q.storage_min, q.storage_max) != Quantized::storage_range(q.storage) {
        let _ = write!(out, "<{}:{}>", q.storage_min, q.storage_max);
    }
    let _ = write!(out, ":{}", q.expressed.name());
    if let Some(axis) = q.axis {
        let _ = write!(out, ":{axis}");
    }
    out.push_str(", ");
    if q.axis.is_some() {
        out.push('{');
    }
    for (i, (scale, zero_point)) in q.scales.iter().zip(&q.zero_points).enumerate() {
        if i > 0 {
            out.push_str(", ");
        }
        write_float(out, tensor::DType::F64, scale.get().to_bits());
        if *zero_point != 0 {
            let _ = write!(out, ":{zero_point}");
        }
    }
    if q.axis.is_some() {
        out.push('}');
    }
    out.push('>');
}

impl std::fmt::Display for Type {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&super::print_type(self))
    }
}
