//! A model of any kind as a task of the trainer: how it is drawn, its loss, and what is measured.

use std::collections::BTreeMap;

use nn::models::{LanguageModel, TokenBatch};
use nn::optim::{AnyOptimizer, AnyState};
use nn::{CrossEntropy, StepOptions, TrainState, train_step};
use runtime::trainer::{Measures, Task};
use tensor::DType;
use trace::{Key, Tensor, Tree};

use super::config::TrainConfig;
use super::model::TokenSizes;

/// The loss of a model on a batch; a key turns dropout on.
type Loss<M> = Box<dyn Fn(&M, &[Tensor], Option<&Key>) -> Tensor>;

/// What is measured of a model on a batch.
type Measure<M> = Box<dyn Fn(&M, &[Tensor]) -> Measures>;

/// A model that learns.
pub(super) struct ModelTask<M> {
    pub(super) init: Box<dyn Fn(&Key) -> M>,
    pub(super) loss: Loss<M>,
    /// What is measured beside the loss on data held back.
    pub(super) measure: Measure<M>,
    pub(super) optimizer: AnyOptimizer,
    pub(super) options: StepOptions,
    pub(super) seed: u32,
    pub(super) tokens_per_step: u64,
    pub(super) flops_per_step: Option<f64>,
}

impl<M: Tree + Clone + 'static> ModelTask<M> {
    /// A model of the file's training.
    pub(super) fn new(
        config: &TrainConfig,
        init: impl Fn(&Key) -> M + 'static,
        loss: impl Fn(&M, &[Tensor], Option<&Key>) -> Tensor + 'static,
        measure: impl Fn(&M, &[Tensor]) -> Measures + 'static,
        (tokens_per_step, flops_per_token): (usize, Option<f64>),
    ) -> ModelTask<M> {
        ModelTask {
            init: Box::new(init),
            loss: Box::new(loss),
            measure: Box::new(measure),
            optimizer: config.optimizer.clone(),
            options: config.step_options(),
            seed: config.train.seed,
            tokens_per_step: tokens_per_step as u64,
            flops_per_step: flops_per_token.map(|flops| flops * tokens_per_step as f64),
        }
    }
}

impl<M: LanguageModel + 'static> ModelTask<M> {
    /// A model of sequences of so many tokens.
    pub(super) fn language(
        config: &TrainConfig,
        sizes: &TokenSizes,
        sequence: usize,
        init: impl Fn(&Key) -> M + 'static,
    ) -> ModelTask<M> {
        let loss = |model: &M, batch: &[Tensor], key: Option<&Key>| {
            let batch = TokenBatch { tokens: batch[0].clone(), targets: batch[1].clone() };
            model.loss(&batch, &CrossEntropy::default(), key)
        };
        let tokens = config.train.batch * sequence;
        ModelTask::new(config, init, loss, |_, _| Measures::new(), (tokens, Some(sizes.flops_per_token(sequence))))
    }
}

impl<M: Tree + Clone + 'static> Task for ModelTask<M> {
    type State = TrainState<M, AnyState<M>>;

    fn init(&self) -> Self::State {
        let keys = Key::from_seed(&Tensor::scalar(DType::U32, f64::from(self.seed))).split(2);
        TrainState::init((self.init)(&keys[0]), &self.optimizer, &self.options, &keys[1])
    }

    fn step(&self, state: &Self::State, batch: &[Tensor]) -> (Self::State, Measures) {
        let loss = |model: &M, batch: &Vec<Tensor>, key: &Key| (self.loss)(model, batch, Some(key));
        let (next, metrics) = train_step(state, &batch.to_vec(), &self.optimizer, &self.options, loss);
        let measures = BTreeMap::from([
            ("loss".to_string(), metrics.loss),
            ("grad_norm".to_string(), metrics.grad_norm),
            ("learning_rate".to_string(), metrics.learning_rate),
        ]);
        (next, measures)
    }

    fn evaluate(&self, state: &Self::State, batch: &[Tensor]) -> Measures {
        let model = state.average.as_ref().unwrap_or(&state.params);
        let mut measures = (self.measure)(model, batch);
        measures.insert("loss".to_string(), (self.loss)(model, batch, None).cast(DType::F32));
        measures
    }

    fn flops_per_step(&self) -> Option<f64> {
        self.flops_per_step
    }

    fn tokens_per_step(&self) -> Option<u64> {
        Some(self.tokens_per_step)
    }
}
