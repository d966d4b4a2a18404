//! Attributes and types that a dialect stores as text.

use crate::attr::Attr;
use crate::error::Error;
use crate::ty::Type;

pub(super) fn parse_attr(text: &str) -> Result<Attr, Error> {
    Ok(Attr::Opaque(text.into()))
}

pub(super) fn parse_type(text: &str) -> Result<Type, Error> {
    match tensor::DType::from_name(text) {
        Some(dtype) => Ok(Type::Element(dtype.into())),
        None => Ok(Type::Opaque(text.into())),
    }
}

pub(super) fn print_attr(attr: &Attr) -> String {
    format!("{attr:?}")
}
