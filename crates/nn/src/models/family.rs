//! Families of models, told apart by how their files name tensors.

use serde::{Deserialize, Serialize};

/// How a family names its tensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Family {
    /// GPT-2.
    Gpt2,
    /// Llama, Mistral, Qwen 2 and 3, Granite, SmolLM 3, StableLM, StarCoder 2, Cohere, Gemma.
    Llama,
    /// Mixtral.
    Mixtral,
    /// Qwen 3 with experts, OLMoE.
    Qwen3Moe,
    /// Gemma 2 and 3.
    Gemma3,
    /// Gemma 4.
    Gemma4,
    /// DeepSeek 2 and 3.
    DeepSeek,
    /// OLMo 2 and 3.
    Olmo2,
    /// Phi 1 and 2.
    Phi,
    /// Phi 3 and 4.
    Phi3,
    /// GLM 4, of the `glm` and `glm4` types.
    Glm4,
    /// gpt-oss.
    GptOss,
    /// Llama 4.
    Llama4,
    /// GPT-NeoX and Pythia: queries, keys and values of each of so many heads lie together.
    GptNeoX {
        /// Heads.
        heads: usize,
    },
    /// BERT, RoBERTa, XLM-RoBERTa and CamemBERT.
    Bert,
    /// DistilBERT.
    DistilBert,
    /// ModernBERT.
    ModernBert,
    /// Whisper.
    Whisper,
    /// Falcon: queries, keys and values of each of so many groups of heads lie together.
    Falcon {
        /// Groups.
        groups: usize,
        /// Whether attention and feed-forward have norms with names of their own.
        has_two_norms: bool,
    },
    /// What reads images in LLaVA; its model of text has a family of its own.
    LlavaVision,
    /// The half of CLIP that reads texts.
    ClipText,
    /// The half of CLIP that reads images.
    ClipVision,
    /// The vision transformer.
    Vit,
    /// ConvNeXt.
    ConvNext,
}

impl Family {
    /// Whether files have several of our weights in one tensor.
    pub fn has_fused_tensors(self) -> bool {
        match self {
            Family::Gpt2
            | Family::Phi3
            | Family::Glm4
            | Family::GptOss
            | Family::Llama4
            | Family::Gemma4
            | Family::ModernBert
            | Family::Falcon { .. }
            | Family::GptNeoX { .. } => true,
            Family::Llama
            | Family::Mixtral
            | Family::Qwen3Moe
            | Family::Gemma3
            | Family::DeepSeek
            | Family::Olmo2
            | Family::Phi
            | Family::Bert
            | Family::DistilBert
            | Family::Whisper
            | Family::LlavaVision
            | Family::ClipText
            | Family::ClipVision
            | Family::Vit
            | Family::ConvNext => false,
        }
    }
}
