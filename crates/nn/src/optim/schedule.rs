//! Learning rates as functions of the step, computed on the device.

use serde::{Deserialize, Serialize};
use tensor::DType;
use trace::Tensor;

/// A learning rate by step. Steps count from 0; rates after the end stay at the last.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Schedule {
    /// The same at every step.
    Constant {
        /// The rate.
        value: f64,
    },
    /// From 0 up over the warm-up, then down a straight line.
    Linear {
        /// Highest.
        peak_value: f64,
        /// Steps of warm-up.
        warmup_steps: u64,
        /// Steps in all.
        total_steps: u64,
        /// At the end.
        end_value: f64,
    },
    /// From 0 up over the warm-up, then down half a cosine.
    Cosine {
        /// Highest.
        peak_value: f64,
        /// Steps of warm-up.
        warmup_steps: u64,
        /// Steps in all.
        total_steps: u64,
        /// At the end.
        end_value: f64,
    },
    /// From 0 up over the warm-up, then down with one over the root of the step.
    InverseSqrt {
        /// Highest.
        peak_value: f64,
        /// Steps of warm-up.
        warmup_steps: u64,
    },
    /// Warm-up, stable, decay: up, constant, and down a straight line over the last steps.
    Wsd {
        /// Highest.
        peak_value: f64,
        /// Steps of warm-up.
        warmup_steps: u64,
        /// Steps in all.
        total_steps: u64,
        /// Steps of the decay.
        decay_steps: u64,
        /// At the end.
        end_value: f64,
    },
}

/// In a configuration file a number is a constant learning rate.
impl From<f64> for Schedule {
    fn from(value: f64) -> Self {
        Schedule::constant(value)
    }
}

impl Schedule {
    /// The same rate at every step.
    pub fn constant(value: f64) -> Schedule {
        Schedule::Constant { value }
    }

    /// The rate at a step, an `i32` scalar; `f32`.
    #[track_caller]
    pub fn at(&self, step: &Tensor) -> Tensor {
        let step = step.cast(DType::F32);
        let number = |value: f64| Tensor::scalar(DType::F32, value);
        // From 0 at `from` to 1 at `to`.
        let progress = |from: u64, to: u64| {
            let length = to.saturating_sub(from).max(1) as f64;
            (&(&step - from as f64) / length).clamp(&number(0.0), &number(1.0))
        };
        let warmed = |rate: f64, warmup: u64, after: Tensor| match warmup {
            0 => after,
            _ => step.less(&number(warmup as f64)).select(&(&progress(0, warmup) * rate), &after),
        };
        match *self {
            Schedule::Constant { value } => number(value),
            Schedule::Linear { peak_value, warmup_steps, total_steps, end_value } => warmed(
                peak_value,
                warmup_steps,
                &(&progress(warmup_steps, total_steps) * (end_value - peak_value)) + peak_value,
            ),
            Schedule::Cosine { peak_value, warmup_steps, total_steps, end_value } => {
                let half = &(&(&progress(warmup_steps, total_steps) * std::f64::consts::PI).cos() + 1.0) * 0.5;
                warmed(peak_value, warmup_steps, &(&half * (peak_value - end_value)) + end_value)
            }
            Schedule::InverseSqrt { peak_value, warmup_steps } => {
                let since = step.maximum(&number(warmup_steps.max(1) as f64));
                warmed(peak_value, warmup_steps, &since.rsqrt() * (peak_value * (warmup_steps.max(1) as f64).sqrt()))
            }
            Schedule::Wsd { peak_value, warmup_steps, total_steps, decay_steps, end_value } => {
                let down = progress(total_steps.saturating_sub(decay_steps), total_steps);
                warmed(peak_value, warmup_steps, &(&down * (end_value - peak_value)) + peak_value)
            }
        }
    }
}
