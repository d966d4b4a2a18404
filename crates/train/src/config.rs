//! The file that describes a training: model, data, optimizer, and how long.

use std::collections::BTreeMap;
use std::num::NonZero;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::available_parallelism;

use nn::models::RunOptions;
use nn::optim::{AnyOptimizer, Ema};
use nn::quant::{LoraConfig, QuantScheme, Scaling};
use nn::{SliceGradientDType, SliceGradients, StepOptions, Strategy};
use serde::{Deserialize, Serialize};
use trust::{KeySource, KeySourceError, PublicKey, SealingKey, SecretKey, SignatureError};
use weights::Protection;

use crate::data::LoaderOptions;
use crate::error::Error;
use crate::profiler::ProfilerAddress;

/// A training.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrainConfig {
    /// See [`crate::model::TrainModelConfig`].
    pub model: serde_json::Value,
    /// How the model is run: precision, rematerialization, attention.
    #[serde(default)]
    pub run: RunOptions,
    /// Where examples come from, and who prepares them.
    pub data: DataTable,
    /// The optimizer and its learning rate.
    pub optimizer: AnyOptimizer,
    /// How long, how often, where to.
    pub train: LoopConfig,
    /// The devices, if they are several.
    #[serde(default)]
    pub mesh: MeshConfig,
    /// Slices of the mesh that the training is run on.
    #[serde(skip)]
    pub slices: usize,
    /// Adapters that are trained in place of the model's parameters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lora: Option<LoraTable>,
    /// What is profiled.
    #[serde(default)]
    pub profile: ProfileConfig,
    /// Who is told when something goes wrong. `operate` knows what it says.
    #[serde(default, skip_serializing_if = "toml::Table::is_empty")]
    pub alerts: toml::Table,
}

/// Low-rank adapters (LoRA), trained while the model of `model.from` is frozen.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoraTable {
    /// Rank of adapters.
    pub rank: usize,
    /// An adapter's result is multiplied by `alpha / rank`.
    pub alpha: f64,
    /// Dropout of an adapter's input.
    #[serde(default)]
    pub dropout: f64,
    /// Layers with an adapter, by the ends of their names in Hugging Face's files, such as `q_proj`; all linear layers but the LM
    /// head if empty.
    #[serde(default)]
    pub target_modules: Vec<String>,
    /// How the frozen weights are quantized as they are loaded (QLoRA), as in `w4a16-g64`; as they are if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<QuantScheme>,
    /// Folder of an adapter in PEFT's format that training starts from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<PathBuf>,
    /// Folder for the model with the adapters merged into its dense weights, written when the training has finished.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub merged: Option<PathBuf>,
}

impl LoraTable {
    /// What the adapters are.
    pub fn adapters(&self) -> LoraConfig {
        let LoraTable { rank, alpha, dropout, .. } = *self;
        LoraConfig { rank, alpha, dropout, target_modules: self.target_modules.clone(), base: self.base }
    }
}

/// What is profiled of a training, and who may ask for more.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ProfileConfig {
    /// Windows of steps, as in `100..105` or `10..12,100..=104`. The first step is 1.
    pub steps: Option<String>,
    /// Where profiles of windows go; without it the metrics' folder of the run, where TensorBoard looks.
    pub folder: Option<PathBuf>,
    /// Where the profiler can be asked while the training runs: `PORT` on this machine, or `IP:PORT`.
    pub address: Option<String>,
}

impl ProfileConfig {
    /// The windows, in their order.
    pub fn windows(&self) -> Result<Vec<Range<u64>>, Error> {
        let Some(text) = &self.steps else { return Ok(Vec::new()) };
        let wrong = |part: &str, why: &str| {
            Error::new(format!("profile.steps: `{part}` {why}"))
                .hint("windows are as in \"100..105\", which are steps 100 to 104, or \"10..12,100..=104\"")
        };
        let mut windows: Vec<Range<u64>> = Vec::new();
        for part in text.split(',').map(str::trim) {
            let (first, last) = part.split_once("..").ok_or_else(|| wrong(part, "is no window of steps"))?;
            let number = |text: &str| text.trim().parse::<u64>().map_err(|_| wrong(part, "is no window of steps"));
            let end = match last.strip_prefix('=') {
                Some(last) => number(last)?.checked_add(1).ok_or_else(|| wrong(part, "has too large a number"))?,
                None => number(last)?,
            };
            let window = number(first)?..end;
            if window.start == 0 {
                return Err(wrong(part, "begins before the first step, which is 1"));
            }
            if window.is_empty() {
                return Err(wrong(part, "has no steps"));
            }
            if windows.last().is_some_and(|before| before.end > window.start) {
                return Err(wrong(part, "begins before the window in front of it ends"));
            }
            windows.push(window);
        }
        Ok(windows)
    }

    /// Where the profiler listens.
    pub fn address(&self) -> Result<Option<ProfilerAddress>, Error> {
        let parse = |text: &String| {
            text.parse().map_err(|why| {
                Error::new(format!("profile.address: {why}"))
                    .hint("a port alone is on the loopback interface of this machine")
            })
        };
        self.address.as_ref().map(parse).transpose()
    }
}

/// The devices it runs on, if they are several.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MeshConfig {
    /// As in `data=4,model=2`.
    pub axes: Option<String>,
    /// How the model lies on them.
    pub strategy: Option<Strategy>,
    /// Axes of the mesh for parameters whose path ends so, axis by axis.
    pub rules: BTreeMap<String, Vec<Vec<String>>>,
    /// Parts of a batch that follow each other through the stages, if there are any.
    pub microbatches: Option<usize>,
    /// What gradients are exchanged in between slices, on axes `dcn:`: `bf16` or `int8`, with error feedback; `f32` if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dcn_gradients: Option<SliceGradientDType>,
}

/// Examples, and how many threads prepare them. No number of threads changes a batch.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DataTable {
    /// Threads that prepare batches ahead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workers: Option<usize>,
    /// Threads that decode the images of a batch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decode_threads: Option<usize>,
    /// Where data that is elsewhere is kept; a folder of the user's cache if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_dir: Option<PathBuf>,
    /// The most that is kept there, in GiB; half of the disk's free space if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_max_gib: Option<f64>,
    /// Where they come from.
    #[serde(flatten)]
    pub source: DataConfig,
}

impl DataTable {
    /// How batches are prepared. Images take long to decode; other data one thread prepares in time.
    pub fn loader(&self) -> LoaderOptions {
        let workers = self.workers.unwrap_or_else(|| match self.source {
            DataConfig::Images { .. } => available_parallelism().map_or(1, NonZero::get).min(IMAGE_WORKERS),
            _ => 1,
        });
        let LoaderOptions { ahead, .. } = LoaderOptions::default();
        LoaderOptions { ahead: ahead.max(workers), workers }
    }
}

/// Most threads that prepare batches of images where the file does not say.
const IMAGE_WORKERS: usize = 4;

/// Where examples come from. Paths are relative to the file; addresses (`gs://`, `s3://`, `https://`) are read where they are.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum DataConfig {
    /// Text files and a tokenizer: `bytes`, or a `tokenizer.json`; without one, that of the folder the model comes from.
    Text {
        /// The files.
        files: Vec<PathBuf>,
        /// `bytes`, or the path of a `tokenizer.json`.
        #[serde(default)]
        tokenizer: Option<String>,
        /// Sequence length in tokens.
        sequence_length: usize,
        /// Text between two documents.
        #[serde(default)]
        separator: Option<String>,
        /// Share of the examples that is validation data.
        #[serde(default = "validation_fraction")]
        validation_fraction: f64,
    },
    /// Token files: `.npy`, or bare little-endian tokens of 16 or 32 bits.
    Tokens {
        /// The files.
        files: Vec<PathBuf>,
        /// Bits of a token in bare files.
        #[serde(default = "token_bits")]
        bits: u32,
        /// Sequence length in tokens.
        sequence_length: usize,
        /// Share of the examples that is validation data.
        #[serde(default = "validation_fraction")]
        validation_fraction: f64,
    },
    /// Tokens drawn from a random chain.
    Synthetic {
        /// Sequence length in tokens.
        sequence_length: usize,
    },
    /// Arrays of NumPy's archives (`.npz`): the first axis of every array is that of the examples. For imported programs.
    Arrays {
        /// The files, on this machine; they are read into memory.
        files: Vec<PathBuf>,
        /// Whether every epoch has an order of its own; otherwise examples come as they are.
        #[serde(default = "yes")]
        shuffle: bool,
        /// Share of the examples that is validation data.
        #[serde(default = "validation_fraction")]
        validation_fraction: f64,
    },
    /// Generated images of simple shapes.
    Shapes {
        /// Pixels of an edge.
        size: usize,
    },
    /// A folder of images, a folder for each class.
    Images {
        /// The folder.
        folder: PathBuf,
        /// Pixels of an edge.
        size: usize,
        /// Share of the examples that is validation data.
        #[serde(default = "validation_fraction")]
        validation_fraction: f64,
        /// Pixels that images are moved by in training, at most.
        #[serde(default, skip_serializing_if = "is_zero")]
        crop_padding: usize,
        /// Whether images are mirrored in training.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        flip: Option<FlipConfig>,
    },
}

/// How images are mirrored.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FlipConfig {
    /// Left and right are exchanged in half of them.
    Horizontal,
}

// A setting that is not used is not part of what a checkpoint says of its training.
fn is_zero(number: &usize) -> bool {
    *number == 0
}

fn validation_fraction() -> f64 {
    0.05
}

fn token_bits() -> u32 {
    16
}

/// Settings of `[train]` that say how many examples a step has; a file gives one of them.
const BATCH: [&str; 2] = ["batch_size", "batch_size_per_chip"];

/// How long, how often, where to.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoopConfig {
    /// Steps in all.
    pub steps: u64,
    /// Examples of a step on all devices together; 0 until [`TrainConfig::set_batch`] where the file says those of a device.
    #[serde(default)]
    pub batch_size: usize,
    /// Examples of a step on each device, in place of `batch_size`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch_size_per_chip: Option<usize>,
    /// Seed of all random numbers.
    #[serde(default)]
    pub seed: u32,
    /// Gradients are clipped to this global norm.
    #[serde(default)]
    pub max_grad_norm: Option<f64>,
    /// Gradient accumulation steps: equal parts of a batch, one after the other.
    #[serde(default)]
    pub gradient_accumulation_steps: usize,
    /// The EMA of the parameters, if one is kept.
    #[serde(default)]
    pub ema: Option<Ema>,
    /// Steps between two records of metrics.
    #[serde(default = "log_every")]
    pub log_every: u64,
    /// Steps between two evaluations on validation data.
    #[serde(default)]
    pub eval_every: Option<u64>,
    /// Batches of an evaluation.
    #[serde(default = "eval_batches")]
    pub eval_batches: u64,
    /// Steps between two checkpoints.
    #[serde(default)]
    pub save_every: Option<u64>,
    /// Checkpoints that are kept.
    #[serde(default = "max_to_keep")]
    pub max_to_keep: usize,
    /// Where checkpoints, metrics and tokenized text go; a path or, for checkpoints, an address of an object store.
    #[serde(default)]
    pub folder: Option<String>,
    /// Where the key is that checkpoints are encrypted with: `file:PATH`, `env:NAME` or `command:LINE`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encryption_key: Option<String>,
    /// The file of the secret key that checkpoints are signed with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signing_key: Option<String>,
    /// Keys, one of which must have signed a checkpoint that the training goes on from: files, or the keys themselves.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub trusted_keys: Vec<String>,
}

impl LoopConfig {
    /// Reads the keys of checkpoints; paths are relative to the folder of the training file.
    pub fn protection(&self, beside: &Path) -> Result<Protection, Error> {
        let key_of = |text: &str| -> Result<SealingKey, KeySourceError> {
            match text.parse()? {
                KeySource::File(path) => KeySource::File(beside.join(path)).key(),
                source => source.key(),
            }
        };
        let encryption_key = self.encryption_key.as_deref().map(key_of).transpose();
        let encryption_key = encryption_key.map_err(|error| {
            let remedy = error.remedy();
            Error::new(compile::with_causes(&error)).hint(remedy)
        })?;
        let named = |what: &str, error: SignatureError| {
            Error::new(format!("train.{what}: {}", compile::with_causes(&error))).hint(error.remedy())
        };
        let signing_key = self.signing_key.as_ref().map(|path| SecretKey::open(&beside.join(path)).map(Arc::new));
        let signing_key = signing_key.transpose().map_err(|error| named("signing_key", error))?;
        let open = |given: &String| {
            PublicKey::parse(given).or_else(|_| PublicKey::open(&beside.join(given).to_string_lossy()))
        };
        let trusted_keys: Result<Vec<PublicKey>, SignatureError> = self.trusted_keys.iter().map(open).collect();
        let mut trusted_keys = trusted_keys.map_err(|error| named("trusted_keys", error))?;
        // What one signs oneself, one trusts.
        if !trusted_keys.is_empty() {
            trusted_keys.extend(signing_key.iter().map(|key| key.public("")));
        }
        let trusted_keys = (!trusted_keys.is_empty()).then_some(trusted_keys);
        Ok(Protection { encryption_key, signing_key, trusted_keys })
    }
}

fn log_every() -> u64 {
    10
}

fn yes() -> bool {
    true
}

fn eval_batches() -> u64 {
    8
}

fn max_to_keep() -> usize {
    3
}

impl TrainConfig {
    /// Reads a file; `set` are changes as `train.steps=10`. The batch is known after [`set_batch`](Self::set_batch).
    pub fn read(path: &Path, set: &[String]) -> Result<TrainConfig, Error> {
        let text = std::fs::read_to_string(path).map_err(|error| {
            Error::new(format!("{}: {error}", path.display()))
                .hint("give the path of a training file (TOML); examples are in examples/train")
        })?;
        let mut table: toml::Table = toml::from_str(&text).map_err(|error| wrong(path, &error))?;
        for change in set {
            apply(&mut table, change)?;
        }
        let batches =
            table.get("train").map_or(0, |train| BATCH.iter().filter(|key| train.get(**key).is_some()).count());
        if batches != 1 {
            let [whole, per_chip] = BATCH;
            let found = if batches == 0 { "neither" } else { "both" };
            let message = format!("{}: train.{whole} or train.{per_chip} must be given, not {found}", path.display());
            return Err(Error::new(message)
                .hint("the first counts the examples of a step on all devices, the second those on each"));
        }
        table.try_into().map_err(|error| wrong(path, &error))
    }

    /// Counts the examples of a step on so many devices, and checks what depends on it.
    pub fn set_batch(&mut self, devices: usize) -> Result<(), Error> {
        if let Some(per_chip) = self.train.batch_size_per_chip.take() {
            self.train.batch_size = per_chip.checked_mul(devices).ok_or_else(|| {
                Error::new(format!("{per_chip} examples on each of {devices} devices are too many to count"))
            })?;
        }
        self.check()
    }

    fn check(&self) -> Result<(), Error> {
        let train = &self.train;
        let wrong = |message: String| Error::new(message).hint("docs/howto/low-precision-training.md has examples");
        self.run.check().map_err(wrong)?;
        let is_delayed = self.run.matmul.scaling == Some(Scaling::Delayed);
        if is_delayed && self.mesh.dcn_gradients.is_some() {
            return Err(wrong(
                "mesh.dcn_gradients needs run.matmul.scaling = \"current\": slices would have histories of their own"
                    .into(),
            ));
        }
        if let Some(lora) = &self.lora {
            lora.adapters().check().map_err(wrong)?;
            if self.run.qat.is_some() {
                return Err(wrong("run.qat trains the weights that [lora] freezes: remove one of them".into()));
            }
        }
        let zero = [
            ("train.batch_size", train.batch_size as u64),
            ("data.workers", self.data.workers.unwrap_or(1) as u64),
            ("data.decode_threads", self.data.decode_threads.unwrap_or(1) as u64),
            ("train.log_every", train.log_every),
            ("train.eval_every", train.eval_every.unwrap_or(1)),
            ("train.save_every", train.save_every.unwrap_or(1)),
            ("train.max_to_keep", train.max_to_keep as u64),
        ];
        if let Some((name, _)) = zero.iter().find(|(_, value)| *value == 0) {
            return Err(Error::new(format!("{name} is 0")).hint("it must be at least 1"));
        }
        if self.data.decode_threads.is_some() && !matches!(self.data.source, DataConfig::Images { .. }) {
            return Err(Error::new("data.decode_threads is for images").hint("data.workers is for all data"));
        }
        if train.gradient_accumulation_steps > 1 && !train.batch_size.is_multiple_of(train.gradient_accumulation_steps)
        {
            let message = format!(
                "train.batch_size is {}: it is not a multiple of train.gradient_accumulation_steps ({})",
                train.batch_size, train.gradient_accumulation_steps
            );
            return Err(Error::new(message).hint("choose a batch size that is a multiple of the accumulation steps"));
        }
        Ok(())
    }

    /// How gradients are compressed between the slices of the mesh.
    fn slice_gradients(&self) -> Option<SliceGradients> {
        let dtype = self.mesh.dcn_gradients.filter(|_| self.slices > 1)?;
        Some(SliceGradients { dtype, slices: self.slices })
    }

    /// Options of a step.
    pub fn step_options(&self) -> StepOptions {
        StepOptions {
            max_grad_norm: self.train.max_grad_norm,
            gradient_accumulation_steps: self.train.gradient_accumulation_steps,
            ema: self.train.ema,
            slice_gradients: self.slice_gradients(),
        }
    }

    /// What must be the same when a training is resumed. The number of steps may grow.
    pub fn description(&self) -> serde_json::Value {
        let mut description = serde_json::json!({
            "model": self.model,
            "run": self.run,
            "data": self.data.source,
            "optimizer": self.optimizer,
            "batch_size": self.train.batch_size,
            "seed": self.train.seed,
            "max_grad_norm": self.train.max_grad_norm,
            "gradient_accumulation_steps": self.train.gradient_accumulation_steps,
            "ema": self.train.ema,
        });
        if let Some(how) = self.slice_gradients() {
            description["slice_gradients"] = serde_json::json!(how);
        }
        if let Some(lora) = &self.lora {
            description["lora"] = serde_json::json!(lora.adapters());
        }
        description
    }
}

fn wrong(path: &Path, error: &dyn std::fmt::Display) -> Error {
    Error::new(format!("{}: {error}", path.display()))
        .hint("docs/reference/train.md lists the settings; examples are in examples/train")
}

/// Changes one value by its dotted name.
fn apply(table: &mut toml::Table, change: &str) -> Result<(), Error> {
    let malformed = || Error::new(format!("`{change}` is not of the form train.steps=10"));
    let (name, value) = change.split_once('=').ok_or_else(malformed)?;
    let value: toml::Value = toml::from_str::<toml::Table>(&format!("v = {value}"))
        .ok()
        .and_then(|mut table| table.remove("v"))
        .unwrap_or_else(|| toml::Value::String(value.to_string()));
    let mut words: Vec<&str> = name.split('.').collect();
    let last = words.pop().ok_or_else(malformed)?;
    let mut at = table;
    for word in words {
        let inner = at.entry(word).or_insert_with(|| toml::Value::Table(toml::Table::new()));
        at = inner.as_table_mut().ok_or_else(malformed)?;
    }
    // One way of giving the batch replaces the other.
    if name.starts_with("train.") && BATCH.contains(&last) {
        BATCH.iter().for_each(|key| drop(at.remove(*key)));
    }
    at.insert(last.to_string(), value);
    Ok(())
}
