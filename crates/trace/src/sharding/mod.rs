//! Meshes of devices, and how tensors are sharded over them.

mod logical_axes;
mod mesh;
mod site;

pub use logical_axes::{Dialect, LogicalAxisRules, PartitionSpec, current_rules};
pub(crate) use logical_axes::{lane_axes, with_lane_axes, with_lanes, with_rules};
pub use mesh::{Axis, Mesh, Network};
pub use site::{Site, Torus};
