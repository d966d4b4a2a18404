//! Programs for several devices: meshes, shardings, functions of one device's parts, collectives.

mod attributes;
mod collective;
mod gradients;
mod logical_axes;
mod manual;
mod mesh;
mod site;

pub(crate) use attributes::ShardingAttributes;
pub use collective::{Over, Reduction, axis_index};
pub(crate) use collective::{batched as collective_batched, is_collective, transposed as collective_transposed};
pub use gradients::{Exchange, sync_gradients};
pub use logical_axes::{Dialect, LogicalAxisRules, PartitionSpec, current_rules};
pub(crate) use logical_axes::{constrained, lane_axes, with_lane_axes, with_lanes, with_rules};
pub use manual::shard_map;
pub(crate) use manual::{Manual, batched as manual_batched, jvp as manual_jvp, vjp as manual_vjp};
pub use mesh::{Axis, Mesh, Network};
pub use site::{Site, Torus};
