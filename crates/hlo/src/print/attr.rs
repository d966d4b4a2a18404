//! Printing of attributes that MLIR itself defines.

use std::fmt::Write;

use tensor::DType;

use crate::ir::{Attr, Attrs, ElementType};
use crate::print::dense::write_dense;
use crate::print::dialect::write_dialect_attr;
use crate::print::float::write_float;
use crate::print::loc::write_inline_location;
use crate::print::name::{is_bare, write_string, write_symbol};
use crate::print::ty::{write_element, write_type};

/// The dialect whose name enumerations are printed with.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dialect {
    Stablehlo,
    Chlo,
}

impl Dialect {
    pub(crate) fn of_op(name: &str) -> Dialect {
        if name.starts_with("chlo.") { Dialect::Chlo } else { Dialect::Stablehlo }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Dialect::Stablehlo => "stablehlo",
            Dialect::Chlo => "chlo",
        }
    }
}

/// Whether a number's type is written when it is the one a reader would assume.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum NumberType {
    Shown,
    Assumed,
}

/// Appends an attribute that stands on its own.
pub(crate) fn write_attr(out: &mut String, attr: &Attr) {
    write_attr_as(out, attr, Dialect::Stablehlo, NumberType::Shown);
}

pub(crate) fn write_attr_as(out: &mut String, attr: &Attr, dialect: Dialect, number: NumberType) {
    match attr {
        Attr::Unit => out.push_str("unit"),
        Attr::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
        Attr::Int(value, element) => {
            let _ = match element {
                ElementType::Plain(DType::U64) => write!(out, "{}", *value as u64),
                _ => write!(out, "{value}"),
            };
            if number == NumberType::Shown || *element != ElementType::Plain(DType::I64) {
                out.push_str(" : ");
                write_element(out, element);
            }
        }
        Attr::Float(value, element) => {
            let dtype = element.plain().unwrap_or(DType::F64);
            write_float(out, dtype, tensor::encode_float(dtype, value.get()).unwrap_or(0));
            if number == NumberType::Shown || dtype != DType::F64 {
                out.push_str(" : ");
                write_element(out, element);
            }
        }
        Attr::Str(text) => write_string(out, text.as_bytes()),
        Attr::Symbol(name) => write_symbol(out, name),
        Attr::Array(items) => {
            out.push('[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push_str(", ");
                }
                write_attr_as(out, item, dialect, NumberType::Assumed);
            }
            out.push(']');
        }
        Attr::Dict(attrs) => write_dict(out, attrs.iter(), dialect),
        Attr::Type(ty) => write_type(out, ty),
        Attr::Dense(dense) => write_dense(out, dense),
        Attr::DenseArray(dtype, values) => write_array(out, *dtype, values),
        Attr::Loc(loc) => write_inline_location(out, loc),
        Attr::Opaque(text) => out.push_str(text),
        _ => write_dialect_attr(out, attr, dialect),
    }
}

/// Appends `{a = 1, b}`.
pub(crate) fn write_dict<'m>(out: &mut String, attrs: impl Iterator<Item = (&'m str, &'m Attr)>, dialect: Dialect) {
    out.push('{');
    for (i, (name, attr)) in attrs.enumerate() {
        if i > 0 {
            out.push_str(", ");
        }
        if is_bare(name) {
            out.push_str(name)
        } else {
            write_string(out, name.as_bytes())
        }
        if *attr != Attr::Unit {
            out.push_str(" = ");
            write_attr_as(out, attr, dialect, NumberType::Shown);
        }
    }
    out.push('}');
}

/// Appends ` {…}` when there are attributes.
pub(crate) fn write_optional_dict(out: &mut String, attrs: &Attrs) {
    if !attrs.is_empty() {
        out.push(' ');
        write_dict(out, attrs.iter(), Dialect::Stablehlo);
    }
}

fn write_array(out: &mut String, dtype: DType, values: &[i64]) {
    let _ = write!(out, "array<{}", dtype.name());
    for (i, &value) in values.iter().enumerate() {
        out.push_str(if i == 0 { ": " } else { ", " });
        if dtype.is_bool() {
            out.push_str(if value != 0 { "true" } else { "false" });
        } else if dtype.is_float() {
            write_float(out, dtype, value as u64);
        } else if dtype == DType::U64 {
            let _ = write!(out, "{}", value as u64);
        } else {
            let _ = write!(out, "{value}");
        }
    }
    out.push('>');
}

/// Appends `[1, 2]`.
pub(crate) fn write_integers(out: &mut String, values: &[i64]) {
    out.push('[');
    for (i, value) in values.iter().enumerate() {
        if i > 0 {
            out.push_str(", ");
        }
        let _ = write!(out, "{value}");
    }
    out.push(']');
}
