//! A PJRT device in pure Rust: the reference interpreter, the compiler, and the PJRT API table.
//!
//! ```
//! use cpu::{Array, Compiled, Cpu, EngineOptions};
//! use tensor::Literal;
//!
//! let twice = "func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
//!   %y = stablehlo.add %x, %x : tensor<2xf32>
//!   return %y : tensor<2xf32>
//! }";
//! let cpu = Cpu::new(None);
//! let program = Compiled::compile(&cpu, twice.as_bytes(), &EngineOptions::default())?;
//! let x = Array::from_literal(cpu.memory(), &Literal::from([1.0f32, 2.0]))?;
//! let results = program.run(vec![vec![x]], &Default::default())?;
//! assert_eq!(results[0][0].to_literal(), Literal::from([2.0f32, 4.0]));
//! # Ok::<(), cpu::Error>(())
//! ```

mod attributes;
mod engine;
mod error;
mod footprint;
pub mod interpret;
mod kernels;
mod lower;
mod memory;
mod plugin;
mod profile;
mod program;
mod recorder;
mod sharding;

pub use engine::{Compiled, Cpu, EngineOptions, ExecutionMode, FreeShardings, PartitionRuns, PortType, Spread};
pub use error::Error;
pub use kernels::isa::CpuIsa;
pub use lower::{Donation, Folding, evaluate_constant};
pub use memory::{Arena, Array};
pub use plugin::{GetPjrtApi, api};
pub use program::ProfiledStep;
pub use sharding::Sharding;

/// The reference page, whose example is a test.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/reference/cpu.md")]
struct Page;
