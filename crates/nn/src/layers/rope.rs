//! Rotary positions: pairs of features turned by an angle that grows with the position.

use serde::{Deserialize, Serialize};
use tensor::DType;
use trace::{Tensor, Tree};

/// How angles are stretched for contexts longer than those trained on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub enum RopeScaling {
    /// Not at all.
    #[default]
    None,
    /// All divided by a factor.
    Linear {
        /// The factor.
        factor: f64,
    },
    /// As Llama 3.1: long wavelengths divided by a factor, short ones kept, those between blended.
    Llama3 {
        /// The factor.
        factor: f64,
        /// Wavelengths over the trained context divided by this are stretched whole.
        low_freq_factor: f64,
        /// Wavelengths under the trained context divided by this are kept.
        high_freq_factor: f64,
        /// The context trained on.
        original_max_position_embeddings: usize,
    },
}

/// Turns of each pair of features for one position to the next.
fn frequencies(head: usize, theta: f64, scaling: &RopeScaling) -> Vec<f32> {
    let plain = (0..head / 2).map(|n| theta.powf(-2.0 * n as f64 / head as f64));
    let scaled = plain.map(|frequency| match *scaling {
        RopeScaling::None => frequency,
        RopeScaling::Linear { factor } => frequency / factor,
        RopeScaling::Llama3 { factor, low_freq_factor, high_freq_factor, original_max_position_embeddings } => {
            let context = original_max_position_embeddings as f64;
            let wavelength = 2.0 * std::f64::consts::PI / frequency;
            if wavelength < context / high_freq_factor {
                frequency
            } else if wavelength > context / low_freq_factor {
                frequency / factor
            } else {
                let smooth = (context / wavelength - low_freq_factor) / (high_freq_factor - low_freq_factor);
                (1.0 - smooth) * frequency / factor + smooth * frequency
            }
        }
    });
    scaled.map(|frequency| frequency as f32).collect()
}

/// Cosines and sines of positions, computed once for all layers.
#[derive(Clone, Debug, Tree)]
pub struct Rope {
    /// `[positions, head / 2]`, or `[batch, positions, head / 2]`.
    pub cos: Tensor,
    /// As `cos`.
    pub sin: Tensor,
}

impl Rope {
    /// For integer positions `[positions]` or `[batch, positions]`.
    #[track_caller]
    pub fn new(positions: &Tensor, head: usize, theta: f64, scaling: &RopeScaling) -> Rope {
        trace::scope("rope", || {
            let frequencies = Tensor::from_f32s(&[head / 2], &frequencies(head, theta, scaling));
            let angles = &positions.cast(DType::F32).expand(-1) * &frequencies;
            Rope { cos: angles.cos(), sin: angles.sin() }
        })
    }

    /// Turns `[batch, positions, heads, head]`: feature `i` with feature `i + head / 2`.
    #[track_caller]
    pub fn apply(&self, x: &Tensor) -> Tensor {
        trace::scope("rope", || {
            let halves = x.cast(DType::F32).split(-1, 2);
            let (cos, sin) = (self.cos.expand(-2), self.sin.expand(-2));
            let first = &(&halves[0] * &cos) - &(&halves[1] * &sin);
            let second = &(&halves[1] * &cos) + &(&halves[0] * &sin);
            Tensor::concat(&[first, second], -1).cast(x.dtype())
        })
    }
}
