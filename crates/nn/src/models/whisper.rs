//! Whisper: an encoder of log-mel features of speech, and a decoder of text that attends to what it makes of them.

use serde::{Deserialize, Serialize};
use tensor::DType;
use trace::{Convolution, Key, Tensor, Tree, scan};

use crate::error::Error;
use crate::init::Init;
use crate::layers::{
    Activation, AttentionMask, Bias, CachePosition, CacheStart, Context, Conv1d, Embedding, FeedForward, Heads,
    KvCache, LayerNorm, Linear, MultiHeadAttention, Positions,
};
use crate::models::language::{RunOptions, carried};
use crate::quant::map_weights;
use crate::stacked::{init_stacked, run_on_all};

/// Sizes of a Whisper.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct WhisperConfig {
    /// Size of the vocabulary.
    pub vocab_size: usize,
    /// Features of a frame.
    pub num_mel_bins: usize,
    /// Width.
    pub d_model: usize,
    /// Layers of the encoder.
    pub encoder_layers: usize,
    /// Heads of the encoder.
    pub encoder_attention_heads: usize,
    /// Width inside the feed-forward of the encoder.
    pub encoder_ffn_dim: usize,
    /// Layers of the decoder.
    pub decoder_layers: usize,
    /// Heads of the decoder.
    pub decoder_attention_heads: usize,
    /// Width inside the feed-forward of the decoder.
    pub decoder_ffn_dim: usize,
    /// Inside the feed-forward.
    pub activation_function: Activation,
    /// Positions of the encoder: half as many as frames.
    pub max_source_positions: usize,
    /// Tokens of the longest text.
    pub max_target_positions: usize,
    /// Standard deviation of initial weights.
    pub init_std: f64,
}

impl Default for WhisperConfig {
    fn default() -> WhisperConfig {
        WhisperConfig {
            vocab_size: 51_865,
            num_mel_bins: 80,
            d_model: 384,
            encoder_layers: 4,
            encoder_attention_heads: 6,
            encoder_ffn_dim: 1536,
            decoder_layers: 4,
            decoder_attention_heads: 6,
            decoder_ffn_dim: 1536,
            activation_function: Activation::Gelu,
            max_source_positions: 1500,
            max_target_positions: 448,
            init_std: 0.02,
        }
    }
}

impl WhisperConfig {
    /// Frames that the encoder takes.
    pub fn num_frames(&self) -> usize {
        self.max_source_positions.saturating_mul(2)
    }

    /// Refuses sizes that fit together nowhere.
    pub fn checked(self) -> Result<WhisperConfig, Error> {
        let sizes = [
            ("vocab_size", self.vocab_size),
            ("num_mel_bins", self.num_mel_bins),
            ("d_model", self.d_model),
            ("encoder_layers", self.encoder_layers),
            ("decoder_layers", self.decoder_layers),
            ("encoder_attention_heads", self.encoder_attention_heads),
            ("decoder_attention_heads", self.decoder_attention_heads),
            ("encoder_ffn_dim", self.encoder_ffn_dim),
            ("decoder_ffn_dim", self.decoder_ffn_dim),
            ("max_source_positions", self.max_source_positions),
            ("max_target_positions", self.max_target_positions),
        ];
        if let Some((name, _)) = sizes.iter().find(|(_, size)| *size == 0) {
            return Err(Error::config(format!("{name} is 0")));
        }
        for (name, heads) in [
            ("encoder_attention_heads", self.encoder_attention_heads),
            ("decoder_attention_heads", self.decoder_attention_heads),
        ] {
            if !self.d_model.is_multiple_of(heads) {
                return Err(Error::config(format!("d_model {} is not a multiple of {name} {heads}", self.d_model)));
            }
        }
        Ok(self)
    }

    fn heads(&self, count: usize) -> Heads {
        Heads { num_heads: count, num_kv_heads: count, head_dim: self.d_model / count.max(1) }
    }
}

/// A layer of the encoder.
#[derive(Clone, Debug, Tree)]
pub struct WhisperEncoderBlock {
    /// Before attention.
    pub attention_norm: LayerNorm,
    /// Attention of every position to every position.
    pub attention: MultiHeadAttention,
    /// Before the feed-forward.
    pub feed_forward_norm: LayerNorm,
    /// Feed-forward.
    pub feed_forward: FeedForward,
}

/// A layer of the decoder.
#[derive(Clone, Debug, Tree)]
pub struct WhisperDecoderBlock {
    /// Before attention.
    pub attention_norm: LayerNorm,
    /// Causal attention.
    pub attention: MultiHeadAttention,
    /// Before attention to the encoder.
    pub cross_attention_norm: LayerNorm,
    /// Attention to the encoder.
    pub cross_attention: MultiHeadAttention,
    /// Before the feed-forward.
    pub feed_forward_norm: LayerNorm,
    /// Feed-forward.
    pub feed_forward: FeedForward,
}

/// The half that hears.
#[derive(Clone, Debug, Tree)]
pub struct WhisperEncoder {
    /// Over three frames.
    pub first: Conv1d,
    /// Over three frames, every second.
    pub second: Conv1d,
    /// `[positions, width]`.
    pub position_embedding: Tensor,
    /// Layers, stacked.
    pub layers: WhisperEncoderBlock,
    /// After the layers.
    pub norm: LayerNorm,
}

/// The half that writes.
#[derive(Clone, Debug, Tree)]
pub struct WhisperDecoder {
    /// Tokens; also the LM head.
    pub token_embedding: Embedding,
    /// Positions.
    pub position_embedding: Embedding,
    /// Layers, stacked.
    pub layers: WhisperDecoderBlock,
    /// After the layers.
    pub norm: LayerNorm,
}

/// The model.
#[derive(Clone, Debug, Tree)]
pub struct Whisper {
    /// The half that hears.
    pub encoder: WhisperEncoder,
    /// The half that writes.
    pub decoder: WhisperDecoder,
    /// Sizes.
    #[tree(skip)]
    pub config: WhisperConfig,
    /// How it is run.
    #[tree(skip)]
    pub options: RunOptions,
}

map_weights!(WhisperEncoderBlock: attention, feed_forward);
map_weights!(WhisperDecoderBlock: attention, cross_attention, feed_forward);
map_weights!(WhisperEncoder: layers);
map_weights!(WhisperDecoder: token_embedding, layers);
map_weights!(Whisper: encoder, decoder);

/// Keys and values of what was heard, for all layers of the decoder: `[layers, batch, positions, heads, head]` each.
#[derive(Clone, Debug, Tree)]
pub struct Heard {
    /// Keys.
    pub keys: Tensor,
    /// Values.
    pub values: Tensor,
}

/// Attention whose keys have no bias.
#[track_caller]
fn attention(key: &Key, width: usize, heads: Heads, weight: Init) -> MultiHeadAttention {
    let attention = MultiHeadAttention::init(key, width, heads, (Bias::Zero, Bias::Zero), (weight, weight));
    MultiHeadAttention { key: Linear { bias: None, ..attention.key.clone() }, ..attention }
}

impl Whisper {
    /// Drawn parameters.
    #[track_caller]
    pub fn init(key: &Key, config: &WhisperConfig, options: &RunOptions) -> Whisper {
        let keys = key.split(7);
        let (width, weight) = (config.d_model, Init::Normal(config.init_std));
        let norm = || LayerNorm::init(width, 1e-5);
        let feed_forward = |key: &Key, inner: usize| {
            FeedForward::init(key, (width, inner), config.activation_function, weight, weight)
        };
        let how = Convolution::new(1).same(&[3]);
        let heads = (config.heads(config.encoder_attention_heads), config.heads(config.decoder_attention_heads));
        let encoder = WhisperEncoder {
            first: Conv1d::init(&keys[0], (config.num_mel_bins, width), [3], how.clone(), Bias::Zero, weight),
            second: Conv1d::init(&keys[1], (width, width), [3], how.stride(2), Bias::Zero, weight),
            position_embedding: weight.draw(&keys[2], DType::F32, &[config.max_source_positions, width]),
            layers: init_stacked(&keys[3], config.encoder_layers, |key| {
                let keys = key.split(2);
                WhisperEncoderBlock {
                    attention_norm: norm(),
                    attention: attention(&keys[0], width, heads.0, weight),
                    feed_forward_norm: norm(),
                    feed_forward: feed_forward(&keys[1], config.encoder_ffn_dim),
                }
            }),
            norm: norm(),
        };
        let decoder = WhisperDecoder {
            token_embedding: Embedding::init(&keys[4], config.vocab_size, width, weight),
            position_embedding: Embedding::init(&keys[5], config.max_target_positions, width, weight),
            layers: init_stacked(&keys[6], config.decoder_layers, |key| {
                let keys = key.split(3);
                WhisperDecoderBlock {
                    attention_norm: norm(),
                    attention: attention(&keys[0], width, heads.1, weight),
                    cross_attention_norm: norm(),
                    cross_attention: attention(&keys[1], width, heads.1, weight),
                    feed_forward_norm: norm(),
                    feed_forward: feed_forward(&keys[2], config.decoder_ffn_dim),
                }
            }),
            norm: norm(),
        };
        let model = Whisper { encoder, decoder, config: config.clone(), options: options.clone() };
        model.map_leaves(|leaf| leaf.cast(options.precision.params()))
    }

    /// What the decoder attends to, of features `f32 [batch, frames, mel bins]`.
    #[track_caller]
    pub fn hear(&self, features: &Tensor) -> Heard {
        trace::scope("whisper_encoder", || {
            let encoder = &self.encoder;
            let compute = self.options.precision.compute();
            let x = encoder.first.apply(&features.cast(compute)).gelu();
            let x = encoder.second.apply(&x).gelu();
            let x = carried(&(x + encoder.position_embedding.cast(compute)));
            let positions = Positions::sequence(x.dim(1));
            let context = Context {
                positions: &positions,
                mask: AttentionMask::Full,
                implementation: self.options.attention,
                rope: None,
                query_scale: None,
            };
            let (x, ()) = run_on_all(&self.options.remat, &x, &encoder.layers, |x, block| {
                let x = x + &block.attention.apply(&block.attention_norm.apply(x), &context);
                let x = &x + &block.feed_forward.apply(&block.feed_forward_norm.apply(&x));
                (carried(&x), ())
            });
            let states = encoder.norm.apply(&x);
            let ((), (keys, values)) = scan(&(), &self.decoder.layers, None, |(), block: &WhisperDecoderBlock| {
                ((), block.cross_attention.keys_values(&states))
            });
            Heard { keys, values }
        })
    }

    /// An empty KV cache for so many positions.
    #[track_caller]
    pub fn cache(&self, batch: usize, positions: usize) -> KvCache {
        let heads = self.config.heads(self.config.decoder_attention_heads);
        KvCache::zeros(self.options.kv_cache_dtype(), self.config.decoder_layers, batch, positions, heads)
    }

    /// Logits `f32 [batch, vocabulary]` after the last of more tokens `[batch, more]`, which follow those in the KV cache.
    #[track_caller]
    pub fn extend(&self, tokens: &Tensor, start: &CacheStart, cache: &KvCache, heard: &Heard) -> (Tensor, KvCache) {
        trace::scope("whisper_decoder", || {
            let decoder = &self.decoder;
            let compute = self.options.precision.compute();
            let positions = start.positions(tokens.dim(1), cache.capacity());
            let implementation = self.options.attention;
            let context = |positions, mask| Context { positions, mask, implementation, rope: None, query_scale: None };
            let to_all = Positions {
                queries: positions.queries.clone(),
                keys: Tensor::iota(DType::I32, &[heard.keys.dim(2)], 0),
                segments: None,
                is_sequence: false,
            };
            let (causal, all) = (context(&positions, AttentionMask::Causal), context(&to_all, AttentionMask::Full));
            let x = decoder.token_embedding.apply(tokens, compute);
            let x = carried(&(x + decoder.position_embedding.apply(&positions.queries, compute)));
            let numbers = KvCache::numbers(0..self.config.decoder_layers);
            let layers = (decoder.layers.clone(), heard.clone(), numbers);
            let ((x, cache), ()) = scan(&(x, cache.clone()), &layers, None, |(x, cache), (block, heard, layer)| {
                trace::scope("block", || {
                    let input = block.attention_norm.apply(x);
                    let (added, cache) =
                        block.attention.extend(&input, &causal, cache, &CachePosition { layer, start });
                    let x = x + &added;
                    let input = block.cross_attention_norm.apply(&x);
                    let x = &x + &block.cross_attention.attend_to(&input, &heard.keys, &heard.values, &all);
                    let x = &x + &block.feed_forward.apply(&block.feed_forward_norm.apply(&x));
                    ((x, cache), ())
                })
            });
            let last = x.at(1, x.dim(1).saturating_sub(1));
            (decoder.token_embedding.ready(compute).scores(&decoder.norm.apply(&last)), cache)
        })
    }
}
