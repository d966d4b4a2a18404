//! A moving average of parameters, for evaluation.

use serde::{Deserialize, Serialize};
use tensor::DType;
use trace::{Tensor, Tree};

/// How an average follows the parameters.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct MovingAverage {
    /// How much of the average stays at a step.
    pub decay: f64,
}

/// The average after a step. Early on it follows faster, by `(1 + step) / (10 + step)`, so that the start is forgotten.
#[track_caller]
pub fn averaged<P: Tree>(average: &P, params: &P, how: MovingAverage, step: &Tensor) -> P {
    let step = step.cast(DType::F32);
    let stays = (&(&step + 1.0) / &(&step + 10.0)).minimum(&Tensor::scalar(DType::F32, how.decay));
    average.zip(params, |old, new| {
        let (old_wide, new) = (old.cast(DType::F32), new.cast(DType::F32));
        (&new + &(&(&old_wide - &new) * &stays)).cast(old.dtype())
    })
}
