//! Sizes of an engine, its devices, and the model that drafts.

use std::path::PathBuf;

use channel::Secret;
use nn::models::RunOptions;
use serde::{Deserialize, Serialize};
use trace::Mesh;

/// The axis of a mesh along which pipeline stages lie.
pub(crate) const STAGE: &str = "stage";

/// How sequences lie in the KV cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum KvLayout {
    /// In pages: a sequence has as many as it needs, and shares those of a prompt that begins alike.
    Pages,
    /// Each in a row that has room for the longest.
    Rows,
}

/// Sizes of an engine.
#[derive(Clone, Debug, PartialEq)]
pub struct InferenceOptions {
    /// Sequences that are decoded at once.
    pub rows: usize,
    /// Tokens of the longest sequence, prompt and answer; at most as many as the model has positions.
    pub max_length: usize,
    /// Tokens of a prompt that are read before others are decoded again.
    pub prefill_chunk: usize,
    /// How the model is run.
    pub run: RunOptions,
    /// The devices: heads, feed-forwards and vocabulary are split along `model`, experts along `expert`, layers along `stage`; one
    /// device if absent.
    pub mesh: Option<Mesh>,
    /// Hosts that run the later pipeline stages.
    pub stages: Option<StageHosts>,
    /// Steps that are started before the tokens of the first of them are read. If absent one, but none on the CPU, whose cores the
    /// host needs itself. With a draft model none. With pipeline stages one less than there are.
    pub lookahead: Option<usize>,
    /// A model that drafts tokens.
    pub draft: Option<DraftOptions>,
    /// How sequences lie in the KV cache. If absent in pages, but in rows where programs would gather pages before they read them: a KV
    /// cache in few bits on TPUs and GPUs, and latent vectors (MLA) on GPUs.
    pub kv_layout: Option<KvLayout>,
    /// Positions of a page, a power of two. If absent 256 on TPUs, whose kernel needs multiples of 128, else 64.
    pub page_size: Option<usize>,
    /// Pages of the KV cache. If absent as many as all sequences at once may need, or fewer where the devices' memory is short.
    pub pages: Option<usize>,
    /// Pages that are kept in the host's memory when others need their room on the devices; they come back when a prompt begins with them.
    pub host_pages: usize,
}

impl Default for InferenceOptions {
    fn default() -> Self {
        InferenceOptions {
            rows: 8,
            max_length: 1024,
            prefill_chunk: 512,
            run: RunOptions::default(),
            mesh: None,
            stages: None,
            lookahead: None,
            draft: None,
            kv_layout: None,
            page_size: None,
            pages: None,
            host_pages: 0,
        }
    }
}

/// Hosts that run the later pipeline stages of a model, each with devices of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StageHosts {
    /// `HOST:PORT` of each ([`StageServer`](crate::StageServer)), in the order of their layers.
    pub addresses: Vec<String>,
    /// The secret that all hosts share.
    pub secret: Secret,
}

impl InferenceOptions {
    /// Pipeline stages: those of the mesh, and those of other hosts.
    pub(crate) fn num_stages(&self) -> usize {
        let here = self.mesh.as_ref().and_then(|mesh| mesh.size_of(STAGE)).unwrap_or(1);
        here.saturating_add(self.stages.as_ref().map_or(0, |hosts| hosts.addresses.len()))
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
