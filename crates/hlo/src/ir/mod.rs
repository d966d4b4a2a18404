//! The program in memory, as plain data: a module's functions and ops, and the types and attributes they carry.
//!
//! Attributes hold types and constants, and a tensor type may hold an attribute: they are one notion in several files.

pub mod attr;
mod dense;
pub mod dims;
mod kind;
mod loc;
mod module;
pub mod sdy;
mod ty;

pub use attr::{Attr, AttrName, Attrs, ByteString, Keyword, KeywordSet};
pub use dense::{Dense, DenseData, element_bytes};
pub use kind::OpKind;
pub(crate) use kind::for_each_op;
pub use loc::{Loc, Location};
pub use module::{
    Definition, Func, MeshOp, Module, NewOp, Op, OpId, OpName, Region, RegionData, Value, ValueData, Visibility,
};
pub use ty::{DYNAMIC, ElementType, FunctionType, Quantized, Real, TensorType, Type};
