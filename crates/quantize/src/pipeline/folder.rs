//! A model in a Hugging Face folder, dense or quantized.

use std::path::{Path, PathBuf};

use nn::hf::{Family, ModelConfig};
use nn::models::{Llama, LlamaConfig, RunOptions};
use nn::quant::ActivationQuant;
use serde_json::Value;
use tensor::DType;
use trace::{Key, Tensor};
use weights::quant::QuantizedFolder;

use crate::error::Error;

/// A model in a folder.
#[derive(Debug)]
pub struct ModelFolder {
    /// Where it is.
    pub path: PathBuf,
    /// Its tensors.
    pub files: QuantizedFolder,
    /// `config.json`.
    pub json: Value,
    /// Its sizes.
    pub config: ModelConfig,
}

impl ModelFolder {
    /// Opens a folder, or a file of GGUF.
    pub fn open(path: &Path) -> Result<ModelFolder, Error> {
        let files = QuantizedFolder::open(path)?;
        let json = files.config().cloned().ok_or_else(|| {
            Error::setting(
                format!("{} has no config.json", path.display()),
                "give a Hugging Face folder: config.json and safetensors",
            )
        })?;
        let config = ModelConfig::parse(&json.to_string())?;
        Ok(ModelFolder { path: path.to_path_buf(), files, json, config })
    }

    /// How its tensors are named.
    pub fn family(&self) -> Family {
        self.config.family()
    }

    /// Tokens of its vocabulary.
    pub fn vocab_size(&self) -> usize {
        self.config.vocab_size()
    }

    /// Positions of its longest sequence.
    pub fn max_positions(&self) -> usize {
        self.config.max_positions()
    }

    /// What its files say of activations.
    pub fn activations(&self) -> ActivationQuant {
        let groups = self.json.pointer("/quantization_config/config_groups").and_then(Value::as_object);
        let of = |group: &Value| {
            let activations = group.get("input_activations").filter(|value| value.is_object())?;
            let is_dynamic = activations.get("dynamic") != Some(&Value::Bool(false));
            Some(if is_dynamic { ActivationQuant::Dynamic } else { ActivationQuant::Static })
        };
        groups.into_iter().flat_map(|groups| groups.values()).find_map(of).unwrap_or_default()
    }

    /// The model known by types and shapes, dense; only families with rotary positions.
    pub(crate) fn llama(&self, options: &RunOptions) -> Result<(LlamaConfig, Llama), Error> {
        let ModelConfig::Llama(config) = &self.config else {
            let name = if matches!(self.config, ModelConfig::Gpt2(_)) { "GPT-2" } else { "Gemma 4" };
            return Err(Error::setting(
                format!("{} is a {name}, whose weights no quantized format has a place for", self.path.display()),
                "quantize a model of the Llama, Mistral, Qwen, Gemma, Mixtral or DeepSeek families",
            ));
        };
        if self.json.get("model_type").and_then(Value::as_str) == Some("llava") {
            return Err(Error::setting(
                format!("{} reads images, and only models of text are quantized", self.path.display()),
                "quantize its model of text alone",
            ));
        }
        if self.family().has_fused_tensors() {
            return Err(Error::setting(
                format!(
                    "{} has several weights in one tensor, for which no quantized format has a place",
                    self.path.display()
                ),
                "quantize a model of the Llama, Mistral, Qwen, Gemma, Mixtral or DeepSeek families",
            ));
        }
        let shapes = trace::shapes_of(&(), |()| {
            Llama::init(&Key::from_seed(&Tensor::scalar(DType::U32, 0.0)), config, options)
        })?;
        Ok((config.clone(), shapes))
    }
}
