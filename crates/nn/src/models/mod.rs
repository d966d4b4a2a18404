//! Models, each with its configuration.

mod gpt2;
mod language;

pub use gpt2::{Gpt2, Gpt2Block, Gpt2Config};
pub use language::{Hidden, LanguageModel, RunOptions, TokenBatch};
