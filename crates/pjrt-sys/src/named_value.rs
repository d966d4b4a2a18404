//! Named values: the one way options and attributes cross the table.

use std::ffi::c_char;

use crate::abi::args;

/// Which member of `PJRT_NamedValue_Value` is set.
pub type PJRT_NamedValue_Type = u32;
/// `string_value`, `value_size` bytes.
pub const PJRT_NamedValue_kString: PJRT_NamedValue_Type = 0;
/// `int64_value`.
pub const PJRT_NamedValue_kInt64: PJRT_NamedValue_Type = 1;
/// `int64_array_value`, `value_size` elements.
pub const PJRT_NamedValue_kInt64List: PJRT_NamedValue_Type = 2;
/// `float_value`.
pub const PJRT_NamedValue_kFloat: PJRT_NamedValue_Type = 3;
/// `bool_value`.
pub const PJRT_NamedValue_kBool: PJRT_NamedValue_Type = 4;

/// The value of a `PJRT_NamedValue`, told apart by its `type`.
#[repr(C)]
#[derive(Clone, Copy)]
#[allow(missing_docs)]
pub union PJRT_NamedValue_Value {
    pub string_value: *const c_char,
    pub int64_value: i64,
    pub int64_array_value: *const i64,
    pub float_value: f32,
    pub bool_value: bool,
}

impl std::fmt::Debug for PJRT_NamedValue_Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PJRT_NamedValue_Value")
    }
}

args! {
    /// A name with a value. `value_size` counts elements of strings and lists and is 1 for scalars.
    PJRT_NamedValue {
        name: *const c_char,
        name_size: usize,
        r#type: PJRT_NamedValue_Type,
        value: PJRT_NamedValue_Value,
        value_size: usize,
    }
}
