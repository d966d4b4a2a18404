//! Quantized weights: values of few bits with scales, as layers hold and multiply them.
//!
//! ```
//! use nn::models::{Gpt2, Gpt2Config, RunOptions};
//! use nn::quant::{MapWeights, QuantScheme};
//! use trace::{Key, Tensor, Tree};
//!
//! let config = Gpt2Config { n_layer: 2, n_embd: 64, n_head: 4, ..Gpt2Config::default() };
//! let scheme: QuantScheme = "w4a16".parse()?;
//! let model = trace::shapes_of(&(), |()| {
//!     let key = Key::from_seed(&Tensor::scalar(tensor::DType::U32, 0.0));
//!     Gpt2::init(&key, &config, &RunOptions::default()).quantized(&scheme)
//! })?;
//! assert!(model.paths().contains(&"layers.attention.query.weight.scales".to_string()));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod activations;
pub(crate) mod blocks;
mod equation;
mod form;
mod host;
mod in_training;
mod joined;
mod kernel;
mod lora;
mod on_mesh;
pub(crate) mod qat;
mod record;
mod scaled_matmul;
mod scheme;
mod tensor;
mod turned;
mod weight;

pub use activations::{QuantizedRows, dequantized_rows, quantized_rows};
pub use blocks::BlockTensor;
pub use form::MatmulForm;
pub use host::nearest_codes;
pub(crate) use in_training::is_scaled;
pub use in_training::{AdapterParts, TrainedWeight, TrainingParts, in_training};
pub use joined::JoinedTensor;
pub(crate) use joined::joined_matmuls;
pub use lora::{Adapters, LoraConfig, LoraPair, can_adapt, init_adapters, merged};
pub use qat::{fake_quantized, fake_quantized_rows};
pub use record::{RecordedInput, record_inputs};
pub use scaled_matmul::{
    AmaxHistory, BackwardMatmuls, Granularity, MatmulOptions, ScaledMatmul, Scaling, TrainingPrecision, amax_history,
};
pub use scheme::{ActivationQuant, ParseQuantSchemeError, QuantScheme, ZeroPoints, largest_code};
pub use tensor::{InputAxis, QuantizedTensor};
pub use turned::TurnedTensor;
pub use weight::{MapWeights, Weight};
pub(crate) use weight::{is_kept, map_weights};
