//! A PJRT device in pure Rust: the reference interpreter, the compiler, and the C table.

mod attributes;
mod engine;
mod error;
pub mod interpret;
mod kernels;
mod lower;
mod memory;
mod plugin;
mod program;
mod sharding;

pub use engine::{CompileOptions, Compiled, Cpu, Mode, Port, Spread};
pub use error::Error;
pub use lower::{Donation, Folding, evaluate_constant};
pub use memory::{Arena, Array};
pub use plugin::{GetPjrtApi, api};
pub use program::StepTime;
pub use sharding::Sharding;
