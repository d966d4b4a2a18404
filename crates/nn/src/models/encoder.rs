//! Encoders as BERT: every position attends to every other, norms behind attention and feed-forward.

use serde::{Deserialize, Serialize};
use tensor::DType;
use trace::{Key, Tensor, Tree};

use crate::error::Error;
use crate::init::Init;
use crate::layers::{
    Activation, AttentionMask, Bias, Context, Embedding, FeedForward, Heads, LayerNorm, MultiHeadAttention, Positions,
};
use crate::models::Family;
use crate::models::language::{RunOptions, carried};
use crate::quant::map_weights;
use crate::stacked::{init_stacked, run_stacked};

/// Sizes of an encoder.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EncoderConfig {
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
    /// Inside the feed-forward.
    pub hidden_act: Activation,
    /// Rows of the table of positions.
    pub max_position_embeddings: usize,
    /// Types of tokens; 0 where the model knows none. Every token is of the first.
    pub type_vocab_size: usize,
    /// Of the norms.
    pub layer_norm_eps: f64,
    /// The token that takes no position, where positions are counted so: they begin behind its number.
    pub padding_token: Option<u32>,
    /// Standard deviation of initial weights.
    pub initializer_range: f64,
    /// How files name its tensors.
    pub family: Family,
}

impl EncoderConfig {
    /// Tokens of the longest text.
    pub fn max_length(&self) -> usize {
        let before = self.padding_token.map_or(0, |token| token as usize + 1);
        self.max_position_embeddings.saturating_sub(before)
    }

    /// Refuses sizes that fit together nowhere.
    pub fn checked(self) -> Result<EncoderConfig, Error> {
        let sizes = [
            ("vocab_size", self.vocab_size),
            ("hidden_size", self.hidden_size),
            ("intermediate_size", self.intermediate_size),
            ("num_hidden_layers", self.num_hidden_layers),
            ("num_attention_heads", self.num_attention_heads),
            ("max_position_embeddings", self.max_length()),
        ];
        if let Some((name, _)) = sizes.iter().find(|(_, size)| *size == 0) {
            return Err(Error::config(format!("{name} is 0")));
        }
        if !self.hidden_size.is_multiple_of(self.num_attention_heads) {
            let (width, heads) = (self.hidden_size, self.num_attention_heads);
            return Err(Error::config(format!("hidden_size {width} is not a multiple of num_attention_heads {heads}")));
        }
        Ok(self)
    }

    fn heads(&self) -> Heads {
        let heads = self.num_attention_heads;
        Heads { num_heads: heads, num_kv_heads: heads, head_dim: self.hidden_size / heads.max(1) }
    }
}

/// One layer.
#[derive(Clone, Debug, Tree)]
pub struct EncoderBlock {
    /// Attention of every position to every position.
    pub attention: MultiHeadAttention,
    /// Of the sum of attention and its input.
    pub attention_norm: LayerNorm,
    /// Feed-forward.
    pub feed_forward: FeedForward,
    /// Of the sum of the feed-forward and its input.
    pub feed_forward_norm: LayerNorm,
}

/// The model.
#[derive(Clone, Debug, Tree)]
pub struct Encoder {
    /// Tokens.
    pub token_embedding: Embedding,
    /// Positions.
    pub position_embedding: Embedding,
    /// Types of tokens.
    pub type_embedding: Option<Embedding>,
    /// Of the sum of the embeddings.
    pub embedding_norm: LayerNorm,
    /// Layers, stacked.
    pub layers: EncoderBlock,
    /// Sizes.
    #[tree(skip)]
    pub config: EncoderConfig,
    /// How it is run.
    #[tree(skip)]
    pub options: RunOptions,
}

map_weights!(EncoderBlock: attention, feed_forward);
map_weights!(Encoder: token_embedding, layers);

impl Encoder {
    /// Drawn parameters.
    #[track_caller]
    pub fn init(key: &Key, config: &EncoderConfig, options: &RunOptions) -> Encoder {
        let keys = key.split(4);
        let weight = Init::Normal(config.initializer_range);
        let width = config.hidden_size;
        let norm = || LayerNorm::init(width, config.layer_norm_eps);
        let model = Encoder {
            token_embedding: Embedding::init(&keys[0], config.vocab_size, width, weight),
            position_embedding: Embedding::init(&keys[1], config.max_position_embeddings, width, weight),
            type_embedding: (config.type_vocab_size > 0)
                .then(|| Embedding::init(&keys[2], config.type_vocab_size, width, weight)),
            embedding_norm: norm(),
            layers: init_stacked(&keys[3], config.num_hidden_layers, |key| {
                let keys = key.split(2);
                let biases = (Bias::Zero, Bias::Zero);
                EncoderBlock {
                    attention: MultiHeadAttention::init(&keys[0], width, config.heads(), biases, (weight, weight)),
                    attention_norm: norm(),
                    feed_forward: FeedForward::init(
                        &keys[1],
                        (width, config.intermediate_size),
                        config.hidden_act,
                        weight,
                        weight,
                    ),
                    feed_forward_norm: norm(),
                }
            }),
            config: config.clone(),
            options: options.clone(),
        };
        model.map_leaves(|leaf| leaf.cast(options.precision.params()))
    }

    /// Numbers of the positions of tokens.
    fn position_numbers(&self, tokens: &Tensor) -> Tensor {
        let Some(padding) = self.config.padding_token else { return Tensor::iota(DType::I32, tokens.dims(), 1) };
        let padding = Tensor::scalar(DType::I32, f64::from(padding));
        let ones = Tensor::ones(DType::I32, tokens.dims());
        let counted = tokens.equals(&padding.broadcast_to(tokens.dims())).select(&ones.zeros_like(), &ones);
        &counted.cumulative_sum(1) * &counted + padding
    }

    /// Hidden states `[batch, positions, width]` of tokens `i32 [batch, positions]`: of each text the first `lengths`, `i32 [batch]`.
    #[track_caller]
    pub fn hidden(&self, tokens: &Tensor, lengths: &Tensor) -> Tensor {
        trace::scope("encoder", || {
            let compute = self.options.precision.compute();
            let positions = Positions::of_lengths(tokens.dims(), lengths);
            let context = Context {
                positions: &positions,
                mask: AttentionMask::Full,
                implementation: self.options.attention,
                rope: None,
                query_scale: None,
            };
            let x = self.token_embedding.apply(tokens, compute)
                + self.position_embedding.apply(&self.position_numbers(tokens), compute);
            let x = match &self.type_embedding {
                Some(types) => x + types.apply(&Tensor::zeros(DType::I32, tokens.dims()), compute),
                None => x,
            };
            let x = carried(&self.embedding_norm.apply(&x));
            let (x, ()) = run_stacked(&self.options.remat, &x, &self.layers, |x, block| {
                trace::scope("block", || {
                    let x = block.attention_norm.apply(&(x + &block.attention.apply(x, &context)));
                    let x = block.feed_forward_norm.apply(&(&x + &block.feed_forward.apply(&x)));
                    (carried(&x), ())
                })
            });
            x
        })
    }
}
