//! The language model of a checkpoint, and its way into a Hugging Face folder.

use std::path::{Path, PathBuf};

use nn::hf;
use nn::models::{Gemma4, Gpt2, Llama, RunOptions};
use serde_json::Value;
use tensor::{DType, Literal};
use trace::{Key, Tensor, Tree};
use weights::{CheckpointManager, IntegrityCheck, Protection, Saved};

use crate::config::DataConfig;
use crate::error::Error;
use crate::model::TrainModelConfig;
use crate::trainer::Resume;

/// Largest file of an exported model.
const MAX_SHARD_BYTES: u64 = 5 << 30;

/// A checkpoint of a language model, with what its training says of it.
pub(crate) struct SavedLanguageModel {
    pub(crate) saved: Saved,
    pub(crate) model: hf::ModelConfig,
    /// The table `[model]`, which has the words of a `config.json`.
    pub(crate) json: Value,
    pub(crate) data: DataConfig,
    pub(crate) options: RunOptions,
}

impl SavedLanguageModel {
    /// Opens a checkpoint of a training's folder: that of a step, or the newest good one.
    pub(crate) fn open(folder: &str, step: Option<u64>, protection: Protection) -> Result<SavedLanguageModel, Error> {
        let location = format!("{}/checkpoints", folder.trim_end_matches('/'));
        let manager = CheckpointManager::open(&location)?.protected(protection);
        let saved = match step {
            Some(step) => manager.load(step)?,
            None => manager.latest_good(IntegrityCheck::Sizes)?.saved,
        };
        let wrong = |error: serde_json::Error| {
            Error::new(format!("{}: {error}", saved.address())).hint("give the folder of a `tpu train` run")
        };
        let kept: Resume = serde_json::from_value(saved.metadata().clone()).map_err(wrong)?;
        let field = |name: &str| kept.description.get(name).cloned().unwrap_or_default();
        let json = field("model");
        if json.get("program").is_some() {
            return Err(Error::new("the model is an imported program").hint(
                "text is written by models of our own; `tpu weights` gives the trained weights back to PyTorch",
            ));
        }
        let TrainModelConfig::Language(model) = TrainModelConfig::read(&json, Path::new(""))? else {
            return Err(Error::new("the model takes images").hint("text needs a language model"));
        };
        let data: DataConfig = serde_json::from_value(field("data")).map_err(wrong)?;
        if kept.description.get("lora").is_some() {
            return Err(Error::new(format!("{} has adapters only", saved.address()))
                .hint("set lora.merged in the training file: the finished training writes the model with them"));
        }
        let options: RunOptions = serde_json::from_value(field("run")).map_err(wrong)?;
        Ok(SavedLanguageModel { saved, model, json, data, options })
    }
}

/// What the names of a model's parameters begin with: the EMA where the training kept one.
pub(crate) fn prefix_of(saved: &Saved) -> &'static str {
    let has_ema = saved.tensors().any(|tensor| tensor.name.starts_with("ema."));
    if has_ema { "ema" } else { "params" }
}

/// A model that was written as a Hugging Face folder.
#[derive(Clone, Debug)]
pub struct ExportedModel {
    /// The folder.
    pub folder: PathBuf,
    /// The checkpoint it is of.
    pub checkpoint: String,
    /// The checkpoint's step.
    pub step: u64,
    /// Whether the EMA of the parameters was written.
    pub is_ema: bool,
    /// Parameters.
    pub parameters: u64,
    /// Bytes of the weights.
    pub bytes: u64,
    /// Whether the tokenizer lies beside them.
    pub has_tokenizer: bool,
}

/// Writes the model of a checkpoint into a folder that does not exist or is empty: `config.json`, safetensors of a type, and the
/// tokenizer where the training had a file of it.
pub fn export_model(
    run: &str,
    step: Option<u64>,
    protection: Protection,
    out: &Path,
    dtype: DType,
) -> Result<ExportedModel, Error> {
    if !matches!(dtype, DType::F32 | DType::BF16 | DType::F16) {
        return Err(Error::new(format!("models are not written in {dtype}")).hint("choose f32, bf16 or f16"));
    }
    let trained = SavedLanguageModel::open(run, step, protection)?;
    if out.read_dir().is_ok_and(|mut entries| entries.next().is_some()) {
        return Err(Error::new(format!("{} is not empty", out.display())).hint("give a folder that does not exist"));
    }
    std::fs::create_dir_all(out).map_err(|error| Error::new(format!("{}: {error}", out.display())))?;
    let seed = || Key::from_seed(&Tensor::scalar(DType::U32, 0.0));
    let options = RunOptions::default();
    let (parameters, bytes) = match &trained.model {
        hf::ModelConfig::Gpt2(sizes) => {
            let model = trace::shapes_of(&(), |()| Gpt2::init(&seed(), sizes, &options))?;
            write_weights(&trained, &model, out, dtype)?
        }
        hf::ModelConfig::Llama(sizes) => {
            let model = trace::shapes_of(&(), |()| Llama::init(&seed(), sizes, &options))?;
            write_weights(&trained, &model, out, dtype)?
        }
        hf::ModelConfig::Gemma4(sizes) => {
            let model = trace::shapes_of(&(), |()| Gemma4::init(&seed(), sizes, &options))?;
            write_weights(&trained, &model, out, dtype)?
        }
    };
    let has_tokenizer = copy_tokenizer(&trained.data, Path::new(run), out)?;
    write_config(&trained, out, dtype)?;
    Ok(ExportedModel {
        folder: out.to_path_buf(),
        checkpoint: trained.saved.address(),
        step: trained.saved.step(),
        is_ema: prefix_of(&trained.saved) == "ema",
        parameters,
        bytes,
        has_tokenizer,
    })
}

/// Writes the weights; how many there are, and their bytes.
fn write_weights<M: Tree>(
    trained: &SavedLanguageModel,
    model: &M,
    out: &Path,
    dtype: DType,
) -> Result<(u64, u64), Error> {
    let prefix = prefix_of(&trained.saved);
    let mut params: Vec<Literal> = Vec::new();
    for path in model.paths() {
        params.push(trained.saved.read_as(&format!("{prefix}.{path}"), dtype)?);
    }
    hf::save(out, trained.model.family(), model, &params, MAX_SHARD_BYTES)?;
    let count: u64 = params.iter().map(|literal| literal.num_elements() as u64).sum();
    Ok((count, count * dtype.size_bytes() as u64))
}

/// `config.json`, last, so that a folder with one is whole.
fn write_config(trained: &SavedLanguageModel, out: &Path, dtype: DType) -> Result<(), Error> {
    let mut json = trained.json.clone();
    if let Some(object) = json.as_object_mut() {
        // What is written is dense, whatever the training began with.
        object.remove("quantization_config");
        object.remove("torch_dtype");
        let name = match dtype {
            DType::BF16 => "bfloat16",
            DType::F16 => "float16",
            _ => "float32",
        };
        object.insert("dtype".into(), name.into());
        if let Some(class) = object.get("model_type").and_then(Value::as_str).and_then(architecture) {
            object.insert("architectures".into(), serde_json::json!([class]));
        }
    }
    let path = out.join("config.json");
    let text = serde_json::to_string_pretty(&json).unwrap_or_default();
    std::fs::write(&path, text).map_err(|error| Error::new(format!("{}: {error}", path.display())))
}

/// The class of transformers for a `model_type`.
fn architecture(model_type: &str) -> Option<&'static str> {
    Some(match model_type {
        "gpt2" => "GPT2LMHeadModel",
        "llama" => "LlamaForCausalLM",
        "mistral" => "MistralForCausalLM",
        "mixtral" => "MixtralForCausalLM",
        "qwen2" => "Qwen2ForCausalLM",
        "qwen3" => "Qwen3ForCausalLM",
        "qwen3_moe" => "Qwen3MoeForCausalLM",
        "gemma3_text" => "Gemma3ForCausalLM",
        "deepseek_v2" => "DeepseekV2ForCausalLM",
        "deepseek_v3" => "DeepseekV3ForCausalLM",
        _ => return None,
    })
}

/// Copies the tokenizer's files, where the training had some.
fn copy_tokenizer(data: &DataConfig, run: &Path, out: &Path) -> Result<bool, Error> {
    let DataConfig::Text { tokenizer: Some(name), .. } = data else { return Ok(false) };
    let found = [Path::new(name).to_path_buf(), run.join(name)].into_iter().find(|path| path.is_file());
    let Some(from) = found else { return Ok(false) };
    let beside = from.parent().unwrap_or(Path::new(""));
    let others = ["tokenizer_config.json", "special_tokens_map.json"].map(|name| (beside.join(name), name));
    for (from, name) in [(from, "tokenizer.json")].into_iter().chain(others) {
        if from.is_file() {
            let copied = std::fs::copy(&from, out.join(name));
            copied.map_err(|error| Error::new(format!("copying {}: {error}", from.display())))?;
        }
    }
    Ok(true)
}
