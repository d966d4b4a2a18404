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
    /// YaRN: pairs that turn often within the trained context are kept, those that turn little divided by a factor, those
    /// between blended; cosines and sines grow.
    Yarn {
        /// The factor.
        factor: f64,
        /// Turns within the trained context from which on a pair is kept.
        beta_fast: f64,
        /// Turns up to which a pair is stretched whole.
        beta_slow: f64,
        /// What cosines and sines are multiplied by.
        attention_factor: f64,
        /// The context trained on.
        original_max_position_embeddings: usize,
        /// Whether the pairs between are counted from whole pairs on.
        #[serde(default)]
        bounds: YarnBounds,
    },
    /// As Gemma 4: the first pairs of features are turned, all angles divided by a factor; the others stay as they are.
    Proportional {
        /// The share of pairs that are turned.
        share: f64,
        /// The factor.
        factor: f64,
    },
}

/// LongRoPE: each pair of features has a factor of its own, in sequences up to the trained context and in longer ones.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LongRope {
    /// What angles of sequences up to the trained context are divided by, pair by pair.
    pub short_factor: Vec<f64>,
    /// What those of longer sequences are divided by.
    pub long_factor: Vec<f64>,
    /// What cosines and sines are multiplied by.
    pub attention_factor: f64,
    /// The context trained on.
    pub original_max_position_embeddings: usize,
}

/// Bounds of the pairs that YaRN blends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum YarnBounds {
    /// Rounded to whole pairs (`truncate`).
    #[default]
    Whole,
    /// As they are.
    Fractional,
}

impl RopeScaling {
    /// What cosines and sines are multiplied by.
    fn growth(&self) -> f64 {
        match self {
            RopeScaling::Yarn { attention_factor, .. } => *attention_factor,
            _ => 1.0,
        }
    }
}

/// Which features are turned together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RopePairs {
    /// Feature `i` with feature `i + head / 2`.
    #[default]
    Halves,
    /// Feature `2 i` with feature `2 i + 1`; what is turned comes out as halves.
    Neighbours,
}

/// Turns of each pair of features for one position to the next.
fn frequencies(head: usize, theta: f64, scaling: &RopeScaling) -> Vec<f32> {
    let plain = (0..head / 2).map(|n| theta.powf(-2.0 * n as f64 / head as f64));
    let scaled = plain.enumerate().map(|(n, frequency)| match *scaling {
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
        RopeScaling::Proportional { share, factor } => {
            let turned = (share * head as f64 / 2.0).floor();
            if (n as f64) < turned { frequency / factor } else { 0.0 }
        }
        RopeScaling::Yarn { factor, beta_fast, beta_slow, original_max_position_embeddings, bounds, .. } => {
            let context = original_max_position_embeddings as f64 / (2.0 * std::f64::consts::PI);
            // The pair that turns so often within the trained context.
            let pair = |turns: f64| head as f64 * (context / turns).ln() / (2.0 * theta.ln());
            let (low, high) = match bounds {
                YarnBounds::Whole => (pair(beta_fast).floor(), pair(beta_slow).ceil()),
                YarnBounds::Fractional => (pair(beta_fast), pair(beta_slow)),
            };
            let (low, high) = (low.max(0.0), high.min(head as f64 - 1.0));
            let width = if high == low { 0.001 } else { high - low };
            let stretched = ((n as f64 - low) / width).clamp(0.0, 1.0);
            stretched * frequency / factor + (1.0 - stretched) * frequency
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
            let grown = |x: Tensor| if scaling.growth() == 1.0 { x } else { &x * scaling.growth() };
            Rope { cos: grown(angles.cos()), sin: grown(angles.sin()) }
        })
    }

    /// For integer positions of sequences of at most `longest`, by LongRoPE.
    #[track_caller]
    pub fn long(positions: &Tensor, head: usize, theta: f64, scaling: &LongRope, longest: usize) -> Rope {
        trace::scope("rope", || {
            let is_long = longest > scaling.original_max_position_embeddings;
            let factors = if is_long { &scaling.long_factor } else { &scaling.short_factor };
            let plain = frequencies(head, theta, &RopeScaling::None);
            let scaled: Vec<f32> = plain.iter().zip(factors).map(|(one, by)| (f64::from(*one) / by) as f32).collect();
            let angles = &positions.cast(DType::F32).expand(-1) * &Tensor::from_f32s(&[head / 2], &scaled);
            Rope { cos: &angles.cos() * scaling.attention_factor, sin: &angles.sin() * scaling.attention_factor }
        })
    }

    /// Turns `[batch, positions, heads, head]`: feature `i` with feature `i + head / 2`.
    #[track_caller]
    pub fn apply(&self, x: &Tensor) -> Tensor {
        self.apply_to(x, RopePairs::Halves)
    }

    /// Turns `[batch, positions, heads, head]` by such pairs; features behind those of the angles stay as they are.
    #[track_caller]
    pub fn apply_to(&self, x: &Tensor, pairs: RopePairs) -> Tensor {
        let (turned, all) = (2 * self.cos.dim(-1), x.dim(-1));
        if turned < all {
            let first = self.apply_to(&x.slice(-1, 0..turned), pairs);
            return Tensor::concat(&[first, x.slice(-1, turned..all)], -1);
        }
        trace::scope("rope", || {
            let wide = x.cast(DType::F32);
            let last = x.dim(-1);
            let halves = match pairs {
                RopePairs::Halves => wide.split(-1, 2),
                RopePairs::Neighbours => vec![wide.slice_by(-1, 0..last, 2), wide.slice_by(-1, 1..last, 2)],
            };
            let (cos, sin) = (self.cos.expand(-2), self.sin.expand(-2));
            let first = &(&halves[0] * &cos) - &(&halves[1] * &sin);
            let second = &(&halves[1] * &cos) + &(&halves[0] * &sin);
            Tensor::concat(&[first, second], -1).cast(x.dtype())
        })
    }
}
