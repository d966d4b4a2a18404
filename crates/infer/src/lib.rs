//! Inference of language models: from a folder of weights to text, many requests at once.
//!
//! ```no_run
//! use infer::{Engine, InferenceOptions, OpenedModel, OpenOptions, Request, SamplingOptions};
//! use runtime::Backend;
//! use runtime::config::{Config, Mode};
//!
//! let source = OpenedModel::open("llama".as_ref(), OpenOptions::default())?;
//! let backend = Backend::auto(&Config::new(Mode::Inference))?;
//! let options = InferenceOptions { rows: 8, max_length: 1024, ..InferenceOptions::default() };
//! let mut engine = Engine::load(&backend, &source, &options)?;
//! engine.add(Request { prompt: source.encode("Once upon a time")?, sampling: SamplingOptions::default() })?;
//! engine.run(&mut |event| print!("{}", event.text))?;
//! # Ok::<(), infer::Error>(())
//! ```

mod benchmark;
mod chat;
mod choose;
mod constraint;
mod draft;
mod embed;
mod engine;
mod error;
mod fit;
mod host_pages;
mod image_embedder;
mod images;
mod launched;
mod load;
mod options;
mod pages;
mod pipeline;
mod request;
mod rooms;
mod score;
pub mod server;
mod settings;
mod sharding;
mod sizes;
mod slots;
mod source;
mod speech;
mod steps;
mod tasks;
mod text;
mod yaml_task;

pub use benchmark::{Benchmark, BenchmarkOptions, Percentiles};
pub use chat::{ChatTemplate, Message};
pub use constraint::OutputFormat;
pub use data::MAX_IMAGE_FILE_BYTES;
pub use embed::{EmbedOptions, Embedder, Pooling, TextEmbedding, TooLong, VectorLength, is_encoder};
pub use engine::{DecodeCounts, Engine};
pub use error::Error;
pub use image_embedder::ImageEmbedder;
pub use images::{ClassScore, ImageClassifier, ImageReader, MAX_PROMPT_IMAGES, PromptImage};
pub use options::{DraftOptions, InferenceOptions, KvLayout, StageHosts};
pub use pages::PageCounts;
pub use pipeline::StageServer;
pub use request::{
    FinishReason, MAX_LOG_PROBABILITIES, MAX_LOGIT_BIASES, Request, RequestId, SamplingOptions, TokenEvent,
    TokenProbability,
};
pub use score::{ScoreOptions, TokenPair, TokenScore, score};
pub use source::{OpenOptions, OpenedModel, TextParts};
pub use speech::{SpeechOptions, SpeechTask, Transcriber, Transcript, WavAudio};
pub use tasks::{ChoiceTask, TaskResult};
