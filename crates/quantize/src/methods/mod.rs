//! Methods of quantization, as mathematics on the host: one weight, or the weights that share an input, at a time.
//!
//! A weight is a [`Matrix`], what calibration saw of its inputs are [`InputStatistics`], and the result of the scalar
//! methods is a [`weights::quant::PackedMatrix`]. Results depend on the input and on seeds only, not on the number of
//! threads.

#[cfg(test)]
mod examples;
pub mod gptq;
mod grid;
mod linear_algebra;
mod matrix;
pub mod metrics;
pub mod nearest;
mod packing;
#[cfg(test)]
mod quality;
mod random;
pub mod rotation;
mod rounding;
mod statistics;
mod threads;

pub use matrix::Matrix;
pub use rounding::{Clip, Rounding};
pub use statistics::InputStatistics;
