//! Attributes of an op as plain values, defaults filled in.

use hlo::{Attr, Keyword, Op};

use crate::error::Error;

/// Integers one attribute may list.
const MAX_LISTED: usize = 1 << 20;

fn missing(op: &Op, name: &str) -> Error {
    Error::Internal(format!("{} has no usable attribute `{name}`", op.name.as_str()))
}

/// A required integer.
pub(crate) fn int(op: &Op, name: &str) -> Result<i64, Error> {
    op.attr(name).and_then(Attr::as_int).ok_or_else(|| missing(op, name))
}

/// An integer with a default.
pub(crate) fn int_or(op: &Op, name: &str, default: i64) -> i64 {
    op.attr(name).and_then(Attr::as_int).unwrap_or(default)
}

/// A flag: a unit attribute that is present, or a boolean that is true.
pub(crate) fn flag(op: &Op, name: &str) -> bool {
    matches!(op.attr(name), Some(Attr::Unit | Attr::Bool(true)))
}

/// A required keyword.
pub(crate) fn keyword(op: &Op, name: &str) -> Result<Keyword, Error> {
    op.attr(name).and_then(Attr::as_keyword).ok_or_else(|| missing(op, name))
}

/// A required list of integers.
pub(crate) fn ints(op: &Op, name: &str) -> Result<Vec<i64>, Error> {
    op.attr(name).and_then(list).ok_or_else(|| missing(op, name))
}

/// A list of integers (or booleans as 0 and 1) that is `fill` repeated where it is not written.
pub(crate) fn ints_or(op: &Op, name: &str, count: usize, fill: i64) -> Result<Vec<i64>, Error> {
    match op.attr(name) {
        None => Ok(vec![fill; count]),
        Some(attr) => list(attr).filter(|l| l.len() == count).ok_or_else(|| missing(op, name)),
    }
}

/// Low and high padding of each of `rank` dimensions, zero where not written.
pub(crate) fn padding(op: &Op, rank: usize) -> Result<Vec<(i64, i64)>, Error> {
    Ok(ints_or(op, "padding", 2 * rank, 0)?.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect())
}

fn list(attr: &Attr) -> Option<Vec<i64>> {
    match attr {
        Attr::DenseArray(_, values) => Some(values.to_vec()),
        Attr::Dense(dense) => dense.to_i64s(MAX_LISTED),
        Attr::Array(values) => values.iter().map(Attr::as_int).collect(),
        _ => None,
    }
}
