//! A number together with where it was read.

use serde::Serialize;

/// A value, the sources it was read from, and what contradicts or qualifies it.
///
/// `Figure<Option<T>>` with `value: None` is a statement ("the chip has no native int8 rate"), whereas an absent
/// `Option<Figure<T>>` means that no source was found.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Figure<T> {
    /// The value, in the unit its field names.
    pub value: T,
    /// Addresses or descriptions of where it was read; the first is the one the value was taken from.
    pub sources: &'static [&'static str],
    /// Disagreement between sources, rounding, or how the value was derived.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<&'static str>,
}

impl<T> Figure<T> {
    /// A value with its sources.
    pub const fn new(value: T, sources: &'static [&'static str]) -> Self {
        Self { value, sources, note: None }
    }

    /// A value with its sources and a remark.
    pub const fn noted(value: T, sources: &'static [&'static str], note: &'static str) -> Self {
        Self { value, sources, note: Some(note) }
    }
}
