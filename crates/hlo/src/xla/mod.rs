//! Reader of what the XLA compiler returns: optimized HLO modules and buffer assignments.
//!
//! Input is untrusted: every size is bounded by the input, ids are checked once when read, and call graphs are
//! refused if recursive, so that what follows cannot loop or panic.

mod attributes;
mod error;
mod json;
mod module;
mod opcode;
mod proto;
mod read;
mod replica_groups;
mod shape;
mod zstd;

pub use attributes::{
    Attributes, ConvolutionDimensionNumbers, DotDimensionNumbers, GatherDimensionNumbers, OperandAliasing,
    PaddingDimension, ScatterDimensionNumbers, SliceDimension, WindowDimension,
};
pub use error::Error;
pub use json::Json;
pub use module::{
    Alias, CollectiveAlgorithm, Computation, ComputationId, Instruction, InstructionId, Metadata, Module,
    SourceLocation,
};
pub use opcode::Opcode;
pub use replica_groups::{AxisSpan, MeshGroups, ReplicaGroups};
pub use shape::{COMBINE_DIMENSION, ElementType, Layout, MemorySpace, Shape, UNBOUNDED};
pub use zstd::Limits;
