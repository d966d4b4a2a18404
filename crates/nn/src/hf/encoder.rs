//! `config.json` of encoders: BERT, RoBERTa, XLM-RoBERTa, CamemBERT, DistilBERT and ModernBERT.

use serde::Deserialize;
use serde_json::Value;

use crate::error::Error;
use crate::layers::{Activation, Bias};
use crate::models::{EncoderConfig, Family, ModernEncoderConfig};

/// Types of encoders that are read here.
const KNOWN: [&str; 6] = ["bert", "roberta", "xlm-roberta", "camembert", "distilbert", "modernbert"];

/// A configuration of an encoder.
#[derive(Clone, Debug, PartialEq)]
pub enum AnyEncoderConfig {
    /// As BERT.
    Bert(EncoderConfig),
    /// As ModernBERT.
    Modern(ModernEncoderConfig),
}

/// BERT and those made of it.
#[derive(Deserialize)]
#[serde(default)]
struct RawBert {
    vocab_size: usize,
    hidden_size: usize,
    num_hidden_layers: usize,
    num_attention_heads: usize,
    intermediate_size: usize,
    hidden_act: Activation,
    max_position_embeddings: usize,
    type_vocab_size: usize,
    layer_norm_eps: f64,
    initializer_range: f64,
    pad_token_id: Option<u32>,
    position_embedding_type: Option<String>,
    is_decoder: bool,
    add_cross_attention: bool,
}

impl Default for RawBert {
    fn default() -> RawBert {
        RawBert {
            vocab_size: 30_522,
            hidden_size: 768,
            num_hidden_layers: 12,
            num_attention_heads: 12,
            intermediate_size: 3072,
            hidden_act: Activation::Gelu,
            max_position_embeddings: 512,
            type_vocab_size: 2,
            layer_norm_eps: 1e-12,
            initializer_range: 0.02,
            pad_token_id: None,
            position_embedding_type: None,
            is_decoder: false,
            add_cross_attention: false,
        }
    }
}

/// DistilBERT.
#[derive(Deserialize)]
#[serde(default)]
struct RawDistilBert {
    vocab_size: usize,
    dim: usize,
    n_layers: usize,
    n_heads: usize,
    hidden_dim: usize,
    activation: Activation,
    max_position_embeddings: usize,
    initializer_range: f64,
}

impl Default for RawDistilBert {
    fn default() -> RawDistilBert {
        RawDistilBert {
            vocab_size: 30_522,
            dim: 768,
            n_layers: 6,
            n_heads: 12,
            hidden_dim: 4 * 768,
            activation: Activation::Gelu,
            max_position_embeddings: 512,
            initializer_range: 0.02,
        }
    }
}

/// ModernBERT.
#[derive(Deserialize)]
#[serde(default)]
struct RawModernBert {
    vocab_size: usize,
    hidden_size: usize,
    intermediate_size: usize,
    num_hidden_layers: usize,
    num_attention_heads: usize,
    hidden_activation: Activation,
    max_position_embeddings: usize,
    initializer_range: f64,
    norm_eps: f64,
    norm_bias: bool,
    attention_bias: bool,
    mlp_bias: bool,
    global_attn_every_n_layers: usize,
    local_attention: usize,
    global_rope_theta: f64,
    local_rope_theta: Option<f64>,
    layer_types: Option<Vec<String>>,
    rope_scaling: Option<Value>,
    rope_parameters: Option<Value>,
}

impl Default for RawModernBert {
    fn default() -> RawModernBert {
        RawModernBert {
            vocab_size: 50_368,
            hidden_size: 768,
            intermediate_size: 1152,
            num_hidden_layers: 22,
            num_attention_heads: 12,
            hidden_activation: Activation::Gelu,
            max_position_embeddings: 8192,
            initializer_range: 0.02,
            norm_eps: 1e-5,
            norm_bias: false,
            attention_bias: false,
            mlp_bias: false,
            global_attn_every_n_layers: 3,
            local_attention: 128,
            global_rope_theta: 160_000.0,
            local_rope_theta: Some(10_000.0),
            layer_types: None,
            rope_scaling: None,
            rope_parameters: None,
        }
    }
}

fn modern(given: Value) -> Result<ModernEncoderConfig, Error> {
    let malformed = |error: serde_json::Error| Error::config(format!("the configuration is malformed: {error}"));
    let raw: RawModernBert = serde_json::from_value(given).map_err(malformed)?;
    let every = match &raw.layer_types {
        None => raw.global_attn_every_n_layers,
        Some(types) => {
            let is_full = |name: &String| name == "full_attention";
            let every = types.iter().skip(1).position(is_full).map_or(types.len().max(2), |at| at + 1);
            let is_regular = types.len() == raw.num_hidden_layers
                && types.iter().enumerate().all(|(n, name)| is_full(name) == (n % every == 0));
            if !is_regular {
                return Err(Error::config(
                    "layer_types is no regular order: the first of every so many layers must be the one with full_attention",
                ));
            }
            every
        }
    };
    // Newer files have the angles of each type of layers in one place.
    let angles = |kind: &str| raw.rope_parameters.as_ref().and_then(|all| all.get(kind)).filter(|one| !one.is_null());
    for kind in ["full_attention", "sliding_attention"] {
        let name = angles(kind).and_then(|one| one.get("rope_type")).and_then(Value::as_str);
        if let Some(name) = name.filter(|name| *name != "default") {
            return Err(Error::config(format!("rope scaling of type `{name}` of modernbert is not supported")));
        }
    }
    if raw.rope_scaling.is_some() {
        return Err(Error::config("rope_scaling of modernbert is not supported"));
    }
    let theta = |kind: &str| angles(kind).and_then(|one| one.get("rope_theta")).and_then(Value::as_f64);
    let bias = |has_one: bool| if has_one { Bias::Zero } else { Bias::None };
    let global_rope_theta = theta("full_attention").unwrap_or(raw.global_rope_theta);
    let config = ModernEncoderConfig {
        vocab_size: raw.vocab_size,
        hidden_size: raw.hidden_size,
        num_hidden_layers: raw.num_hidden_layers,
        num_attention_heads: raw.num_attention_heads,
        intermediate_size: raw.intermediate_size,
        hidden_activation: raw.hidden_activation,
        max_position_embeddings: raw.max_position_embeddings,
        norm_eps: raw.norm_eps,
        norm_bias: bias(raw.norm_bias),
        attention_bias: bias(raw.attention_bias),
        mlp_bias: bias(raw.mlp_bias),
        global_every: every,
        local_attention: raw.local_attention,
        global_rope_theta,
        local_rope_theta: theta("sliding_attention").or(raw.local_rope_theta).unwrap_or(global_rope_theta),
        initializer_range: raw.initializer_range,
    };
    config.checked()
}

impl AnyEncoderConfig {
    /// Whether a configuration is that of an encoder.
    pub fn is_known(config: &Value) -> bool {
        config.get("model_type").and_then(Value::as_str).is_some_and(|name| KNOWN.contains(&name))
    }

    /// From a `config.json`.
    pub fn of(config: &Value) -> Result<AnyEncoderConfig, Error> {
        let malformed = |error: serde_json::Error| Error::config(format!("the configuration is malformed: {error}"));
        let model_type = config.get("model_type").and_then(Value::as_str).unwrap_or("");
        let mut given = config.clone();
        if let Some(keys) = given.as_object_mut() {
            // `null` is as if a key were not there.
            keys.retain(|_, value| !value.is_null());
        }
        let encoder = match model_type {
            "modernbert" => return modern(given).map(AnyEncoderConfig::Modern),
            "distilbert" => {
                let raw: RawDistilBert = serde_json::from_value(given).map_err(malformed)?;
                EncoderConfig {
                    vocab_size: raw.vocab_size,
                    hidden_size: raw.dim,
                    num_hidden_layers: raw.n_layers,
                    num_attention_heads: raw.n_heads,
                    intermediate_size: raw.hidden_dim,
                    hidden_act: raw.activation,
                    max_position_embeddings: raw.max_position_embeddings,
                    type_vocab_size: 0,
                    layer_norm_eps: 1e-12,
                    padding_token: None,
                    initializer_range: raw.initializer_range,
                    family: Family::DistilBert,
                }
            }
            "bert" | "roberta" | "xlm-roberta" | "camembert" => {
                let is_bert = model_type == "bert";
                let raw: RawBert = serde_json::from_value(given).map_err(malformed)?;
                let unknown = [
                    (
                        raw.position_embedding_type.as_deref().is_some_and(|name| name != "absolute"),
                        "relative positions (position_embedding_type)",
                    ),
                    (raw.is_decoder, "encoders that are decoders (is_decoder)"),
                    (raw.add_cross_attention, "layers that attend to another model (add_cross_attention)"),
                ];
                if let Some((_, what)) = unknown.iter().find(|(is_asked, _)| *is_asked) {
                    return Err(Error::config(format!("{what} are not supported")));
                }
                EncoderConfig {
                    vocab_size: match (is_bert, config.get("vocab_size")) {
                        (false, None) if model_type != "xlm-roberta" => 50_265,
                        _ => raw.vocab_size,
                    },
                    hidden_size: raw.hidden_size,
                    num_hidden_layers: raw.num_hidden_layers,
                    num_attention_heads: raw.num_attention_heads,
                    intermediate_size: raw.intermediate_size,
                    hidden_act: raw.hidden_act,
                    max_position_embeddings: raw.max_position_embeddings,
                    type_vocab_size: raw.type_vocab_size,
                    layer_norm_eps: raw.layer_norm_eps,
                    padding_token: (!is_bert).then(|| raw.pad_token_id.unwrap_or(1)),
                    initializer_range: raw.initializer_range,
                    family: Family::Bert,
                }
            }
            other => {
                return Err(Error::config(format!(
                    "encoders of type `{other}` are not known; known are {}",
                    KNOWN.join(", ")
                )));
            }
        };
        encoder.checked().map(AnyEncoderConfig::Bert)
    }
}
