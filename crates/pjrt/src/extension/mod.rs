//! Extensions: what some plugins offer beside the table, one file each.

mod layouts;
mod megascale;
mod memory_descriptions;
mod phase_compile;
mod profiler;
mod record;
mod shardings;
mod tpu_executable;
mod tpu_topology;

pub use layouts::Layouts;
pub use megascale::Megascale;
pub use memory_descriptions::{MemoryDescription, MemoryDescriptions, MemoryKinds};
pub use phase_compile::{PartialProgram, PhaseCompile};
pub use profiler::{Profiler, ProfilerSession};
pub use shardings::Shardings;
pub use tpu_executable::{TpuExecutable, TpuMemoryStats};
pub use tpu_topology::{PlatformConfig, SliceConfig, TpuTopology};
