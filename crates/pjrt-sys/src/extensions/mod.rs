//! Extensions this workspace uses, one file each.

pub mod ffi;
pub mod layouts;
pub mod megascale;
pub mod memory_descriptions;
pub mod multi_slice;
pub mod phase_compile;
pub mod profiler;
pub mod shardings;
pub mod tpu_executable;
pub mod tpu_topology;
