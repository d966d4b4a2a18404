//! Methods of quantization, as mathematics on the host: one weight, or the weights that share an input, at a time.
//!
//! A weight is a [`Matrix`], what calibration saw of its inputs are [`InputStatistics`], and the result of the scalar
//! methods is a [`weights::quant::PackedMatrix`]. Results depend on the input and on seeds only, not on the number of
//! threads.

pub mod awq;
pub mod codebook;
#[cfg(test)]
mod examples;
pub mod gptq;
mod grid;
mod input_scales;
mod linear_algebra;
mod matrix;
pub mod metrics;
pub mod mixed;
pub mod nearest;
mod packing;
#[cfg(test)]
mod quality;
mod random;
pub mod rotation;
mod rounding;
pub mod smoothquant;
mod statistics;
mod threads;
mod vectors;

pub use input_scales::InputScales;
pub use matrix::Matrix;
pub use rounding::{Clip, Rounding};
pub use statistics::InputStatistics;
