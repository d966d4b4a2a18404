//! Models, each with its configuration.

mod clip;
mod convnext;
mod encoder;
mod family;
mod gemma4;
mod gpt2;
mod language;
mod layer_stack;
mod llama;
mod mlp;
mod modern_encoder;
mod resnet;
mod vision;
mod vit;
mod whisper;

pub use clip::{ClipConfig, ClipText, ClipTextConfig, ClipVision};
pub use convnext::{ConvNext, ConvNextBlock, ConvNextConfig, ConvNextStage};
pub use encoder::{Encoder, EncoderBlock, EncoderConfig};
pub use family::Family;
pub use gemma4::{
    ExpertsBeside, Gemma4, Gemma4Attention, Gemma4Block, Gemma4Config, Gemma4Experts, PerLayerGate, PerLayerInputs,
    PerLayerSizes,
};
pub use gpt2::{Gpt2, Gpt2Block, Gpt2Config};
pub use language::{GivenStates, Hidden, LanguageModel, ModelPart, PartCut, PartInput, RunOptions, TokenBatch};
pub use layer_stack::LayerStack;
pub use llama::{
    Attention, DecoderNorm, DecoderNormKind, DenseLayers, Experts, FeedForwardKind, FirstLayers, GlobalLayers,
    GlobalPositions, Head, HeadNorm, InterleavedExperts, Llama, LlamaBlock, LlamaConfig, Norms, PositionWise,
    ResidualForm, Style, WindowKind,
};
pub use mlp::{Mlp, MlpConfig};
pub use modern_encoder::{FirstEncoderLayer, ModernEncoder, ModernEncoderBlock, ModernEncoderConfig};
pub use resnet::{BlockKind, ConvNorm, Norm, NormKind, NormStatistics, Phase, ResNet, ResNetBlock, ResNetConfig, Stem};
pub use vision::{LlavaConfig, LlavaPositions, LlavaVision, VisionConfig, VisionKind, VisionTower};
pub use vit::{Vit, VitBlock, VitConfig};
pub use whisper::{
    Heard, Whisper, WhisperConfig, WhisperDecoder, WhisperDecoderBlock, WhisperEncoder, WhisperEncoderBlock,
};
