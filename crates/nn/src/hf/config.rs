//! `config.json` of the families that are known.

use std::io::Read;
use std::path::Path;

use serde_json::{Value, json};

use crate::error::Error;
use crate::hf::defaults::{Kind, TEXT, complete};
use crate::hf::{decoder, gemma4};
use crate::models::{Family, Gemma4Config, Gpt2Config, HeadNorm, LlamaConfig, Norms, Style};

/// Longest configuration that is read.
const MAX_CONFIG_BYTES: u64 = 1 << 20;

/// Models that read images around a model of text of any family, that family where a file does not say it, and whether its sizes may
/// stand outside.
const WITHIN: [(&str, &str, Flat); 7] = [
    ("llava", "llama", Flat::Never),
    ("llava_next", "llama", Flat::Never),
    ("llava_onevision", "qwen2", Flat::Never),
    ("paligemma", "gemma", Flat::Never),
    ("mistral3", "mistral", Flat::Never),
    ("qwen2_vl", "qwen2", Flat::Maybe),
    ("qwen2_5_vl", "qwen2", Flat::Maybe),
];

/// Whether sizes of a model of text may stand outside of `text_config`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flat {
    Never,
    Maybe,
}

/// A configuration of one of the families.
#[derive(Clone, Debug, PartialEq)]
#[allow(clippy::large_enum_variant, reason = "a program has one or two of these")]
pub enum ModelConfig {
    /// GPT-2.
    Gpt2(Gpt2Config),
    /// Decoders with rotary positions: Llama and all families that are made of its parts.
    Llama(LlamaConfig),
    /// Gemma 4.
    Gemma4(Gemma4Config),
}

impl ModelConfig {
    /// How its tensors are named.
    pub fn family(&self) -> Family {
        match self {
            ModelConfig::Gpt2(_) => Family::Gpt2,
            ModelConfig::Gemma4(_) => Family::Gemma4,
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

    /// Tokens of its vocabulary.
    pub fn vocab_size(&self) -> usize {
        match self {
            ModelConfig::Gpt2(config) => config.vocab_size,
            ModelConfig::Llama(config) => config.vocab_size,
            ModelConfig::Gemma4(config) => config.vocab_size,
        }
    }

    /// Positions of its longest sequence.
    pub fn max_positions(&self) -> usize {
        match self {
            ModelConfig::Gpt2(config) => config.n_positions,
            ModelConfig::Llama(config) => config.max_position_embeddings,
            ModelConfig::Gemma4(config) => config.max_position_embeddings,
        }
    }

    /// Width of its activations.
    pub fn hidden_size(&self) -> usize {
        match self {
            ModelConfig::Gpt2(config) => config.n_embd,
            ModelConfig::Llama(config) => config.hidden_size,
            ModelConfig::Gemma4(config) => config.hidden_size,
        }
    }

    /// From the text of a `config.json`.
    pub fn parse(text: &str) -> Result<ModelConfig, Error> {
        let malformed = |error: serde_json::Error| Error::config(format!("the configuration is malformed: {error}"));
        let value: Value = serde_json::from_str(text).map_err(malformed)?;
        let model_type = value.get("model_type").and_then(Value::as_str).unwrap_or("").to_owned();
        // The model of text of these is one of any family; what reads images is another model.
        if let Some((_, usual, is_flat)) = WITHIN.iter().find(|(name, ..)| *name == model_type) {
            let text = value.get(TEXT).filter(|text| text.is_object()).cloned();
            let has_text = text.is_some();
            // Older files of some have the model of text beside what reads images.
            let mut within = text.unwrap_or_else(|| if *is_flat == Flat::Maybe { value } else { json!({}) });
            if let Some(keys) = within.as_object_mut() {
                match has_text {
                    true => keys.entry("model_type").or_insert_with(|| (*usual).into()),
                    false => {
                        keys.entry("model_type").and_modify(|name| *name = (*usual).into()).or_insert((*usual).into())
                    }
                };
            }
            return ModelConfig::parse(&within.to_string());
        }
        if gemma4::KNOWN.contains(&model_type.as_str()) {
            return gemma4::read(value).map(ModelConfig::Gemma4);
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
                "models of type `{model_type}` are not known; known are gpt2, {}, {}, {}",
                decoder::KNOWN.join(", "),
                gemma4::KNOWN.join(", "),
                WITHIN.map(|(name, ..)| name).join(", ")
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
