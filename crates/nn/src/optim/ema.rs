//! EMA: an exponential moving average of the parameters, for evaluation.

use serde::{Deserialize, Serialize};
use tensor::DType;
use trace::{Tensor, Tree};

/// An exponential moving average (EMA) of the parameters.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ema {
    /// The share of the EMA that stays at a step.
    pub decay: f64,
}

/// The EMA after a step. Early on it follows faster, by `(1 + step) / (10 + step)`, so that the start is forgotten.
#[track_caller]
pub fn updated_ema<P: Tree>(ema: &P, params: &P, how: Ema, step: &Tensor) -> P {
    let step = step.cast(DType::F32);
    let stays = (&(&step + 1.0) / &(&step + 10.0)).minimum(&Tensor::scalar(DType::F32, how.decay));
    ema.zip(params, |old, new| {
        let (old_wide, new) = (old.cast(DType::F32), new.cast(DType::F32));
        (&new + &(&(&old_wide - &new) * &stays)).cast(old.dtype())
    })
}
