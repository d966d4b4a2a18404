//! Layers, models, losses and gradient optimizers on traced tensors.
//!
//! ```
//! use nn::models::{Gpt2, Gpt2Config, LanguageModel, RunOptions, TokenBatch};
//! use nn::optim::{Adam, Schedule};
//! use nn::{CrossEntropy, StepOptions, trace_init, trace_train_step};
//!
//! let config = Gpt2Config { n_layer: 2, n_embd: 64, n_head: 4, n_positions: 32, vocab_size: 256, ..Gpt2Config::default() };
//! let optimizer = Adam::with_weight_decay(Schedule::Cosine { peak_value: 3e-4, warmup_steps: 10, total_steps: 100, end_value: 0.0 }, 0.1);
//! let options = StepOptions { max_grad_norm: Some(1.0), ..StepOptions::default() };
//! let (init, state) = trace_init(&optimizer, &options, |key| Gpt2::init(key, &config, &RunOptions::default()))?;
//! let batch = TokenBatch::shape(8, 32);
//! let step = trace_train_step(&state, &batch, &optimizer, &options, |model: &Gpt2, batch, key| {
//!     model.loss(batch, &CrossEntropy::default(), Some(key))
//! })?;
//! // The state the first program gives is what the second takes, and gives again.
//! assert_eq!(init.outputs.len() + 2, step.inputs.len());
//! # Ok::<(), trace::Error>(())
//! ```

mod at_use;
mod dropout;
mod error;
mod fused;
pub mod hf;
mod init;
pub mod layers;
mod losses;
pub mod models;
pub mod optim;
pub mod quant;
mod slice_gradients;
mod stacked;
mod strategy;
mod train;

pub use error::Error;
pub use fused::{Fused, Kernels};
pub use init::Init;
pub use losses::{CrossEntropy, binary_cross_entropy, mean_squared_error};
pub use slice_gradients::{SliceGradientDType, SliceGradients};
pub use stacked::{
    CHECKPOINT_NAMES, LayerIteration, infer_repeating_pattern, init_stacked, is_stacked, run_repeating_pattern,
    run_stacked, scan_repeating_pattern,
};
pub use strategy::{ShardingRules, Strategy};
pub use trace::{DTypePolicy, RematPolicy};
pub use train::{StepMetrics, StepOptions, TrainState, trace_init, trace_train_step, train_step, train_step_with};
