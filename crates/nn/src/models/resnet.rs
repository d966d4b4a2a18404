//! Residual networks of convolutions, with norms by group or by batch.

use serde::{Deserialize, Serialize};
use tensor::DType;
use trace::{Convolution, Key, Tensor, Tree};

use crate::DTypePolicy;
use crate::init::Init;
use crate::layers::{BatchNorm, BatchStatistics, Bias, Conv2d, GroupNorm, Linear, global_average_pool, max_pool};

/// How features are normalised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NormKind {
    /// In this many groups: nothing is carried from step to step.
    Group(usize),
    /// Over the batch, with running statistics that the caller carries.
    Batch,
}

/// What a block is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BlockKind {
    /// Two convolutions of 3 by 3.
    Plain,
    /// One of 3 by 3 between two of 1 by 1, four times as wide outside.
    Bottleneck,
}

/// What images meet first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stem {
    /// A convolution of 7 by 7 and a pool, both of stride 2: for images of a few hundred pixels.
    Large,
    /// A convolution of 3 by 3: for small images.
    Small,
}

/// Sizes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ResNetConfig {
    /// Blocks of each stage; each stage but the first halves the sides and doubles the features.
    pub stages: Vec<usize>,
    /// Kind of block.
    pub block: BlockKind,
    /// Features of the first stage.
    pub width: usize,
    /// Colours of an image.
    pub num_channels: usize,
    /// Classes.
    pub num_classes: usize,
    /// Norms.
    pub norm: NormKind,
    /// What images meet first.
    pub stem: Stem,
    /// Types of parameters and activations.
    #[serde(default)]
    pub precision: DTypePolicy,
}

impl ResNetConfig {
    /// ResNet-18.
    pub fn resnet18(num_classes: usize, norm: NormKind) -> ResNetConfig {
        ResNetConfig {
            stages: vec![2, 2, 2, 2],
            block: BlockKind::Plain,
            width: 64,
            num_channels: 3,
            num_classes,
            norm,
            stem: Stem::Large,
            precision: DTypePolicy::F32,
        }
    }

    /// ResNet-50.
    pub fn resnet50(num_classes: usize, norm: NormKind) -> ResNetConfig {
        ResNetConfig {
            stages: vec![3, 4, 6, 3],
            block: BlockKind::Bottleneck,
            ..ResNetConfig::resnet18(num_classes, norm)
        }
    }
}

/// A norm of features.
#[derive(Clone, Debug, Tree)]
pub enum Norm {
    /// By group.
    Group(#[tree(rename = "norm")] GroupNorm),
    /// By batch.
    Batch(#[tree(rename = "norm")] BatchNorm),
}

/// A convolution and its norm.
#[derive(Clone, Debug, Tree)]
pub struct ConvNorm {
    /// Without a bias, which the norm has.
    pub convolution: Conv2d,
    /// After it.
    pub norm: Norm,
}

/// What is added to the input of a block, and how the input is brought to its shape.
#[derive(Clone, Debug, Tree)]
pub struct ResNetBlock {
    /// One after the other, rectified between.
    pub path: Vec<ConvNorm>,
    /// Where shapes differ.
    pub shortcut: Option<ConvNorm>,
}

/// The model.
#[derive(Clone, Debug, Tree)]
pub struct ResNet {
    /// What images meet first.
    pub stem: ConvNorm,
    /// All blocks, stage after stage.
    pub blocks: Vec<ResNetBlock>,
    /// `[features, classes]`.
    pub head: Linear,
    /// Sizes.
    #[tree(skip)]
    pub config: ResNetConfig,
}

/// Running statistics of all norms by batch, in order; empty with norms by group.
pub type NormStatistics = Vec<BatchStatistics>;

/// What a run does with statistics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Uses those of the batch, and moves the running ones.
    Training,
    /// Uses the running ones.
    Inference,
}

/// Norms met so far and their statistics.
struct Seen<'a> {
    phase: Phase,
    before: std::slice::Iter<'a, BatchStatistics>,
    after: NormStatistics,
}

/// Draws convolutions with their norms.
struct Drawer<'a> {
    keys: std::vec::IntoIter<Key>,
    norm: NormKind,
    statistics: &'a mut NormStatistics,
}

impl Drawer<'_> {
    #[track_caller]
    fn conv(&mut self, features: (usize, usize), size: usize, stride: usize) -> ConvNorm {
        let how = Convolution::new(2).same(&[size, size]).stride(stride);
        let Some(key) = self.keys.next() else { unreachable!("as many keys as convolutions were split") };
        let norm = match self.norm {
            NormKind::Group(groups) => Norm::Group(GroupNorm::init(features.1, groups, 1e-5)),
            NormKind::Batch => {
                let (norm, statistics) = BatchNorm::init(features.1);
                self.statistics.push(statistics);
                Norm::Batch(norm)
            }
        };
        let convolution = Conv2d::init(&key, features, [size, size], how, Bias::None, Init::KaimingNormal);
        ConvNorm { convolution, norm }
    }
}

impl ConvNorm {
    #[track_caller]
    fn apply(&self, x: &Tensor, seen: &mut Seen<'_>) -> Tensor {
        let y = self.convolution.apply(x);
        match &self.norm {
            Norm::Group(norm) => norm.apply(&y),
            Norm::Batch(norm) => match (seen.before.next(), seen.phase) {
                (Some(before), Phase::Training) => {
                    let (y, after) = norm.train(&y, before);
                    seen.after.push(after);
                    y
                }
                (Some(before), Phase::Inference) => norm.apply(&y, before),
                // Without running statistics, by the batch's own.
                (None, _) => {
                    norm.train(&y, &BatchStatistics { mean: norm.bias.clone(), variance: norm.weight.clone() }).0
                }
            },
        }
    }
}

impl ResNet {
    /// Drawn parameters, and the statistics before the first step.
    #[track_caller]
    pub fn init(key: &Key, config: &ResNetConfig) -> (ResNet, NormStatistics) {
        let mut statistics = Vec::new();
        let blocks: usize = config.stages.iter().sum();
        let mut keys = key.split(2 + 4 * blocks);
        let head_key = keys.remove(0);
        let mut drawer = Drawer { keys: keys.into_iter(), norm: config.norm, statistics: &mut statistics };
        let (size, stride) = match config.stem {
            Stem::Large => (7, 2),
            Stem::Small => (3, 1),
        };
        let stem = drawer.conv((config.num_channels, config.width), size, stride);
        let mut features = config.width;
        let mut all = Vec::new();
        for (stage, &count) in config.stages.iter().enumerate() {
            let inner = config.width << stage;
            let outer = if config.block == BlockKind::Bottleneck { 4 * inner } else { inner };
            for n in 0..count {
                let stride = if n == 0 && stage > 0 { 2 } else { 1 };
                let path = match config.block {
                    BlockKind::Plain => {
                        vec![drawer.conv((features, inner), 3, stride), drawer.conv((inner, inner), 3, 1)]
                    }
                    BlockKind::Bottleneck => vec![
                        drawer.conv((features, inner), 1, 1),
                        drawer.conv((inner, inner), 3, stride),
                        drawer.conv((inner, outer), 1, 1),
                    ],
                };
                let shortcut = (features != outer || stride != 1).then(|| drawer.conv((features, outer), 1, stride));
                all.push(ResNetBlock { path, shortcut });
                features = outer;
            }
        }
        let head = Linear::init(&head_key, features, config.num_classes, Bias::Zero, Init::FanIn);
        let model = ResNet { stem, blocks: all, head, config: config.clone() };
        (model.map_leaves(|leaf| leaf.cast(config.precision.params())), statistics)
    }

    /// Logits `f32 [batch, classes]` of images `[batch, height, width, colours]`, and the statistics that follow.
    #[track_caller]
    pub fn apply(&self, images: &Tensor, statistics: &NormStatistics, phase: Phase) -> (Tensor, NormStatistics) {
        trace::scope("resnet", || {
            let mut seen = Seen { phase, before: statistics.iter(), after: Vec::new() };
            let mut x = self.stem.apply(&images.cast(self.config.precision.compute()), &mut seen).relu();
            if self.config.stem == Stem::Large {
                x = max_pool(&x, &[3, 3], &[2, 2], &[(1, 1), (1, 1)]);
            }
            for block in &self.blocks {
                x = trace::scope("block", || {
                    let mut y = x.clone();
                    for (n, part) in block.path.iter().enumerate() {
                        let from = if n == 0 { y } else { y.relu() };
                        y = part.apply(&from, &mut seen);
                    }
                    let shortcut = match &block.shortcut {
                        Some(shortcut) => shortcut.apply(&x, &mut seen),
                        None => x.clone(),
                    };
                    (y + shortcut).relu()
                });
            }
            let logits = self.head.apply(&global_average_pool(&x)).cast(DType::F32);
            let after = if phase == Phase::Training { seen.after } else { statistics.clone() };
            (logits, after)
        })
    }
}
