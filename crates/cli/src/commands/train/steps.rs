//! A model's step as a program, without any device: training, a prompt read into a cache, or one more token of every sequence.

use std::collections::BTreeMap;

use nn::layers::KeyValues;
use nn::models::{Gpt2, LanguageModel, Llama};
use nn::{Placement, hf};
use plan::search::ModelStep;
use runtime::Program;
use tensor::DType;
use trace::{Donate, Key, Leaf, ModelPlacement, Role, Sharding, Site, Spec, Tensor, Tree};

use super::config::TrainConfig;
use super::mesh::step_program;
use super::model::TokenSizes;
use super::task::ModelTask;
use crate::args::StepArg;

/// What a step is written for.
pub(super) struct StepShape<'a> {
    pub(super) step: StepArg,
    /// Its batch and how the model is run.
    pub(super) config: &'a TrainConfig,
    /// Tokens of a sequence, or room of a cache.
    pub(super) sequence: usize,
    pub(super) placement: Option<&'a Placement>,
}

impl StepShape<'_> {
    /// The step of a model.
    pub(super) fn of(&self, model: &hf::ModelConfig) -> Result<ModelStep, runtime::Error> {
        let (sizes, options) = (TokenSizes::of(model), self.config.run.clone());
        match model.clone() {
            hf::ModelConfig::Gpt2(model) => self.written(&sizes, move |key| Gpt2::init(key, &model, &options)),
            hf::ModelConfig::Llama(model) => self.written(&sizes, move |key| Llama::init(key, &model, &options)),
        }
    }

    fn written<M: LanguageModel + 'static>(
        &self,
        sizes: &TokenSizes,
        init: impl Fn(&Key) -> M + Clone + 'static,
    ) -> Result<ModelStep, runtime::Error> {
        let (batch, positions) = (self.config.train.batch, self.sequence);
        let of = |dims: &[usize]| Tensor::of(Spec::new(DType::I32, dims));
        // Arguments of the batch are the last.
        let (program, batch_arguments) = match self.step {
            StepArg::Training => {
                // Tokens and targets.
                let arrays = vec![Spec::new(DType::I32, [batch, positions]); 2];
                let task = ModelTask::language(self.config, sizes, positions, init);
                (step_program(&task, self.placement, &arrays, &Site::default())?.0, arrays.len())
            }
            StepArg::Prefill => (self.serving("prefill", init, None, of(&[batch, positions]))?, 1),
            StepArg::Decode => (self.serving("decode", init, Some(of(&[])), of(&[batch]))?, 1),
        };
        let count = program.module().entry().map_or(0, |func| func.inputs.len());
        Ok(ModelStep { module: program.verified().clone(), batch_argument: count.saturating_sub(batch_arguments) })
    }

    /// A step of inference: gives the cache and the likeliest next token of each sequence. Without a position the cache is empty.
    fn serving<M: LanguageModel + 'static>(
        &self,
        name: &str,
        init: impl Fn(&Key) -> M,
        position: Option<Tensor>,
        tokens: Tensor,
    ) -> Result<Program, runtime::Error> {
        let (model, cache) = trace::shapes_of(&(), |()| {
            let model = init(&Key::from_seed(&Tensor::scalar(DType::U32, 0.0)));
            let cache = model.cache(self.config.train.batch, self.sequence);
            (model, cache)
        })?;
        let parameters: BTreeMap<String, Vec<usize>> =
            model.paths().into_iter().zip(model.specs().into_iter().map(|spec| spec.dims)).collect();
        // The step may use the cache's memory.
        let donate = Donate::Leading(cache.specs().len());
        let inputs: ServingInputs<M> = (cache, model, position, tokens);
        let next = |(cache, model, position, tokens): &ServingInputs<M>| {
            let (logits, cache) = match position {
                None => model.prefill(tokens, cache),
                Some(position) => model.decode_step(tokens, position, cache),
            };
            (cache, logits.argmax(-1))
        };
        let traced = match self.placement {
            None => trace::trace(name, &inputs, donate, next),
            Some(placement) => {
                let placement: &dyn ModelPlacement = placement;
                let of = |role: Role, leaf: &Leaf| {
                    let dims = &leaf.spec.dims;
                    match (role, leaf.path.split_once('.')) {
                        (_, Some(("0", _))) => Ok(placement.layout().sharding(&CACHE, dims)),
                        (Role::Input, Some(("1", path))) => placement.state(path, dims, &parameters),
                        (Role::Input, None) if leaf.path == "3" => placement.batch("the tokens", dims),
                        _ => Ok(Sharding::replicated(dims.len())),
                    }
                };
                trace::trace_on(&trace::Placed { layout: placement.layout(), of: &of }, name, &inputs, donate, next)
            }
        };
        Ok(Program::from_module(traced?.0.module))
    }
}

/// What a step of inference takes: the cache, the model, the position unless it is the first, the tokens.
type ServingInputs<M> = (KeyValues, M, Option<Tensor>, Tensor);

/// What the axes of a cache are.
const CACHE: [&str; 5] = ["layers", "batch", "heads", "keys", "head"];
