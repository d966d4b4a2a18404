//! Gradient optimizers as functions over structures of parameters, and what goes with them.

mod accumulate;
mod adafactor;
mod adam;
mod any;
mod clip;
mod ema;
mod lion;
mod moments;
mod muon;
mod number_or_table;
mod schedule;
mod sgd;
mod weight_decay;

pub use accumulate::{OVERWRITE_WITH_GRADIENT, accumulated, accumulated_with};
pub use adafactor::{Adafactor, AdafactorState, SecondMoment};
pub use adam::{Adam, Moments};
pub use any::{AnyOptimizer, AnyState};
pub use clip::{clipped, global_norm};
pub use ema::{Ema, updated_ema};
pub use lion::{Lion, LionState};
pub use moments::MomentDType;
pub use muon::{Muon, MuonState, Named};
pub use schedule::Schedule;
pub use sgd::{Sgd, SgdState};
pub use weight_decay::WeightDecay;

use number_or_table::number_or_table;

use tensor::DType;
use trace::{Tensor, Tree};

/// A rule that makes new parameters of gradients.
pub trait Optimizer<P: Tree + Clone> {
    /// What it remembers.
    type State: Tree + Clone;

    /// What it remembers before the first step.
    fn init(&self, params: &P) -> Self::State;

    /// Parameters and state after a step; `step` counts from 0, an `i32` scalar.
    fn update(&self, grads: &P, state: &Self::State, params: &P, step: &Tensor) -> (P, Self::State);

    /// The learning rate of a step, `f32`.
    fn learning_rate(&self, step: &Tensor) -> Tensor;
}

/// Zeros in the shape of parameters; `None` keeps their types.
fn zeros_like<P: Tree>(params: &P, dtype: Option<DType>) -> P {
    params.map_leaves(|leaf| Tensor::zeros(dtype.unwrap_or(leaf.dtype()), leaf.dims()))
}

/// What is 1 at the first step, as `f32`.
fn count(step: &Tensor) -> Tensor {
    &step.cast(DType::F32) + 1.0
}

/// `1 - factor^count`: the bias correction of an EMA that started from zero.
fn filled(factor: f64, count: &Tensor) -> Tensor {
    1.0 - &Tensor::scalar(DType::F32, factor).pow(count)
}

/// An EMA after one more value: it moves by `1 - factor` toward it, computed in `f32` and kept in its type.
fn moved(average: &Tensor, factor: f64, value: &Tensor) -> Tensor {
    &(&average.cast(DType::F32) * factor) + &(value * (1.0 - factor))
}

/// The parameter after a change, in its own type.
fn changed(param: &Tensor, by: &Tensor) -> Tensor {
    (&param.cast(DType::F32) - by).cast(param.dtype())
}
