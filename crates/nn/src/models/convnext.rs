//! ConvNeXt: depthwise convolutions over large windows, between them feed-forwards of each position.

use serde::{Deserialize, Serialize};
use tensor::DType;
use trace::{Convolution, Key, Tensor, Tree};

use crate::error::Error;
use crate::init::Init;
use crate::layers::{Activation, Bias, Conv2d, FeedForward, LayerNorm, Linear, global_average_pool};
use crate::models::language::RunOptions;
use crate::stacked::{init_stacked, run_stacked};

/// Of all norms but the last.
const INNER_NORM_EPS: f64 = 1e-6;
/// Side of the window of a depthwise convolution.
const WINDOW: usize = 7;

/// Sizes; ConvNeXt-T by default.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ConvNextConfig {
    /// Side of an image that it was trained on.
    pub image_size: usize,
    /// Side of a patch.
    pub patch_size: usize,
    /// Colours of an image.
    pub num_channels: usize,
    /// Widths of the stages.
    pub hidden_sizes: Vec<usize>,
    /// Layers of the stages.
    pub depths: Vec<usize>,
    /// Inside the feed-forward.
    pub hidden_act: Activation,
    /// Of the last norm.
    pub layer_norm_eps: f64,
    /// What the scales of layers begin with; there are none if it is 0.
    pub layer_scale_init_value: f64,
    /// Classes.
    pub num_classes: usize,
}

impl Default for ConvNextConfig {
    fn default() -> ConvNextConfig {
        ConvNextConfig {
            image_size: 224,
            patch_size: 4,
            num_channels: 3,
            hidden_sizes: vec![96, 192, 384, 768],
            depths: vec![3, 3, 9, 3],
            hidden_act: Activation::Gelu,
            layer_norm_eps: 1e-12,
            layer_scale_init_value: 1e-6,
            num_classes: 1000,
        }
    }
}

impl ConvNextConfig {
    /// Refuses sizes that fit together nowhere.
    pub fn checked(self) -> Result<ConvNextConfig, Error> {
        let is_wrong = self.hidden_sizes.is_empty()
            || self.hidden_sizes.len() > 16
            || self.hidden_sizes.len() != self.depths.len()
            || self.hidden_sizes.iter().chain(&self.depths).any(|size| *size == 0);
        if is_wrong || self.patch_size == 0 || self.num_channels == 0 || self.num_classes == 0 {
            return Err(Error::config(format!(
                "a ConvNeXt of hidden_sizes {:?}, depths {:?} and {} classes cannot be",
                self.hidden_sizes, self.depths, self.num_classes
            )));
        }
        Ok(self)
    }
}

/// One layer.
#[derive(Clone, Debug, Tree)]
pub struct ConvNextBlock {
    /// Each feature alone.
    pub depthwise: Conv2d,
    /// Before the feed-forward.
    pub norm: LayerNorm,
    /// Feed-forward.
    pub feed_forward: FeedForward,
    /// What is added is multiplied by it, `[width]`.
    pub scale: Option<Tensor>,
}

/// Layers of one width.
#[derive(Clone, Debug, Tree)]
pub struct ConvNextStage {
    /// Before the width changes.
    pub norm: Option<LayerNorm>,
    /// Half as many rows and columns, of another width.
    pub downsample: Option<Conv2d>,
    /// Layers, stacked.
    pub layers: ConvNextBlock,
}

/// The model.
#[derive(Clone, Debug, Tree)]
pub struct ConvNext {
    /// A matmul with each patch.
    pub patches: Conv2d,
    /// After it.
    pub patch_norm: LayerNorm,
    /// Stages.
    pub stages: Vec<ConvNextStage>,
    /// Of the mean over all positions.
    pub norm: LayerNorm,
    /// `[width, classes]`.
    pub head: Linear,
    /// Sizes.
    #[tree(skip)]
    pub config: ConvNextConfig,
    /// How it is run.
    #[tree(skip)]
    pub options: RunOptions,
}

impl ConvNext {
    /// Drawn parameters.
    #[track_caller]
    pub fn init(key: &Key, config: &ConvNextConfig, options: &RunOptions) -> ConvNext {
        let keys = key.split(config.hidden_sizes.len() + 2);
        let weight = Init::TruncatedNormal(0.02);
        let norm = |width: usize| LayerNorm::init(width, INNER_NORM_EPS);
        let widths = &config.hidden_sizes;
        let block = |key: &Key, width: usize| {
            let keys = key.split(2);
            let how = Convolution::new(2).same(&[WINDOW, WINDOW]).groups(width);
            let scale = config.layer_scale_init_value;
            ConvNextBlock {
                depthwise: Conv2d::init(&keys[0], (width, width), [WINDOW, WINDOW], how, Bias::Zero, weight),
                norm: norm(width),
                feed_forward: FeedForward::init(&keys[1], (width, 4 * width), config.hidden_act, weight, weight),
                scale: (scale > 0.0).then(|| Tensor::full(DType::F32, &[width], scale)),
            }
        };
        let stage = |(n, (width, depth)): (usize, (&usize, &usize))| {
            let keys = keys[n].split(2);
            let before = n.checked_sub(1).and_then(|before| widths.get(before));
            ConvNextStage {
                norm: before.map(|before| norm(*before)),
                downsample: before.map(|before| {
                    Conv2d::init(&keys[0], (*before, *width), [2, 2], Convolution::new(2).stride(2), Bias::Zero, weight)
                }),
                layers: init_stacked(&keys[1], *depth, |key| block(key, *width)),
            }
        };
        let (first, last) = (widths.first().copied().unwrap_or(0), widths.last().copied().unwrap_or(0));
        let (size, how) = ([config.patch_size; 2], Convolution::new(2).stride(config.patch_size));
        let model = ConvNext {
            patches: Conv2d::init(&keys[widths.len()], (config.num_channels, first), size, how, Bias::Zero, weight),
            patch_norm: norm(first),
            stages: widths.iter().zip(&config.depths).enumerate().map(stage).collect(),
            norm: LayerNorm::init(last, config.layer_norm_eps),
            head: Linear::init(&keys[widths.len() + 1], last, config.num_classes, Bias::Zero, weight),
            config: config.clone(),
            options: options.clone(),
        };
        model.map_leaves(|leaf| leaf.cast(options.precision.params()))
    }

    /// Logits `f32 [batch, classes]` of images `[batch, height, width, colours]`.
    #[track_caller]
    pub fn apply(&self, images: &Tensor) -> Tensor {
        trace::scope("convnext", || {
            let x = images.cast(self.options.precision.compute());
            let mut x = self.patch_norm.apply(&self.patches.apply(&x));
            for stage in &self.stages {
                if let (Some(norm), Some(downsample)) = (&stage.norm, &stage.downsample) {
                    x = downsample.apply(&norm.apply(&x));
                }
                (x, ()) = run_stacked(&self.options.remat, &x, &stage.layers, |x, block| {
                    trace::scope("block", || {
                        let added = block.feed_forward.apply(&block.norm.apply(&block.depthwise.apply(x)));
                        let added = match &block.scale {
                            Some(scale) => added * scale.cast(x.dtype()),
                            None => added,
                        };
                        (x + &added, ())
                    })
                });
            }
            self.head.apply(&self.norm.apply(&global_average_pool(&x))).cast(DType::F32)
        })
    }
}
