//! Rewrites of programs before they are compiled, by level, with their effect measured.
//!
//! ```
//! use runtime::config::Precision;
//! use runtime::optimize::{Level, Optimizer, Target, Trial};
//! use runtime::Program;
//!
//! let text = "func.func @main(%x: tensor<256x256xf32>, %w: tensor<256x256xf32>) -> tensor<256x256xf32> {
//!   %0 = stablehlo.transpose %w, dims = [1, 0] : (tensor<256x256xf32>) -> tensor<256x256xf32>
//!   %1 = stablehlo.dot_general %x, %0, contracting_dims = [1] x [0] : (tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<256x256xf32>
//!   return %1 : tensor<256x256xf32>
//! }";
//! let program = Program::read(text.as_bytes().to_vec())?;
//! let target = Target::tpu(chips::Generation::V5e);
//! let optimized = Optimizer::new(Level::Conservative, target, Precision::Bf16).optimize(&program, &Trial::default())?;
//! // The product reads through the transpose.
//! assert!(optimized.after.ops < optimized.before.ops);
//! for step in &optimized.steps {
//!     println!("{}: {}", step.rewrite, step.detail);
//! }
//! # Ok::<(), runtime::Error>(())
//! ```

mod bf16_chains;
mod bf16_parameters;
mod bf16_products;
mod clean_up;
mod deviation;
mod donate;
mod edit;
mod level;
mod metrics;
mod optimizer;
mod pad_products;
mod step;
mod target;

pub(crate) use bf16_parameters::{narrowed, widened};
pub use deviation::deviation;
pub use level::Level;
pub use metrics::Metrics;
pub use optimizer::{Optimized, Optimizer, Trial};
pub use step::Step;
pub use target::Target;
