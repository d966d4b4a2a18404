//! Adam, and AdamW where its weight decay is not zero.

use serde::{Deserialize, Serialize};
use tensor::DType;
use trace::{Tensor, Tree};

use crate::optim::moments::{Sign, Stored};
use crate::optim::{MomentDType, Optimizer, Schedule, WeightDecay, changed, count, filled, moved, number_or_table};

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
    /// What moments are kept in: `bf16` halves their memory, `int8` quarters it.
    #[serde(default)]
    pub moment_dtype: MomentDType,
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
            moment_dtype: MomentDType::F32,
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
    /// Scales of blocks of the first, where it is kept in 8 bits.
    pub first_scales: Option<P>,
    /// Scales of blocks of the second, where it is kept in 8 bits.
    pub second_scales: Option<P>,
}

impl<P: Tree> Moments<P> {
    /// Leaves of both, of each parameter in order.
    fn stored(&self) -> Vec<(Stored, Stored)> {
        let of = |values: &P, scales: &Option<P>| {
            let values = values.leaves();
            let scales = scales.as_ref().map_or_else(|| values.clone(), Tree::leaves);
            values.into_iter().zip(scales).map(|(values, scales)| Stored { values, scales }).collect::<Vec<_>>()
        };
        of(&self.first, &self.first_scales).into_iter().zip(of(&self.second, &self.second_scales)).collect()
    }

    fn from_stored(params: &P, stored: Vec<(Stored, Stored)>, dtype: MomentDType) -> Moments<P> {
        let (first, second): (Vec<Stored>, Vec<Stored>) = stored.into_iter().unzip();
        let values = |all: &[Stored]| params.with_leaves(all.iter().map(|stored| stored.values.clone()));
        let scales = |all: &[Stored]| {
            dtype.has_scales().then(|| params.with_leaves(all.iter().map(|stored| stored.scales.clone())))
        };
        Moments {
            first: values(&first),
            second: values(&second),
            first_scales: scales(&first),
            second_scales: scales(&second),
        }
    }
}

impl<P: Tree + Clone> Optimizer<P> for Adam {
    type State = Moments<P>;

    fn init(&self, params: &P) -> Self::State {
        let dtype = self.moment_dtype;
        let zeros = |leaf: &Tensor| (dtype.zeros(leaf.dims(), Sign::Signed), dtype.zeros(leaf.dims(), Sign::Positive));
        Moments::from_stored(params, params.leaves().iter().map(zeros).collect(), dtype)
    }

    fn update(&self, grads: &P, state: &Self::State, params: &P, step: &Tensor) -> (P, Self::State) {
        trace::scope("adam", || {
            let rate = self.learning_rate.at(step);
            let count = count(step);
            let (filled1, filled2) = (filled(self.beta1, &count), filled(self.beta2, &count).sqrt());
            let decays = self.weight_decay.rates(params);
            let (params_in, grads_in) = (params.leaves(), grads.leaves());
            let dtype = self.moment_dtype;
            let (mut new_params, mut new_moments) = (Vec::new(), Vec::new());
            for (((param, grad), (first, second)), decay) in
                params_in.iter().zip(&grads_in).zip(state.stored()).zip(decays)
            {
                let grad = grad.cast(DType::F32);
                let m = moved(&dtype.read(&first, Sign::Signed), self.beta1, &grad);
                let v = moved(&dtype.read(&second, Sign::Positive), self.beta2, &grad.square());
                let scale = &(&v.sqrt() / &filled2) + self.eps;
                let mut by = &(&m / &filled1) / &scale;
                if decay != 0.0 {
                    by = &by + &(&param.cast(DType::F32) * decay);
                }
                new_params.push(changed(param, &(&by * &rate)));
                new_moments.push((dtype.write(&m, Sign::Signed), dtype.write(&v, Sign::Positive)));
            }
            (params.with_leaves(new_params), Moments::from_stored(params, new_moments, dtype))
        })
    }

    fn learning_rate(&self, step: &Tensor) -> Tensor {
        self.learning_rate.at(step)
    }
}
