//! Lion: the sign of an average of momentum and gradient.

use serde::{Deserialize, Serialize};
use tensor::DType;
use trace::{Tensor, Tree};

use crate::DTypePolicy;
use crate::optim::{Optimizer, Schedule, WeightDecay, changed, moved, number_or_table, zeros_like};

/// Steps of equal size in every coordinate.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lion {
    /// By step; in a file a number or a schedule.
    #[serde(deserialize_with = "number_or_table")]
    pub learning_rate: Schedule,
    /// How much of the momentum is in the step.
    #[serde(default = "beta1")]
    pub beta1: f64,
    /// How much of the momentum stays.
    #[serde(default = "beta2")]
    pub beta2: f64,
    /// Taken away beside the step.
    #[serde(default, deserialize_with = "number_or_table")]
    pub weight_decay: WeightDecay,
    /// What the momentum is kept in.
    #[serde(default)]
    pub moment_dtype: DTypePolicy,
}

fn beta1() -> f64 {
    0.9
}

fn beta2() -> f64 {
    0.99
}

impl Lion {
    /// With the usual constants and without weight decay.
    pub fn new(learning_rate: Schedule) -> Lion {
        Lion {
            learning_rate,
            beta1: beta1(),
            beta2: beta2(),
            weight_decay: WeightDecay::none(),
            moment_dtype: DTypePolicy::F32,
        }
    }
}

/// The momentum.
#[derive(Clone, Debug, Tree)]
pub struct LionState<P: Tree> {
    /// In the shape of the parameters.
    pub momentum: P,
}

impl<P: Tree + Clone> Optimizer<P> for Lion {
    type State = LionState<P>;

    fn init(&self, params: &P) -> Self::State {
        LionState { momentum: zeros_like(params, Some(self.moment_dtype.params())) }
    }

    fn update(&self, grads: &P, state: &Self::State, params: &P, step: &Tensor) -> (P, Self::State) {
        trace::scope("lion", || {
            let rate = self.learning_rate.at(step);
            let (mut new_params, mut new_momentum) = (Vec::new(), Vec::new());
            let leaves = params.leaves().into_iter().zip(grads.leaves()).zip(state.momentum.leaves());
            for (((param, grad), momentum), decay) in leaves.zip(self.weight_decay.rates(params)) {
                let grad = grad.cast(DType::F32);
                let mut by = moved(&momentum, self.beta1, &grad).sign();
                if decay != 0.0 {
                    by = &by + &(&param.cast(DType::F32) * decay);
                }
                new_params.push(changed(&param, &(&by * &rate)));
                new_momentum.push(moved(&momentum, self.beta2, &grad).cast(momentum.dtype()));
            }
            let state = LionState { momentum: state.momentum.with_leaves(new_momentum) };
            (params.with_leaves(new_params), state)
        })
    }

    fn learning_rate(&self, step: &Tensor) -> Tensor {
        self.learning_rate.at(step)
    }
}
