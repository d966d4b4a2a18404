//! `config.json` of the families that are known.

use std::io::Read;
use std::path::Path;

use serde_json::{Value, json};

use crate::error::Error;
use crate::hf::decoder;
use crate::hf::defaults::{Kind, TEXT, complete};
use crate::models::{Family, Gpt2Config, HeadNorm, LlamaConfig, Norms, Style};

/// Longest configuration that is read.
const MAX_CONFIG_BYTES: u64 = 1 << 20;

/// A configuration of one of the families.
#[derive(Clone, Debug, PartialEq)]
#[allow(clippy::large_enum_variant, reason = "a program has one or two of these")]
pub enum ModelConfig {
    /// GPT-2.
    Gpt2(Gpt2Config),
    /// Decoders with rotary positions: Llama and all families that are made of its parts.
    Llama(LlamaConfig),
}

impl ModelConfig {
    /// How its tensors are named.
    pub fn family(&self) -> Family {
        match self {
            ModelConfig::Gpt2(_) => Family::Gpt2,
            ModelConfig::Llama(LlamaConfig { style: Style { family: Some(family), .. }, .. }) => *family,
            // Where layers differ, so do their names.
            ModelConfig::Llama(config) if config.mla.is_some() => Family::DeepSeek,
            ModelConfig::Llama(config) => match (config.style.norms, &config.experts, config.style.head_norm) {
                (Norms::Around, _, _) => Family::Gemma3,
                (Norms::After, _, _) => Family::Olmo2,
                (Norms::Before, None, _) => Family::Llama,
                (Norms::Before, Some(_), HeadNorm::None) => Family::Mixtral,
                (Norms::Before, Some(_), _) => Family::Qwen3Moe,
            },
        }
    }

    /// From the text of a `config.json`.
    pub fn parse(text: &str) -> Result<ModelConfig, Error> {
        let malformed = |error: serde_json::Error| Error::config(format!("the configuration is malformed: {error}"));
        let value: Value = serde_json::from_str(text).map_err(malformed)?;
        let model_type = value.get("model_type").and_then(Value::as_str).unwrap_or("").to_owned();
        // The model of text of a LLaVA is one of any family; what reads images is another model.
        if model_type == "llava" {
            let mut within = value.get(TEXT).cloned().filter(Value::is_object).unwrap_or_else(|| json!({}));
            if let Some(keys) = within.as_object_mut() {
                keys.entry("model_type").or_insert_with(|| "llama".into());
            }
            return ModelConfig::parse(&within.to_string());
        }
        match Kind::of(&model_type) {
            Some(Kind::Gpt2) => {
                let config: Gpt2Config = serde_json::from_value(complete(Kind::Gpt2, value)?).map_err(malformed)?;
                if config.n_head == 0 || !config.n_embd.is_multiple_of(config.n_head) || config.n_embd == 0 {
                    let (width, heads) = (config.n_embd, config.n_head);
                    return Err(Error::config(format!("n_embd {width} is not a multiple of n_head {heads}")));
                }
                Ok(ModelConfig::Gpt2(config))
            }
            Some(kind) => decoder::read(kind, value).and_then(LlamaConfig::checked).map(ModelConfig::Llama),
            None => Err(Error::config(format!(
                "models of type `{model_type}` are not known; known are gpt2, llava, {}",
                decoder::KNOWN.join(", ")
            ))),
        }
    }
}

/// Reads a `config.json`, or the one in a folder.
pub fn read_config(path: &Path) -> Result<ModelConfig, Error> {
    let file = if path.is_dir() { path.join("config.json") } else { path.to_path_buf() };
    let failed = |source: Box<dyn std::error::Error + Send + Sync>| Error::ConfigFile { path: file.clone(), source };
    let mut text = String::new();
    // A file may be longer than its length says: a pipe, a device.
    let opened = std::fs::File::open(&file).map_err(|error| failed(error.into()))?;
    opened.take(MAX_CONFIG_BYTES + 1).read_to_string(&mut text).map_err(|error| failed(error.into()))?;
    if text.len() as u64 > MAX_CONFIG_BYTES {
        return Err(failed(format!("it is longer than {MAX_CONFIG_BYTES} bytes").into()));
    }
    ModelConfig::parse(&text).map_err(|error| failed(error.into()))
}
