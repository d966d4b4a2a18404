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
            | Family::ModernBert
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
            | Family::Whisper => false,
        }
    }
}
