//! Reader of what the XLA compiler returns: optimized HLO modules and buffer assignments.
//!
//! Input is untrusted: every size is bounded by the input, ids are checked once when read, and call graphs are
//! refused if recursive, so that what follows cannot loop or panic.
//!
//! ```
//! // What is no HLO module is told, and does not panic.
//! assert!(xla::HloModule::from_any(b"not an HLO module").is_err());
//! let config = xla::Json::parse(br#"{"flag": [1, 2]}"#).unwrap();
//! assert!(config.get("flag").is_some());
//! ```

mod attributes;
mod buffers;
mod collectives;
mod cost;
mod dimensions;
mod error;
mod executions;
mod flops;
mod json;
mod literal;
mod module;
mod op_text;
mod opcode;
mod proto;
mod read;
mod replica_groups;
mod shape;
mod sharding;
#[cfg(test)]
mod tests;
mod text;
mod traffic;
mod trip_count;
mod zstd;

pub use attributes::{Attributes, OperandAliasing};
pub use buffers::{
    Allocation, AllocationKind, Assigned, BufferAssignment, BufferId, HeapEvent, HeapEventKind, HeapTrace,
    LogicalBuffer, MemorySummary,
};
pub use collectives::{Collective, CollectiveKind, CollectiveTotal, Link, Overlap};
pub use cost::{ComputationCost, HloCost, KernelCost};
pub use dimensions::{
    ConvolutionDimensionNumbers, DotDimensionNumbers, GatherDimensionNumbers, PaddingDimension,
    ScatterDimensionNumbers, SliceDimension, WindowDimension,
};
pub use error::Error;
pub use executions::Executions;
pub use json::Json;
pub use module::{
    Alias, CollectiveAlgorithm, Computation, ComputationId, HloModule, Instruction, InstructionId, Metadata,
    SourceLocation,
};
pub use opcode::{Opcode, OpcodeClass};
pub use replica_groups::{AxisSpan, MeshGroups, ReplicaGroups};
pub use shape::{COMBINE_DIMENSION, Layout, MemorySpace, PrimitiveType, Shape, UNBOUNDED};
pub use traffic::{SpaceBytes, Traffic, Users};
pub use trip_count::TripCount;
pub use zstd::Limits;
