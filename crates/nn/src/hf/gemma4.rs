//! `config.json` of Gemma 4.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::error::Error;
use crate::hf::defaults::TEXT;
use crate::hf::rope::RawRope;
use crate::layers::{Activation, Bias, RopeScaling};
use crate::models::{Gemma4Attention, Gemma4Config, Gemma4Experts, Head, PerLayerSizes};

/// Types of models that are read here.
pub(super) const KNOWN: [&str; 2] = ["gemma4_text", "gemma4"];

/// One of every so many layers sees all positions, where a file does not list them.
const FULL_EVERY: usize = 6;

/// As the file has it; what it may leave out is as in transformers.
#[derive(Deserialize)]
#[serde(default)]
struct Raw {
    vocab_size: usize,
    hidden_size: usize,
    intermediate_size: usize,
    num_hidden_layers: usize,
    num_attention_heads: usize,
    num_key_value_heads: usize,
    head_dim: usize,
    hidden_activation: Activation,
    max_position_embeddings: usize,
    initializer_range: f64,
    rms_norm_eps: f64,
    pad_token_id: u32,
    tie_word_embeddings: bool,
    rope_parameters: Option<BTreeMap<String, RawRope>>,
    attention_bias: bool,
    sliding_window: usize,
    layer_types: Option<Vec<String>>,
    final_logit_softcapping: Option<f64>,
    use_bidirectional_attention: Option<String>,
    vocab_size_per_layer_input: usize,
    hidden_size_per_layer_input: usize,
    attention_k_eq_v: bool,
    num_kv_shared_layers: usize,
    enable_moe_block: bool,
    use_double_wide_mlp: bool,
    num_experts: usize,
    top_k_experts: usize,
    moe_intermediate_size: usize,
    global_head_dim: usize,
    num_global_key_value_heads: Option<usize>,
    /// What single layers, by their numbers, have of their own.
    per_layer_config: Option<BTreeMap<String, RawLayer>>,
}

#[derive(Clone, Copy, Default, Deserialize, PartialEq)]
#[serde(default)]
struct RawLayer {
    head_dim: Option<usize>,
    num_key_value_heads: Option<usize>,
}

impl Default for Raw {
    fn default() -> Raw {
        Raw {
            vocab_size: 262_144,
            hidden_size: 2304,
            intermediate_size: 9216,
            num_hidden_layers: 30,
            num_attention_heads: 8,
            num_key_value_heads: 4,
            head_dim: 256,
            hidden_activation: Activation::GeluTanh,
            max_position_embeddings: 131_072,
            initializer_range: 0.02,
            rms_norm_eps: 1e-6,
            pad_token_id: 0,
            tie_word_embeddings: true,
            rope_parameters: None,
            attention_bias: false,
            sliding_window: 512,
            layer_types: None,
            final_logit_softcapping: None,
            use_bidirectional_attention: None,
            vocab_size_per_layer_input: 262_144,
            hidden_size_per_layer_input: 256,
            attention_k_eq_v: false,
            num_kv_shared_layers: 0,
            enable_moe_block: false,
            use_double_wide_mlp: false,
            num_experts: 0,
            top_k_experts: 0,
            moe_intermediate_size: 0,
            global_head_dim: 512,
            num_global_key_value_heads: None,
            per_layer_config: None,
        }
    }
}

/// Reads a configuration of the model of text, alone or within one that reads images.
pub(super) fn read(value: Value) -> Result<Gemma4Config, Error> {
    let malformed = |error: serde_json::Error| Error::config(format!("the configuration is malformed: {error}"));
    let Value::Object(mut given) = value else { return Err(Error::config("the configuration is not a JSON object")) };
    if given.get("model_type").and_then(Value::as_str) == Some("gemma4") {
        let is_tied = given.remove("tie_word_embeddings").filter(Value::is_boolean);
        given = match given.remove(TEXT) {
            Some(Value::Object(text)) => text,
            Some(Value::Null) | None => Map::new(),
            Some(_) => return Err(Error::config(format!("{TEXT} is not a JSON object"))),
        };
        given.extend(is_tied.map(|is_tied| ("tie_word_embeddings".to_string(), is_tied)));
    }
    given.retain(|_, value| !value.is_null());
    serde_json::from_value::<Raw>(Value::Object(given)).map_err(malformed)?.understood()?.checked()
}

impl Raw {
    fn understood(self) -> Result<Gemma4Config, Error> {
        if self.use_bidirectional_attention.as_deref() == Some("all") {
            return Err(Error::config("attention to later positions (use_bidirectional_attention) is not supported"));
        }
        let is_full = self.is_full()?;
        if self.num_kv_shared_layers >= is_full.len() && self.num_kv_shared_layers > 0 {
            return Err(Error::config(format!(
                "num_kv_shared_layers is {}, but there are {} layers",
                self.num_kv_shared_layers,
                is_full.len()
            )));
        }
        let of_full = self.full_layers(&is_full)?;
        Ok(Gemma4Config {
            vocab_size: self.vocab_size,
            hidden_size: self.hidden_size,
            intermediate_size: self.intermediate_size,
            num_attention_heads: self.num_attention_heads,
            sliding: Gemma4Attention {
                num_key_value_heads: self.num_key_value_heads,
                head_dim: self.head_dim,
                ..self.rope("sliding_attention", 10_000.0, RopeScaling::None)?
            },
            full: Gemma4Attention {
                num_key_value_heads: of_full.num_key_value_heads.unwrap_or(self.num_key_value_heads),
                head_dim: of_full.head_dim.unwrap_or(self.head_dim),
                ..self.rope("full_attention", 1_000_000.0, RopeScaling::Proportional { share: 0.25, factor: 1.0 })?
            },
            is_full,
            sliding_window: self.sliding_window,
            num_kv_shared_layers: self.num_kv_shared_layers,
            has_wide_shared_layers: self.use_double_wide_mlp,
            has_keys_as_values: self.attention_k_eq_v,
            per_layer_input: (self.hidden_size_per_layer_input > 0).then_some(PerLayerSizes {
                vocab_size: self.vocab_size_per_layer_input,
                width: self.hidden_size_per_layer_input,
            }),
            experts: self.enable_moe_block.then_some(Gemma4Experts {
                count: self.num_experts,
                chosen: self.top_k_experts,
                inner: self.moe_intermediate_size,
            }),
            max_position_embeddings: self.max_position_embeddings,
            rms_norm_eps: self.rms_norm_eps,
            hidden_act: self.hidden_activation,
            attention_bias: if self.attention_bias { Bias::Zero } else { Bias::None },
            logit_soft_cap: self.final_logit_softcapping,
            head: if self.tie_word_embeddings { Head::Tied } else { Head::Own },
            pad_token: self.pad_token_id,
            initializer_range: self.initializer_range,
        })
    }

    /// For each layer whether it sees all positions; the last always does.
    fn is_full(&self) -> Result<Vec<bool>, Error> {
        let layers = self.num_hidden_layers;
        let mut is_full = match &self.layer_types {
            None => {
                // A number from a file: no more layers are listed than any model has.
                if layers > MAX_LAYERS {
                    return Err(Error::config(format!("num_hidden_layers {layers} is more than {MAX_LAYERS}")));
                }
                (1..=layers).map(|number| number.is_multiple_of(FULL_EVERY)).collect()
            }
            Some(types) if types.len() != layers => {
                let listed = types.len();
                return Err(Error::config(format!("layer_types lists {listed} layers, but the model has {layers}")));
            }
            Some(types) => {
                let of = |name: &String| match name.as_str() {
                    "full_attention" => Ok(true),
                    "sliding_attention" => Ok(false),
                    other => Err(Error::config(format!("layers of type `{other}` (layer_types) are not supported"))),
                };
                types.iter().map(of).collect::<Result<Vec<bool>, Error>>()?
            }
        };
        if let Some(last) = is_full.last_mut() {
            *last = true;
        }
        Ok(is_full)
    }

    /// What layers that see all positions have of their own. Newer files say it layer by layer.
    fn full_layers(&self, is_full: &[bool]) -> Result<RawLayer, Error> {
        let usual = RawLayer {
            head_dim: Some(self.global_head_dim),
            num_key_value_heads: self.num_global_key_value_heads.filter(|_| self.attention_k_eq_v),
        };
        let Some(listed) = &self.per_layer_config else { return Ok(usual) };
        let of = |layer: usize| listed.get(&layer.to_string()).copied().unwrap_or_default();
        let mut found = None;
        for (layer, is_full) in is_full.iter().enumerate() {
            let own = of(layer);
            let is_right = if *is_full { *found.get_or_insert(own) == own } else { own == RawLayer::default() };
            if !is_right {
                return Err(Error::config(format!(
                    "per_layer_config: layer {layer} has other heads than the other layers of its type"
                )));
            }
        }
        Ok(found.unwrap_or(usual))
    }

    /// Rotary positions of a type of layers, with no heads.
    fn rope(&self, name: &str, theta: f64, usual: RopeScaling) -> Result<Gemma4Attention, Error> {
        let given = self.rope_parameters.as_ref().and_then(|types| types.get(name));
        let (rope_theta, rope_scaling) = match given {
            Some(rope) => (rope.rope_theta.unwrap_or(theta), rope.scaling(self.max_position_embeddings, None)?),
            None => (theta, usual),
        };
        Ok(Gemma4Attention { num_key_value_heads: 0, head_dim: 0, rope_theta, rope_scaling })
    }
}

/// More layers than any model has.
const MAX_LAYERS: usize = 4096;
