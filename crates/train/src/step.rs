//! A model's step as a program, without any device: training, a prompt read into a cache, or one more token of every sequence.

use compile::Program;
use nn::layers::KvCache;
use nn::models::{Gemma4, Gpt2, LanguageModel, Llama};
use nn::quant::{MapWeights, QuantScheme};
use nn::{ShardingRules, hf};
use plan::search::ModelStep;
use serde::{Deserialize, Serialize};
use tensor::DType;
use trace::{Donate, Key, Leaf, PartitionSpec, Role, Site, Spec, Tensor, Tree};

use crate::config::TrainConfig;
use crate::error::Error;
use crate::model::TokenSizes;
use crate::sharding::{check, parameter_shapes, sharded_shapes, step_leaves};
use crate::task::ModelTask;
use crate::trainer::Task;

/// What a step does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PlannedStepKind {
    /// A training step.
    #[default]
    Training,
    /// A prompt is read into an empty KV cache.
    Prefill,
    /// One more token of every sequence.
    Decode,
}

/// The training step of a task as a program for devices that need not be here, and the number of its parameters.
pub fn step_program<M: Tree + Clone + 'static, X: Tree + Clone + 'static>(
    task: &ModelTask<M, X>,
    rules: Option<&ShardingRules>,
    batch: &[Spec],
    site: &Site,
) -> Result<(Program, u64), Error> {
    let state = trace::shapes_of(&(), |()| task.init())?;
    let count = state.params.num_parameters();
    let parameters = sharded_shapes(&state.params, &state.carried);
    let donate = Donate::Leading(state.specs().len());
    let inputs = (state, batch.iter().cloned().map(Tensor::of).collect::<Vec<_>>());
    let step = |(state, batch): &(<ModelTask<M, X> as Task>::State, Vec<Tensor>)| task.step(state, batch);
    let traced = match rules {
        None => trace::trace("train_step", &inputs, donate, step),
        Some(rules) => {
            check(rules, &parameters, batch, site)?;
            let of = step_leaves(rules, &parameters);
            trace::trace_on(
                &trace::LeafShardings { rules: rules.logical_axes(), of: &of },
                "train_step",
                &inputs,
                donate,
                step,
            )
        }
    };
    Ok((Program::from_module(traced?.0.module), count))
}

/// What a step is written for.
pub struct StepShape<'a> {
    /// Training or inference.
    pub step: PlannedStepKind,
    /// Its batch and how the model is run.
    pub config: &'a TrainConfig,
    /// Tokens of a sequence, or room of a cache.
    pub sequence: usize,
    /// How it is sharded; `None` on one device.
    pub rules: Option<&'a ShardingRules>,
    /// How the weights of a step of inference are quantized; `None`: dense.
    pub weights: Option<QuantScheme>,
    /// How the LM head of a step of inference is quantized; `None`: dense.
    pub lm_head: Option<QuantScheme>,
}

impl StepShape<'_> {
    /// The step of a model.
    pub fn of(&self, model: &hf::ModelConfig) -> Result<ModelStep, Error> {
        let (sizes, family) = (TokenSizes::of(model), model.family());
        let (options, scheme, head) = (self.config.run.clone(), self.weights, self.lm_head);
        if let (Some(scheme), PlannedStepKind::Training) = (&scheme, self.step) {
            return Err(Error::new(format!("weights of {scheme} are for inference: nothing trains codes"))
                .hint("choose --step prefill or decode, or train in another precision"));
        }
        match model.clone() {
            hf::ModelConfig::Gpt2(model) => {
                self.written(&sizes, family, move |key| with_weights(Gpt2::init(key, &model, &options), scheme, head))
            }
            hf::ModelConfig::Llama(model) => {
                self.written(&sizes, family, move |key| with_weights(Llama::init(key, &model, &options), scheme, head))
            }
            hf::ModelConfig::Gemma4(model) => {
                self.written(&sizes, family, move |key| with_weights(Gemma4::init(key, &model, &options), scheme, head))
            }
        }
    }

    fn written<M: LanguageModel + 'static>(
        &self,
        sizes: &TokenSizes,
        family: hf::Family,
        init: impl Fn(&Key) -> M + Clone + 'static,
    ) -> Result<ModelStep, Error> {
        let (batch, positions) = (self.config.train.batch_size, self.sequence);
        let of = |dims: &[usize]| Tensor::of(Spec::new(DType::I32, dims));
        // Arguments of the batch are the last.
        let (program, batch_arguments) = match self.step {
            PlannedStepKind::Training => {
                // Tokens and targets.
                let arrays = vec![Spec::new(DType::I32, [batch, positions]); 2];
                let task = ModelTask::language(self.config, sizes, family, positions, init);
                (step_program(&task, self.rules, &arrays, &Site::default())?.0, arrays.len())
            }
            PlannedStepKind::Prefill => (self.serving("prefill", init, None, of(&[batch, positions]))?, 1),
            PlannedStepKind::Decode => (self.serving("decode", init, Some(of(&[])), of(&[batch]))?, 1),
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
    ) -> Result<Program, Error> {
        let (model, cache) = trace::shapes_of(&(), |()| {
            let model = init(&Key::from_seed(&Tensor::scalar(DType::U32, 0.0)));
            let cache = model.cache(self.config.train.batch_size, self.sequence);
            (model, cache)
        })?;
        let parameters = parameter_shapes(&model);
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
        let traced = match self.rules {
            None => trace::trace(name, &inputs, donate, next),
            Some(rules) => {
                let of = |role: Role, leaf: &Leaf| {
                    let dims = &leaf.spec.dims;
                    let sharding = match (role, leaf.path.split_once('.')) {
                        // Scales have no last axis.
                        (_, Some(("0", _))) => {
                            Ok(rules.logical_axes().sharding(&CACHE[..dims.len().min(CACHE.len())], dims))
                        }
                        (Role::Input, Some(("1", path))) => rules.state(path, dims, &parameters),
                        (Role::Input, None) if leaf.path == "3" => rules.batch("the tokens", dims),
                        _ => Ok(PartitionSpec::replicated(dims.len())),
                    };
                    sharding.map_err(|error| trace::Error::Mesh(error.to_string()))
                };
                trace::trace_on(
                    &trace::LeafShardings { rules: rules.logical_axes(), of: &of },
                    name,
                    &inputs,
                    donate,
                    next,
                )
            }
        };
        Ok(Program::from_module(traced?.0.module))
    }
}

/// A model known by shapes, with weights and LM head as schemes say.
fn with_weights<M: MapWeights>(model: M, scheme: Option<QuantScheme>, head: Option<QuantScheme>) -> M {
    let model = match scheme {
        Some(scheme) => model.quantized(&scheme),
        None => model,
    };
    match head {
        Some(scheme) => model.quantized_lm_head(&scheme),
        None => model,
    }
}

/// What a step of inference takes: the cache, the model, the position unless it is the first, the tokens.
type ServingInputs<M> = (KvCache, M, Option<Tensor>, Tensor);

/// What the axes of a cache are.
const CACHE: [&str; 5] = ["layers", "batch", "heads", "keys", "head"];

/// Positions of a page of the KV cache on TPUs, whose kernel is fastest with it.
pub const TPU_PAGE_SIZE: usize = 256;
