//! A model of any kind as a task of the trainer: how it is drawn or given, its loss, and what is measured.

use std::collections::BTreeMap;
use std::sync::Arc;

use nn::optim::{AnyOptimizer, AnyState};
use nn::{StepOptions, TrainState, train_step_with};
use tensor::{DType, Literal};
use trace::{Key, Tensor, Tree};

use crate::config::TrainConfig;
use crate::error::Error;
use crate::frozen::FROZEN;
use crate::trainer::{Measures, Task};

/// The loss of a model on a batch, and what the model carries on; a key turns dropout on.
type Loss<M, X> = Box<dyn Fn(&M, &X, &[Tensor], Option<&Key>) -> (Tensor, X)>;

/// What is measured of a model on a batch.
type Measure<M, X> = Box<dyn Fn(&M, &X, &[Tensor]) -> Measures>;

/// Tensors that were trained before, by their paths in the parameters or in what is carried.
#[derive(Debug, Default)]
pub(crate) struct GivenTensors {
    pub(crate) params: Vec<(String, Literal)>,
    pub(crate) carried: Vec<(String, Literal)>,
}

/// Reads tensors for a model and what it carries, which are known by types and shapes.
pub(crate) type Given<M, X> = Box<dyn Fn(&M, &X) -> Result<GivenTensors, Error>>;

/// Draws a model and what it carries.
type Init<M, X> = Box<dyn Fn(&Key) -> (M, X)>;

/// A model that learns, and what it carries beside its parameters: running statistics, or nothing.
pub struct ModelTask<M, X = ()> {
    pub(crate) init: Init<M, X>,
    /// Parameters in place of drawn ones.
    pub(crate) given: Option<Given<M, X>>,
    pub(crate) loss: Loss<M, X>,
    /// What is measured beside the loss on validation data.
    pub(crate) measure: Measure<M, X>,
    pub(crate) optimizer: AnyOptimizer,
    pub(crate) options: StepOptions,
    pub(crate) seed: u32,
    pub(crate) tokens_per_step: u64,
    pub(crate) flops_per_step: Option<f64>,
}

impl<M: Tree + Clone + 'static, X: Tree + Clone + 'static> ModelTask<M, X> {
    /// A model of the file's training.
    pub fn new(
        config: &TrainConfig,
        init: impl Fn(&Key) -> (M, X) + 'static,
        loss: impl Fn(&M, &X, &[Tensor], Option<&Key>) -> (Tensor, X) + 'static,
        measure: impl Fn(&M, &X, &[Tensor]) -> Measures + 'static,
        (tokens_per_step, flops_per_token): (usize, Option<f64>),
    ) -> ModelTask<M, X> {
        ModelTask {
            init: Box::new(init),
            given: None,
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

impl<M: Tree + Clone + 'static, X: Tree + Clone + 'static> Task for ModelTask<M, X> {
    type State = TrainState<M, AnyState<M>, X>;

    fn init(&self) -> Self::State {
        let keys = Key::from_seed(&Tensor::scalar(DType::U32, f64::from(self.seed))).split(2);
        let (model, carried) = (self.init)(&keys[0]);
        TrainState::init_with(model, carried, &self.optimizer, &self.options, &keys[1])
    }

    fn given(&self, state: &Self::State) -> Result<BTreeMap<String, Arc<Literal>>, Error> {
        let Some(given) = &self.given else { return Ok(BTreeMap::new()) };
        let GivenTensors { params, carried } = given(&state.params, &state.carried)?;
        let mut all: BTreeMap<String, Arc<Literal>> =
            carried.into_iter().map(|(path, literal)| (format!("carried.{path}"), Arc::new(literal))).collect();
        for (path, literal) in params {
            let literal = Arc::new(literal);
            // The EMA starts from the parameters.
            if state.ema.is_some() {
                all.insert(format!("ema.{path}"), literal.clone());
            }
            all.insert(format!("params.{path}"), literal);
        }
        Ok(all)
    }

    fn is_frozen(&self, path: &str) -> bool {
        path.strip_prefix("carried.").and_then(|path| path.split('.').next()) == Some(FROZEN)
    }

    fn step(&self, state: &Self::State, batch: &[Tensor]) -> (Self::State, Measures) {
        let loss =
            |model: &M, carried: &X, batch: &Vec<Tensor>, key: &Key| (self.loss)(model, carried, batch, Some(key));
        let (next, metrics) = train_step_with(state, &batch.to_vec(), &self.optimizer, &self.options, loss);
        let measures = BTreeMap::from([
            ("loss".to_string(), metrics.loss),
            ("grad_norm".to_string(), metrics.grad_norm),
            ("learning_rate".to_string(), metrics.learning_rate),
        ]);
        (next, measures)
    }

    fn evaluate(&self, state: &Self::State, batch: &[Tensor]) -> Measures {
        let model = state.ema.as_ref().unwrap_or(&state.params);
        let mut measures = (self.measure)(model, &state.carried, batch);
        let (loss, _) = (self.loss)(model, &state.carried, batch, None);
        measures.insert("loss".to_string(), loss.cast(DType::F32));
        measures
    }

    fn flops_per_step(&self) -> Option<f64> {
        self.flops_per_step
    }

    fn tokens_per_step(&self) -> Option<u64> {
        Some(self.tokens_per_step)
    }
}
