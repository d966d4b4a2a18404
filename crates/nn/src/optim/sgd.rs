//! Stochastic gradient descent with momentum.

use serde::{Deserialize, Serialize};
use tensor::DType;
use trace::{Tensor, Tree};

use crate::optim::{Optimizer, Schedule, WeightDecay, changed, number_or_table, zeros_like};

/// Descent along the gradient, or along a velocity that gradients add to.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sgd {
    /// By step; in a file a number or a schedule.
    #[serde(deserialize_with = "number_or_table")]
    pub learning_rate: Schedule,
    /// How much of the velocity stays; 0 keeps none.
    #[serde(default)]
    pub momentum: f64,
    /// Whether the step looks ahead along the velocity (Nesterov).
    #[serde(default)]
    pub nesterov: bool,
    /// Added to the gradient.
    #[serde(default, deserialize_with = "number_or_table")]
    pub weight_decay: WeightDecay,
}

impl Sgd {
    /// Without momentum.
    pub fn new(learning_rate: Schedule) -> Sgd {
        Sgd { learning_rate, momentum: 0.0, nesterov: false, weight_decay: WeightDecay::none() }
    }
}

/// The velocity, if there is momentum.
#[derive(Clone, Debug, Tree)]
pub struct SgdState<P: Tree> {
    /// In the shape of the parameters.
    pub velocity: Option<P>,
}

impl<P: Tree + Clone> Optimizer<P> for Sgd {
    type State = SgdState<P>;

    fn init(&self, params: &P) -> Self::State {
        SgdState { velocity: (self.momentum != 0.0).then(|| zeros_like(params, None)) }
    }

    fn update(&self, grads: &P, state: &Self::State, params: &P, step: &Tensor) -> (P, Self::State) {
        trace::scope("sgd", || {
            let rate = self.learning_rate.at(step);
            let velocities = state.velocity.as_ref().map(Tree::leaves);
            let (mut new_params, mut new_velocities) = (Vec::new(), Vec::new());
            let leaves = params.leaves().into_iter().zip(grads.leaves()).zip(self.weight_decay.rates(params));
            for (n, ((param, grad), decay)) in leaves.enumerate() {
                let mut grad = grad.cast(DType::F32);
                if decay != 0.0 {
                    grad = &grad + &(&param.cast(DType::F32) * decay);
                }
                let mut by = grad.clone();
                if let Some(old) = velocities.as_ref().and_then(|all| all.get(n)) {
                    let velocity = &(&old.cast(DType::F32) * self.momentum) + &grad;
                    by = if self.nesterov { &grad + &(&velocity * self.momentum) } else { velocity.clone() };
                    new_velocities.push(velocity.cast(old.dtype()));
                }
                new_params.push(changed(&param, &(&by * &rate)));
            }
            let velocity = state.velocity.as_ref().map(|old| old.with_leaves(new_velocities));
            (params.with_leaves(new_params), SgdState { velocity })
        })
    }

    fn learning_rate(&self, step: &Tensor) -> Tensor {
        self.learning_rate.at(step)
    }
}
