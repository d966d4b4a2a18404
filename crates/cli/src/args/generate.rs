//! Arguments of `tpu generate`, `tpu serve` and `tpu bench`.

use std::net::IpAddr;
use std::path::PathBuf;

use clap::Args;
use trace::{DTypePolicy, Mesh};

use super::embed::VectorArgs;
use super::keys::CheckpointKeyArgs;
use super::{CacheFolderArgs, ConfigFileArgs};

#[derive(Debug, Args)]
pub(crate) struct GenerateArgs {
    /// Hugging Face folder (config.json and safetensors), GGUF file, or folder of a `tpu train` run.
    pub(crate) folder: String,
    /// Text to go on from.
    #[arg(long, short, conflicts_with = "prompts")]
    pub(crate) prompt: Option<String>,
    /// File of prompts, one JSON a line: a text, or an object with prompt or messages, and max_tokens, temperature, seed or stop of
    /// its own.
    #[arg(long, value_name = "FILE.jsonl")]
    pub(crate) prompts: Option<PathBuf>,
    /// Image that the prompt speaks of, PNG or JPEG; several in the order of the prompt's <image>, or before it where it has none.
    #[arg(long, value_name = "FILE", conflicts_with = "prompts", requires = "prompt")]
    pub(crate) image: Vec<PathBuf>,
    /// Prompts are messages of a user, written as the model's chat template says; without --prompt, lines of standard input.
    #[arg(long)]
    pub(crate) chat: bool,
    /// What the model is told before the first message of a chat.
    #[arg(long, value_name = "TEXT", requires = "chat")]
    pub(crate) system: Option<String>,
    /// File to write answers to, one JSON a line; answers that it has already are not computed again.
    #[arg(long, short, value_name = "FILE.jsonl", requires = "prompts")]
    pub(crate) out: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) sampling: SamplingArgs,
    /// Sequences decoded at once.
    #[arg(long, default_value_t = 16)]
    pub(crate) batch: usize,
    /// Tokens of the longest sequence; default: as many as the prompts need.
    #[arg(long, value_name = "TOKENS")]
    pub(crate) max_length: Option<usize>,
    #[command(flatten)]
    pub(crate) model: ModelArgs,
}

/// How a model is read and where it runs.
#[derive(Debug, Args)]
pub(crate) struct ModelArgs {
    /// Element type of the KV cache: bf16, f32, int8, int4 or fp8; default: that of activations.
    #[arg(long, value_name = "TYPE")]
    pub(crate) kv_cache: Option<String>,
    /// How sequences lie in the KV cache: pages or rows; default: pages, but rows for a KV cache in few bits on TPUs and GPUs.
    #[arg(long, value_name = "LAYOUT")]
    pub(crate) kv_layout: Option<String>,
    /// Pages of the KV cache; default: as many as all sequences at once may need, or fewer where memory is short.
    #[arg(long, value_name = "COUNT")]
    pub(crate) kv_pages: Option<usize>,
    /// Pages that are kept in the host's memory when others need their room; default: none.
    #[arg(long, value_name = "COUNT", default_value_t = 0)]
    pub(crate) kv_host_pages: usize,
    /// Positions of a page, a power of two; default: 64, on TPUs 256.
    #[arg(long, value_name = "TOKENS")]
    pub(crate) page_size: Option<usize>,
    /// Precision of a folder's parameters and activations: f32, or bf16.
    #[arg(long, default_value = "f32")]
    pub(crate) precision: DTypePolicy,
    /// Devices, as in model=4 or stage=2,model=4: heads and feed-forwards are split along model, experts along expert, layers along
    /// stage; default: one device.
    #[arg(long, value_name = "AXES")]
    pub(crate) mesh: Option<Mesh>,
    /// Hosts that run the later pipeline stages with `tpu stage`, in the order of their layers: HOST:PORT,HOST:PORT.
    #[arg(long, value_name = "ADDRESSES", value_delimiter = ',')]
    pub(crate) stages: Vec<String>,
    /// Folder of a smaller model with the same tokenizer, which drafts tokens: speculative decoding.
    #[arg(long, value_name = "FOLDER")]
    pub(crate) draft: Option<PathBuf>,
    /// Tokens that it drafts for each step.
    #[arg(long, value_name = "COUNT", default_value_t = 4, requires = "draft")]
    pub(crate) draft_tokens: usize,
    /// Layers are not a loop in programs, as they never are on GPUs.
    #[arg(long)]
    pub(crate) unroll_layers: bool,
    /// Tokenizer: a tokenizer.json, or the word bytes; default: the folder's, or that of the training.
    #[arg(long, value_name = "FILE|bytes")]
    pub(crate) tokenizer: Option<String>,
    /// Step of a run's checkpoint; default: the newest.
    #[arg(long)]
    pub(crate) step: Option<u64>,
    #[command(flatten)]
    pub(crate) keys: CheckpointKeyArgs,
    /// Device: auto, cpu, cuda, tpu, or a plugin's path.
    #[arg(long, short, value_name = "DEVICE")]
    pub(crate) device: Option<String>,
    #[command(flatten)]
    pub(crate) config: ConfigFileArgs,
}

/// How tokens are chosen.
#[derive(Clone, Debug, Args)]
pub(crate) struct SamplingArgs {
    /// Tokens to write at most.
    #[arg(long, short = 'n', default_value_t = 100)]
    pub(crate) max_tokens: usize,
    /// 0 is greedy decoding; 1 samples from the model's probabilities.
    #[arg(long, default_value_t = 0.8)]
    pub(crate) temperature: f64,
    /// Draws from so many of the likeliest tokens.
    #[arg(long, value_name = "K")]
    pub(crate) top_k: Option<usize>,
    /// Draws from the likeliest tokens that have this probability together.
    #[arg(long, value_name = "P", default_value_t = 1.0)]
    pub(crate) top_p: f64,
    /// Draws from tokens with this share of the likeliest one's probability.
    #[arg(long, value_name = "P", default_value_t = 0.0)]
    pub(crate) min_p: f64,
    /// Divides logits of tokens that are there already; 1 is none.
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0)]
    pub(crate) repetition_penalty: f64,
    /// Taken from logits of tokens in the answer so far.
    #[arg(long, value_name = "NUMBER", default_value_t = 0.0, allow_negative_numbers = true)]
    pub(crate) presence_penalty: f64,
    /// Taken from logits for each time a token is in the answer so far.
    #[arg(long, value_name = "NUMBER", default_value_t = 0.0, allow_negative_numbers = true)]
    pub(crate) frequency_penalty: f64,
    /// Seed of what is drawn.
    #[arg(long, default_value_t = 0)]
    pub(crate) seed: u32,
    /// Text that ends an answer; it is not part of it. May be given several times.
    #[arg(long, value_name = "TEXT")]
    pub(crate) stop: Vec<String>,
    /// Goes on after tokens that end a text.
    #[arg(long)]
    pub(crate) ignore_eos: bool,
    /// File with a JSON schema that answers follow.
    #[arg(long, value_name = "FILE")]
    pub(crate) json_schema: Option<PathBuf>,
    /// With --json: log probabilities of the tokens, and of so many of the likeliest at each place.
    #[arg(long, value_name = "COUNT")]
    pub(crate) logprobs: Option<usize>,
}

#[derive(Debug, Args)]
pub(crate) struct BenchArgs {
    /// Hugging Face folder (config.json and safetensors), GGUF file, or folder of a `tpu train` run.
    pub(crate) folder: String,
    /// Requests at once.
    #[arg(long, value_name = "COUNT", default_value_t = 16)]
    pub(crate) concurrency: usize,
    /// Tokens of each prompt.
    #[arg(long, value_name = "TOKENS", default_value_t = 128)]
    pub(crate) input_length: usize,
    /// Tokens of each answer.
    #[arg(long, value_name = "TOKENS", default_value_t = 128)]
    pub(crate) output_length: usize,
    /// Requests in all, after those that warm up; default: four times as many as at once.
    #[arg(long, value_name = "COUNT")]
    pub(crate) requests: Option<usize>,
    /// Slice that this runs on, as in v6e-1: the time of a token is compared with what the TPU compiler lets expect there.
    #[arg(long, value_name = "SLICE")]
    pub(crate) slice: Option<String>,
    /// Record what the device does while it is measured into this folder; `tpu profile report` says what took the time.
    #[arg(long, value_name = "FOLDER")]
    pub(crate) profile: Option<PathBuf>,
    /// The TPU compiler for --slice; default: where `tpu setup` or pip put it.
    #[arg(long, value_name = "FILE", requires = "slice")]
    pub(crate) plugin: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) model: ModelArgs,
    #[command(flatten)]
    pub(crate) cache: CacheFolderArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    /// Hugging Face folder (config.json and safetensors), GGUF file, or folder of a `tpu train` run.
    pub(crate) folder: String,
    /// Address to listen on; others than this machine can reach 0.0.0.0.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    pub(crate) host: IpAddr,
    /// Port to listen on; 0 takes a free one.
    #[arg(long, default_value_t = 8000)]
    pub(crate) port: u16,
    /// Name of the model in requests and answers; default: that of the folder.
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// File of keys, one a line, of which a request must have one; default: $TPUBRIDGE_API_KEY, else everybody may ask.
    #[arg(long, value_name = "FILE")]
    pub(crate) api_keys: Option<PathBuf>,
    /// Sequences decoded at once.
    #[arg(long, default_value_t = 16)]
    pub(crate) batch: usize,
    /// Tokens of the longest sequence, prompt and answer; default: 4096, or as many positions as the model has.
    #[arg(long, value_name = "TOKENS")]
    pub(crate) max_length: Option<usize>,
    /// Requests that may wait; more are refused with 429.
    #[arg(long, value_name = "COUNT", default_value_t = 256)]
    pub(crate) max_waiting: usize,
    /// Seconds in which running requests may end after SIGTERM.
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    pub(crate) drain: u64,
    /// Starts without compiling programs beforehand: the first requests wait for them.
    #[arg(long)]
    pub(crate) no_warm_up: bool,
    /// Serves vectors (/v1/embeddings) and no texts; encoders serve nothing else.
    #[arg(long)]
    pub(crate) embeddings: bool,
    #[command(flatten)]
    pub(crate) embed: VectorArgs,
    #[command(flatten)]
    pub(crate) model: ModelArgs,
}

#[derive(Debug, Args)]
pub(crate) struct StageArgs {
    /// Folder or file of the model: the same as on the first host.
    pub(crate) folder: String,
    /// Address to listen on, HOST:PORT; port 0 takes a free one.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8470")]
    pub(crate) listen: String,
    /// Devices of this host, as in model=8; default: one device.
    #[arg(long, value_name = "AXES")]
    pub(crate) mesh: Option<Mesh>,
    /// Device: auto, cpu, cuda, tpu, or a plugin's path.
    #[arg(long, short, value_name = "DEVICE")]
    pub(crate) device: Option<String>,
    /// Checkpoint of a run; default: the newest good one.
    #[arg(long, value_name = "STEP")]
    pub(crate) step: Option<u64>,
    #[command(flatten)]
    pub(crate) keys: CheckpointKeyArgs,
    #[command(flatten)]
    pub(crate) config: ConfigFileArgs,
}
