//! Arguments of `tpu embed`.

use std::path::PathBuf;

use clap::Args;
use infer::Pooling;
use trace::DTypePolicy;

use super::ConfigFileArgs;

#[derive(Debug, Args)]
pub(crate) struct EmbedArgs {
    /// Hugging Face folder of an encoder or a decoder, with or without the files of sentence-transformers, or a GGUF file.
    pub(crate) folder: PathBuf,
    /// Text to make a vector of. May be given several times.
    #[arg(long, short, value_name = "TEXT", conflicts_with = "texts", required_unless_present_any = ["texts", "image"])]
    pub(crate) text: Vec<String>,
    /// File of texts, one JSON a line: a text, or an object with text and id.
    #[arg(long, value_name = "FILE.jsonl")]
    pub(crate) texts: Option<PathBuf>,
    /// Image to make a vector of, PNG or JPEG, with a CLIP. May be given several times.
    #[arg(long, value_name = "FILE")]
    pub(crate) image: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) embed: VectorArgs,
    /// Texts computed at once.
    #[arg(long, default_value_t = 32)]
    pub(crate) batch: usize,
    /// Precision of parameters and activations: f32, or bf16.
    #[arg(long, default_value = "f32")]
    pub(crate) precision: DTypePolicy,
    /// Tokenizer: a tokenizer.json, or the word bytes; default: the folder's.
    #[arg(long, value_name = "FILE|bytes")]
    pub(crate) tokenizer: Option<String>,
    /// Tokens of the longest text; default: as the folder says, or as many positions as the model has.
    #[arg(long, value_name = "TOKENS")]
    pub(crate) max_length: Option<usize>,
    /// Device: auto, cpu, cuda, tpu, or a plugin's path.
    #[arg(long, short, value_name = "DEVICE")]
    pub(crate) device: Option<String>,
    #[command(flatten)]
    pub(crate) config: ConfigFileArgs,
}

/// How hidden states become vectors.
#[derive(Clone, Debug, Args)]
pub(crate) struct VectorArgs {
    /// How hidden states become one vector: cls, mean, max or last; default: as the folder says, else mean of encoders and last of
    /// decoders.
    #[arg(long, value_name = "POOLING")]
    pub(crate) pooling: Option<Pooling>,
    /// Whether vectors have length 1; default: as the folder says, else those of decoders have.
    #[arg(long, value_name = "true|false")]
    pub(crate) normalize: Option<bool>,
    /// Name of the folder's prompt that is put before texts.
    #[arg(long, value_name = "NAME")]
    pub(crate) prompt_name: Option<String>,
    /// Cuts texts that are too long instead of refusing them.
    #[arg(long)]
    pub(crate) truncate: bool,
}
