//! GGUF files of llama.cpp: read piece by piece, with the names and rows of Hugging Face, and written whole.

mod blocks;
mod config;
mod encode;
mod file;
mod model;
mod names;
mod value;
mod write;

pub use blocks::GgmlType;
pub use file::{GgufFile, GgufTensor};
pub(crate) use model::GgufModel;
pub use value::GgufValue;
pub use write::{GgufEntry, llama_metadata, write_gguf};
