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

mod build;
pub mod bytecode;
pub mod cost;
mod error;
pub mod gspmd;
mod ir;
pub mod memory_kind;
pub mod ops;
mod partition;
pub mod passes;
mod print;
mod propagate;
mod read;
pub mod text;
mod unite;
mod verify;

pub use build::{FuncBuilder, ModuleBuilder};
pub use error::{Error, Finding, Position};
pub use ir::{
    Attr, AttrName, Attrs, ByteString, DYNAMIC, Definition, Dense, DenseData, ElementType, Func, FunctionType, Keyword,
    KeywordSet, Loc, Location, MeshOp, Module, NewOp, Op, OpId, OpKind, OpName, Quantized, Real, Region, RegionData,
    TensorType, Type, Value, ValueData, Visibility, attr, dims, element_bytes, sdy,
};
pub use ops::OpClass;
pub use partition::{combine_all_reduces, partition};
pub use propagate::{PropagatedShardings, propagate, propagate_values};
pub use read::read;
pub use unite::unite;
pub use verify::{Processes, Verified, findings, unsupported_by_tpu, verify};
