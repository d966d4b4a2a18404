//! Models of token sequences as tasks of the trainer.

use std::collections::BTreeMap;

use nn::models::{LanguageModel, TokenBatch};
use nn::optim::{AnyOptimizer, AnyState};
use nn::{CrossEntropy, StepOptions, TrainState, train_step};
use runtime::trainer::{Measures, Task};
use tensor::DType;
use trace::{Key, Tensor};

/// A model of token sequences that learns to predict the next token.
pub(super) struct LanguageTask<M> {
    pub(super) model: Box<dyn Fn(&Key) -> M>,
    pub(super) optimizer: AnyOptimizer,
    pub(super) options: StepOptions,
    pub(super) seed: u64,
    pub(super) tokens_per_step: u64,
    pub(super) flops_per_token: Option<f64>,
}

impl<M: LanguageModel + 'static> LanguageTask<M> {
    fn batch(batch: &[Tensor]) -> TokenBatch {
        TokenBatch { tokens: batch[0].clone(), targets: batch[1].clone() }
    }
}

impl<M: LanguageModel + 'static> Task for LanguageTask<M> {
    type State = TrainState<M, AnyState<M>>;

    fn init(&self) -> Self::State {
        let seed = Tensor::scalar(DType::U32, (self.seed & u64::from(u32::MAX)) as f64);
        let keys = Key::from_seed(&seed).split(2);
        TrainState::init((self.model)(&keys[0]), &self.optimizer, &self.options, &keys[1])
    }

    fn step(&self, state: &Self::State, batch: &[Tensor]) -> (Self::State, Measures) {
        let batch = Self::batch(batch);
        let loss = |model: &M, batch: &TokenBatch, key: &Key| model.loss(batch, &CrossEntropy::default(), Some(key));
        let (next, metrics) = train_step(state, &batch, &self.optimizer, &self.options, loss);
        let measures = BTreeMap::from([
            ("loss".to_string(), metrics.loss),
            ("grad_norm".to_string(), metrics.grad_norm),
            ("learning_rate".to_string(), metrics.learning_rate),
        ]);
        (next, measures)
    }

    fn evaluate(&self, state: &Self::State, batch: &[Tensor]) -> Measures {
        let model = state.average.as_ref().unwrap_or(&state.params);
        let loss = model.loss(&Self::batch(batch), &CrossEntropy::default(), None);
        BTreeMap::from([("loss".to_string(), loss)])
    }

    fn flops_per_step(&self) -> Option<f64> {
        Some(self.flops_per_token? * self.tokens_per_step as f64)
    }

    fn tokens_per_step(&self) -> Option<u64> {
        Some(self.tokens_per_step)
    }
}
