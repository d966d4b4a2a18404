//! Models, each with its configuration.

mod gpt2;
mod language;
mod llama;

pub use gpt2::{Gpt2, Gpt2Block, Gpt2Config};
pub use language::{Hidden, LanguageModel, RunOptions, TokenBatch};
pub use llama::{Experts, Head, Llama, LlamaBlock, LlamaConfig, PositionWise};
