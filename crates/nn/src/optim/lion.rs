//! Lion: the sign of an average of momentum and gradient.

use serde::{Deserialize, Serialize};
use tensor::DType;
use trace::{Tensor, Tree};

use crate::optim::moments::{Sign, Stored};
use crate::optim::{MomentDType, Optimizer, Schedule, WeightDecay, changed, moved, number_or_table};

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
    pub moment_dtype: MomentDType,
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
            moment_dtype: MomentDType::F32,
        }
    }
}

/// The momentum.
#[derive(Clone, Debug, Tree)]
pub struct LionState<P: Tree> {
    /// In the shape of the parameters.
    pub momentum: P,
    /// Scales of blocks, where it is kept in 8 bits.
    pub scales: Option<P>,
}

impl<P: Tree> LionState<P> {
    fn from_stored(params: &P, stored: &[Stored], dtype: MomentDType) -> LionState<P> {
        LionState {
            momentum: params.with_leaves(stored.iter().map(|stored| stored.values.clone())),
            scales: dtype.has_scales().then(|| params.with_leaves(stored.iter().map(|stored| stored.scales.clone()))),
        }
    }
}

impl<P: Tree + Clone> Optimizer<P> for Lion {
    type State = LionState<P>;

    fn init(&self, params: &P) -> Self::State {
        let zeros = |leaf: &Tensor| self.moment_dtype.zeros(leaf.dims(), Sign::Signed);
        LionState::from_stored(params, &params.leaves().iter().map(zeros).collect::<Vec<_>>(), self.moment_dtype)
    }

    fn update(&self, grads: &P, state: &Self::State, params: &P, step: &Tensor) -> (P, Self::State) {
        trace::scope("lion", || {
            let rate = self.learning_rate.at(step);
            let (mut new_params, mut new_momentum) = (Vec::new(), Vec::new());
            let dtype = self.moment_dtype;
            let values = state.momentum.leaves();
            let scales = state.scales.as_ref().map_or_else(|| values.clone(), Tree::leaves);
            let stored = values.into_iter().zip(scales).map(|(values, scales)| Stored { values, scales });
            let leaves = params.leaves().into_iter().zip(grads.leaves()).zip(stored);
            for (((param, grad), stored), decay) in leaves.zip(self.weight_decay.rates(params)) {
                let (momentum, grad) = (dtype.read(&stored, Sign::Signed), grad.cast(DType::F32));
                let mut by = moved(&momentum, self.beta1, &grad).sign();
                if decay != 0.0 {
                    by = &by + &(&param.cast(DType::F32) * decay);
                }
                new_params.push(changed(&param, &(&by * &rate)));
                new_momentum.push(dtype.write(&moved(&momentum, self.beta2, &grad), Sign::Signed));
            }
            (params.with_leaves(new_params), LionState::from_stored(params, &new_momentum, dtype))
        })
    }

    fn learning_rate(&self, step: &Tensor) -> Tensor {
        self.learning_rate.at(step)
    }
}
