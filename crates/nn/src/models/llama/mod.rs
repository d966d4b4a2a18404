//! The Llama family: rotary positions, RMS norms, gated feed-forwards or experts; Mistral, Mixtral, Qwen 2 and 3 and Gemma 3 by
//! their choices.

mod config;

use tensor::DType;
use trace::{Key, Tensor, Tree};

pub use self::config::{Experts, GlobalLayers, Head, HeadNorm, LlamaConfig, Norms, Style};

use crate::init::Init;
use crate::layers::{
    Bias, Context, Embedding, ExpertSizes, GatedFeedForward, KeyValues, Linear, MixtureOfExperts, MultiHeadAttention,
    Places, RmsNorm, Rope, RopeScaling, Start, Usage, at_use,
};
use crate::models::language::{Hidden, LanguageModel, RunOptions, carried, laid_out_logits, layer_numbers};
use crate::stacked::{init_stacked, run_in_turn, scan_in_turn};

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
    /// Of what attention adds.
    pub attention_output_norm: Option<RmsNorm>,
    /// Before the feed-forward.
    pub feed_forward_norm: RmsNorm,
    /// Feed-forward or experts.
    pub feed_forward: PositionWise,
    /// Of what the feed-forward adds.
    pub feed_forward_output_norm: Option<RmsNorm>,
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
        let norm = || config.norm(config.hidden_size);
        let output_norm = || (config.style.norms == Norms::Around).then(norm);
        let head_norm = || (config.style.head_norm == HeadNorm::Rms).then(|| config.norm(config.head_dim));
        let biases = (config.projection_bias, config.output_bias);
        let sizes = (config.hidden_size, config.intermediate_size);
        let feed_forward = match &config.experts {
            None => PositionWise::Dense(GatedFeedForward::init(&keys[1], sizes, config.hidden_act, weight)),
            Some(experts) => {
                let sizes =
                    ExpertSizes { width: sizes.0, inner: sizes.1, experts: experts.count, chosen: experts.chosen };
                let dispatch = options.experts.unwrap_or(experts.dispatch);
                let mixture = MixtureOfExperts::init(&keys[1], sizes, config.hidden_act, dispatch, weight);
                PositionWise::Experts(MixtureOfExperts { weights: experts.weights, ..mixture })
            }
        };
        let attention =
            MultiHeadAttention::init(&keys[0], config.hidden_size, config.heads(), biases, (weight, weight));
        LlamaBlock {
            attention_norm: norm(),
            attention: MultiHeadAttention {
                query_norm: head_norm(),
                key_norm: head_norm(),
                scale: config.style.score_scale,
                ..attention
            },
            attention_output_norm: output_norm(),
            feed_forward_norm: norm(),
            feed_forward,
            feed_forward_output_norm: output_norm(),
        }
    }

    /// The feed-forward half after what attention adds, and how its experts are used.
    #[track_caller]
    fn finish(&self, x: &Tensor, attention: Tensor) -> (Tensor, Option<Usage>) {
        let normed = |norm: &Option<RmsNorm>, added: Tensor| match norm {
            Some(norm) => norm.apply(&added),
            None => added,
        };
        let x = &(x + &normed(&self.attention_output_norm, attention));
        let inside = self.feed_forward_norm.apply(x);
        let (added, usage) = match &self.feed_forward {
            PositionWise::Dense(dense) => (dense.apply(&inside), None),
            PositionWise::Experts(experts) => {
                let (added, usage) = experts.apply_counting(&inside);
                (added, Some(usage))
            }
        };
        (x + &normed(&self.feed_forward_output_norm, added), usage)
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
            norm: config.norm(config.hidden_size),
            head: (config.head == Head::Own)
                .then(|| Linear::init(&keys[2], config.hidden_size, config.vocab_size, Bias::None, weight)),
            config: config.clone(),
            options: options.clone(),
        };
        model.map_leaves(|leaf| leaf.cast(options.precision.params()))
    }

    /// Rotary positions of the layers at each place of a turn.
    #[track_caller]
    fn ropes(&self, positions: &Tensor) -> Vec<Rope> {
        let config = &self.config;
        let of = |theta: f64, scaling: &RopeScaling| Rope::new(positions, config.head_dim, theta, scaling);
        let mut ropes = vec![of(config.rope_theta, &config.rope_scaling)];
        if let Some(layers) = &config.global_layers {
            ropes = vec![ropes.remove(0); layers.every - 1];
            ropes.push(of(layers.rope_theta, &layers.rope_scaling));
        }
        ropes
    }

    /// What attention of the layers at each place of a turn depends on.
    fn contexts<'a>(&self, places: &'a Places, ropes: &'a [Rope]) -> Vec<Context<'a>> {
        let form = self.options.attention;
        let of = |(place, rope): (usize, &'a Rope)| Context {
            places,
            sight: self.config.sight(place),
            form,
            rope: Some(rope),
        };
        ropes.iter().enumerate().map(of).collect()
    }

    #[track_caller]
    fn embedded(&self, tokens: &Tensor) -> Tensor {
        trace::scope("embedding", || {
            let x = self.token_embedding.apply(tokens, self.options.precision.compute());
            let scale = self.config.style.embedding_scale;
            if scale == 1.0 { x } else { &x * scale }
        })
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
            let ropes = self.ropes(&places.queries);
            let contexts = self.contexts(&places, &ropes);
            let x = carried(&self.embedded(tokens));
            let (x, usage) = run_in_turn(&self.options.remat, &x, &self.layers, contexts.len(), |x, block, place| {
                trace::scope("block", || {
                    let added = block.attention.apply(&block.attention_norm.apply(x), &contexts[place]);
                    let (x, usage) = block.finish(x, added);
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
    fn cache(&self, batch: usize, positions: usize) -> KeyValues {
        let config = &self.config;
        KeyValues::zeros(self.options.precision.compute(), config.num_hidden_layers, batch, positions, config.heads())
    }

    #[track_caller]
    fn extend(&self, tokens: &Tensor, start: &Start, cache: &KeyValues) -> (Tensor, KeyValues) {
        trace::scope("llama", || {
            let places = start.places(tokens.dim(1), cache.room());
            let ropes = self.ropes(&places.queries);
            let contexts = self.contexts(&places, &ropes);
            let init = (carried(&self.embedded(tokens)), cache.clone());
            let layers = (self.layers.clone(), layer_numbers(cache));
            let ((x, cache), ()) = scan_in_turn(&init, &layers, contexts.len(), |(x, cache), (block, layer), place| {
                trace::scope("block", || {
                    let normed = block.attention_norm.apply(x);
                    let (added, cache) = block.attention.extend(&normed, &contexts[place], cache, layer, start);
                    ((block.finish(x, added).0, cache), ())
                })
            });
            (self.norm.apply(&x), cache)
        })
    }
}
