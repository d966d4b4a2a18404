//! The StableHLO language: module, ops, text, bytecode, builder, verify.
//!
//! ```
//! let text = "func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
//!   %y = stablehlo.add %x, %x : tensor<4xf32>
//!   return %y : tensor<4xf32>
//! }";
//! let program = hlo::verify(hlo::read(text.as_bytes())?)?;
//! assert!(hlo::text::print(&program).contains("stablehlo.add"));
//! # Ok::<(), hlo::Error>(())
//! ```

pub mod attr;
mod build;
pub mod bytecode;
pub mod cost;
mod dense;
pub mod dims;
mod error;
mod loc;
mod module;
pub mod ops;
pub mod passes;
mod read;
pub mod sdy;
pub mod text;
mod ty;
mod verify;

pub use attr::{Attr, AttrName, Attrs, ByteString, Keyword, KeywordSet};
pub use build::{FuncBuilder, ModuleBuilder};
pub use dense::{Dense, DenseData, element_bytes};
pub use error::{Error, Finding, Position};
pub use loc::{Loc, Location};
pub use module::{
    Definition, Func, Mesh, Module, NewOp, Op, OpId, OpName, Region, RegionData, Value, ValueData, Visibility,
};
pub use ops::{OpClass, OpKind};
pub use read::read;
pub use ty::{DYNAMIC, ElementType, FunctionType, Quantized, Real, TensorType, Type};
pub use verify::{Processes, Verified, findings, unsupported_by_tpu, verify};
