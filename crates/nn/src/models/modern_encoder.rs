//! Encoders as ModernBERT: rotary positions, norms before each half of a layer, gated feed-forwards, windows in most layers.

use serde::{Deserialize, Serialize};
use tensor::DType;
use trace::{Key, Tensor, Tree};

use crate::error::Error;
use crate::init::Init;
use crate::layers::{
    Activation, AttentionMask, Bias, Context, Embedding, GatedFeedForward, Heads, LayerNorm, MultiHeadAttention,
    Positions, Rope, RopeScaling,
};
use crate::models::language::{RunOptions, carried};
use crate::quant::map_weights;
use crate::stacked::{init_stacked, run_on_all, run_repeating_pattern};

/// Sizes of such an encoder.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModernEncoderConfig {
    /// Size of the vocabulary.
    pub vocab_size: usize,
    /// Width.
    pub hidden_size: usize,
    /// Layers.
    pub num_hidden_layers: usize,
    /// Heads.
    pub num_attention_heads: usize,
    /// Width inside the feed-forward.
    pub intermediate_size: usize,
    /// Of the gates.
    pub hidden_activation: Activation,
    /// Tokens of the longest text.
    pub max_position_embeddings: usize,
    /// Of the norms.
    pub norm_eps: f64,
    /// Whether norms have a bias.
    pub norm_bias: Bias,
    /// Whether matmuls of attention have a bias.
    pub attention_bias: Bias,
    /// Whether matmuls of feed-forwards have a bias.
    pub mlp_bias: Bias,
    /// The first of every so many layers attends to everything, the others to a window.
    pub global_every: usize,
    /// Positions of a window, on both sides together.
    pub local_attention: usize,
    /// Base of the rotary angles of layers that attend to everything.
    pub global_rope_theta: f64,
    /// Base of the rotary angles of the others.
    pub local_rope_theta: f64,
    /// Standard deviation of initial weights.
    pub initializer_range: f64,
}

impl ModernEncoderConfig {
    /// Refuses sizes that fit together nowhere.
    pub fn checked(self) -> Result<ModernEncoderConfig, Error> {
        let sizes = [
            ("vocab_size", self.vocab_size),
            ("hidden_size", self.hidden_size),
            ("intermediate_size", self.intermediate_size),
            ("num_attention_heads", self.num_attention_heads),
            ("max_position_embeddings", self.max_position_embeddings),
        ];
        if let Some((name, _)) = sizes.iter().find(|(_, size)| *size == 0) {
            return Err(Error::config(format!("{name} is 0")));
        }
        let (width, heads) = (self.hidden_size, self.num_attention_heads);
        if !width.is_multiple_of(2 * heads) {
            return Err(Error::config(format!(
                "hidden_size {width} is not an even multiple of num_attention_heads {heads}"
            )));
        }
        if !(2..=64).contains(&self.global_every) || self.num_hidden_layers < 2 {
            return Err(Error::config(format!(
                "one of every {} of {} layers attends to everything; from 2 to 64, of at least 2 layers, are supported",
                self.global_every, self.num_hidden_layers
            )));
        }
        Ok(self)
    }

    fn norm(&self) -> LayerNorm {
        let norm = LayerNorm::init(self.hidden_size, self.norm_eps);
        if self.norm_bias == Bias::None { LayerNorm { bias: None, ..norm } } else { norm }
    }
}

/// One layer.
#[derive(Clone, Debug, Tree)]
pub struct ModernEncoderBlock {
    /// Before attention; the first layer has none.
    pub attention_norm: Option<LayerNorm>,
    /// Attention to both sides.
    pub attention: MultiHeadAttention,
    /// Before the feed-forward.
    pub feed_forward_norm: LayerNorm,
    /// Feed-forward.
    pub feed_forward: GatedFeedForward,
}

/// The first layer, which has no norm before attention.
#[derive(Clone, Debug, Tree)]
pub struct FirstEncoderLayer {
    /// The layer, stacked alone.
    pub layers: ModernEncoderBlock,
}

/// The model.
#[derive(Clone, Debug, Tree)]
pub struct ModernEncoder {
    /// Tokens.
    pub token_embedding: Embedding,
    /// Of embeddings.
    pub embedding_norm: LayerNorm,
    /// The first layer.
    pub first: FirstEncoderLayer,
    /// Layers, stacked.
    pub layers: ModernEncoderBlock,
    /// After the layers.
    pub norm: LayerNorm,
    /// Sizes.
    #[tree(skip)]
    pub config: ModernEncoderConfig,
    /// How it is run.
    #[tree(skip)]
    pub options: RunOptions,
}

map_weights!(ModernEncoderBlock: attention, feed_forward);
map_weights!(FirstEncoderLayer: layers);
map_weights!(ModernEncoder: token_embedding, first, layers);

impl ModernEncoderBlock {
    #[track_caller]
    fn init(key: &Key, config: &ModernEncoderConfig, attention_norm: Option<LayerNorm>) -> ModernEncoderBlock {
        let keys = key.split(2);
        let weight = Init::Normal(config.initializer_range);
        let (width, heads) = (config.hidden_size, config.num_attention_heads);
        let heads = Heads { num_heads: heads, num_kv_heads: heads, head_dim: width / heads.max(1) };
        let biases = (config.attention_bias, config.attention_bias);
        let sizes = (width, config.intermediate_size);
        ModernEncoderBlock {
            attention_norm,
            attention: MultiHeadAttention::init(&keys[0], width, heads, biases, (weight, weight)),
            feed_forward_norm: config.norm(),
            feed_forward: GatedFeedForward::init(&keys[1], sizes, config.hidden_activation, weight)
                .with_bias(config.mlp_bias),
        }
    }

    #[track_caller]
    fn apply(&self, x: &Tensor, context: &Context<'_>) -> Tensor {
        trace::scope("block", || {
            let input = self.attention_norm.as_ref().map_or(x.clone(), |norm| norm.apply(x));
            let x = x + &self.attention.apply(&input, context);
            carried(&(&x + &self.feed_forward.apply(&self.feed_forward_norm.apply(&x))))
        })
    }
}

impl ModernEncoder {
    /// Drawn parameters.
    #[track_caller]
    pub fn init(key: &Key, config: &ModernEncoderConfig, options: &RunOptions) -> ModernEncoder {
        let keys = key.split(3);
        let weight = Init::Normal(config.initializer_range);
        let others = config.num_hidden_layers.saturating_sub(1);
        let model = ModernEncoder {
            token_embedding: Embedding::init(&keys[0], config.vocab_size, config.hidden_size, weight),
            embedding_norm: config.norm(),
            first: FirstEncoderLayer {
                layers: init_stacked(&keys[1], 1, |key| ModernEncoderBlock::init(key, config, None)),
            },
            layers: init_stacked(&keys[2], others, |key| ModernEncoderBlock::init(key, config, Some(config.norm()))),
            norm: config.norm(),
            config: config.clone(),
            options: options.clone(),
        };
        model.map_leaves(|leaf| leaf.cast(options.precision.params()))
    }

    /// Hidden states `[batch, positions, width]` of tokens `i32 [batch, positions]`: of each text the first `lengths`, `i32 [batch]`.
    #[track_caller]
    pub fn hidden(&self, tokens: &Tensor, lengths: &Tensor) -> Tensor {
        trace::scope("encoder", || {
            let config = &self.config;
            let positions = Positions::of_lengths(tokens.dims(), lengths);
            let head = config.hidden_size / config.num_attention_heads.max(1);
            let places = Tensor::iota(DType::I32, &[tokens.dim(1)], 0);
            let rope = |theta: f64| Rope::new(&places, head, theta, &RopeScaling::None);
            let (global, local) = (rope(config.global_rope_theta), rope(config.local_rope_theta));
            let context = |mask: AttentionMask, rope| Context {
                positions: &positions,
                mask,
                implementation: self.options.attention,
                rope: Some(rope),
                query_scale: None,
            };
            let everywhere = context(AttentionMask::Full, &global);
            let near = context(AttentionMask::Around(config.local_attention / 2), &local);
            let x = self.token_embedding.apply(tokens, self.options.precision.compute());
            let x = carried(&self.embedding_norm.apply(&x));
            let remat = &self.options.remat;
            let (x, ()) = run_on_all(remat, &x, &self.first.layers, |x, block| (block.apply(x, &everywhere), ()));
            let (x, ()) = run_repeating_pattern(remat, &x, &self.layers, config.global_every, |x, block, place| {
                // The layer before these was the first of a pattern.
                let is_global = place + 1 == config.global_every;
                (block.apply(x, if is_global { &everywhere } else { &near }), ())
            });
            self.norm.apply(&x)
        })
    }
}
