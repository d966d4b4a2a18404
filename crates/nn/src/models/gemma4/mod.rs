//! Gemma 4: layers with sliding windows and with full attention have heads of sizes of their own, the last share keys and values, and
//! each layer reads an embedding of its own.

mod config;

use std::ops::Range;

use tensor::DType;
use trace::{Key, RematPolicy, Tensor, Tree, checkpoint};

pub use self::config::{Gemma4Attention, Gemma4Config, Gemma4Experts, PerLayerSizes};

use self::config::LayerKind;
use crate::init::Init;
use crate::layers::{
    AttentionMask, Bias, CachePosition, CacheStart, Context, Dispatch, Embedding, ExpertInputs, ExpertSizes,
    GatedFeedForward, KvCache, Linear, MixtureOfExperts, Positions, RmsNorm, Rope, SharedKvAttention,
};
use crate::models::Head;
use crate::models::language::{GivenStates, Hidden, LanguageModel, PartInput, RunOptions, carried, constrained_logits};
use crate::models::layer_stack::LayerStack;
use crate::quant::map_weights;
use crate::stacked::{Stages, infer_repeating_pattern, init_stacked};

/// One layer.
#[derive(Clone, Debug, Tree)]
pub struct Gemma4Block {
    /// Before attention.
    pub attention_norm: RmsNorm,
    /// Attention.
    pub attention: SharedKvAttention,
    /// Of what attention adds.
    pub attention_output_norm: RmsNorm,
    /// Before the feed-forward.
    pub feed_forward_norm: RmsNorm,
    /// The feed-forward.
    pub dense: GatedFeedForward,
    /// Experts beside it.
    pub beside: Option<ExpertsBeside>,
    /// Of what feed-forward and experts add.
    pub feed_forward_output_norm: RmsNorm,
    /// What the layer makes of its own embedding of the token.
    pub per_layer: Option<PerLayerGate>,
    /// What the layer's result is multiplied by: `[1]`.
    pub scale: Tensor,
}

/// Experts beside a feed-forward: each has a norm of what it gives.
#[derive(Clone, Debug, Tree)]
pub struct ExpertsBeside {
    /// Experts, which read what the feed-forward reads before its norm.
    pub experts: MixtureOfExperts,
    /// Of what the feed-forward gives.
    pub dense_output_norm: RmsNorm,
    /// Of what the experts give.
    pub output_norm: RmsNorm,
}

/// What a layer makes of its own embedding of the token.
#[derive(Clone, Debug, Tree)]
pub struct PerLayerGate {
    /// `[width, per layer]`, through the activation.
    pub input_gate: Linear,
    /// `[per layer, width]`.
    pub projection: Linear,
    /// Of what is added.
    pub norm: RmsNorm,
}

/// Embeddings of tokens for each layer.
#[derive(Clone, Debug, Tree)]
pub struct PerLayerInputs {
    /// `[vocabulary, layers * per layer]`.
    pub embedding: Embedding,
    /// Of the embeddings before the first layer: `[width, layers * per layer]`.
    pub projection: Linear,
    /// Of what is projected for each layer.
    pub norm: RmsNorm,
}

/// The model.
#[derive(Clone, Debug, Tree)]
pub struct Gemma4 {
    /// Tokens.
    pub token_embedding: Embedding,
    /// Tokens for each layer.
    pub per_layer: Option<PerLayerInputs>,
    /// Layers; neighbours of equal form are stacked.
    pub layers: LayerStack<Gemma4Block>,
    /// After the layers.
    pub norm: RmsNorm,
    /// `[width, vocabulary]`, unless the head is tied.
    pub lm_head: Option<Linear>,
    /// Sizes.
    #[tree(skip)]
    pub config: Gemma4Config,
    /// How it is run.
    #[tree(skip)]
    pub options: RunOptions,
}

map_weights!(ExpertsBeside: experts);
map_weights!(PerLayerGate: input_gate, projection);
map_weights!(PerLayerInputs: embedding, projection);
map_weights!(Gemma4Block: attention, dense, beside, per_layer);
map_weights!(Gemma4: token_embedding, per_layer, layers, lm_head);

impl Gemma4Block {
    #[track_caller]
    fn init(key: &Key, config: &Gemma4Config, options: &RunOptions, kind: LayerKind, inner: usize) -> Gemma4Block {
        let keys = key.split(4);
        let weight = Init::Normal(config.initializer_range);
        let (width, epsilon) = (config.hidden_size, config.rms_norm_eps);
        let norm = || RmsNorm::init(width, epsilon).with_fused(options.kernels.norm);
        let attention = SharedKvAttention::init(
            &keys[0],
            width,
            config.heads(kind.is_full),
            config.kv_source(kind),
            config.attention_bias,
            (weight, epsilon),
        );
        let beside = config.experts.map(|experts| {
            let sizes = ExpertSizes { width, inner: experts.inner, experts: experts.count, chosen: experts.chosen };
            let dispatch = options.experts.unwrap_or(Dispatch::Grouped);
            let mixture = MixtureOfExperts::init(&keys[2], sizes, config.hidden_act, dispatch, weight);
            let inputs = Some(ExpertInputs::ones(sizes, epsilon));
            ExpertsBeside {
                experts: MixtureOfExperts { inputs, ..mixture },
                dense_output_norm: norm(),
                output_norm: norm(),
            }
        });
        let per_layer = config.per_layer_input.map(|sizes| {
            let keys = keys[3].split(2);
            PerLayerGate {
                input_gate: Linear::init(&keys[0], width, sizes.width, Bias::None, weight),
                projection: Linear::init(&keys[1], sizes.width, width, Bias::None, weight),
                norm: norm(),
            }
        });
        Gemma4Block {
            attention_norm: norm(),
            attention,
            attention_output_norm: norm(),
            feed_forward_norm: norm(),
            dense: GatedFeedForward::init(&keys[1], (width, inner), config.hidden_act, weight),
            beside,
            feed_forward_output_norm: norm(),
            per_layer,
            scale: Tensor::ones(DType::F32, &[1]),
        }
    }

    /// What follows attention, which added this to what came in; `own` is the layer's own embedding.
    #[track_caller]
    fn finish(&self, x: &Tensor, attention: &Tensor, own: Option<&Tensor>) -> Tensor {
        let x = &(x + &self.attention_output_norm.apply(attention));
        let dense = self.dense.apply(&self.feed_forward_norm.apply(x));
        let added = match &self.beside {
            Some(beside) => {
                let (given, _) = beside.experts.apply_with_usage(x);
                beside.dense_output_norm.apply(&dense) + beside.output_norm.apply(&given)
            }
            None => dense,
        };
        let x = &(x + &self.feed_forward_output_norm.apply(&added));
        let x = match (&self.per_layer, own) {
            (Some(gate), Some(own)) => {
                let inside = self.dense.activation.apply(&gate.input_gate.apply(x));
                x + &gate.norm.apply(&gate.projection.apply(&(&inside * &own.cast(x.dtype()))))
            }
            _ => x.clone(),
        };
        carried(&(&x * &self.scale.cast(x.dtype()).reshape(&[1, 1, 1])))
    }
}

/// Rotary positions of both kinds of layers.
struct Ropes {
    sliding: Rope,
    full: Rope,
}

impl Gemma4 {
    /// Drawn parameters.
    #[track_caller]
    pub fn init(key: &Key, config: &Gemma4Config, options: &RunOptions) -> Gemma4 {
        let keys = key.split(4);
        let weight = Init::Normal(config.initializer_range);
        let mut segments = config.segments().into_iter().map(|numbers| {
            let (kind, inner) = (config.kind(numbers.start), config.inner(numbers.start));
            let key = keys[1].fold_in(numbers.start as u64);
            let block = |key: &Key| Gemma4Block::init(key, config, options, kind, inner);
            (numbers.clone(), init_stacked(&key, numbers.len(), block))
        });
        let Some(first) = segments.next() else { trace::refuse("the model has no layers") };
        let per_layer = config.per_layer_input.map(|sizes| {
            let keys = keys[3].split(2);
            let all = config.num_layers() * sizes.width;
            PerLayerInputs {
                embedding: Embedding::init(&keys[0], sizes.vocab_size, all, weight),
                projection: Linear::init(&keys[1], config.hidden_size, all, Bias::None, weight),
                norm: RmsNorm::init(sizes.width, config.rms_norm_eps),
            }
        });
        let model = Gemma4 {
            token_embedding: Embedding::init(&keys[0], config.vocab_size, config.hidden_size, weight),
            per_layer,
            layers: LayerStack::of_segments(first, segments.collect()),
            norm: RmsNorm::init(config.hidden_size, config.rms_norm_eps).with_fused(options.kernels.norm),
            lm_head: (config.head == Head::Own)
                .then(|| Linear::init(&keys[2], config.hidden_size, config.vocab_size, Bias::None, weight)),
            config: config.clone(),
            options: options.clone(),
        };
        model.map_leaves(|leaf| leaf.cast(options.precision.params()))
    }

    #[track_caller]
    fn embedded(&self, tokens: &Tensor) -> Tensor {
        trace::scope("embedding", || {
            let x = self.token_embedding.apply(tokens, self.options.precision.compute());
            &x * (self.config.hidden_size as f64).sqrt()
        })
    }

    /// Embeddings of each layer `[layers, batch, positions, per layer]`, of tokens and of what goes into the first layer.
    #[track_caller]
    fn per_layer_inputs(&self, tokens: &Tensor, given: Option<&GivenStates>, x: &Tensor) -> Option<Tensor> {
        let (parts, sizes) = (self.per_layer.as_ref()?, self.config.per_layer_input?);
        Some(trace::scope("per_layer_embedding", || {
            let dims = [x.dim(0), x.dim(1), self.config.num_layers(), sizes.width];
            // Where activations are given, such as of images, the padding token stands for what they are.
            let tokens = given.map_or(tokens.clone(), |given| {
                given.is_given.select(&tokens.full_like(f64::from(self.config.pad_token)), tokens)
            });
            let embedded = &parts.embedding.apply(&tokens, x.dtype()) * (sizes.width as f64).sqrt();
            let projected = &parts.projection.apply(x) * (self.config.hidden_size as f64).sqrt().recip();
            let normed = parts.norm.apply(&projected.reshape(&dims));
            let both = &(&normed + &embedded.reshape(&dims)) * std::f64::consts::FRAC_1_SQRT_2;
            both.transpose(&[2, 0, 1, 3])
        }))
    }

    #[track_caller]
    fn ropes(&self, positions: &Tensor) -> Ropes {
        let of = |sizes: &Gemma4Attention| Rope::new(positions, sizes.head_dim, sizes.rope_theta, &sizes.rope_scaling);
        Ropes { sliding: of(&self.config.sliding), full: of(&self.config.full) }
    }

    /// What attention of a layer depends on.
    fn context<'a>(&self, layer: usize, positions: &'a Positions, ropes: &'a Ropes) -> Context<'a> {
        let is_full = self.config.kind(layer).is_full;
        Context {
            positions,
            mask: match is_full {
                true => AttentionMask::Causal,
                false => AttentionMask::SlidingWindow(self.config.sliding_window),
            },
            implementation: self.options.attention,
            rope: Some(if is_full { &ropes.full } else { &ropes.sliding }),
            query_scale: None,
        }
    }

    #[track_caller]
    fn finished_logits(&self, logits: Tensor) -> Tensor {
        constrained_logits(match self.config.logit_soft_cap {
            Some(cap) => &(&logits * cap.recip()).tanh() * cap,
            None => logits,
        })
    }
}

/// What a layer of a whole sequence reads: activations, its parameters, its own embedding, keys and values of an earlier layer.
type LayerInputs = (Tensor, Gemma4Block, Option<Tensor>, Option<(Tensor, Tensor)>);

impl LanguageModel for Gemma4 {
    fn options(&self) -> &RunOptions {
        &self.options
    }

    /// Layers follow one another: some read keys and values of layers far before them.
    #[track_caller]
    fn hidden(&self, tokens: &Tensor, _: Option<&Key>) -> Hidden {
        if Stages::here().is_some() {
            trace::refuse(
                "layers of Gemma 4 share keys and values: pipeline stages cannot share the layers; choose a mesh without `stage`",
            );
        }
        trace::scope("gemma4", || {
            let positions = Positions::sequence(tokens.dim(1));
            let ropes = self.ropes(&positions.queries);
            let mut x = carried(&self.embedded(tokens));
            let inputs = self.per_layer_inputs(tokens, None, &x);
            let mut of_sliding: Option<(Tensor, Tensor)> = None;
            let mut of_full: Option<(Tensor, Tensor)> = None;
            for (numbers, stacked) in self.layers.segments() {
                for layer in numbers.clone() {
                    let block = stacked.map_leaves(|leaf| leaf.at(0, layer - numbers.start));
                    let own = inputs.as_ref().map(|inputs| inputs.at(0, layer));
                    let context = self.context(layer, &positions, &ropes);
                    let kind = self.config.kind(layer);
                    let earlier = if kind.is_full { &mut of_full } else { &mut of_sliding };
                    let run = |(x, block, own, earlier): &LayerInputs| {
                        trace::scope("block", || {
                            let input = block.attention_norm.apply(x);
                            let (added, seen) = block.attention.apply(&input, &context, earlier.as_ref());
                            (block.finish(x, &added, own.as_ref()), seen)
                        })
                    };
                    let all = (x, block, own, earlier.clone());
                    let (next, seen) = match &self.options.remat {
                        RematPolicy::None => run(&all),
                        policy => checkpoint(policy, &all, run),
                    };
                    x = next;
                    *earlier = Some(seen);
                }
            }
            Hidden { states: self.norm.apply(&x), auxiliary: Tensor::zeros(DType::F32, &[]) }
        })
    }

    #[track_caller]
    fn ready_lm_head(&self) -> Box<dyn Fn(&Tensor) -> Tensor + '_> {
        let compute = self.options.precision.compute();
        match &self.lm_head {
            Some(head) => {
                let weight = head.weight.at_use(compute, &["embed", "vocab"]);
                Box::new(move |hidden| {
                    trace::scope("lm_head", || self.finished_logits(weight.matmul_as(hidden, DType::F32)))
                })
            }
            None => {
                let table = self.token_embedding.ready(compute);
                Box::new(move |hidden| trace::scope("lm_head", || self.finished_logits(table.scores(hidden))))
            }
        }
    }

    #[track_caller]
    fn lm_head_weight(&self) -> Option<Tensor> {
        if self.config.logit_soft_cap.is_some() {
            return None;
        }
        let compute = self.options.precision.compute();
        Some(match &self.lm_head {
            Some(head) => head.weight.at_use(compute, &["embed", "vocab"]).dense(compute).transpose(&[1, 0]),
            None => self.token_embedding.ready(compute).weight.dense(compute),
        })
    }

    #[track_caller]
    fn cache(&self, batch: usize, positions: usize) -> KvCache {
        let layers = self.config.num_cached_layers();
        KvCache::zeros(self.options.kv_cache_dtype(), layers, batch, positions, self.config.cached_heads())
    }

    #[track_caller]
    fn extend_part(&self, input: PartInput<'_>, start: &CacheStart, cache: &KvCache) -> (Tensor, KvCache) {
        let PartInput::Tokens(tokens, given) = input else {
            trace::refuse("layers of Gemma 4 share keys and values, and read the tokens: they have no parts");
        };
        trace::scope("gemma4", || {
            let positions = start.positions(tokens.dim(1), cache.capacity());
            let ropes = self.ropes(&positions.queries);
            let embedded = self.embedded(tokens);
            let embedded = given.map_or(embedded.clone(), |given| given.put_into(&embedded));
            let x = carried(&embedded);
            let inputs = self.per_layer_inputs(tokens, given, &x);
            let segment = |before: &(Tensor, KvCache), layers: &Gemma4Block, numbers: Range<usize>| {
                let context = self.context(numbers.start, &positions, &ropes);
                let layer = |(x, cache): &(Tensor, KvCache),
                             (block, layer, own): &(Gemma4Block, Tensor, Option<Tensor>),
                             _: usize| {
                    trace::scope("block", || {
                        let input = block.attention_norm.apply(x);
                        let at = CachePosition { layer, start };
                        let (added, cache) = block.attention.extend(&input, &context, cache, &at);
                        ((block.finish(x, &added, own.as_ref()), cache), ())
                    })
                };
                let own = inputs.as_ref().map(|inputs| inputs.slice(0, numbers.clone()));
                let all = (layers.clone(), self.in_cache(&numbers), own);
                infer_repeating_pattern(self.options.layers, before, &all, 1, layer)
            };
            let ((x, cache), ()) = self.layers.run(&(x, cache.clone()), segment);
            (self.norm.apply(&x), cache)
        })
    }
}

impl Gemma4 {
    /// The layers of the KV cache that neighbouring layers of equal form read, `i32`.
    #[track_caller]
    fn in_cache(&self, numbers: &Range<usize>) -> Tensor {
        match self.config.cached_layer(numbers.start) {
            Some(one) if self.config.kind(numbers.start).is_shared => {
                Tensor::full(DType::I32, &[numbers.len()], one as f64)
            }
            _ => KvCache::numbers(numbers.clone()),
        }
    }
}
