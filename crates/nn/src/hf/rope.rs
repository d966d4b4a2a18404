//! Rotary positions (RoPE) as a `config.json` describes them.

use serde::Deserialize;

use crate::error::Error;
use crate::layers::{LongRope, RopeScaling, YarnBounds};

/// `rope_scaling`, or `rope_parameters` in newer files.
#[derive(Deserialize)]
pub(super) struct RawRope {
    rope_type: Option<String>,
    /// Its older name; files may have both.
    #[serde(rename = "type")]
    older_type: Option<String>,
    pub(super) rope_theta: Option<f64>,
    factor: Option<f64>,
    low_freq_factor: Option<f64>,
    high_freq_factor: Option<f64>,
    original_max_position_embeddings: Option<usize>,
    beta_fast: Option<f64>,
    beta_slow: Option<f64>,
    attention_factor: Option<f64>,
    mscale: Option<f64>,
    mscale_all_dim: Option<f64>,
    truncate: Option<bool>,
    partial_rotary_factor: Option<f64>,
    short_factor: Option<Vec<f64>>,
    long_factor: Option<Vec<f64>>,
}

impl RawRope {
    /// How angles are stretched, by its name.
    pub(super) fn kind(&self) -> &str {
        self.rope_type.as_deref().or(self.older_type.as_deref()).unwrap_or("default")
    }

    /// How angles are stretched, for a model of so many positions that was trained first with `original` ones, where the
    /// file says so outside.
    pub(super) fn scaling(&self, positions: usize, original: Option<usize>) -> Result<RopeScaling, Error> {
        let original = original.or(self.original_max_position_embeddings).unwrap_or(positions);
        let need = |name: &str, value: Option<f64>| {
            let value = value.filter(|value| value.is_finite() && *value > 0.0);
            value.ok_or_else(|| Error::config(format!("rope_scaling has no usable {name}")))
        };
        match self.kind() {
            // LongRoPE has a place of its own.
            // Of text, the three positions of a token (M-RoPE) are one.
            "default" | "longrope" | "su" | "mrope" => Ok(RopeScaling::None),
            "linear" => Ok(RopeScaling::Linear { factor: need("factor", self.factor)? }),
            "llama3" => Ok(RopeScaling::Llama3 {
                factor: need("factor", self.factor)?,
                low_freq_factor: need("low_freq_factor", self.low_freq_factor)?,
                high_freq_factor: need("high_freq_factor", self.high_freq_factor)?,
                original_max_position_embeddings: original,
            }),
            "yarn" => {
                let factor = need("factor", self.factor)?;
                let usual = match (self.mscale, self.mscale_all_dim) {
                    (Some(one), Some(all)) if one != 0.0 && all != 0.0 => growth(factor, one) / growth(factor, all),
                    _ => growth(factor, 1.0),
                };
                Ok(RopeScaling::Yarn {
                    factor,
                    beta_fast: need("beta_fast", Some(self.beta_fast.unwrap_or(32.0)))?,
                    beta_slow: need("beta_slow", Some(self.beta_slow.unwrap_or(1.0)))?,
                    attention_factor: need("attention_factor", Some(self.attention_factor.unwrap_or(usual)))?,
                    original_max_position_embeddings: original,
                    bounds: match self.truncate {
                        Some(false) => YarnBounds::Fractional,
                        _ => YarnBounds::Whole,
                    },
                })
            }
            "proportional" => Ok(RopeScaling::Proportional {
                share: self.partial_rotary_factor.unwrap_or(1.0).clamp(0.0, 1.0),
                factor: need("factor", Some(self.factor.unwrap_or(1.0)))?,
            }),
            other => Err(Error::config(format!(
                "rope scaling of type `{other}` is not known; known are default, linear, llama3, longrope, proportional and yarn"
            ))),
        }
    }

    /// LongRoPE, if it is that, as [`RawRope::scaling`] is for other types.
    pub(super) fn long(&self, positions: usize, original: Option<usize>) -> Result<Option<LongRope>, Error> {
        // Files of Phi 3 have an older name for it.
        if !["longrope", "su"].contains(&self.kind()) {
            return Ok(None);
        }
        let original = original.or(self.original_max_position_embeddings);
        let factor = match original {
            Some(original) => positions as f64 / original.max(1) as f64,
            None => self.factor.unwrap_or(1.0),
        };
        let original = original.unwrap_or(positions);
        let usual = match factor > 1.0 && original > 1 {
            true => (1.0 + factor.ln() / (original as f64).ln()).sqrt(),
            false => 1.0,
        };
        let attention_factor = self.attention_factor.unwrap_or(usual);
        match (&self.short_factor, &self.long_factor) {
            (Some(short), Some(long)) if attention_factor.is_finite() && attention_factor > 0.0 => Ok(Some(LongRope {
                short_factor: short.clone(),
                long_factor: long.clone(),
                attention_factor,
                original_max_position_embeddings: original,
            })),
            _ => Err(Error::config("rope_scaling of type longrope has no usable short_factor and long_factor")),
        }
    }

    /// The share of a head's features that are turned, where it is said here.
    pub(super) fn partial_rotary_factor(&self) -> Option<f64> {
        self.partial_rotary_factor
    }

    /// What scores of all features grow by where angles are stretched.
    pub(super) fn score_growth(&self) -> f64 {
        match (self.factor, self.mscale_all_dim) {
            (Some(factor), Some(all)) if all != 0.0 && self.kind() != "default" => growth(factor, all).powi(2),
            _ => 1.0,
        }
    }
}

/// YaRN's growth for a factor.
fn growth(factor: f64, by: f64) -> f64 {
    if factor <= 1.0 { 1.0 } else { 0.1 * by * factor.ln() + 1.0 }
}
