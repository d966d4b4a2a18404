//! Adam, and AdamW where its weight decay is not zero.

use serde::{Deserialize, Serialize};
use tensor::DType;
use trace::{Tensor, Tree};

use crate::DTypePolicy;
use crate::optim::{Optimizer, Schedule, WeightDecay, changed, count, filled, moved, number_or_table, zeros_like};

/// Steps scaled by EMAs of the gradient and of its square; weight decay is decoupled from both.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Adam {
    /// By step; in a file a number or a schedule.
    #[serde(deserialize_with = "number_or_table")]
    pub learning_rate: Schedule,
    /// How much of the first moment stays.
    #[serde(default = "beta1")]
    pub beta1: f64,
    /// How much of the second moment stays.
    #[serde(default = "beta2")]
    pub beta2: f64,
    /// Added to the root of the second moment.
    #[serde(default = "eps")]
    pub eps: f64,
    /// Taken away beside the step.
    #[serde(default, deserialize_with = "number_or_table")]
    pub weight_decay: WeightDecay,
    /// What moments are kept in: `bf16` halves their memory.
    #[serde(default)]
    pub moment_dtype: DTypePolicy,
}

fn beta1() -> f64 {
    0.9
}

fn beta2() -> f64 {
    0.999
}

fn eps() -> f64 {
    1e-8
}

impl Adam {
    /// With the usual constants and without weight decay.
    pub fn new(learning_rate: Schedule) -> Adam {
        Adam {
            learning_rate,
            beta1: beta1(),
            beta2: beta2(),
            eps: eps(),
            weight_decay: WeightDecay::none(),
            moment_dtype: DTypePolicy::F32,
        }
    }

    /// AdamW: with weight decay, but not of norms, biases and embeddings.
    pub fn with_weight_decay(learning_rate: Schedule, rate: f64) -> Adam {
        Adam { weight_decay: WeightDecay::weights(rate), ..Adam::new(learning_rate) }
    }
}

/// EMAs of the gradient and of its square.
#[derive(Clone, Debug, Tree)]
pub struct Moments<P: Tree> {
    /// Of the gradient.
    pub first: P,
    /// Of its square.
    pub second: P,
}

impl<P: Tree + Clone> Optimizer<P> for Adam {
    type State = Moments<P>;

    fn init(&self, params: &P) -> Self::State {
        let zeros = zeros_like(params, Some(self.moment_dtype.params()));
        Moments { first: zeros.clone(), second: zeros }
    }

    fn update(&self, grads: &P, state: &Self::State, params: &P, step: &Tensor) -> (P, Self::State) {
        trace::scope("adam", || {
            let rate = self.learning_rate.at(step);
            let count = count(step);
            let (filled1, filled2) = (filled(self.beta1, &count), filled(self.beta2, &count).sqrt());
            let decays = self.weight_decay.rates(params);
            let (params_in, grads_in) = (params.leaves(), grads.leaves());
            let (firsts, seconds) = (state.first.leaves(), state.second.leaves());
            let (mut new_params, mut new_first, mut new_second) = (Vec::new(), Vec::new(), Vec::new());
            for ((((param, grad), first), second), decay) in
                params_in.iter().zip(&grads_in).zip(&firsts).zip(&seconds).zip(decays)
            {
                let grad = grad.cast(DType::F32);
                let m = moved(first, self.beta1, &grad);
                let v = moved(second, self.beta2, &grad.square());
                let scale = &(&v.sqrt() / &filled2) + self.eps;
                let mut by = &(&m / &filled1) / &scale;
                if decay != 0.0 {
                    by = &by + &(&param.cast(DType::F32) * decay);
                }
                new_params.push(changed(param, &(&by * &rate)));
                new_first.push(m.cast(first.dtype()));
                new_second.push(v.cast(second.dtype()));
            }
            let state =
                Moments { first: state.first.with_leaves(new_first), second: state.second.with_leaves(new_second) };
            (params.with_leaves(new_params), state)
        })
    }

    fn learning_rate(&self, step: &Tensor) -> Tensor {
        self.learning_rate.at(step)
    }
}
