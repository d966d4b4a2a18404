//! Models, each with its configuration.

mod gpt2;
mod language;
mod layer_stack;
mod llama;
mod mlp;
mod resnet;
mod vit;

pub use gpt2::{Gpt2, Gpt2Block, Gpt2Config};
pub use language::{Hidden, LanguageModel, RunOptions, TokenBatch};
pub use layer_stack::LayerStack;
pub use llama::{
    Attention, DenseLayers, Experts, FirstLayers, GlobalLayers, Head, HeadNorm, Llama, LlamaBlock, LlamaConfig, Norms,
    PositionWise, Style,
};
pub use mlp::{Mlp, MlpConfig};
pub use resnet::{BlockKind, ConvNorm, Norm, NormKind, NormStatistics, Phase, ResNet, ResNetBlock, ResNetConfig, Stem};
pub use vit::{Vit, VitBlock, VitConfig};
