//! The Llama family: rotary positions, RMS norms, gated feed-forwards or experts; Mistral, Qwen 2 and Mixtral by their flags.

use serde::{Deserialize, Serialize};
use tensor::DType;
use trace::{Key, Tensor, Tree};

use crate::error::Error;
use crate::init::Init;
use crate::layers::{
    Activation, Bias, Context, Dispatch, Embedding, ExpertSizes, GatedFeedForward, Heads, KeyValues, Linear,
    MixtureOfExperts, MultiHeadAttention, Places, RmsNorm, Rope, RopeScaling, Sight, Usage, at_use,
};
use crate::models::language::{Hidden, LanguageModel, RunOptions, carried, laid_out_logits, places_from};
use crate::stacked::{init_stacked, run_stacked};

/// Experts instead of one feed-forward.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Experts {
    /// Experts of a layer.
    pub count: usize,
    /// Experts a position goes to.
    pub chosen: usize,
    /// Weight of the loss of balance.
    pub balance: f64,
    /// How positions reach them.
    #[serde(default)]
    pub dispatch: Dispatch,
}

/// Sizes of a model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LlamaConfig {
    /// Tokens known.
    pub vocab_size: usize,
    /// Width.
    pub hidden_size: usize,
    /// Width inside the feed-forward.
    pub intermediate_size: usize,
    /// Layers.
    pub num_hidden_layers: usize,
    /// Heads of queries.
    pub num_attention_heads: usize,
    /// Heads of keys and values.
    pub num_key_value_heads: usize,
    /// Features of a head.
    pub head_dim: usize,
    /// Longest sequence trained on.
    pub max_position_embeddings: usize,
    /// Of the norms.
    pub rms_norm_eps: f64,
    /// Base of the rotary angles.
    pub rope_theta: f64,
    /// How angles are stretched.
    #[serde(default)]
    pub rope_scaling: RopeScaling,
    /// Inside the feed-forward.
    pub hidden_act: Activation,
    /// Whether queries, keys and values have a bias.
    pub projection_bias: Bias,
    /// Whether the output of attention has a bias.
    pub output_bias: Bias,
    /// Positions a query sees, itself included; all before it if absent.
    pub sliding_window: Option<usize>,
    /// Whether the head is the embedding.
    pub head: Head,
    /// Experts, if there are.
    pub experts: Option<Experts>,
    /// Deviation of drawn weights.
    pub initializer_range: f64,
}

/// Where logits come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Head {
    /// A weight of their own.
    Own,
    /// The embedding.
    Tied,
}

impl LlamaConfig {
    /// Numbers of heads.
    pub fn heads(&self) -> Heads {
        Heads { queries: self.num_attention_heads, keys: self.num_key_value_heads, size: self.head_dim }
    }

    fn sight(&self) -> Sight {
        self.sliding_window.map_or(Sight::Causal, Sight::Window)
    }

    /// Refuses sizes that fit together nowhere.
    pub fn checked(self) -> Result<LlamaConfig, Error> {
        let sizes = [
            ("vocab_size", self.vocab_size),
            ("hidden_size", self.hidden_size),
            ("intermediate_size", self.intermediate_size),
            ("num_hidden_layers", self.num_hidden_layers),
            ("num_attention_heads", self.num_attention_heads),
            ("num_key_value_heads", self.num_key_value_heads),
        ];
        if let Some((name, _)) = sizes.iter().find(|(_, size)| *size == 0) {
            return Err(Error::config(format!("{name} is 0")));
        }
        if !self.num_attention_heads.is_multiple_of(self.num_key_value_heads) {
            let (heads, keys) = (self.num_attention_heads, self.num_key_value_heads);
            return Err(Error::config(format!("{heads} heads cannot share {keys} heads of keys evenly")));
        }
        if self.head_dim == 0 || !self.head_dim.is_multiple_of(2) {
            return Err(Error::config(format!("heads of {} features cannot be turned in pairs", self.head_dim)));
        }
        if let Some(experts) = &self.experts
            && (experts.chosen == 0 || experts.chosen > experts.count)
        {
            return Err(Error::config(format!("{} of {} experts cannot be chosen", experts.chosen, experts.count)));
        }
        Ok(self)
    }
}

/// What a layer does with each position.
#[derive(Clone, Debug, Tree)]
pub enum PositionWise {
    /// One feed-forward.
    Dense(#[tree(rename = "dense")] GatedFeedForward),
    /// A choice of several.
    Experts(#[tree(rename = "experts")] MixtureOfExperts),
}

/// One layer.
#[derive(Clone, Debug, Tree)]
pub struct LlamaBlock {
    /// Before attention.
    pub attention_norm: RmsNorm,
    /// Attention.
    pub attention: MultiHeadAttention,
    /// Before the feed-forward.
    pub feed_forward_norm: RmsNorm,
    /// Feed-forward or experts.
    pub feed_forward: PositionWise,
}

/// The model.
#[derive(Clone, Debug, Tree)]
pub struct Llama {
    /// Tokens.
    pub token_embedding: Embedding,
    /// Layers, stacked.
    pub layers: LlamaBlock,
    /// After the layers.
    pub norm: RmsNorm,
    /// `[width, vocabulary]`, unless the head is tied.
    pub head: Option<Linear>,
    /// Sizes.
    #[tree(skip)]
    pub config: LlamaConfig,
    /// How it is run.
    #[tree(skip)]
    pub options: RunOptions,
}

impl LlamaBlock {
    #[track_caller]
    fn init(key: &Key, config: &LlamaConfig, options: &RunOptions) -> LlamaBlock {
        let keys = key.split(2);
        let weight = Init::Normal(config.initializer_range);
        let norm = || RmsNorm::init(config.hidden_size, config.rms_norm_eps).with_fused(options.kernels.norm);
        let biases = (config.projection_bias, config.output_bias);
        let sizes = (config.hidden_size, config.intermediate_size);
        let feed_forward = match &config.experts {
            None => PositionWise::Dense(GatedFeedForward::init(&keys[1], sizes, config.hidden_act, weight)),
            Some(experts) => {
                let sizes =
                    ExpertSizes { width: sizes.0, inner: sizes.1, experts: experts.count, chosen: experts.chosen };
                let dispatch = options.experts.unwrap_or(experts.dispatch);
                let mixture = MixtureOfExperts::init(&keys[1], sizes, config.hidden_act, dispatch, weight);
                PositionWise::Experts(mixture)
            }
        };
        LlamaBlock {
            attention_norm: norm(),
            attention: MultiHeadAttention::init(&keys[0], config.hidden_size, config.heads(), biases, (weight, weight)),
            feed_forward_norm: norm(),
            feed_forward,
        }
    }

    /// The feed-forward half, and how its experts are used.
    #[track_caller]
    fn finish(&self, x: &Tensor) -> (Tensor, Option<Usage>) {
        let normed = self.feed_forward_norm.apply(x);
        let (added, usage) = match &self.feed_forward {
            PositionWise::Dense(dense) => (dense.apply(&normed), None),
            PositionWise::Experts(experts) => {
                let (added, usage) = experts.apply_counting(&normed);
                (added, Some(usage))
            }
        };
        (x + &added, usage)
    }
}

impl Llama {
    /// Drawn parameters.
    #[track_caller]
    pub fn init(key: &Key, config: &LlamaConfig, options: &RunOptions) -> Llama {
        let keys = key.split(3);
        let weight = Init::Normal(config.initializer_range);
        let model = Llama {
            token_embedding: Embedding::init(&keys[0], config.vocab_size, config.hidden_size, weight),
            layers: init_stacked(&keys[1], config.num_hidden_layers, |key| LlamaBlock::init(key, config, options)),
            norm: RmsNorm::init(config.hidden_size, config.rms_norm_eps).with_fused(options.kernels.norm),
            head: (config.head == Head::Own)
                .then(|| Linear::init(&keys[2], config.hidden_size, config.vocab_size, Bias::None, weight)),
            config: config.clone(),
            options: options.clone(),
        };
        model.map_leaves(|leaf| leaf.cast(options.precision.params()))
    }

    #[track_caller]
    fn rope(&self, positions: &Tensor) -> Rope {
        let config = &self.config;
        Rope::new(positions, config.head_dim, config.rope_theta, &config.rope_scaling)
    }

    #[track_caller]
    fn embedded(&self, tokens: &Tensor) -> Tensor {
        trace::scope("embedding", || self.token_embedding.apply(tokens, self.options.precision.compute()))
    }
}

impl LanguageModel for Llama {
    fn options(&self) -> &RunOptions {
        &self.options
    }

    #[track_caller]
    fn hidden(&self, tokens: &Tensor, _: Option<&Key>) -> Hidden {
        trace::scope("llama", || {
            let places = Places::sequence(tokens.dim(1));
            let rope = self.rope(&places.queries);
            let context = Context {
                places: &places,
                sight: self.config.sight(),
                form: self.options.attention,
                rope: Some(&rope),
            };
            let x = carried(&self.embedded(tokens));
            let (x, usage) = run_stacked(&self.options.remat, &x, &self.layers, |x, block| {
                trace::scope("block", || {
                    let x = x + &block.attention.apply(&block.attention_norm.apply(x), &context);
                    let (x, usage) = block.finish(&x);
                    (carried(&x), usage)
                })
            });
            let auxiliary = match (&self.config.experts, usage) {
                (Some(experts), Some(usage)) => &usage.balance(experts.chosen).mean_all() * experts.balance,
                _ => Tensor::zeros(DType::F32, &[]),
            };
            Hidden { states: self.norm.apply(&x), auxiliary }
        })
    }

    #[track_caller]
    fn ready_head(&self) -> Box<dyn Fn(&Tensor) -> Tensor + '_> {
        let compute = self.options.precision.compute();
        match &self.head {
            Some(head) => {
                let weight = at_use(&head.weight.cast(compute), &["width", "vocabulary"]);
                Box::new(move |hidden| {
                    let last = hidden.rank().saturating_sub(1);
                    let contraction =
                        trace::Contraction { lhs_sum: vec![last], rhs_sum: vec![0], ..trace::Contraction::default() };
                    let weight = weight.cast(hidden.dtype());
                    let logits = || hidden.dot_general(&weight, &contraction, DType::F32, trace::Precision::Default);
                    trace::scope("head", || laid_out_logits(logits()))
                })
            }
            None => {
                let table = self.token_embedding.ready(compute);
                Box::new(move |hidden| trace::scope("head", || laid_out_logits(table.scores(hidden))))
            }
        }
    }

    #[track_caller]
    fn head_words(&self) -> Option<Tensor> {
        let compute = self.options.precision.compute();
        Some(match &self.head {
            Some(head) => at_use(&head.weight.cast(compute), &["width", "vocabulary"]).transpose(&[1, 0]),
            None => self.token_embedding.ready(compute).weight,
        })
    }

    #[track_caller]
    fn cache(&self, batch: usize, positions: usize) -> KeyValues {
        let config = &self.config;
        KeyValues::zeros(self.options.precision.compute(), config.num_hidden_layers, batch, positions, config.heads())
    }

    #[track_caller]
    fn extend(&self, tokens: &Tensor, start: &Tensor, cache: &KeyValues) -> (Tensor, KeyValues) {
        trace::scope("llama", || {
            let places = places_from(start, tokens.dim(1), cache.keys.dim(2));
            let rope = self.rope(&places.queries);
            let context = Context {
                places: &places,
                sight: self.config.sight(),
                form: self.options.attention,
                rope: Some(&rope),
            };
            let x = self.embedded(tokens);
            let layers = (self.layers.clone(), cache.clone());
            let (x, cache) = trace::scan(&x, &layers, None, |x, (block, cache)| {
                trace::scope("block", || {
                    let (added, cache) = block.attention.extend(&block.attention_norm.apply(x), &context, cache, start);
                    (block.finish(&(x + &added)).0, cache)
                })
            });
            (self.norm.apply(&x), cache)
        })
    }
}
