//! Host values: element types, shapes, literals and their comparison.

mod dtype;
mod scalar;

pub use dtype::DType;
pub use scalar::{decode_float, encode_float};
