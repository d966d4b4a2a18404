//! CLIP: texts and images as vectors of one space.

use tensor::DType;
use trace::{Key, Tensor, Tree};

use crate::init::Init;
use crate::layers::{
    Activation, AttentionMask, Bias, Context, Embedding, FeedForward, Heads, LayerNorm, Linear, MultiHeadAttention,
    Positions,
};
use crate::models::language::{RunOptions, carried};
use crate::models::vision::{VisionConfig, VisionTower};
use crate::models::vit::VitBlock;
use crate::quant::map_weights;
use crate::stacked::{init_stacked, run_stacked};

/// Sizes of the half that reads texts.
#[derive(Clone, Debug, PartialEq)]
pub struct ClipTextConfig {
    /// Size of the vocabulary.
    pub vocab_size: usize,
    /// Width.
    pub hidden_size: usize,
    /// Width inside the feed-forward.
    pub intermediate_size: usize,
    /// Layers.
    pub num_hidden_layers: usize,
    /// Heads.
    pub num_attention_heads: usize,
    /// Tokens of the longest text.
    pub max_position_embeddings: usize,
    /// Inside the feed-forward.
    pub hidden_act: Activation,
    /// Of the norms.
    pub layer_norm_eps: f64,
}

/// Sizes of a CLIP.
#[derive(Clone, Debug, PartialEq)]
pub struct ClipConfig {
    /// The half that reads texts.
    pub text: ClipTextConfig,
    /// The half that reads images.
    pub vision: VisionConfig,
    /// Width of the vectors.
    pub projection_dim: usize,
}

/// The half that reads texts.
#[derive(Clone, Debug, Tree)]
pub struct ClipText {
    /// Tokens.
    pub token_embedding: Embedding,
    /// Positions.
    pub position_embedding: Embedding,
    /// Layers, stacked.
    pub layers: VitBlock,
    /// After the layers.
    pub norm: LayerNorm,
    /// `[width, width of the vectors]`.
    pub projection: Linear,
    /// How it is run.
    #[tree(skip)]
    pub options: RunOptions,
}

/// The half that reads images.
#[derive(Clone, Debug, Tree)]
pub struct ClipVision {
    /// The tower.
    pub tower: VisionTower,
    /// Of the state of the class token.
    pub norm: LayerNorm,
    /// `[width, width of the vectors]`.
    pub projection: Linear,
}

map_weights!(VitBlock: attention, feed_forward);
map_weights!(ClipText: token_embedding, layers, projection);

impl ClipText {
    /// Drawn parameters.
    #[track_caller]
    pub fn init(key: &Key, config: &ClipConfig, options: &RunOptions) -> ClipText {
        let keys = key.split(4);
        let (text, weight) = (&config.text, Init::Normal(0.02));
        let (width, heads) = (text.hidden_size, text.num_attention_heads);
        let heads = Heads { num_heads: heads, num_kv_heads: heads, head_dim: width / heads.max(1) };
        let norm = || LayerNorm::init(width, text.layer_norm_eps);
        let block = |key: &Key| {
            let keys = key.split(2);
            let sizes = (width, text.intermediate_size);
            VitBlock {
                attention_norm: norm(),
                attention: MultiHeadAttention::init(&keys[0], width, heads, (Bias::Zero, Bias::Zero), (weight, weight)),
                feed_forward_norm: norm(),
                feed_forward: FeedForward::init(&keys[1], sizes, text.hidden_act, weight, weight),
            }
        };
        let model = ClipText {
            token_embedding: Embedding::init(&keys[0], text.vocab_size, width, weight),
            position_embedding: Embedding::init(&keys[1], text.max_position_embeddings, width, weight),
            layers: init_stacked(&keys[2], text.num_hidden_layers, block),
            norm: norm(),
            projection: Linear::init(&keys[3], width, config.projection_dim, Bias::None, weight),
            options: options.clone(),
        };
        model.map_leaves(|leaf| leaf.cast(options.precision.params()))
    }

    /// Vectors `[batch, positions, width of the vectors]` of tokens `i32 [batch, positions]`; that of a text is the one of its last token.
    #[track_caller]
    pub fn vectors(&self, tokens: &Tensor) -> Tensor {
        trace::scope("clip_text", || {
            let compute = self.options.precision.compute();
            let positions = Positions::sequence(tokens.dim(1));
            let context = Context {
                positions: &positions,
                mask: AttentionMask::Causal,
                implementation: self.options.attention,
                rope: None,
                query_scale: None,
            };
            let numbers = Tensor::iota(DType::I32, tokens.dims(), 1);
            let x = self.token_embedding.apply(tokens, compute) + self.position_embedding.apply(&numbers, compute);
            let (x, ()) = run_stacked(&self.options.remat, &carried(&x), &self.layers, |x, block| {
                trace::scope("block", || {
                    let x = x + &block.attention.apply(&block.attention_norm.apply(x), &context);
                    let added = block.feed_forward.apply(&block.feed_forward_norm.apply(&x));
                    (carried(&(&x + &added)), ())
                })
            });
            self.projection.apply(&self.norm.apply(&x))
        })
    }
}

impl ClipVision {
    /// Drawn parameters.
    #[track_caller]
    pub fn init(key: &Key, config: &ClipConfig, options: &RunOptions) -> ClipVision {
        let keys = key.split(2);
        let width = config.vision.hidden_size;
        let model = ClipVision {
            tower: VisionTower::init(&keys[0], &config.vision, options),
            norm: LayerNorm::init(width, config.vision.layer_norm_eps),
            projection: Linear::init(&keys[1], width, config.projection_dim, Bias::None, Init::Normal(0.02)),
        };
        model.map_leaves(|leaf| leaf.cast(options.precision.params()))
    }

    /// Vectors `f32 [batch, width of the vectors]` of images `[batch, height, width, colours]`.
    #[track_caller]
    pub fn vectors(&self, images: &Tensor) -> Tensor {
        let class = self.tower.hidden(images).at(1, 0);
        self.projection.apply(&self.norm.apply(&class)).cast(DType::F32)
    }
}
