//! Values of a GGUF file's metadata.

/// A value of a GGUF file's metadata.
#[derive(Clone, Debug, PartialEq)]
pub enum GgufValue {
    /// An unsigned integer of any width.
    Unsigned(u64),
    /// A signed integer of any width.
    Signed(i64),
    /// A float of 32 bits.
    F32(f32),
    /// A float of 64 bits.
    F64(f64),
    /// A truth value.
    Bool(bool),
    /// A text.
    Text(String),
    /// Values of one type.
    List(Vec<GgufValue>),
}

impl GgufValue {
    /// As a count, where it is an integer that is not negative.
    pub fn as_count(&self) -> Option<usize> {
        match self {
            GgufValue::Unsigned(value) => usize::try_from(*value).ok(),
            GgufValue::Signed(value) => usize::try_from(*value).ok(),
            _ => None,
        }
    }

    /// As a float; the shortest decimal of one of 32 bits, as configurations write it.
    pub fn as_f64(&self) -> Option<f64> {
        match self {
            GgufValue::F32(value) => value.to_string().parse().ok(),
            GgufValue::F64(value) => Some(*value),
            _ => None,
        }
    }

    /// As a text.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            GgufValue::Text(text) => Some(text),
            _ => None,
        }
    }

    /// As a truth value.
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            GgufValue::Bool(value) => Some(*value),
            _ => None,
        }
    }

    /// As a list.
    pub fn as_list(&self) -> Option<&[GgufValue]> {
        match self {
            GgufValue::List(values) => Some(values),
            _ => None,
        }
    }
}
