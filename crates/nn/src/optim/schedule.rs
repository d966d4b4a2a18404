//! Learning rates as functions of the step, computed on the device.

use serde::{Deserialize, Serialize};
use tensor::DType;
use trace::Tensor;

/// A learning rate by step. Steps count from 0; rates after the end stay at the last.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Schedule {
    /// The same at every step.
    Constant {
        /// The rate.
        rate: f64,
    },
    /// From 0 up over the warm-up, then down a straight line.
    Linear {
        /// Highest.
        rate: f64,
        /// Steps of warm-up.
        warmup: u64,
        /// Steps in all.
        steps: u64,
        /// At the end.
        last: f64,
    },
    /// From 0 up over the warm-up, then down half a cosine.
    Cosine {
        /// Highest.
        rate: f64,
        /// Steps of warm-up.
        warmup: u64,
        /// Steps in all.
        steps: u64,
        /// At the end.
        last: f64,
    },
    /// From 0 up over the warm-up, then down with one over the root of the step.
    InverseSqrt {
        /// Highest.
        rate: f64,
        /// Steps of warm-up.
        warmup: u64,
    },
    /// Warm-up, stable, decay: up, constant, and down a straight line over the last steps.
    Wsd {
        /// Highest.
        rate: f64,
        /// Steps of warm-up.
        warmup: u64,
        /// Steps in all.
        steps: u64,
        /// Steps of the decay.
        decay: u64,
        /// At the end.
        last: f64,
    },
}

impl Schedule {
    /// The same rate at every step.
    pub fn constant(rate: f64) -> Schedule {
        Schedule::Constant { rate }
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
            Schedule::Constant { rate } => number(rate),
            Schedule::Linear { rate, warmup, steps, last } => {
                warmed(rate, warmup, &(&progress(warmup, steps) * (last - rate)) + rate)
            }
            Schedule::Cosine { rate, warmup, steps, last } => {
                let half = &(&(&progress(warmup, steps) * std::f64::consts::PI).cos() + 1.0) * 0.5;
                warmed(rate, warmup, &(&half * (rate - last)) + last)
            }
            Schedule::InverseSqrt { rate, warmup } => {
                let since = step.maximum(&number(warmup.max(1) as f64));
                warmed(rate, warmup, &since.rsqrt() * (rate * (warmup.max(1) as f64).sqrt()))
            }
            Schedule::Wsd { rate, warmup, steps, decay, last } => {
                let down = progress(steps.saturating_sub(decay), steps);
                warmed(rate, warmup, &(&down * (last - rate)) + rate)
            }
        }
    }
}
