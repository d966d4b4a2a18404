//! A PJRT device in pure Rust: the reference interpreter, the compiler, and the C table.

mod engine;
mod error;
pub mod interpret;
mod plugin;
mod sharding;

pub use engine::{Compiled, Donation, Port, Spread};
pub use error::Error;
pub use plugin::{GetPjrtApi, api};
pub use sharding::Sharding;
