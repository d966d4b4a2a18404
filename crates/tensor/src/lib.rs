//! Host values: element types, shapes, literals and their comparison.
//!
//! ```
//! use tensor::{DType, Literal};
//!
//! let weights = Literal::from([[1.0f32, 2.0], [3.0, 4.0]]);
//! assert_eq!((weights.dtype(), weights.dims()), (DType::F32, &[2, 2][..]));
//! assert_eq!(weights.to_vec::<f32>()?, [1.0, 2.0, 3.0, 4.0]);
//! # Ok::<(), tensor::ValueError>(())
//! ```
//!
//! With the feature `ndarray` literals come from and go to its arrays.

mod blocks;
mod cast;
mod dtype;
mod literal;
#[cfg(feature = "ndarray")]
mod nd;
mod scalar;
mod spec;
mod transpose;
mod values;

pub use blocks::BlockFormat;
pub use dtype::DType;
pub use literal::Literal;
pub use scalar::{decode_float, encode_float};
pub use spec::Spec;
pub use transpose::{float_bytes, transpose_floats, transpose_matrices, transpose_rows_into};
pub use values::{Element, ValueError};
