//! The vision transformer: patches of an image as tokens.

use serde::{Deserialize, Serialize};
use tensor::DType;
use trace::{Convolution, Key, Tensor, Tree};

use crate::error::Error;
use crate::init::Init;
use crate::layers::{
    Activation, AttentionMask, Bias, Context, Conv2d, FeedForward, Heads, LayerNorm, Linear, MultiHeadAttention,
    Positions, dropout,
};
use crate::models::language::{RunOptions, carried};
use crate::stacked::{init_stacked, run_stacked};

/// Sizes; ViT-B/16 for images of 224 by default.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct VitConfig {
    /// Side of an image.
    pub image_size: usize,
    /// Side of a patch.
    pub patch_size: usize,
    /// Colours of an image.
    pub num_channels: usize,
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
    /// Of the norms.
    pub layer_norm_eps: f64,
    /// Dropout of what attention and feed-forward add.
    pub dropout: f64,
    /// Classes.
    pub num_classes: usize,
}

impl VitConfig {
    /// Refuses sizes that fit together nowhere.
    pub fn checked(self) -> Result<VitConfig, Error> {
        let sizes = [
            ("image_size", self.image_size),
            ("patch_size", self.patch_size),
            ("num_channels", self.num_channels),
            ("hidden_size", self.hidden_size),
            ("num_hidden_layers", self.num_hidden_layers),
            ("num_attention_heads", self.num_attention_heads),
            ("intermediate_size", self.intermediate_size),
            ("num_classes", self.num_classes),
            ("image_size / patch_size", self.image_size / self.patch_size.max(1)),
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
}

impl Default for VitConfig {
    fn default() -> Self {
        VitConfig {
            image_size: 224,
            patch_size: 16,
            num_channels: 3,
            hidden_size: 768,
            num_hidden_layers: 12,
            num_attention_heads: 12,
            intermediate_size: 3072,
            hidden_act: Activation::Gelu,
            layer_norm_eps: 1e-12,
            dropout: 0.0,
            num_classes: 1000,
        }
    }
}

/// One layer.
#[derive(Clone, Debug, Tree)]
pub struct VitBlock {
    /// Before attention.
    pub attention_norm: LayerNorm,
    /// Attention of every patch to every patch.
    pub attention: MultiHeadAttention,
    /// Before the feed-forward.
    pub feed_forward_norm: LayerNorm,
    /// Feed-forward.
    pub feed_forward: FeedForward,
}

/// The model.
#[derive(Clone, Debug, Tree)]
pub struct Vit {
    /// A matmul with each patch.
    pub patches: Conv2d,
    /// `[1, 1, width]`, the token whose state is classified.
    pub class_embedding: Tensor,
    /// `[1 + patches, width]`.
    pub position_embedding: Tensor,
    /// Layers, stacked.
    pub layers: VitBlock,
    /// After the layers.
    pub norm: LayerNorm,
    /// `[width, classes]`.
    pub head: Linear,
    /// Sizes.
    #[tree(skip)]
    pub config: VitConfig,
    /// How it is run.
    #[tree(skip)]
    pub options: RunOptions,
}

impl Vit {
    /// Drawn parameters.
    #[track_caller]
    pub fn init(key: &Key, config: &VitConfig, options: &RunOptions) -> Vit {
        let keys = key.split(5);
        let (width, weight) = (config.hidden_size, Init::TruncatedNormal(0.02));
        let side = config.image_size / config.patch_size.max(1);
        let size = [config.patch_size, config.patch_size];
        let how = Convolution::new(2).stride(config.patch_size);
        let heads = Heads {
            num_heads: config.num_attention_heads,
            num_kv_heads: config.num_attention_heads,
            head_dim: width / config.num_attention_heads.max(1),
        };
        let block = |key: &Key| {
            let keys = key.split(2);
            let norm = || LayerNorm::init(width, config.layer_norm_eps);
            let sizes = (width, config.intermediate_size);
            VitBlock {
                attention_norm: norm(),
                attention: MultiHeadAttention::init(&keys[0], width, heads, (Bias::Zero, Bias::Zero), (weight, weight)),
                feed_forward_norm: norm(),
                feed_forward: FeedForward::init(&keys[1], sizes, config.hidden_act, weight, weight),
            }
        };
        let model = Vit {
            patches: Conv2d::init(&keys[0], (config.num_channels, width), size, how, Bias::Zero, weight),
            class_embedding: weight.draw(&keys[1], DType::F32, &[1, 1, width]),
            position_embedding: weight.draw(&keys[2], DType::F32, &[1 + side * side, width]),
            layers: init_stacked(&keys[3], config.num_hidden_layers, block),
            norm: LayerNorm::init(width, config.layer_norm_eps),
            head: Linear::init(&keys[4], width, config.num_classes, Bias::Zero, Init::Zeros),
            config: config.clone(),
            options: options.clone(),
        };
        model.map_leaves(|leaf| leaf.cast(options.precision.params()))
    }

    /// Logits `f32 [batch, classes]` of images `[batch, height, width, colours]`. A key turns dropout on.
    #[track_caller]
    pub fn apply(&self, images: &Tensor, key: Option<&Key>) -> Tensor {
        trace::scope("vit", || {
            let (config, compute) = (&self.config, self.options.precision.compute());
            let (batch, width) = (images.dim(0), config.hidden_size);
            let patches = self.patches.apply(&images.cast(compute));
            let patches = patches.reshape(&[batch, patches.dim(1) * patches.dim(2), width]);
            let class = self.class_embedding.cast(compute).broadcast_to(&[batch, 1, width]);
            let x = carried(&(Tensor::concat(&[class, patches], 1) + self.position_embedding.cast(compute)));
            let positions = Positions::sequence(x.dim(1));
            let context = Context {
                positions: &positions,
                mask: AttentionMask::Full,
                implementation: self.options.attention,
                rope: None,
                query_scale: None,
            };
            let layers = (self.layers.clone(), key.map(|key| key.stacked(config.num_hidden_layers)));
            let (x, ()) = run_stacked(&self.options.remat, &x, &layers, |x, (block, key)| {
                let keys = key.as_ref().map(|key| key.split(2));
                let of = |n: usize| keys.as_ref().and_then(|keys| keys.get(n));
                trace::scope("block", || {
                    let added = block.attention.apply(&block.attention_norm.apply(x), &context);
                    let x = x + &dropout(&added, config.dropout, of(0));
                    let added = block.feed_forward.apply(&block.feed_forward_norm.apply(&x));
                    (carried(&(&x + &dropout(&added, config.dropout, of(1)))), ())
                })
            });
            self.head.apply(&self.norm.apply(&x.at(1, 0))).cast(DType::F32)
        })
    }
}
