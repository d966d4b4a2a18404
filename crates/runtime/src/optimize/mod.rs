//! Rewrites of programs with their effect measured: how far results move, and what it costs before and after.
//!
//! ```
//! use compile::Program;
//! use compile::optimize::{ComputePrecision, Level, ProgramOptimizer, TargetInfo};
//! use runtime::optimize::{OptimizationTrial, optimize};
//!
//! let text = "func.func @main(%x: tensor<256x256xf32>, %w: tensor<256x256xf32>) -> tensor<256x256xf32> {
//!   %0 = stablehlo.transpose %w, dims = [1, 0] : (tensor<256x256xf32>) -> tensor<256x256xf32>
//!   %1 = stablehlo.dot_general %x, %0, contracting_dims = [1] x [0] : (tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<256x256xf32>
//!   return %1 : tensor<256x256xf32>
//! }";
//! let program = Program::read(text.as_bytes().to_vec())?;
//! let target = TargetInfo::tpu(chips::Generation::V5e);
//! let optimizer = ProgramOptimizer::new(Level::Conservative, target, ComputePrecision::Bf16);
//! let optimized = optimize(&optimizer, &program, &OptimizationTrial::default())?;
//! // The matmul reads through the transpose.
//! assert!(optimized.after.ops < optimized.before.ops);
//! # Ok::<(), runtime::Error>(())
//! ```

mod deviation;
mod partitions;
mod trial;

pub use deviation::deviation;
pub use trial::{OptimizationTrial, Optimized, ResultMove, compare_programs, optimize};
