//! Named values: attributes we hand out and options callers pass.
#![allow(unsafe_code, non_upper_case_globals)]

use pjrt_sys::*;

use super::call::{list, text};

/// A value with a name.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Named {
    Text(String),
    Int(i64),
    Ints(Vec<i64>),
    Float(f32),
    Flag(bool),
}

/// Named values in C form, with what they point to.
pub(crate) struct NamedList {
    raw: Vec<PJRT_NamedValue>,
    /// Keeps names and values where `raw` points to: neither moves when the list does.
    _owned: Vec<(String, Named)>,
}

// SAFETY: the pointers lead into `_owned`, which nobody changes.
unsafe impl Send for NamedList {}
// SAFETY: as for `Send`.
unsafe impl Sync for NamedList {}

impl NamedList {
    pub(crate) fn new(owned: Vec<(String, Named)>) -> NamedList {
        let raw = owned.iter().map(|(name, value)| {
            let mut raw = PJRT_NamedValue::new();
            raw.name = name.as_ptr().cast();
            raw.name_size = name.len();
            raw.value_size = 1;
            (raw.r#type, raw.value) = match value {
                Named::Text(text) => {
                    raw.value_size = text.len();
                    (PJRT_NamedValue_kString, PJRT_NamedValue_Value { string_value: text.as_ptr().cast() })
                }
                Named::Int(value) => (PJRT_NamedValue_kInt64, PJRT_NamedValue_Value { int64_value: *value }),
                Named::Ints(values) => {
                    raw.value_size = values.len();
                    (PJRT_NamedValue_kInt64List, PJRT_NamedValue_Value { int64_array_value: values.as_ptr() })
                }
                Named::Float(value) => (PJRT_NamedValue_kFloat, PJRT_NamedValue_Value { float_value: *value }),
                Named::Flag(value) => (PJRT_NamedValue_kBool, PJRT_NamedValue_Value { bool_value: *value }),
            };
            raw
        });
        NamedList { raw: raw.collect(), _owned: owned }
    }

    pub(crate) fn as_ptr(&self) -> *const PJRT_NamedValue {
        self.raw.as_ptr()
    }

    pub(crate) fn len(&self) -> usize {
        self.raw.len()
    }
}

/// Reads the options a caller passes; values of unknown types are left out.
///
/// # Safety
/// `data` is null or points to `len` named values whose pointers reach as far as their sizes say.
pub(super) unsafe fn decode(data: *const PJRT_NamedValue, len: usize) -> Vec<(String, Named)> {
    // SAFETY: by the contract above; the union member is the one the type names.
    unsafe {
        let one = |raw: &PJRT_NamedValue| {
            let value = match raw.r#type {
                PJRT_NamedValue_kString => Named::Text(text(raw.value.string_value, raw.value_size)),
                PJRT_NamedValue_kInt64 => Named::Int(raw.value.int64_value),
                PJRT_NamedValue_kInt64List => Named::Ints(list(raw.value.int64_array_value, raw.value_size).to_vec()),
                PJRT_NamedValue_kFloat => Named::Float(raw.value.float_value),
                PJRT_NamedValue_kBool => Named::Flag(raw.value.bool_value),
                _ => return None,
            };
            Some((text(raw.name, raw.name_size), value))
        };
        list(data, len).iter().filter_map(one).collect()
    }
}
