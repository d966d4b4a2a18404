//! The Llama family: rotary positions, norms, feed-forwards or experts; Mistral, Mixtral, Qwen, Gemma, DeepSeek, Phi, OLMo, gpt-oss,
//! Llama 4 and others by their choices.

mod config;
mod norm;

use std::ops::Range;

use tensor::DType;
use trace::{Key, Path, Tensor, Tree};

pub use self::config::{
    DecoderNormKind, DenseLayers, Experts, FeedForwardKind, GlobalLayers, GlobalPositions, Head, HeadNorm,
    InterleavedExperts, LlamaConfig, Norms, ResidualForm, Style, WindowKind,
};
pub use self::norm::DecoderNorm;

use crate::init::Init;
use crate::layers::{
    Bias, CachePosition, CacheStart, Context, Embedding, ExpertBiases, ExpertSizes, FeedForward, GatedFeedForward,
    KvCache, Linear, MixtureOfExperts, MultiHeadAttention, MultiHeadLatentAttention, Positions, Rope, RopeScaling,
    Usage,
};
use crate::models::language::{
    Hidden, LanguageModel, ModelPart, PartCut, PartInput, RunOptions, carried, constrained_logits, in_part,
};
use crate::models::layer_stack::LayerStack;
use crate::quant::{InputAxis, MapWeights, Weight, map_weights};
use crate::stacked::{concatenated, infer_repeating_pattern, init_stacked, run_on_all, run_repeating_pattern};

/// What a layer does with each position.
#[derive(Clone, Debug, Tree)]
#[allow(clippy::large_enum_variant, reason = "a model has one of these for all of its layers")]
pub enum PositionWise {
    /// One feed-forward with a gate.
    Dense(#[tree(rename = "dense")] GatedFeedForward),
    /// One feed-forward without a gate.
    Plain(#[tree(rename = "plain")] FeedForward),
    /// A choice of several.
    Experts(#[tree(rename = "experts")] MixtureOfExperts),
}

/// How a layer looks at other positions. Its parameters have the paths of whichever it is.
#[derive(Clone, Debug)]
#[allow(clippy::large_enum_variant, reason = "a model has one or two of these")]
pub enum Attention {
    /// Each head of keys has a projection of its own.
    Heads(MultiHeadAttention),
    /// Multi-head latent attention (MLA): heads come from a compressed vector.
    MultiHeadLatent(MultiHeadLatentAttention),
}

impl Tree for Attention {
    fn visit(&self, path: &mut trace::Path, f: &mut dyn FnMut(&trace::Path, &Tensor)) {
        match self {
            Attention::Heads(heads) => heads.visit(path, f),
            Attention::MultiHeadLatent(mla) => mla.visit(path, f),
        }
    }

    fn map(&self, path: &mut trace::Path, f: &mut dyn FnMut(&trace::Path, &Tensor) -> Tensor) -> Self {
        match self {
            Attention::Heads(heads) => Attention::Heads(heads.map(path, f)),
            Attention::MultiHeadLatent(mla) => Attention::MultiHeadLatent(mla.map(path, f)),
        }
    }
}

impl MapWeights for Attention {
    fn map_weights_at(
        &self,
        path: &mut trace::Path,
        f: &mut dyn FnMut(&trace::Path, &Weight, InputAxis) -> Weight,
    ) -> Self {
        match self {
            Attention::Heads(heads) => Attention::Heads(heads.map_weights_at(path, f)),
            Attention::MultiHeadLatent(mla) => Attention::MultiHeadLatent(mla.map_weights_at(path, f)),
        }
    }
}

impl MapWeights for PositionWise {
    fn map_weights_at(
        &self,
        path: &mut trace::Path,
        f: &mut dyn FnMut(&trace::Path, &Weight, InputAxis) -> Weight,
    ) -> Self {
        match self {
            PositionWise::Dense(dense) => {
                PositionWise::Dense(path.within("dense", |path| dense.map_weights_at(path, f)))
            }
            PositionWise::Plain(plain) => {
                PositionWise::Plain(path.within("plain", |path| plain.map_weights_at(path, f)))
            }
            PositionWise::Experts(experts) => {
                PositionWise::Experts(path.within("experts", |path| experts.map_weights_at(path, f)))
            }
        }
    }
}

impl Attention {
    #[track_caller]
    fn init(key: &Key, config: &LlamaConfig, weight: Init) -> Attention {
        let (width, scale) = (config.hidden_size, config.style.score_scale);
        if let Some(mla) = config.mla {
            let sizes = (width, config.num_attention_heads);
            let norm = |width: usize| config.rms_norm(width);
            let attention = MultiHeadLatentAttention::init(key, sizes, mla, config.output_bias, weight, norm);
            return Attention::MultiHeadLatent(MultiHeadLatentAttention { scale, ..attention });
        }
        let head_norm = |heads: usize| match config.style.head_norm {
            HeadNorm::None | HeadNorm::AfterRotary => None,
            HeadNorm::Rms => Some(config.rms_norm(config.head_dim)),
            HeadNorm::RmsOfAllHeads => Some(config.rms_norm(heads * config.head_dim)),
        };
        let biases = (config.projection_bias, config.output_bias);
        let attention = MultiHeadAttention::init(key, width, config.heads(), biases, (weight, weight));
        Attention::Heads(MultiHeadAttention {
            query_norm: head_norm(config.num_attention_heads),
            key_norm: head_norm(config.num_key_value_heads),
            sinks: (config.style.sinks == Bias::Zero).then(|| Tensor::zeros(DType::F32, &[config.num_attention_heads])),
            scale,
            soft_cap: config.style.score_soft_cap,
            pairs: config.style.rope_pairs,
            rotated_norm: (config.style.head_norm == HeadNorm::AfterRotary).then_some(config.rms_norm_eps),
            ..attention
        })
    }

    #[track_caller]
    fn apply(&self, x: &Tensor, context: &Context<'_>) -> Tensor {
        match self {
            Attention::Heads(heads) => heads.apply(x, context),
            Attention::MultiHeadLatent(mla) => mla.apply(x, context),
        }
    }

    #[track_caller]
    fn extend(&self, x: &Tensor, context: &Context<'_>, cache: &KvCache, at: &CachePosition<'_>) -> (Tensor, KvCache) {
        match self {
            Attention::Heads(heads) => heads.extend(x, context, cache, at),
            Attention::MultiHeadLatent(mla) => mla.extend(x, context, cache, at),
        }
    }
}

/// One layer.
#[derive(Clone, Debug, Tree)]
pub struct LlamaBlock {
    /// Before attention.
    pub attention_norm: Option<DecoderNorm>,
    /// Attention.
    pub attention: Attention,
    /// Of what attention adds.
    pub attention_output_norm: Option<DecoderNorm>,
    /// Before the feed-forward.
    pub feed_forward_norm: Option<DecoderNorm>,
    /// Feed-forward or experts.
    pub feed_forward: PositionWise,
    /// Added to what the experts give.
    pub shared: Option<GatedFeedForward>,
    /// Of what the feed-forward adds.
    pub feed_forward_output_norm: Option<DecoderNorm>,
    /// What is done otherwise than in Llama.
    #[tree(skip)]
    pub style: Style,
}

/// What the layers at a place of the pattern know of positions.
#[derive(Clone, Debug)]
struct PlacePositions {
    /// Rotary positions.
    rope: Option<Rope>,
    /// What queries are multiplied by, `f32`, `[positions]` or `[batch, positions]`.
    query_scale: Option<Tensor>,
}

/// First layers, which have no experts.
#[derive(Clone, Debug, Tree)]
pub struct FirstLayers {
    /// Layers, stacked.
    pub layers: LayerStack<LlamaBlock>,
}
map_weights!(FirstLayers: layers);

/// The model.
#[derive(Clone, Debug, Tree)]
pub struct Llama {
    /// Tokens.
    pub token_embedding: Embedding,
    /// Layers before the others.
    pub first: Option<FirstLayers>,
    /// Layers, stacked.
    pub layers: LayerStack<LlamaBlock>,
    /// After the layers.
    pub norm: DecoderNorm,
    /// `[width, vocabulary]`, unless the head is tied.
    pub lm_head: Option<Linear>,
    /// Which layers it has.
    #[tree(skip)]
    pub part: ModelPart,
    /// Sizes.
    #[tree(skip)]
    pub config: LlamaConfig,
    /// How it is run.
    #[tree(skip)]
    pub options: RunOptions,
}

map_weights!(LlamaBlock: attention, feed_forward, shared);

impl LlamaBlock {
    #[track_caller]
    fn init(key: &Key, config: &LlamaConfig, options: &RunOptions) -> LlamaBlock {
        let keys = key.split(2);
        let weight = Init::Normal(config.initializer_range);
        let style = config.style;
        let norm = || config.norm(options.kernels.norm);
        let input_norm = || (style.norms != Norms::After).then(norm);
        let output_norm = || (style.norms != Norms::Before).then(norm);
        let sizes = (config.hidden_size, config.intermediate_size);
        let feed_forward = match (&config.experts, style.feed_forward) {
            (None, FeedForwardKind::Gated) => {
                let dense = GatedFeedForward::init(&keys[1], sizes, config.hidden_act, weight);
                PositionWise::Dense(dense.with_bias(style.feed_forward_bias))
            }
            (None, FeedForwardKind::Plain) => {
                let plain = FeedForward::init(&keys[1], sizes, config.hidden_act, weight, weight);
                PositionWise::Plain(plain.with_bias(style.feed_forward_bias))
            }
            (Some(experts), _) => {
                let sizes =
                    ExpertSizes { width: sizes.0, inner: sizes.1, experts: experts.count, chosen: experts.chosen };
                let dispatch = options.experts.unwrap_or(experts.dispatch);
                let mixture = MixtureOfExperts::init(&keys[1], sizes, config.hidden_act, dispatch, weight);
                let has_bias = experts.routing.scores.has_bias();
                let router =
                    Linear { bias: has_bias.then(|| Tensor::zeros(DType::F32, &[experts.count])), ..mixture.router };
                PositionWise::Experts(MixtureOfExperts {
                    router,
                    routing: experts.routing,
                    gating: experts.gating,
                    biases: (experts.bias == Bias::Zero).then(|| ExpertBiases::zeros(sizes)),
                    ..mixture
                })
            }
        };
        let shared = config.experts.and_then(|experts| experts.shared).map(|inner| {
            let key = keys[1].fold_in(1);
            GatedFeedForward::init(&key, (config.hidden_size, inner), config.hidden_act, weight)
        });
        LlamaBlock {
            attention_norm: input_norm(),
            attention: Attention::init(&keys[0], config, weight),
            attention_output_norm: output_norm(),
            feed_forward_norm: input_norm().filter(|_| style.residual != ResidualForm::ParallelOneNorm),
            feed_forward,
            shared,
            feed_forward_output_norm: output_norm(),
            style,
        }
    }

    /// A layer of a stack, at a place in it, whose experts read their matrices in the stack where they can.
    #[track_caller]
    fn in_stack(&self, stacked: &LlamaBlock, place: &Tensor, dtype: DType) -> LlamaBlock {
        match (&self.feed_forward, &stacked.feed_forward) {
            (PositionWise::Experts(own), PositionWise::Experts(all)) => {
                let experts = own.in_stack(all, place, dtype);
                LlamaBlock { feed_forward: PositionWise::Experts(experts), ..self.clone() }
            }
            _ => self.clone(),
        }
    }

    /// What attention reads.
    #[track_caller]
    fn attention_input(&self, x: &Tensor) -> Tensor {
        self.attention_norm.as_ref().map_or(x.clone(), |norm| norm.apply(x))
    }

    /// What one half adds, as it is added.
    #[track_caller]
    fn added(&self, norm: &Option<DecoderNorm>, added: Tensor) -> Tensor {
        let added = norm.as_ref().map_or(added.clone(), |norm| norm.apply(&added));
        if self.style.residual_scale == 1.0 { added } else { &added * self.style.residual_scale }
    }

    /// The feed-forward half after what attention made of its input, and how its experts are used.
    #[track_caller]
    fn finish(&self, x: &Tensor, input: &Tensor, attention: Tensor) -> (Tensor, Option<Usage>) {
        let after = &(x + &self.added(&self.attention_output_norm, attention));
        let normed = |x: &Tensor| self.feed_forward_norm.as_ref().map_or(x.clone(), |norm| norm.apply(x));
        let inside = match self.style.residual {
            ResidualForm::Sequential => normed(after),
            ResidualForm::Parallel => normed(x),
            ResidualForm::ParallelOneNorm => input.clone(),
        };
        let (added, usage) = match &self.feed_forward {
            PositionWise::Dense(dense) => (dense.apply(&inside), None),
            PositionWise::Plain(plain) => (plain.apply(&inside), None),
            PositionWise::Experts(experts) => {
                let (added, usage) = experts.apply_with_usage(&inside);
                let added = match &self.shared {
                    Some(shared) => added + shared.apply(&inside),
                    None => added,
                };
                (added, Some(usage))
            }
        };
        (after + &self.added(&self.feed_forward_output_norm, added), usage)
    }
}

map_weights!(Llama: token_embedding, first, layers, lm_head);

impl Llama {
    /// Drawn parameters.
    #[track_caller]
    pub fn init(key: &Key, config: &LlamaConfig, options: &RunOptions) -> Llama {
        let keys = key.split(3);
        let weight = Init::Normal(config.initializer_range);
        let dense = config.experts.and_then(|experts| experts.dense).filter(|dense| dense.count > 0);
        let first = dense.map(|dense| {
            let config = LlamaConfig { experts: None, intermediate_size: dense.inner, ..config.clone() };
            let key = keys[1].fold_in(1);
            let stacked = init_stacked(&key, dense.count, |key| LlamaBlock::init(key, &config, options));
            FirstLayers { layers: LayerStack::new(dense.count, stacked) }
        });
        let mut segments = config.segments().into_iter().map(|(numbers, has_experts)| {
            let plain = config.experts.filter(|_| !has_experts).and_then(|experts| experts.interleaved);
            let config = match plain {
                Some(plain) => LlamaConfig { experts: None, intermediate_size: plain.inner, ..config.clone() },
                None => config.clone(),
            };
            let key = if numbers.start == 0 { keys[1].clone() } else { keys[1].fold_in(numbers.start as u64 + 1) };
            let stacked = init_stacked(&key, numbers.len(), |key| LlamaBlock::init(key, &config, options));
            (numbers, stacked)
        });
        let Some(of_first) = segments.next() else { trace::refuse("the model has no layers") };
        let model = Llama {
            token_embedding: Embedding::init(&keys[0], config.vocab_size, config.hidden_size, weight),
            first,
            layers: LayerStack::of_segments(of_first, segments.collect()),
            norm: config.norm(options.kernels.norm),
            lm_head: (config.head == Head::Own)
                .then(|| Linear::init(&keys[2], config.hidden_size, config.vocab_size, config.style.head_bias, weight)),
            part: ModelPart::whole(config.num_hidden_layers),
            config: config.clone(),
            options: options.clone(),
        };
        model.map_leaves(|leaf| leaf.cast(options.precision.params()))
    }

    /// What the layers at each place of the pattern know of positions.
    #[track_caller]
    fn ropes(&self, positions: &Tensor, longest: usize) -> Vec<PlacePositions> {
        let config = &self.config;
        if let Some(long) = &config.long_rope {
            let rope = Rope::long(positions, config.rotary(), config.rope_theta, long, longest);
            return vec![PlacePositions { rope: Some(rope), query_scale: None }];
        }
        let of = |theta: f64, scaling: &RopeScaling| PlacePositions {
            rope: Some(Rope::new(positions, config.rotary(), theta, scaling)),
            query_scale: None,
        };
        let mut places = vec![of(config.rope_theta, &config.rope_scaling)];
        if let Some(layers) = &config.global_layers {
            places = vec![places.remove(0); layers.every - 1];
            places.push(match layers.positions {
                GlobalPositions::Rotary => of(layers.rope_theta, &layers.rope_scaling),
                GlobalPositions::None => PlacePositions { rope: None, query_scale: None },
                GlobalPositions::Grown { scale, floor } => {
                    let steps = (&(&positions.cast(DType::F32) + 1.0) * floor.recip()).floor();
                    let grown = &(&(&steps + 1.0).log() * scale) + 1.0;
                    PlacePositions { rope: None, query_scale: Some(grown) }
                }
            });
        }
        places
    }

    /// Activations of tokens `i32 [batch, positions]` before the first layer.
    #[track_caller]
    pub fn embed(&self, tokens: &Tensor) -> Tensor {
        self.embedded(tokens)
    }

    /// One layer alone, over activations `[batch, positions, width]` of whole sequences; `number` is that of the layer in its
    /// stack, whose pattern it follows.
    #[track_caller]
    pub fn run_layer(&self, x: &Tensor, block: &LlamaBlock, number: usize) -> Tensor {
        let positions = Positions::sequence(x.dim(1));
        let ropes = self.ropes(&positions.queries, x.dim(1));
        let contexts = self.contexts(&positions, &ropes);
        let context = &contexts[number % contexts.len()];
        let input = block.attention_input(x);
        let added = block.attention.apply(&input, context);
        block.finish(x, &input, added).0
    }

    /// What attention of the layers at each place of the pattern depends on.
    fn contexts<'a>(&self, positions: &'a Positions, places: &'a [PlacePositions]) -> Vec<Context<'a>> {
        let implementation = self.options.attention;
        let of = |(place, known): (usize, &'a PlacePositions)| Context {
            positions,
            mask: self.config.mask(place),
            implementation,
            rope: known.rope.as_ref(),
            query_scale: known.query_scale.as_ref(),
        };
        places.iter().enumerate().map(of).collect()
    }

    /// Logits as the style has them, of those of the head.
    #[track_caller]
    fn finished_logits(&self, logits: Tensor) -> Tensor {
        let Style { logit_scale, logit_soft_cap, .. } = self.config.style;
        let logits = if logit_scale == 1.0 { logits } else { &logits * logit_scale };
        let logits = match logit_soft_cap {
            Some(cap) => &(&logits * cap.recip()).tanh() * cap,
            None => logits,
        };
        constrained_logits(logits)
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
            let positions = Positions::sequence(tokens.dim(1));
            let ropes = self.ropes(&positions.queries, tokens.dim(1));
            let contexts = self.contexts(&positions, &ropes);
            let x = carried(&self.embedded(tokens));
            let layer = |x: &Tensor, block: &LlamaBlock, place: usize| {
                trace::scope("block", || {
                    let input = block.attention_input(x);
                    let added = block.attention.apply(&input, &contexts[place]);
                    let (x, usage) = block.finish(x, &input, added);
                    (carried(&x), usage)
                })
            };
            let remat = &self.options.remat;
            let x = match &self.first {
                Some(first) => {
                    let run = |x: &Tensor, layers: &LlamaBlock, numbers: Range<usize>| {
                        let remat = first.layers.remat_of(remat, &numbers);
                        run_on_all(&remat, x, layers, |x, block| layer(x, block, 0))
                    };
                    first.layers.run(&x, run).0
                }
                None => x,
            };
            let places = contexts.len();
            // Layers without experts have no usage.
            let mut usages: Vec<Usage> = Vec::new();
            let (x, ()) = self.layers.run(&x, |x, layers, numbers| {
                let remat = self.layers.remat_of(remat, &numbers);
                let shifted =
                    |x: &Tensor, block: &LlamaBlock, place: usize| layer(x, block, (numbers.start + place) % places);
                let (x, usage) = run_repeating_pattern(&remat, x, layers, places, shifted);
                usages.extend(usage);
                (x, ())
            });
            let auxiliary = match &self.config.experts {
                Some(experts) if !usages.is_empty() => {
                    let usage = concatenated(&usages);
                    &usage.load_balancing_loss(experts.chosen).mean_all() * experts.load_balancing_loss
                }
                _ => Tensor::zeros(DType::F32, &[]),
            };
            Hidden { states: self.norm.apply(&x), auxiliary }
        })
    }

    #[track_caller]
    fn ready_lm_head(&self) -> Box<dyn Fn(&Tensor) -> Tensor + '_> {
        let compute = self.options.precision.compute();
        match &self.lm_head {
            Some(head) => {
                let weight = head.weight.at_use(compute, &["embed", "vocab"]);
                Box::new(move |hidden| {
                    trace::scope("lm_head", || self.finished_logits(head.biased(weight.matmul_as(hidden, DType::F32))))
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
        let compute = self.options.precision.compute();
        let Style { logit_scale, logit_soft_cap, head_bias, .. } = self.config.style;
        if logit_scale != 1.0 || logit_soft_cap.is_some() || head_bias == Bias::Zero {
            return None;
        }
        Some(match &self.lm_head {
            Some(head) => head.weight.at_use(compute, &["embed", "vocab"]).dense(compute).transpose(&[1, 0]),
            None => self.token_embedding.ready(compute).weight.dense(compute),
        })
    }

    #[track_caller]
    fn cache(&self, batch: usize, positions: usize) -> KvCache {
        let (config, dtype, layers) = (&self.config, self.options.kv_cache_dtype(), self.part.layers.len());
        match &config.mla {
            Some(mla) => KvCache::latent(dtype, layers, batch, positions, mla),
            None => KvCache::zeros(dtype, layers, batch, positions, config.heads()),
        }
    }

    #[track_caller]
    fn extend_part(&self, input: PartInput<'_>, start: &CacheStart, cache: &KvCache) -> (Tensor, KvCache) {
        trace::scope("llama", || {
            let positions = start.positions(input.positions(), cache.capacity());
            let longest = self.options.longest_sequence.unwrap_or(cache.capacity());
            let ropes = self.ropes(&positions.queries, longest);
            let contexts = self.contexts(&positions, &ropes);
            let layer = |(x, cache): &(Tensor, KvCache), (block, layer): &(LlamaBlock, Tensor), place: usize| {
                trace::scope("block", || {
                    let input = block.attention_input(x);
                    let (added, cache) =
                        block.attention.extend(&input, &contexts[place], cache, &CachePosition { layer, start });
                    ((block.finish(x, &input, added).0, cache), ())
                })
            };
            let places = contexts.len();
            let run = |before: (Tensor, KvCache), stack: &LayerStack<LlamaBlock>, earlier: usize| {
                let segment = |before: &(Tensor, KvCache), layers: &LlamaBlock, numbers: Range<usize>| {
                    // The KV cache has the layers of this part only.
                    let number = |layer: usize| (earlier + layer).saturating_sub(self.part.layers.start);
                    let in_cache = KvCache::numbers(number(numbers.start)..number(numbers.end));
                    let first = Tensor::scalar(DType::I32, number(numbers.start) as f64);
                    let shifted = |carried: &(Tensor, KvCache), slice: &(LlamaBlock, Tensor), place: usize| {
                        let (block, number) = slice;
                        let block = block.in_stack(layers, &(number - &first), self.options.precision.compute());
                        layer(carried, &(block, number.clone()), (numbers.start + place) % places)
                    };
                    infer_repeating_pattern(self.options.layers, before, &(layers.clone(), in_cache), places, shifted)
                };
                stack.run(&before, segment).0
            };
            let x = match input {
                PartInput::Hidden(states) => states.clone(),
                PartInput::Tokens(tokens, given) => {
                    let embedded = self.embedded(tokens);
                    given.map_or(embedded.clone(), |given| given.put_into(&embedded))
                }
            };
            let before = (carried(&x), cache.clone());
            let before = self.first.as_ref().map_or(before.clone(), |first| run(before, &first.layers, 0));
            let (x, cache) = run(before, &self.layers, self.config.num_dense_layers());
            let x = match self.part.is_last() {
                true => self.norm.apply(&x),
                false => x.cast(self.options.precision.compute()),
            };
            (x, cache)
        })
    }

    fn split(&self, part: &ModelPart, cut: &mut PartCut<'_>) -> Option<Llama> {
        let mut path = Path::default();
        let (layers, dense) = (&part.layers, self.config.num_dense_layers());
        let own = layers.start.saturating_sub(dense)..layers.end.saturating_sub(dense);
        let of_first = layers.start.min(dense)..layers.end.min(dense);
        let has_table = part.is_first() || part.is_last() && self.lm_head.is_none();
        Some(Llama {
            token_embedding: match has_table {
                true => path.within("token_embedding", |path| in_part(&self.token_embedding, path, cut)),
                false => self.token_embedding.elsewhere(),
            },
            first: match self.first.as_ref().filter(|_| !of_first.is_empty()) {
                Some(first) => {
                    let layers = path
                        .within("first", |path| path.within("layers", |path| first.layers.part(path, &of_first, cut)));
                    Some(FirstLayers { layers: layers? })
                }
                None => None,
            },
            layers: path.within("layers", |path| self.layers.part(path, &own, cut))?,
            norm: path.within("norm", |path| in_part(&self.norm, path, cut)),
            lm_head: self.lm_head.as_ref().map(|head| match part.is_last() {
                true => path.within("lm_head", |path| in_part(head, path, cut)),
                false => Linear { weight: head.weight.elsewhere(), bias: None },
            }),
            part: part.clone(),
            config: self.config.clone(),
            options: self.options.clone(),
        })
    }
}
