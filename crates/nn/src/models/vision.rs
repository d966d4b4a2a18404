//! Towers that read images for models of text: CLIP and SigLIP, and the projector of LLaVA behind them.

use tensor::DType;
use trace::{Convolution, Key, Tensor, Tree};

use crate::error::Error;
use crate::init::Init;
use crate::layers::{
    Activation, AttentionMask, Bias, Context, Conv2d, FeedForward, Heads, LayerNorm, Linear, MultiHeadAttention,
    Positions,
};
use crate::models::language::{RunOptions, carried};
use crate::models::vit::VitBlock;
use crate::stacked::{init_stacked, run_stacked};

/// Most patches of an image.
const MAX_PATCHES: usize = 1 << 16;

/// Sizes of a tower.
#[derive(Clone, Debug, PartialEq)]
pub struct VisionConfig {
    /// Side of an image.
    pub image_size: usize,
    /// Side of a patch.
    pub patch_size: usize,
    /// Colours of an image.
    pub num_channels: usize,
    /// Width.
    pub hidden_size: usize,
    /// Layers that are run: files may have more.
    pub num_hidden_layers: usize,
    /// Heads.
    pub num_attention_heads: usize,
    /// Width inside the feed-forward.
    pub intermediate_size: usize,
    /// Inside the feed-forward.
    pub hidden_act: Activation,
    /// Of the norms.
    pub layer_norm_eps: f64,
    /// What it is made of.
    pub kind: VisionKind,
}

/// What a tower is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VisionKind {
    /// CLIP: a class token, a norm before the layers, patches without a bias.
    Clip,
    /// SigLIP: patches with a bias, and nothing else.
    Siglip,
}

impl VisionConfig {
    /// Refuses sizes that fit together nowhere.
    pub fn checked(self) -> Result<VisionConfig, Error> {
        let sizes = [
            ("image_size", self.image_size),
            ("patch_size", self.patch_size),
            ("num_channels", self.num_channels),
            ("hidden_size", self.hidden_size),
            ("num_hidden_layers", self.num_hidden_layers),
            ("num_attention_heads", self.num_attention_heads),
            ("intermediate_size", self.intermediate_size),
        ];
        if let Some((name, _)) = sizes.iter().find(|(_, size)| *size == 0) {
            return Err(Error::config(format!("{name} of the vision tower is 0")));
        }
        if !self.hidden_size.is_multiple_of(self.num_attention_heads) {
            let (width, heads) = (self.hidden_size, self.num_attention_heads);
            return Err(Error::config(format!("hidden_size {width} is not a multiple of num_attention_heads {heads}")));
        }
        let side = self.image_size / self.patch_size;
        if side == 0 || side.saturating_mul(side) > MAX_PATCHES {
            return Err(Error::config(format!(
                "images of {} pixels a side and patches of {} cannot be",
                self.image_size, self.patch_size
            )));
        }
        Ok(self)
    }

    /// Positions of an image: its patches, and the class token of CLIP.
    pub fn num_positions(&self) -> usize {
        let side = self.image_size / self.patch_size.max(1);
        side * side + usize::from(self.kind == VisionKind::Clip)
    }
}

/// A tower.
#[derive(Clone, Debug, Tree)]
pub struct VisionTower {
    /// A matmul with each patch.
    pub patches: Conv2d,
    /// `[width]`, before the patches.
    pub class_embedding: Option<Tensor>,
    /// `[positions, width]`.
    pub position_embedding: Tensor,
    /// Before the layers.
    pub norm: Option<LayerNorm>,
    /// Layers, stacked.
    pub layers: VitBlock,
    /// Sizes.
    #[tree(skip)]
    pub config: VisionConfig,
    /// How it is run.
    #[tree(skip)]
    pub options: RunOptions,
}

impl VisionTower {
    /// Drawn parameters.
    #[track_caller]
    pub fn init(key: &Key, config: &VisionConfig, options: &RunOptions) -> VisionTower {
        let keys = key.split(4);
        let (width, weight) = (config.hidden_size, Init::Normal(0.02));
        let is_clip = config.kind == VisionKind::Clip;
        let size = [config.patch_size, config.patch_size];
        let how = Convolution::new(2).stride(config.patch_size);
        let bias = if is_clip { Bias::None } else { Bias::Zero };
        let heads = config.num_attention_heads;
        let heads = Heads { num_heads: heads, num_kv_heads: heads, head_dim: width / heads.max(1) };
        let norm = || LayerNorm::init(width, config.layer_norm_eps);
        let block = |key: &Key| {
            let keys = key.split(2);
            let sizes = (width, config.intermediate_size);
            VitBlock {
                attention_norm: norm(),
                attention: MultiHeadAttention::init(&keys[0], width, heads, (Bias::Zero, Bias::Zero), (weight, weight)),
                feed_forward_norm: norm(),
                feed_forward: FeedForward::init(&keys[1], sizes, config.hidden_act, weight, weight),
            }
        };
        let tower = VisionTower {
            patches: Conv2d::init(&keys[0], (config.num_channels, width), size, how, bias, weight),
            class_embedding: is_clip.then(|| weight.draw(&keys[1], DType::F32, &[width])),
            position_embedding: weight.draw(&keys[2], DType::F32, &[config.num_positions(), width]),
            norm: is_clip.then(norm),
            layers: init_stacked(&keys[3], config.num_hidden_layers, block),
            config: config.clone(),
            options: options.clone(),
        };
        tower.map_leaves(|leaf| leaf.cast(options.precision.params()))
    }

    /// Hidden states `[batch, positions, width]` of images `[batch, height, width, colours]`, after the last layer.
    #[track_caller]
    pub fn hidden(&self, images: &Tensor) -> Tensor {
        trace::scope("vision_tower", || {
            let compute = self.options.precision.compute();
            let (batch, width) = (images.dim(0), self.config.hidden_size);
            let patches = self.patches.apply(&images.cast(compute));
            let patches = patches.reshape(&[batch, patches.dim(1) * patches.dim(2), width]);
            let x = match &self.class_embedding {
                Some(class) => {
                    let class = class.cast(compute).reshape(&[1, 1, width]).broadcast_to(&[batch, 1, width]);
                    Tensor::concat(&[class, patches], 1)
                }
                None => patches,
            };
            let x = x + self.position_embedding.cast(compute);
            let x = carried(&self.norm.as_ref().map_or(x.clone(), |norm| norm.apply(&x)));
            let positions = Positions::sequence(x.dim(1));
            let context = Context {
                positions: &positions,
                mask: AttentionMask::Full,
                implementation: self.options.attention,
                rope: None,
                query_scale: None,
            };
            let (x, ()) = run_stacked(&self.options.remat, &x, &self.layers, |x, block| {
                trace::scope("block", || {
                    let x = x + &block.attention.apply(&block.attention_norm.apply(x), &context);
                    let added = block.feed_forward.apply(&block.feed_forward_norm.apply(&x));
                    (carried(&(&x + &added)), ())
                })
            });
            x
        })
    }
}

/// What LLaVA has before its model of text.
#[derive(Clone, Debug, PartialEq)]
pub struct LlavaConfig {
    /// The tower, up to the layer whose states are taken.
    pub tower: VisionConfig,
    /// Which of its positions are taken.
    pub positions: LlavaPositions,
    /// Width of the model of text.
    pub text_width: usize,
    /// Between the matmuls of the projector.
    pub projector_act: Activation,
    /// Whether they have biases.
    pub projector_bias: Bias,
    /// The token that stands for a position of an image.
    pub image_token: u32,
}

/// Which positions of a tower are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LlavaPositions {
    /// All but the first (`default`).
    AllButFirst,
    /// All (`full`).
    All,
}

impl LlavaConfig {
    /// Tokens of an image.
    pub fn num_tokens(&self) -> usize {
        match self.positions {
            LlavaPositions::AllButFirst => self.tower.num_positions().saturating_sub(1),
            LlavaPositions::All => self.tower.num_positions(),
        }
    }
}

/// The half of a LLaVA that reads images.
#[derive(Clone, Debug, Tree)]
pub struct LlavaVision {
    /// The tower.
    pub tower: VisionTower,
    /// `[width of the tower, width of the text]`.
    pub first: Linear,
    /// `[width of the text, width of the text]`.
    pub second: Linear,
    /// Sizes.
    #[tree(skip)]
    pub config: LlavaConfig,
}

impl LlavaVision {
    /// Drawn parameters.
    #[track_caller]
    pub fn init(key: &Key, config: &LlavaConfig, options: &RunOptions) -> LlavaVision {
        let keys = key.split(3);
        let (weight, bias, width) = (Init::Normal(0.02), config.projector_bias, config.text_width);
        let model = LlavaVision {
            tower: VisionTower::init(&keys[0], &config.tower, options),
            first: Linear::init(&keys[1], config.tower.hidden_size, width, bias, weight),
            second: Linear::init(&keys[2], width, width, bias, weight),
            config: config.clone(),
        };
        model.map_leaves(|leaf| leaf.cast(options.precision.params()))
    }

    /// What stands for the tokens of images `[batch, height, width, colours]`: `f32 [batch, tokens, width of the text]`.
    #[track_caller]
    pub fn apply(&self, images: &Tensor) -> Tensor {
        let x = self.tower.hidden(images);
        let x = match self.config.positions {
            LlavaPositions::AllButFirst => x.slice(1, 1.min(x.dim(1))..x.dim(1)),
            LlavaPositions::All => x,
        };
        trace::scope("projector", || {
            self.second.apply(&self.config.projector_act.apply(&self.first.apply(&x))).cast(DType::F32)
        })
    }
}
