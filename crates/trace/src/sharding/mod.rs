//! Programs for several devices: meshes, shardings, functions of one device's parts, collectives.

mod collective;
mod gradients;
mod layout;
mod manual;
mod mesh;
mod site;
mod written;

pub use collective::{Over, Reduction, axis_index};
pub(crate) use collective::{batched as collective_batched, is_collective, transposed as collective_transposed};
pub use gradients::{Exchange, sync_gradients};
pub use layout::{Dialect, Layout, Sharding, layout};
pub(crate) use layout::{constrained, lane_axes, with_lane_axes, with_lanes, with_layout};
pub use manual::shard_map;
pub(crate) use manual::{Manual, batched as manual_batched, jvp as manual_jvp, vjp as manual_vjp};
pub use mesh::{Axis, Mesh, Network};
pub use site::{Site, Torus};
pub(crate) use written::Written;
