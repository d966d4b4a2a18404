//! Stochastic gradient descent with momentum.

use serde::{Deserialize, Serialize};
use tensor::DType;
use trace::{Tensor, Tree};

use crate::optim::{Decay, Optimizer, Schedule, changed, zeros_like};

/// How momentum is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Momentum {
    /// The velocity.
    #[default]
    Plain,
    /// The velocity as it will be.
    Nesterov,
}

/// Descent along the gradient, or along a velocity that gradients add to.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Sgd {
    /// By step.
    pub learning_rate: Schedule,
    /// How much of the velocity stays; 0 keeps none.
    #[serde(default)]
    pub momentum: f64,
    /// How momentum is used.
    #[serde(default)]
    pub kind: Momentum,
    /// Added to the gradient.
    #[serde(default)]
    pub decay: Decay,
}

impl Sgd {
    /// Without momentum.
    pub fn new(learning_rate: Schedule) -> Sgd {
        Sgd { learning_rate, momentum: 0.0, kind: Momentum::Plain, decay: Decay::none() }
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
            let leaves = params.leaves().into_iter().zip(grads.leaves()).zip(self.decay.rates(params));
            for (n, ((param, grad), decay)) in leaves.enumerate() {
                let mut grad = grad.cast(DType::F32);
                if decay != 0.0 {
                    grad = &grad + &(&param.cast(DType::F32) * decay);
                }
                let mut by = grad.clone();
                if let Some(old) = velocities.as_ref().and_then(|all| all.get(n)) {
                    let velocity = &(&old.cast(DType::F32) * self.momentum) + &grad;
                    by = match self.kind {
                        Momentum::Plain => velocity.clone(),
                        Momentum::Nesterov => &grad + &(&velocity * self.momentum),
                    };
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
