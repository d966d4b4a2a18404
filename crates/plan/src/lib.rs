//! Know before you rent: does a program fit a slice, how long is a step, what limits it, what does it cost.

mod estimate;
mod kernels;
mod machine;
mod op_time;
mod simulate;
#[cfg(test)]
mod tests;
mod torus;
mod work;

pub use estimate::{Estimate, OpLine, Share, StepTime, TransferTime, Workload};
pub use kernels::Kernel;
pub use machine::{Machine, Reach};
pub use op_time::{Bound, OpTime};
pub use simulate::{OpCost, Simulation, simulate};
pub use torus::{Group, Span, Torus};
pub use work::{Product, Work};
