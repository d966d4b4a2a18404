//! Printing of types and attributes as MLIR reads them, for programs and for messages about them.

pub(crate) mod attr;
mod dense;
pub(crate) mod dialect;
pub(crate) mod float;
pub(crate) mod loc;
pub(crate) mod name;
pub(crate) mod ty;

use crate::ir::{Attr, Type};

/// The text of an attribute.
pub fn print_attr(attr: &Attr) -> String {
    let mut out = String::new();
    attr::write_attr(&mut out, attr);
    out
}

/// The text of a type.
pub fn print_type(ty: &Type) -> String {
    let mut out = String::new();
    ty::write_type(&mut out, ty);
    out
}
