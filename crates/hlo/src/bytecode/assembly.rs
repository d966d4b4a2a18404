//! Attributes and types that a dialect stores as text.

use crate::error::Error;
use crate::ir::{Attr, Type};
use crate::{print, text};

/// Reads an attribute; what is not of a dialect we model is kept as it is written.
pub(super) fn parse_attr(text: &str) -> Result<Attr, Error> {
    text::parse_attr(text)
}

/// Reads a type; what is not of a dialect we model is kept as it is written.
pub(super) fn parse_type(text: &str) -> Result<Type, Error> {
    text::parse_type(text)
}

pub(super) fn print_attr(attr: &Attr) -> String {
    print::print_attr(attr)
}

pub(super) fn print_type(ty: &Type) -> String {
    print::print_type(ty)
}

/// The dialect whose attribute (`#dialect.…`, `#dialect<…>`) or type (`!dialect.…`) a text is.
pub(super) fn dialect_of(text: &str) -> Option<&str> {
    let name = text.strip_prefix(['#', '!'])?;
    let end = name.find(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != '$').unwrap_or(name.len());
    Some(&name[..end]).filter(|name| !name.is_empty())
}
