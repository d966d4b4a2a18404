//! Host values: element types, shapes, literals and their comparison.

mod dtype;
mod literal;
mod scalar;
mod spec;

pub use dtype::DType;
pub use literal::Literal;
pub use scalar::{decode_float, encode_float};
pub use spec::Spec;
