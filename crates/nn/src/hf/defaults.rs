//! What a `config.json` may leave out: the defaults and other names of transformers' configuration classes (5.22).

use serde_json::{Map, Value, json};

use crate::error::Error;

/// A family of models, as files call it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Gpt2,
    Llama,
    Mistral,
    Mixtral,
    Qwen2,
    Qwen3,
    Qwen3Moe,
    Gemma3,
    DeepSeek2,
    DeepSeek3,
}

/// Keys whose `null` is a value of its own: none, or derived from others. Elsewhere `null` is as if it were not there.
const NULLABLE: [&str; 6] =
    ["num_key_value_heads", "head_dim", "sliding_window", "q_lora_rank", "n_group", "topk_group"];

/// Where files of a Gemma 3 that reads images keep the model of text.
const TEXT: &str = "text_config";

impl Kind {
    /// The family of a `model_type`.
    pub(super) fn of(model_type: &str) -> Option<Kind> {
        Some(match model_type {
            "gpt2" => Kind::Gpt2,
            "llama" => Kind::Llama,
            "mistral" => Kind::Mistral,
            "mixtral" => Kind::Mixtral,
            "qwen2" => Kind::Qwen2,
            "qwen3" => Kind::Qwen3,
            "qwen3_moe" => Kind::Qwen3Moe,
            "gemma3_text" | "gemma3" => Kind::Gemma3,
            "deepseek_v2" => Kind::DeepSeek2,
            "deepseek_v3" => Kind::DeepSeek3,
            _ => return None,
        })
    }

    /// Other names of keys that the classes take (`attribute_map`), and those they stand for.
    fn aliases(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Kind::Gpt2 => &[
                ("hidden_size", "n_embd"),
                ("max_position_embeddings", "n_positions"),
                ("num_attention_heads", "n_head"),
                ("num_hidden_layers", "n_layer"),
            ],
            Kind::Mixtral => &[("num_experts", "num_local_experts")],
            Kind::Qwen3Moe => &[("num_local_experts", "num_experts")],
            Kind::Gemma3 => &[("hidden_activation", "hidden_act")],
            Kind::DeepSeek2 | Kind::DeepSeek3 => {
                &[("num_experts", "n_routed_experts"), ("num_local_experts", "n_routed_experts")]
            }
            _ => &[],
        }
    }

    /// What files of this family leave out. GPT-2's defaults are those of its sizes.
    fn defaults(self) -> Value {
        match self {
            Kind::Gpt2 => json!({}),
            Kind::Llama => json!({
                "vocab_size": 32_000, "hidden_size": 4096, "intermediate_size": 11_008, "num_hidden_layers": 32,
                "num_attention_heads": 32, "max_position_embeddings": 2048, "rms_norm_eps": 1e-6,
            }),
            Kind::Mistral => json!({
                "vocab_size": 32_000, "hidden_size": 4096, "intermediate_size": 14_336, "num_hidden_layers": 32,
                "num_attention_heads": 32, "num_key_value_heads": 8, "max_position_embeddings": 131_072,
                "rms_norm_eps": 1e-6, "sliding_window": 4096,
            }),
            Kind::Mixtral => json!({
                "vocab_size": 32_000, "hidden_size": 4096, "intermediate_size": 14_336, "num_hidden_layers": 32,
                "num_attention_heads": 32, "num_key_value_heads": 8, "max_position_embeddings": 131_072,
                "rms_norm_eps": 1e-5, "rope_theta": 1_000_000.0, "num_local_experts": 8, "num_experts_per_tok": 2,
            }),
            Kind::Qwen2 => json!({
                "vocab_size": 151_936, "hidden_size": 4096, "intermediate_size": 22_016, "num_hidden_layers": 32,
                "num_attention_heads": 32, "num_key_value_heads": 32, "max_position_embeddings": 32_768,
                "rms_norm_eps": 1e-6, "sliding_window": 4096, "max_window_layers": 28,
            }),
            Kind::Qwen3 => json!({
                "vocab_size": 151_936, "hidden_size": 4096, "intermediate_size": 22_016, "num_hidden_layers": 32,
                "num_attention_heads": 32, "num_key_value_heads": 32, "head_dim": 128,
                "max_position_embeddings": 32_768, "rms_norm_eps": 1e-6, "sliding_window": 4096,
                "max_window_layers": 28,
            }),
            Kind::Qwen3Moe => json!({
                "vocab_size": 151_936, "hidden_size": 2048, "intermediate_size": 6144, "num_hidden_layers": 24,
                "num_attention_heads": 32, "num_key_value_heads": 4, "max_position_embeddings": 32_768,
                "rms_norm_eps": 1e-6, "sliding_window": 4096, "moe_intermediate_size": 768, "num_experts": 128,
                "num_experts_per_tok": 8,
            }),
            Kind::Gemma3 => json!({
                "vocab_size": 262_208, "hidden_size": 2304, "intermediate_size": 9216, "num_hidden_layers": 26,
                "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256,
                "max_position_embeddings": 131_072, "rms_norm_eps": 1e-6, "hidden_act": "gelu_pytorch_tanh",
                "rope_theta": 1_000_000.0, "rope_local_base_freq": 10_000.0, "query_pre_attn_scalar": 256,
                "sliding_window": 4096, "sliding_window_pattern": 6, "tie_word_embeddings": true,
            }),
            // The class has no number of experts for a token, and no model without one; the published models have 6.
            Kind::DeepSeek2 => json!({
                "vocab_size": 102_400, "hidden_size": 4096, "intermediate_size": 11_008, "num_hidden_layers": 32,
                "num_attention_heads": 32, "max_position_embeddings": 2048, "rms_norm_eps": 1e-6,
                "first_k_dense_replace": 0, "kv_lora_rank": 512, "q_lora_rank": 1536, "qk_nope_head_dim": 128,
                "qk_rope_head_dim": 64, "v_head_dim": 128, "n_routed_experts": 64, "n_shared_experts": 2,
                "num_experts_per_tok": 6, "moe_intermediate_size": 1407,
            }),
            // The class has 128 heads of keys even for fewer heads; its models have as many as heads.
            Kind::DeepSeek3 => json!({
                "vocab_size": 129_280, "hidden_size": 7168, "intermediate_size": 18_432, "num_hidden_layers": 61,
                "num_attention_heads": 128, "max_position_embeddings": 4096,
                "rms_norm_eps": 1e-6, "first_k_dense_replace": 3, "kv_lora_rank": 512, "q_lora_rank": 1536,
                "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128, "n_routed_experts": 256,
                "n_shared_experts": 1, "num_experts_per_tok": 8, "moe_intermediate_size": 2048, "n_group": 8,
                "topk_group": 4, "norm_topk_prob": true, "routed_scaling_factor": 2.5,
            }),
        }
    }
}

/// A configuration with what it leaves out, under one name for each thing.
pub(super) fn complete(kind: Kind, value: Value) -> Result<Value, Error> {
    let Value::Object(mut given) = value else { return Err(Error::config("the configuration is not a JSON object")) };
    if given.get("model_type").and_then(Value::as_str) == Some("gemma3") {
        given = model_of_text(given)?;
    }
    given.retain(|name, value| !value.is_null() || NULLABLE.contains(&name.as_str()));
    for (other, name) in kind.aliases() {
        match given.remove(*other) {
            // Files of Gemma 3 name the activation twice; the longer name counts.
            Some(value) if kind == Kind::Gemma3 || !given.contains_key(*name) => {
                given.insert((*name).into(), value);
            }
            _ => {}
        }
    }
    rope_of_each_type(&mut given);
    let mut all = match kind.defaults() {
        Value::Object(all) => all,
        _ => Map::new(),
    };
    all.extend(given);
    Ok(Value::Object(all))
}

/// The model of text within one that reads images. Whether its head is tied is said outside.
fn model_of_text(mut given: Map<String, Value>) -> Result<Map<String, Value>, Error> {
    let mut text = match given.remove(TEXT) {
        Some(Value::Object(text)) => text,
        Some(Value::Null) | None if given.contains_key("hidden_size") => {
            return Err(Error::config(format!(
                "a gemma3 configuration has the sizes of its language model in {TEXT}, which is missing"
            )));
        }
        Some(Value::Null) | None => Map::new(),
        Some(_) => return Err(Error::config(format!("{TEXT} is not a JSON object"))),
    };
    if let Some(is_tied @ Value::Bool(_)) = given.remove("tie_word_embeddings") {
        text.insert("tie_word_embeddings".into(), is_tied);
    }
    Ok(text)
}

/// Newer files have `rope_parameters` for each type of layers. Those of layers that see everything become the only ones;
/// of those with a window only the base differs.
fn rope_of_each_type(given: &mut Map<String, Value>) {
    for name in ["rope_scaling", "rope_parameters"] {
        // An object with nothing in it says nothing.
        if given.get(name).and_then(Value::as_object).is_some_and(Map::is_empty) {
            given.remove(name);
        }
    }
    let Some(Value::Object(types)) = given.get_mut("rope_parameters") else { return };
    let (full, sliding) = (types.remove("full_attention"), types.remove("sliding_attention"));
    if full.is_none() && sliding.is_none() {
        return;
    }
    let mut full = match full {
        Some(Value::Object(full)) => full,
        _ => Map::new(),
    };
    if let Some(Value::Object(scaling)) = given.remove("rope_scaling") {
        full.extend(scaling);
    }
    given.insert("rope_parameters".into(), Value::Object(full));
    if let Some(base) = sliding.as_ref().and_then(|sliding| sliding.get("rope_theta")).filter(|base| !base.is_null()) {
        given.insert("rope_local_base_freq".into(), base.clone());
    }
}
