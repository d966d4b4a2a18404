//! GPT-2: learned positions, layer norms before attention and feed-forward, a head tied to the embedding.

use serde::{Deserialize, Serialize};
use tensor::DType;
use trace::{Key, Path, Tensor, Tree};

use crate::init::Init;
use crate::layers::{
    Activation, AttentionMask, Bias, CachePosition, CacheStart, Context, Embedding, FeedForward, Heads, KvCache,
    LayerNorm, MultiHeadAttention, Positions, dropout,
};
use crate::models::language::{
    Hidden, LanguageModel, ModelPart, PartCut, PartInput, RunOptions, carried, constrained_logits, in_part,
};
use crate::quant::map_weights;
use crate::stacked::{infer_repeating_pattern, init_stacked, run_stacked};

/// Sizes, under the names of a Hugging Face `config.json`; the 124M model by default.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Gpt2Config {
    /// Tokens known.
    pub vocab_size: usize,
    /// Longest sequence.
    pub n_positions: usize,
    /// Width.
    pub n_embd: usize,
    /// Layers.
    pub n_layer: usize,
    /// Heads.
    pub n_head: usize,
    /// Width inside the feed-forward; four times the width if absent.
    pub n_inner: Option<usize>,
    /// Inside the feed-forward.
    pub activation_function: Activation,
    /// Of the norms.
    pub layer_norm_epsilon: f64,
    /// Dropout of embeddings.
    pub embd_pdrop: f64,
    /// Dropout of what attention and feed-forward add.
    pub resid_pdrop: f64,
    /// Dropout of attention weights; only plain attention can.
    pub attn_pdrop: f64,
    /// Deviation of drawn weights.
    pub initializer_range: f64,
}

impl Default for Gpt2Config {
    fn default() -> Self {
        Gpt2Config {
            vocab_size: 50257,
            n_positions: 1024,
            n_embd: 768,
            n_layer: 12,
            n_head: 12,
            n_inner: None,
            activation_function: Activation::GeluTanh,
            layer_norm_epsilon: 1e-5,
            embd_pdrop: 0.1,
            resid_pdrop: 0.1,
            attn_pdrop: 0.1,
            initializer_range: 0.02,
        }
    }
}

impl Gpt2Config {
    /// Width inside the feed-forward.
    pub fn inner(&self) -> usize {
        self.n_inner.unwrap_or(4 * self.n_embd)
    }

    /// Numbers of heads.
    pub fn heads(&self) -> Heads {
        Heads { num_heads: self.n_head, num_kv_heads: self.n_head, head_dim: self.n_embd / self.n_head.max(1) }
    }
}

/// One layer.
#[derive(Clone, Debug, Tree)]
pub struct Gpt2Block {
    /// Before attention.
    pub attention_norm: LayerNorm,
    /// Attention.
    pub attention: MultiHeadAttention,
    /// Before the feed-forward.
    pub feed_forward_norm: LayerNorm,
    /// Feed-forward.
    pub feed_forward: FeedForward,
}

/// The model.
#[derive(Clone, Debug, Tree)]
pub struct Gpt2 {
    /// Tokens, and the head.
    pub token_embedding: Embedding,
    /// Positions.
    pub position_embedding: Embedding,
    /// Layers, stacked.
    pub layers: Gpt2Block,
    /// After the layers.
    pub norm: LayerNorm,
    /// Which layers it has.
    #[tree(skip)]
    pub part: ModelPart,
    /// Sizes.
    #[tree(skip)]
    pub config: Gpt2Config,
    /// How it is run.
    #[tree(skip)]
    pub options: RunOptions,
}

map_weights!(Gpt2Block: attention, feed_forward);

impl Gpt2Block {
    #[track_caller]
    fn init(key: &Key, config: &Gpt2Config) -> Gpt2Block {
        let keys = key.split(2);
        let weight = Init::Normal(config.initializer_range);
        // What each layer adds is drawn smaller, so that the sum over layers keeps its size.
        let residual = Init::Normal(config.initializer_range / (2.0 * config.n_layer.max(1) as f64).sqrt());
        let norm = || LayerNorm::init(config.n_embd, config.layer_norm_epsilon);
        Gpt2Block {
            attention_norm: norm(),
            attention: MultiHeadAttention::init(
                &keys[0],
                config.n_embd,
                config.heads(),
                (Bias::Zero, Bias::Zero),
                (weight, residual),
            ),
            feed_forward_norm: norm(),
            feed_forward: FeedForward::init(
                &keys[1],
                (config.n_embd, config.inner()),
                config.activation_function,
                weight,
                residual,
            ),
        }
    }

    /// The feed-forward half.
    #[track_caller]
    fn finish(&self, x: &Tensor, rate: f64, key: Option<&Key>) -> Tensor {
        let added = self.feed_forward.apply(&self.feed_forward_norm.apply(x));
        x + &dropout(&added, rate, key)
    }
}

map_weights!(Gpt2: token_embedding, position_embedding, layers);

impl Gpt2 {
    /// Drawn parameters.
    #[track_caller]
    pub fn init(key: &Key, config: &Gpt2Config, options: &RunOptions) -> Gpt2 {
        let keys = key.split(3);
        let weight = Init::Normal(config.initializer_range);
        let model = Gpt2 {
            token_embedding: Embedding::init(&keys[0], config.vocab_size, config.n_embd, weight),
            position_embedding: Embedding::init(&keys[1], config.n_positions, config.n_embd, weight),
            layers: init_stacked(&keys[2], config.n_layer, |key| Gpt2Block::init(key, config)),
            norm: LayerNorm::init(config.n_embd, config.layer_norm_epsilon),
            part: ModelPart::whole(config.n_layer),
            config: config.clone(),
            options: options.clone(),
        };
        model.map_leaves(|leaf| leaf.cast(options.precision.params()))
    }

    #[track_caller]
    fn embedded(&self, tokens: &Tensor, positions: &Tensor) -> Tensor {
        trace::scope("embedding", || {
            let compute = self.options.precision.compute();
            self.token_embedding.apply(tokens, compute) + self.position_embedding.apply(positions, compute)
        })
    }
}

impl LanguageModel for Gpt2 {
    fn options(&self) -> &RunOptions {
        &self.options
    }

    #[track_caller]
    fn hidden(&self, tokens: &Tensor, key: Option<&Key>) -> Hidden {
        trace::scope("gpt2", || {
            let config = &self.config;
            let positions = Positions::sequence(tokens.dim(1));
            let context = Context {
                positions: &positions,
                mask: AttentionMask::Causal,
                implementation: self.options.attention,
                rope: None,
                query_scale: None,
            };
            let keys = key.map(|key| key.split(2));
            let of = |n: usize| keys.as_ref().and_then(|keys| keys.get(n));
            let x = carried(&dropout(&self.embedded(tokens, &positions.queries), config.embd_pdrop, of(0)));
            let layer_keys = of(1).map(|key| key.stacked(config.n_layer));
            let layers = (self.layers.clone(), layer_keys);
            let (x, ()) = run_stacked(&self.options.remat, &x, &layers, |x, (block, key)| {
                let keys = key.as_ref().map(|key| key.split(3));
                let of = |n: usize| keys.as_ref().and_then(|keys| keys.get(n));
                trace::scope("block", || {
                    let normed = block.attention_norm.apply(x);
                    let added = block.attention.apply_with_dropout(&normed, &context, config.attn_pdrop, of(2));
                    let x = x + &dropout(&added, config.resid_pdrop, of(0));
                    (carried(&block.finish(&x, config.resid_pdrop, of(1))), ())
                })
            });
            Hidden { states: self.norm.apply(&x), auxiliary: Tensor::zeros(DType::F32, &[]) }
        })
    }

    #[track_caller]
    fn ready_lm_head(&self) -> Box<dyn Fn(&Tensor) -> Tensor + '_> {
        let table = self.token_embedding.ready(self.options.precision.compute());
        Box::new(move |hidden| trace::scope("lm_head", || constrained_logits(table.scores(hidden))))
    }

    #[track_caller]
    fn lm_head_weight(&self) -> Option<Tensor> {
        let compute = self.options.precision.compute();
        Some(self.token_embedding.ready(compute).weight.dense(compute))
    }

    #[track_caller]
    fn cache(&self, batch: usize, positions: usize) -> KvCache {
        let config = &self.config;
        KvCache::zeros(self.options.kv_cache_dtype(), self.part.layers.len(), batch, positions, config.heads())
    }

    #[track_caller]
    fn extend_part(&self, input: PartInput<'_>, start: &CacheStart, cache: &KvCache) -> (Tensor, KvCache) {
        trace::scope("gpt2", || {
            let positions = start.positions(input.positions(), cache.capacity());
            let context = Context {
                positions: &positions,
                mask: AttentionMask::Causal,
                implementation: self.options.attention,
                rope: None,
                query_scale: None,
            };
            let compute = self.options.precision.compute();
            let x = match input {
                PartInput::Hidden(states) => carried(states),
                PartInput::Tokens(tokens, given) => trace::scope("embedding", || {
                    let embedded = self.token_embedding.apply(tokens, compute);
                    let embedded = given.map_or(embedded.clone(), |given| given.put_into(&embedded));
                    carried(&(embedded + self.position_embedding.apply(&positions.queries, compute)))
                }),
            };
            let layers = (self.layers.clone(), KvCache::numbers(0..self.part.layers.len()));
            let one = |(x, cache): &(Tensor, KvCache), (block, layer): &(Gpt2Block, Tensor), _: usize| {
                trace::scope("block", || {
                    let normed = block.attention_norm.apply(x);
                    let (added, cache) =
                        block.attention.extend(&normed, &context, cache, &CachePosition { layer, start });
                    ((block.finish(&(x + &added), 0.0, None), cache), ())
                })
            };
            let before = (x, cache.clone());
            let ((x, cache), ()) = infer_repeating_pattern(self.options.layers, &before, &layers, 1, one);
            let x = if self.part.is_last() { self.norm.apply(&x) } else { x.cast(compute) };
            (x, cache)
        })
    }

    fn split(&self, part: &ModelPart, cut: &mut PartCut<'_>) -> Option<Gpt2> {
        let mut path = Path::default();
        let layers = part.layers.clone();
        Some(Gpt2 {
            // The first part reads tokens with it, the last one has it as the head.
            token_embedding: match part.is_first() || part.is_last() {
                true => path.within("token_embedding", |path| in_part(&self.token_embedding, path, cut)),
                false => self.token_embedding.elsewhere(),
            },
            position_embedding: match part.is_first() {
                true => path.within("position_embedding", |path| in_part(&self.position_embedding, path, cut)),
                false => self.position_embedding.elsewhere(),
            },
            layers: path.within("layers", |path| {
                self.layers.map(path, &mut |path, leaf| cut(path, leaf, Some(layers.clone())))
            }),
            norm: path.within("norm", |path| in_part(&self.norm, path, cut)),
            part: part.clone(),
            config: self.config.clone(),
            options: self.options.clone(),
        })
    }
}
