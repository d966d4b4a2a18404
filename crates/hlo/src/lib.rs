//! The StableHLO language: module, ops, text, bytecode, builder, verify; and the reader of compiled XLA HLO.

pub mod attr;
mod build;
pub mod bytecode;
mod dense;
pub mod dims;
mod error;
mod loc;
mod module;
pub mod ops;
pub mod sdy;
pub mod text;
mod ty;
mod verify;
pub mod xla;

pub use attr::{Attr, AttrName, Attrs, ByteString, Keyword, KeywordSet};
pub use dense::{Dense, DenseData, element_bytes};
pub use error::{Error, Finding, Position};
pub use loc::{Loc, Location};
pub use module::{Definition, Func, Mesh, Module, Op, OpId, OpName, Region, RegionData, Value, ValueData, Visibility};
pub use ops::OpKind;
pub use ty::{DYNAMIC, ElementType, FunctionType, Quantized, Real, TensorType, Type};
