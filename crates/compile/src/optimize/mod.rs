//! Rewrites of programs before they are compiled, by level.
//!
//! ```
//! use compile::Program;
//! use compile::optimize::{ComputePrecision, Level, ProgramMetrics, ProgramOptimizer, TargetInfo};
//!
//! let text = "func.func @main(%x: tensor<256x256xf32>, %w: tensor<256x256xf32>) -> tensor<256x256xf32> {
//!   %0 = stablehlo.transpose %w, dims = [1, 0] : (tensor<256x256xf32>) -> tensor<256x256xf32>
//!   %1 = stablehlo.dot_general %x, %0, contracting_dims = [1] x [0] : (tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<256x256xf32>
//!   return %1 : tensor<256x256xf32>
//! }";
//! let program = Program::read(text.as_bytes().to_vec())?;
//! let target = TargetInfo::tpu(chips::Generation::V5e);
//! let optimizer = ProgramOptimizer::new(Level::Conservative, target, ComputePrecision::Bf16);
//! let (rewritten, steps) = optimizer.rewrite(&program)?;
//! // The matmul reads through the transpose.
//! assert!(ProgramMetrics::of(rewritten.module()).ops < ProgramMetrics::of(program.module()).ops);
//! for step in &steps {
//!     println!("{}: {}", step.rewrite, step.detail);
//! }
//! # Ok::<(), compile::CompileError>(())
//! ```

mod bf16_chains;
mod bf16_matmuls;
mod bf16_parameters;
mod clean_up;
mod donate;
mod edit;
mod level;
mod metrics;
mod offload;
mod one_hot;
mod one_hot_rows;
mod optimizer;
mod pad_matmuls;
mod precision;
mod rematerialize;
mod stacks;
mod step;
mod target;

pub use bf16_parameters::{narrowed, widened};
pub use level::Level;
pub use metrics::ProgramMetrics;
pub use offload::{OffloadedActivations, offload_activations};
pub use one_hot::one_hot_indexing;
pub use one_hot_rows::one_hot_rows;
pub use optimizer::ProgramOptimizer;
pub use precision::ComputePrecision;
pub use rematerialize::{GradientCheckpointing, RematExtent, Rematerialized, inlined_but_kernels, rematerialize};
pub use step::RewriteStep;
pub use target::TargetInfo;
