//! `config.json` of the families that are known.

use std::path::Path;

use serde::Deserialize;
use serde_json::Value;

use crate::error::Error;
use crate::layers::{Activation, Bias, Dispatch, RopeScaling};
use crate::models::{Experts, Gpt2Config, Head, LlamaConfig};

/// Longest configuration that is read.
const MAX_CONFIG_BYTES: u64 = 1 << 20;

/// How a family names its tensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Family {
    /// GPT-2.
    Gpt2,
    /// Llama, Mistral, Qwen 2.
    Llama,
    /// Mixtral.
    Mixtral,
}

/// A configuration of one of the families.
#[derive(Clone, Debug, PartialEq)]
pub enum ModelConfig {
    /// GPT-2.
    Gpt2(Gpt2Config),
    /// Llama, Mistral, Qwen 2, Mixtral.
    Llama(LlamaConfig),
}

impl ModelConfig {
    /// How its tensors are named.
    pub fn family(&self) -> Family {
        match self {
            ModelConfig::Gpt2(_) => Family::Gpt2,
            ModelConfig::Llama(config) if config.experts.is_some() => Family::Mixtral,
            ModelConfig::Llama(_) => Family::Llama,
        }
    }

    /// From the text of a `config.json`.
    pub fn parse(text: &str) -> Result<ModelConfig, Error> {
        let malformed = |error: serde_json::Error| Error::config(format!("the configuration is malformed: {error}"));
        let value: Value = serde_json::from_str(text).map_err(malformed)?;
        let model_type = value.get("model_type").and_then(Value::as_str).unwrap_or("").to_owned();
        match model_type.as_str() {
            "gpt2" => {
                let config: Gpt2Config = serde_json::from_value(value).map_err(malformed)?;
                if config.n_head == 0 || !config.n_embd.is_multiple_of(config.n_head) || config.n_embd == 0 {
                    let (width, heads) = (config.n_embd, config.n_head);
                    return Err(Error::config(format!("a width of {width} cannot be split into {heads} heads")));
                }
                Ok(ModelConfig::Gpt2(config))
            }
            "llama" | "mistral" | "qwen2" | "mixtral" => {
                let raw: Raw = serde_json::from_value(value).map_err(malformed)?;
                raw.understood(&model_type).and_then(LlamaConfig::checked).map(ModelConfig::Llama)
            }
            other => Err(Error::config(format!(
                "models of type `{other}` are not known; known are gpt2, llama, mistral, qwen2 and mixtral"
            ))),
        }
    }
}

/// Reads a `config.json`, or the one in a folder.
pub fn read_config(path: &Path) -> Result<ModelConfig, Error> {
    let file = if path.is_dir() { path.join("config.json") } else { path.to_path_buf() };
    let failed = |source: Box<dyn std::error::Error + Send + Sync>| Error::ConfigFile { path: file.clone(), source };
    let length = std::fs::metadata(&file).map_err(|error| failed(error.into()))?.len();
    if length > MAX_CONFIG_BYTES {
        return Err(failed(format!("it is {length} bytes long").into()));
    }
    let text = std::fs::read_to_string(&file).map_err(|error| failed(error.into()))?;
    ModelConfig::parse(&text).map_err(|error| failed(error.into()))
}

/// As the file has it.
#[derive(Deserialize)]
struct Raw {
    vocab_size: usize,
    hidden_size: usize,
    intermediate_size: usize,
    num_hidden_layers: usize,
    num_attention_heads: usize,
    num_key_value_heads: Option<usize>,
    head_dim: Option<usize>,
    max_position_embeddings: usize,
    rms_norm_eps: f64,
    rope_theta: Option<f64>,
    rope_scaling: Option<RawRope>,
    rope_parameters: Option<RawRope>,
    hidden_act: Activation,
    #[serde(default)]
    attention_bias: bool,
    #[serde(default)]
    mlp_bias: bool,
    #[serde(default)]
    tie_word_embeddings: bool,
    sliding_window: Option<usize>,
    use_sliding_window: Option<bool>,
    num_local_experts: Option<usize>,
    num_experts_per_tok: Option<usize>,
    router_aux_loss_coef: Option<f64>,
    initializer_range: Option<f64>,
}

#[derive(Deserialize)]
struct RawRope {
    #[serde(alias = "type")]
    rope_type: Option<String>,
    rope_theta: Option<f64>,
    factor: Option<f64>,
    low_freq_factor: Option<f64>,
    high_freq_factor: Option<f64>,
    original_max_position_embeddings: Option<usize>,
}

impl RawRope {
    fn scaling(&self) -> Result<RopeScaling, Error> {
        let need = |name: &str, value: Option<f64>| {
            let value = value.filter(|value| value.is_finite() && *value > 0.0);
            value.ok_or_else(|| Error::config(format!("rope_scaling has no usable {name}")))
        };
        match self.rope_type.as_deref() {
            None | Some("default") => Ok(RopeScaling::None),
            Some("linear") => Ok(RopeScaling::Linear { factor: need("factor", self.factor)? }),
            Some("llama3") => Ok(RopeScaling::Llama3 {
                factor: need("factor", self.factor)?,
                low_freq_factor: need("low_freq_factor", self.low_freq_factor)?,
                high_freq_factor: need("high_freq_factor", self.high_freq_factor)?,
                original_max_position_embeddings: self
                    .original_max_position_embeddings
                    .ok_or_else(|| Error::config("rope_scaling has no original_max_position_embeddings"))?,
            }),
            Some(other) => Err(Error::config(format!(
                "rope scaling of type `{other}` is not known; known are default, linear and llama3"
            ))),
        }
    }
}

impl Raw {
    fn understood(self, model_type: &str) -> Result<LlamaConfig, Error> {
        if self.mlp_bias {
            return Err(Error::config("feed-forwards with a bias (mlp_bias) are not known"));
        }
        let bias = |has_one: bool| if has_one { Bias::Zero } else { Bias::None };
        let (projection_bias, output_bias) = match model_type {
            "qwen2" => (Bias::Zero, Bias::None),
            _ => (bias(self.attention_bias), bias(self.attention_bias)),
        };
        let rope = self.rope_scaling.as_ref().or(self.rope_parameters.as_ref());
        let theta = self.rope_theta.or_else(|| self.rope_parameters.as_ref().and_then(|rope| rope.rope_theta));
        let uses_window = match model_type {
            "llama" => false,
            "qwen2" => self.use_sliding_window.unwrap_or(false),
            _ => self.use_sliding_window.unwrap_or(true),
        };
        let experts = match (model_type, self.num_local_experts) {
            ("mixtral", None) => return Err(Error::config("num_local_experts is missing")),
            ("mixtral", Some(count)) => Some(Experts {
                count,
                chosen: self.num_experts_per_tok.unwrap_or(2),
                balance: self.router_aux_loss_coef.unwrap_or(0.001),
                dispatch: Dispatch::Grouped,
            }),
            _ => None,
        };
        Ok(LlamaConfig {
            vocab_size: self.vocab_size,
            hidden_size: self.hidden_size,
            intermediate_size: self.intermediate_size,
            num_hidden_layers: self.num_hidden_layers,
            num_attention_heads: self.num_attention_heads,
            num_key_value_heads: self.num_key_value_heads.unwrap_or(self.num_attention_heads),
            head_dim: self.head_dim.unwrap_or(self.hidden_size / self.num_attention_heads.max(1)),
            max_position_embeddings: self.max_position_embeddings,
            rms_norm_eps: self.rms_norm_eps,
            rope_theta: theta.unwrap_or(10_000.0),
            rope_scaling: rope.map_or(Ok(RopeScaling::None), RawRope::scaling)?,
            hidden_act: self.hidden_act,
            projection_bias,
            output_bias,
            sliding_window: self.sliding_window.filter(|_| uses_window),
            head: if self.tie_word_embeddings { Head::Tied } else { Head::Own },
            experts,
            initializer_range: self.initializer_range.unwrap_or(0.02),
        })
    }
}
