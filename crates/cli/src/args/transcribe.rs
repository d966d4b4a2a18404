//! Arguments of `tpu transcribe`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use trace::DTypePolicy;

use super::ConfigFileArgs;

#[derive(Debug, Args)]
pub(crate) struct TranscribeArgs {
    /// Hugging Face folder of a Whisper.
    pub(crate) folder: PathBuf,
    /// Recording: a WAV file with 16,000 samples a second.
    #[arg(long, short, value_name = "FILE.wav")]
    pub(crate) audio: PathBuf,
    /// Language that is spoken, as in en; default: what is heard in the first seconds.
    #[arg(long, value_name = "LANGUAGE")]
    pub(crate) language: Option<String>,
    /// What is written: the words, or an English translation.
    #[arg(long, value_enum, default_value_t = TaskArg::Transcribe)]
    pub(crate) task: TaskArg,
    /// Tokens to write at most for each chunk of 30 seconds.
    #[arg(long, short = 'n')]
    pub(crate) max_tokens: Option<usize>,
    /// Precision of parameters and activations: f32, or bf16.
    #[arg(long, default_value = "f32")]
    pub(crate) precision: DTypePolicy,
    /// Device: auto, cpu, cuda, tpu, or a plugin's path.
    #[arg(long, short, value_name = "DEVICE")]
    pub(crate) device: Option<String>,
    #[command(flatten)]
    pub(crate) config: ConfigFileArgs,
}

/// What is written of speech.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TaskArg {
    /// The words.
    Transcribe,
    /// An English translation.
    Translate,
}
