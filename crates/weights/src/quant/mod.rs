//! Quantized weights on the host: every file format becomes one form, a matrix of codes with scales.
//!
//! ```
//! use tensor::DType;
//! use weights::quant::{ScaleBlock, PackedMatrix};
//!
//! let by_channel = ScaleBlock { out_features: 1, in_features: 3 };
//! let matrix = PackedMatrix::new(2, 3, DType::I4, vec![1, 2, 3, 255, 254, 253], by_channel, vec![0.5, 2.0])?;
//! assert_eq!(matrix.dequantize(), [0.5, 1.0, 1.5, -2.0, -4.0, -6.0]);
//! # Ok::<(), weights::Error>(())
//! ```

mod aqlm;
mod awq;
mod bits;
mod bitsandbytes;
mod codebook;
mod compressed;
mod folder;
mod format;
mod fp8;
pub mod gguf;
mod gpt_oss;
mod gptq;
mod matrix;
mod microscaling;
mod refusal;
mod settings;
mod targets;
mod vptq;
mod write;

pub use codebook::{Codebook, CodebookMatrix};
pub use folder::QuantizedFolder;
pub use format::{QuantizedWeight, Storage, WeightSpec};
pub use matrix::{PackedMatrix, PackedSpec, ScaleBlock, ScaleEncoding};
pub use write::{CompressedGroup, Inputs, ScaleStrategy, compressed_tensors_config};
