//! Named values: options given to a plugin and attributes it answers with.
#![allow(unsafe_code)]
// Constants keep their C names.
#![allow(non_upper_case_globals)]

use std::fmt;

use pjrt_sys::*;

use crate::api::{chars, list, text};
use crate::error::Error;

/// The value of an option or attribute.
#[derive(Clone, Debug, PartialEq)]
pub enum AttributeValue {
    /// Text.
    String(String),
    /// An integer.
    Int(i64),
    /// A list of integers.
    Ints(Vec<i64>),
    /// A number.
    Float(f32),
    /// Yes or no.
    Bool(bool),
    /// A type of value this crate does not know; only read, never written.
    Other(u32),
}

impl AttributeValue {
    /// The integer, if it is one.
    pub fn as_int(&self) -> Option<i64> {
        match self {
            Self::Int(value) => Some(*value),
            _ => None,
        }
    }

    /// The list of integers, if it is one.
    pub fn as_ints(&self) -> Option<&[i64]> {
        match self {
            Self::Ints(values) => Some(values),
            _ => None,
        }
    }

    /// The text, if it is one.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::String(value) => Some(value),
            _ => None,
        }
    }

    /// The number, if it is one.
    pub fn as_float(&self) -> Option<f32> {
        match self {
            Self::Float(value) => Some(*value),
            _ => None,
        }
    }
}

impl From<&str> for AttributeValue {
    fn from(value: &str) -> Self {
        Self::String(value.into())
    }
}

impl From<String> for AttributeValue {
    fn from(value: String) -> Self {
        Self::String(value)
    }
}

impl From<i64> for AttributeValue {
    fn from(value: i64) -> Self {
        Self::Int(value)
    }
}

impl From<Vec<i64>> for AttributeValue {
    fn from(value: Vec<i64>) -> Self {
        Self::Ints(value)
    }
}

impl From<f32> for AttributeValue {
    fn from(value: f32) -> Self {
        Self::Float(value)
    }
}

impl From<bool> for AttributeValue {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl fmt::Display for AttributeValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::String(value) => f.write_str(value),
            Self::Int(value) => value.fmt(f),
            Self::Ints(values) => write!(f, "{values:?}"),
            Self::Float(value) => value.fmt(f),
            Self::Bool(value) => value.fmt(f),
            Self::Other(kind) => write!(f, "(value of type {kind})"),
        }
    }
}

/// Options in the form a plugin takes, borrowing from the values they were made of.
pub(crate) struct Encoded<'a> {
    values: Vec<PJRT_NamedValue>,
    borrow: std::marker::PhantomData<&'a AttributeValue>,
}

impl<'a> Encoded<'a> {
    pub(crate) fn new<S: AsRef<str>>(options: &'a [(S, AttributeValue)]) -> Result<Self, Error> {
        let mut values = Vec::with_capacity(options.len());
        for (name, value) in options {
            let name = name.as_ref();
            let mut encoded = PJRT_NamedValue::new();
            encoded.name = chars(name.as_bytes());
            encoded.name_size = name.len();
            encoded.value_size = 1;
            (encoded.r#type, encoded.value) = match value {
                AttributeValue::String(text) => {
                    encoded.value_size = text.len();
                    (PJRT_NamedValue_kString, PJRT_NamedValue_Value { string_value: chars(text.as_bytes()) })
                }
                AttributeValue::Int(value) => (PJRT_NamedValue_kInt64, PJRT_NamedValue_Value { int64_value: *value }),
                AttributeValue::Ints(values) => {
                    encoded.value_size = values.len();
                    (PJRT_NamedValue_kInt64List, PJRT_NamedValue_Value { int64_array_value: values.as_ptr() })
                }
                AttributeValue::Float(value) => (PJRT_NamedValue_kFloat, PJRT_NamedValue_Value { float_value: *value }),
                AttributeValue::Bool(value) => (PJRT_NamedValue_kBool, PJRT_NamedValue_Value { bool_value: *value }),
                AttributeValue::Other(_) => {
                    return Err(Error::input(format!("option {name} has a value of unknown type")));
                }
            };
            values.push(encoded);
        }
        Ok(Self { values, borrow: std::marker::PhantomData })
    }

    pub(crate) fn as_ptr(&self) -> *const PJRT_NamedValue {
        self.values.as_ptr()
    }

    pub(crate) fn len(&self) -> usize {
        self.values.len()
    }
}

/// Copies an array of named values a plugin points to, sorted by name: plugins answer in the order of their hash tables,
/// which changes from run to run.
///
/// # Safety
/// `data` is null or points to `count` named values whose names and values are readable.
pub(crate) unsafe fn decode(data: *const PJRT_NamedValue, count: usize) -> Vec<(String, AttributeValue)> {
    if data.is_null() || count == 0 {
        return Vec::new();
    }
    // A newer plugin's named value may be longer than ours, and then its own size is the step of the array.
    // SAFETY: there is at least one element.
    let stated = unsafe { data.cast::<usize>().read() };
    let known = size_of::<PJRT_NamedValue>();
    let step = if (known..=4 * known).contains(&stated) && stated % align_of::<PJRT_NamedValue>() == 0 {
        stated
    } else {
        known
    };
    let mut values: Vec<(String, AttributeValue)> = (0..count)
        .map(|index| {
            // SAFETY: elements are `step` bytes apart and begin with the fields known here.
            let value = unsafe { data.byte_add(index * step).read() };
            // SAFETY: the type says which member is set; sizes are as the plugin states them.
            unsafe { decode_one(&value) }
        })
        .collect();
    values.sort_by(|(one, _), (other, _)| one.cmp(other));
    values
}

/// # Safety
/// `value` came from a plugin: its type says which member is set, and pointers in it are readable.
unsafe fn decode_one(value: &PJRT_NamedValue) -> (String, AttributeValue) {
    // SAFETY: the name is as long as stated.
    let name = unsafe { text(value.name, value.name_size) };
    // SAFETY: the type says which member of the union is set; arrays are as long as stated.
    let value = unsafe {
        match value.r#type {
            PJRT_NamedValue_kString => AttributeValue::String(text(value.value.string_value, value.value_size)),
            PJRT_NamedValue_kInt64 => AttributeValue::Int(value.value.int64_value),
            PJRT_NamedValue_kInt64List => AttributeValue::Ints(list(value.value.int64_array_value, value.value_size)),
            PJRT_NamedValue_kFloat => AttributeValue::Float(value.value.float_value),
            PJRT_NamedValue_kBool => AttributeValue::Bool(value.value.bool_value),
            other => AttributeValue::Other(other),
        }
    };
    (name, value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_encoded_decodes_to_the_same() {
        let options = vec![
            ("s", AttributeValue::from("text")),
            ("empty", AttributeValue::from("")),
            ("i", AttributeValue::from(-3)),
            ("l", AttributeValue::from(vec![1, 2, 3])),
            ("f", AttributeValue::from(0.5f32)),
            ("b", AttributeValue::from(true)),
        ];
        let encoded = Encoded::new(&options).unwrap();
        // SAFETY: the array was just made and borrows from `options`.
        let decoded = unsafe { decode(encoded.as_ptr(), encoded.len()) };
        let mut expected: Vec<_> = options.iter().map(|(name, value)| (name.to_string(), value.clone())).collect();
        expected.sort_by(|(one, _), (other, _)| one.cmp(other));
        assert_eq!(decoded, expected);
    }

    #[test]
    fn longer_named_values_of_a_newer_plugin_are_stepped_over() {
        #[repr(C)]
        struct Newer {
            known: PJRT_NamedValue,
            more: [u64; 2],
        }
        let make = |value: i64| {
            let mut known = PJRT_NamedValue::new();
            known.struct_size = size_of::<Newer>();
            known.r#type = PJRT_NamedValue_kInt64;
            known.value = PJRT_NamedValue_Value { int64_value: value };
            Newer { known, more: [u64::MAX; 2] }
        };
        let values = [make(7), make(8)];
        // SAFETY: two elements that state their own size.
        let decoded = unsafe { decode(values.as_ptr().cast(), 2) };
        assert_eq!(decoded, [(String::new(), AttributeValue::Int(7)), (String::new(), AttributeValue::Int(8))]);
    }

    #[test]
    fn unknown_types_are_kept_but_not_sent() {
        let mut value = PJRT_NamedValue::new();
        value.r#type = 77;
        // SAFETY: one element without a name.
        let decoded = unsafe { decode(&value, 1) };
        assert_eq!(decoded, [(String::new(), AttributeValue::Other(77))]);
        assert!(Encoded::new(&decoded).is_err());
    }
}
