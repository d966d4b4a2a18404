//! Sizes of an engine, its devices, and the model that drafts.

use std::path::PathBuf;

use nn::models::RunOptions;
use trace::Mesh;

/// Sizes of an engine.
#[derive(Clone, Debug, PartialEq)]
pub struct InferenceOptions {
    /// Sequences that are decoded at once: rows of the KV cache.
    pub rows: usize,
    /// Tokens of the longest sequence, prompt and answer; at most as many as the model has positions.
    pub max_length: usize,
    /// Tokens of a prompt that are read before others are decoded again.
    pub prefill_chunk: usize,
    /// How the model is run.
    pub run: RunOptions,
    /// The devices: heads, feed-forwards and vocabulary are split along `model`, experts along `expert`; one device if absent.
    pub mesh: Option<Mesh>,
    /// Steps that are started before the tokens of the first of them are read. If absent one, but none on the CPU, whose cores the
    /// host needs itself. With a draft model none.
    pub lookahead: Option<usize>,
    /// A model that drafts tokens.
    pub draft: Option<DraftOptions>,
}

impl Default for InferenceOptions {
    fn default() -> Self {
        InferenceOptions {
            rows: 8,
            max_length: 1024,
            prefill_chunk: 512,
            run: RunOptions::default(),
            mesh: None,
            lookahead: None,
            draft: None,
        }
    }
}

/// A model that drafts tokens which the engine's model verifies, several at a time: speculative decoding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DraftOptions {
    /// Its folder; it has the tokenizer of the engine's model.
    pub folder: PathBuf,
    /// Tokens drafted for each step.
    pub tokens: usize,
}
