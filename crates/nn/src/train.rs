//! One step of training as one function: loss, gradient, clipping, update.

use serde::{Deserialize, Serialize};
use tensor::DType;
use trace::{Donate, Function, Key, Spec, Tensor, Tree};

use crate::optim::{Ema, Optimizer, accumulated_with, clipped, global_norm, updated_ema};
use crate::slice_gradients::{Exchanged, SliceGradients, exchanged, no_residual};

/// All a training run carries from step to step. `X` is what the model itself carries and nobody trains, such as running
/// statistics; most models carry nothing.
#[derive(Clone, Debug, Tree)]
pub struct TrainState<P: Tree, S: Tree, X: Tree = ()> {
    /// Parameters.
    pub params: P,
    /// What the optimizer remembers.
    pub optimizer: S,
    /// The EMA of the parameters, where one is kept.
    pub ema: Option<P>,
    /// What the model carries beside its parameters, not trained.
    pub carried: X,
    /// What of the gradients was not sent to other slices yet, where they are compressed: leaves have an axis of slices first.
    pub residual: Option<P>,
    /// Steps done, an `i32` scalar.
    pub step: Tensor,
    /// Where the next step's random numbers come from.
    pub key: Key,
}

/// What a step says of itself; `f32` scalars.
#[derive(Clone, Debug, Tree)]
pub struct StepMetrics {
    /// Mean loss of the batch, before the step.
    pub loss: Tensor,
    /// Global norm of the gradient, before clipping.
    pub grad_norm: Tensor,
    /// Learning rate used.
    pub learning_rate: Tensor,
}

/// What a step does besides its optimizer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct StepOptions {
    /// Gradients are clipped to this global norm.
    pub max_grad_norm: Option<f64>,
    /// Gradient accumulation steps: equal parts of the batch, one after the other; 0 and 1 mean the whole batch.
    pub gradient_accumulation_steps: usize,
    /// Whether an exponential moving average (EMA) of the parameters is kept.
    pub ema: Option<Ema>,
    /// How gradients are compressed between slices; not at all if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slice_gradients: Option<SliceGradients>,
}

impl<P: Tree + Clone, S: Tree> TrainState<P, S> {
    /// The state before the first step. The parameters are drawn by the caller, from another key.
    #[track_caller]
    pub fn init<O: Optimizer<P, State = S>>(params: P, optimizer: &O, options: &StepOptions, key: &Key) -> Self {
        TrainState::init_with(params, (), optimizer, options, key)
    }
}

impl<P: Tree + Clone, S: Tree, X: Tree> TrainState<P, S, X> {
    /// [`TrainState::init`] of a model that carries something beside its parameters.
    #[track_caller]
    pub fn init_with<O: Optimizer<P, State = S>>(
        params: P,
        carried: X,
        optimizer: &O,
        options: &StepOptions,
        key: &Key,
    ) -> Self {
        TrainState {
            optimizer: optimizer.init(&params),
            ema: options.ema.map(|_| params.clone()),
            residual: options.slice_gradients.map(|how| no_residual(&params, how.slices)),
            params,
            carried,
            step: Tensor::zeros(DType::I32, &[]),
            key: key.clone(),
        }
    }
}

/// The state after a step, and what the step says. `loss` is the mean over its batch; its key is the step's own.
///
/// State comes first among inputs and outputs, leaf by leaf at the same place, so that it can be donated:
/// [`trace_train_step`] does.
#[track_caller]
pub fn train_step<P: Tree + Clone, O: Optimizer<P>, B: Tree>(
    state: &TrainState<P, O::State>,
    batch: &B,
    optimizer: &O,
    options: &StepOptions,
    loss: impl FnOnce(&P, &B, &Key) -> Tensor,
) -> (TrainState<P, O::State>, StepMetrics) {
    train_step_with(state, batch, optimizer, options, |params, (), batch, key| (loss(params, batch, key), ()))
}

/// [`train_step`] of a model that carries something beside its parameters: `loss` has it and gives what follows. Of a batch
/// taken in parts, each part goes on from what the one before left.
#[track_caller]
pub fn train_step_with<P: Tree + Clone, X: Tree + Clone, O: Optimizer<P>, B: Tree>(
    state: &TrainState<P, O::State, X>,
    batch: &B,
    optimizer: &O,
    options: &StepOptions,
    loss: impl FnOnce(&P, &X, &B, &Key) -> (Tensor, X),
) -> (TrainState<P, O::State, X>, StepMetrics) {
    let key = state.key.fold_in(&state.step);
    let parts = options.gradient_accumulation_steps.max(1);
    let (value, carried, grads, residual) = match (options.slice_gradients, &state.residual) {
        (Some(how), Some(residual)) => {
            let of = (&state.params, &state.carried, batch);
            let Exchanged { loss, grads, residual } = exchanged(of, &key, parts, residual, how, loss);
            (loss, state.carried.clone(), grads, Some(residual))
        }
        _ => {
            let (value, carried, grads) = accumulated_with(&state.params, &state.carried, batch, &key, parts, loss);
            (value, carried, grads, state.residual.clone())
        }
    };
    let grad_norm = global_norm(&grads);
    let grads = match options.max_grad_norm {
        Some(max_norm) => clipped(&grads, &grad_norm, max_norm),
        None => grads,
    };
    let (params, optimizer_state) = optimizer.update(&grads, &state.optimizer, &state.params, &state.step);
    let ema = match (&state.ema, options.ema) {
        (Some(old), Some(how)) => Some(updated_ema(old, &params, how, &state.step)),
        _ => state.ema.clone(),
    };
    let next = TrainState {
        params,
        optimizer: optimizer_state,
        ema,
        carried,
        residual,
        step: &state.step + &Tensor::ones(DType::I32, &[]),
        key: state.key.clone(),
    };
    let learning_rate = optimizer.learning_rate(&state.step);
    (next, StepMetrics { loss: value.cast(DType::F32), grad_norm, learning_rate })
}

/// A function that makes the state before the first step from a seed, a `u32` scalar: draws the parameters, then
/// [`TrainState::init`]. Gives the program and the structure of the state.
pub fn trace_init<P: Tree + Clone, O: Optimizer<P>>(
    optimizer: &O,
    options: &StepOptions,
    init: impl FnOnce(&Key) -> P,
) -> Result<(Function, TrainState<P, O::State>), trace::Error> {
    let seed = Tensor::of(Spec::new(DType::U32, []));
    trace::trace("init", &seed, Donate::Nothing, |seed| {
        let keys = Key::from_seed(seed).split(2);
        TrainState::init(init(&keys[0]), optimizer, options, &keys[1])
    })
}

/// [`train_step`] as a program whose state is donated. `state` and `batch` are known by types and shapes.
pub fn trace_train_step<P: Tree + Clone, O: Optimizer<P>, B: Tree + Clone>(
    state: &TrainState<P, O::State>,
    batch: &B,
    optimizer: &O,
    options: &StepOptions,
    loss: impl FnOnce(&P, &B, &Key) -> Tensor,
) -> Result<Function, trace::Error> {
    let donated = state.leaves().len();
    let inputs = (state.clone(), batch.clone());
    let (function, _) = trace::trace("train_step", &inputs, Donate::Leading(donated), |(state, batch)| {
        train_step(state, batch, optimizer, options, loss)
    })?;
    Ok(function)
}
