//! Arguments of `tpu quantize`, `tpu eval` and `tpu export`.

use std::path::PathBuf;

use clap::Args;
use nn::DTypePolicy;
use nn::quant::QuantScheme;
use quantize::pipeline::MethodName;

use super::{CheckpointKeyArgs, ConfigFileArgs};

#[derive(Debug, Args)]
pub(crate) struct QuantizeArgs {
    /// Hugging Face folder of a dense model: config.json and safetensors.
    pub(crate) folder: PathBuf,
    /// Folder to write; it must not exist, or be one that was interrupted.
    #[arg(long, short)]
    pub(crate) out: PathBuf,
    /// Bits of a weight: 8, 4, 3 or 2, with a scale for each output channel.
    #[arg(long, default_value_t = 4, conflicts_with = "scheme")]
    pub(crate) bits: u32,
    /// Scheme in vLLM's words: w8a16, w4a16, w4a16-g128, w8a8, w8a8-fp8, nvfp4, mxfp4, …, in place of --bits.
    #[arg(long, value_name = "SCHEME")]
    pub(crate) scheme: Option<QuantScheme>,
    /// Mixed precision: layers get 2, 3, 4 or 8 bits, those that lose most the most, and so many in the mean, as 4.5.
    #[arg(long, value_name = "BITS", conflicts_with = "bits")]
    pub(crate) average_bits: Option<f64>,
    /// Scheme of the LM head, rounded to nearest, as w8a16; it stays dense if not given.
    #[arg(long, value_name = "SCHEME")]
    pub(crate) lm_head: Option<QuantScheme>,
    /// Method: rtn, gptq, rotate, rotate-gptq, awq, smoothquant or codebook; default: rtn for 8 bits, else the first that reaches the
    /// target, or rotate-gptq.
    #[arg(long, value_name = "METHOD")]
    pub(crate) method: Option<MethodName>,
    /// Text that activations are looked at on; its last tenth is kept for the evaluation where there is no --data.
    #[arg(long, value_name = "FILE")]
    pub(crate) calibration: Option<PathBuf>,
    /// Text to evaluate on; with a task in YAML, its documents.
    #[arg(long, value_name = "FILE")]
    pub(crate) data: Option<PathBuf>,
    /// Share of the dense model's next-token accuracy that must be kept, as 0.99; not reached is exit code 1.
    #[arg(long, value_name = "SHARE")]
    pub(crate) target: Option<f64>,
    /// Does not evaluate the model before and after.
    #[arg(long, conflicts_with_all = ["target", "data"])]
    pub(crate) no_eval: bool,
    /// Sequences of the calibration text.
    #[arg(long, default_value_t = 128)]
    pub(crate) samples: usize,
    /// Seed of rotations.
    #[arg(long, default_value_t = 0)]
    pub(crate) seed: u64,
    #[command(flatten)]
    pub(crate) text: TextArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    /// Folder of a `tpu train` run, here or in a bucket.
    pub(crate) folder: String,
    /// Folder to write; it must not exist, or be empty.
    #[arg(long, short)]
    pub(crate) out: PathBuf,
    /// Step of the checkpoint; default: the newest.
    #[arg(long)]
    pub(crate) step: Option<u64>,
    /// Type of the weights: f32, bf16 or f16.
    #[arg(long, default_value = "bf16")]
    pub(crate) dtype: String,
    #[command(flatten)]
    pub(crate) keys: CheckpointKeyArgs,
}

#[derive(Debug, Args)]
pub(crate) struct EvalArgs {
    /// Hugging Face folder, dense or quantized, or a GGUF file.
    pub(crate) folder: PathBuf,
    /// Text to evaluate on.
    #[arg(long, value_name = "FILE", required_unless_present = "task")]
    pub(crate) data: Option<PathBuf>,
    /// Task to evaluate on instead: a YAML file of lm-evaluation-harness, or one JSON a line: {"context", "choices", "gold"}, or what
    /// lm_eval --log_samples wrote.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["sequence", "windows"])]
    pub(crate) task: Option<PathBuf>,
    /// Evaluates at most so many documents of a task.
    #[arg(long, value_name = "COUNT", requires = "task")]
    pub(crate) limit: Option<usize>,
    #[command(flatten)]
    pub(crate) text: TextArgs,
}

/// How a text is read, and a model run on it.
#[derive(Debug, Args)]
pub(crate) struct TextArgs {
    /// Tokenizer: a tokenizer.json, or the word bytes; default: the folder's.
    #[arg(long, value_name = "FILE|bytes")]
    pub(crate) tokenizer: Option<String>,
    /// Tokens of a window; default: 2048, or as many positions as the model has.
    #[arg(long, value_name = "TOKENS")]
    pub(crate) sequence: Option<usize>,
    /// Windows at once.
    #[arg(long, default_value_t = 4)]
    pub(crate) batch: usize,
    /// Evaluates at most so many windows.
    #[arg(long, value_name = "COUNT")]
    pub(crate) windows: Option<usize>,
    /// Precision of activations: f32, or bf16.
    #[arg(long, default_value = "f32")]
    pub(crate) precision: DTypePolicy,
    /// Device: auto, cpu, cuda, tpu, or a plugin's path.
    #[arg(long, short, value_name = "DEVICE")]
    pub(crate) device: Option<String>,
    #[command(flatten)]
    pub(crate) config: ConfigFileArgs,
}
