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
    Gemma,
    Gemma2,
    Phi,
    Phi3,
    Olmo2,
    Olmo3,
    Olmoe,
    GptOss,
    Llama4,
    Granite,
    SmolLm3,
    Glm,
    Glm4,
    Cohere,
    Cohere2,
    Starcoder2,
    StableLm,
    GptNeoX,
    Falcon,
}

/// Keys whose `null` is a value of its own: none, or derived from others. Elsewhere `null` is as if it were not there.
const NULLABLE: [&str; 9] = [
    "num_key_value_heads",
    "head_dim",
    "sliding_window",
    "q_lora_rank",
    "n_group",
    "topk_group",
    "attention_chunk_size",
    "attn_logit_softcapping",
    "final_logit_softcapping",
];

/// Where files of models that read images keep the model of text.
pub(super) const TEXT: &str = "text_config";

impl Kind {
    /// The family of a `model_type`.
    pub(super) fn of(model_type: &str) -> Option<Kind> {
        Some(match model_type {
            "gpt2" => Kind::Gpt2,
            "llama" => Kind::Llama,
            "mistral" => Kind::Mistral,
            "mixtral" => Kind::Mixtral,
            "qwen2" | "qwen2_vl_text" | "qwen2_5_vl_text" => Kind::Qwen2,
            "qwen3" => Kind::Qwen3,
            "qwen3_moe" => Kind::Qwen3Moe,
            "gemma3_text" | "gemma3" => Kind::Gemma3,
            "deepseek_v2" => Kind::DeepSeek2,
            "deepseek_v3" => Kind::DeepSeek3,
            "gemma" => Kind::Gemma,
            "gemma2" => Kind::Gemma2,
            "phi" => Kind::Phi,
            "phi3" => Kind::Phi3,
            "olmo2" => Kind::Olmo2,
            "olmo3" => Kind::Olmo3,
            "olmoe" => Kind::Olmoe,
            "gpt_oss" => Kind::GptOss,
            "llama4_text" | "llama4" => Kind::Llama4,
            "granite" => Kind::Granite,
            "smollm3" => Kind::SmolLm3,
            "glm" => Kind::Glm,
            "glm4" => Kind::Glm4,
            "cohere" => Kind::Cohere,
            "cohere2" => Kind::Cohere2,
            "starcoder2" => Kind::Starcoder2,
            "stablelm" => Kind::StableLm,
            "gpt_neox" => Kind::GptNeoX,
            "falcon" => Kind::Falcon,
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
            Kind::Mixtral | Kind::GptOss => &[("num_experts", "num_local_experts")],
            Kind::Qwen3Moe | Kind::Olmoe => &[("num_local_experts", "num_experts")],
            Kind::Gemma | Kind::Gemma2 | Kind::Gemma3 => &[("hidden_activation", "hidden_act")],
            Kind::Phi | Kind::Cohere | Kind::Cohere2 | Kind::StableLm => &[("layer_norm_eps", "rms_norm_eps")],
            Kind::Starcoder2 => &[("norm_epsilon", "rms_norm_eps")],
            Kind::GptNeoX => &[
                ("layer_norm_eps", "rms_norm_eps"),
                ("rotary_pct", "partial_rotary_factor"),
                ("rotary_emb_base", "rope_theta"),
            ],
            Kind::Falcon => &[
                ("n_embed", "hidden_size"),
                ("num_kv_heads", "num_key_value_heads"),
                ("layer_norm_epsilon", "rms_norm_eps"),
                ("ffn_hidden_size", "intermediate_size"),
                ("activation", "hidden_act"),
                ("bias", "use_bias"),
            ],
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
            _ => of_style(self),
        }
    }
}

/// What files of families that are made of Llama's parts leave out.
fn of_style(kind: Kind) -> Value {
    match kind {
        Kind::Gemma => json!({
            "vocab_size": 256_000, "hidden_size": 3072, "intermediate_size": 24_576, "num_hidden_layers": 28,
            "num_attention_heads": 16, "num_key_value_heads": 16, "head_dim": 256, "max_position_embeddings": 8192,
            "rms_norm_eps": 1e-6, "hidden_act": "gelu_pytorch_tanh", "tie_word_embeddings": true,
        }),
        Kind::Gemma2 => json!({
            "vocab_size": 256_000, "hidden_size": 2304, "intermediate_size": 9216, "num_hidden_layers": 26,
            "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256, "max_position_embeddings": 8192,
            "rms_norm_eps": 1e-6, "hidden_act": "gelu_pytorch_tanh", "tie_word_embeddings": true,
            "query_pre_attn_scalar": 256, "sliding_window": 4096, "sliding_window_pattern": 2,
            "attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0,
        }),
        Kind::Phi => json!({
            "vocab_size": 51_200, "hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 24,
            "num_attention_heads": 32, "max_position_embeddings": 2048, "rms_norm_eps": 1e-5,
            "hidden_act": "gelu_new", "partial_rotary_factor": 0.5,
        }),
        Kind::Phi3 => json!({
            "vocab_size": 32_064, "hidden_size": 3072, "intermediate_size": 8192, "num_hidden_layers": 32,
            "num_attention_heads": 32, "max_position_embeddings": 4096, "rms_norm_eps": 1e-5,
        }),
        Kind::Olmo2 => json!({
            "vocab_size": 50_304, "hidden_size": 4096, "intermediate_size": 11_008, "num_hidden_layers": 32,
            "num_attention_heads": 32, "max_position_embeddings": 2048, "rms_norm_eps": 1e-5,
        }),
        Kind::Olmo3 => json!({
            "vocab_size": 50_304, "hidden_size": 4096, "intermediate_size": 11_008, "num_hidden_layers": 32,
            "num_attention_heads": 32, "max_position_embeddings": 2048, "rms_norm_eps": 1e-5,
            "rope_theta": 500_000.0, "sliding_window": 4096, "sliding_window_pattern": 4,
        }),
        Kind::Olmoe => json!({
            "vocab_size": 50_304, "hidden_size": 2048, "intermediate_size": 2048, "num_hidden_layers": 16,
            "num_attention_heads": 16, "max_position_embeddings": 4096, "rms_norm_eps": 1e-5, "num_experts": 64,
            "num_experts_per_tok": 8, "router_aux_loss_coef": 0.01,
        }),
        Kind::GptOss => json!({
            "vocab_size": 201_088, "hidden_size": 2880, "intermediate_size": 2880, "num_hidden_layers": 36,
            "num_attention_heads": 64, "num_key_value_heads": 8, "head_dim": 64, "max_position_embeddings": 131_072,
            "rms_norm_eps": 1e-5, "rope_theta": 150_000.0, "sliding_window": 128, "sliding_window_pattern": 2,
            "attention_bias": true, "num_local_experts": 128, "num_experts_per_tok": 4,
            "rope_parameters": {
                "rope_type": "yarn", "factor": 32.0, "beta_fast": 32.0, "beta_slow": 1.0, "truncate": false,
                "original_max_position_embeddings": 4096,
            },
        }),
        Kind::Llama4 => json!({
            "vocab_size": 202_048, "hidden_size": 5120, "intermediate_size": 8192, "num_hidden_layers": 48,
            "num_attention_heads": 40, "num_key_value_heads": 8, "head_dim": 128, "max_position_embeddings": 131_072,
            "rms_norm_eps": 1e-5, "rope_theta": 500_000.0, "num_local_experts": 16, "num_experts_per_tok": 1,
            "use_qk_norm": true, "no_rope_layer_interval": 4, "attention_chunk_size": 8192,
        }),
        Kind::Granite => json!({
            "vocab_size": 32_000, "hidden_size": 4096, "intermediate_size": 11_008, "num_hidden_layers": 32,
            "num_attention_heads": 32, "max_position_embeddings": 2048, "rms_norm_eps": 1e-6,
        }),
        Kind::SmolLm3 => json!({
            "vocab_size": 128_256, "hidden_size": 2048, "intermediate_size": 11_008, "num_hidden_layers": 36,
            "num_attention_heads": 16, "num_key_value_heads": 4, "max_position_embeddings": 32_768,
            "rms_norm_eps": 1e-6, "rope_theta": 2_000_000.0, "no_rope_layer_interval": 4, "tie_word_embeddings": true,
        }),
        Kind::Glm | Kind::Glm4 => json!({
            "vocab_size": 151_552, "hidden_size": 4096, "intermediate_size": 13_696, "num_hidden_layers": 40,
            "num_attention_heads": 32, "num_key_value_heads": 2, "head_dim": 128, "max_position_embeddings": 131_072,
            "rms_norm_eps": 1.5625e-7, "attention_bias": true, "partial_rotary_factor": 0.5,
        }),
        Kind::Cohere | Kind::Cohere2 => json!({
            "vocab_size": 256_000, "hidden_size": 8192, "intermediate_size": 22_528, "num_hidden_layers": 40,
            "num_attention_heads": 64, "max_position_embeddings": 8192, "rms_norm_eps": 1e-5,
            "sliding_window": if kind == Kind::Cohere2 { json!(4096) } else { Value::Null },
            "rope_theta": if kind == Kind::Cohere2 { 10_000.0 } else { 500_000.0 },
            "sliding_window_pattern": 4, "tie_word_embeddings": true,
        }),
        Kind::Starcoder2 => json!({
            "vocab_size": 49_152, "hidden_size": 3072, "intermediate_size": 12_288, "num_hidden_layers": 30,
            "num_attention_heads": 24, "num_key_value_heads": 2, "max_position_embeddings": 4096,
            "rms_norm_eps": 1e-5, "hidden_act": "gelu_pytorch_tanh", "use_bias": true, "tie_word_embeddings": true,
            "initializer_range": 0.018_042,
        }),
        Kind::StableLm => json!({
            "vocab_size": 50_304, "hidden_size": 2560, "intermediate_size": 6912, "num_hidden_layers": 32,
            "num_attention_heads": 32, "num_key_value_heads": 32, "max_position_embeddings": 4096,
            "rms_norm_eps": 1e-5, "partial_rotary_factor": 0.25,
        }),
        Kind::GptNeoX => json!({
            "vocab_size": 50_432, "hidden_size": 6144, "intermediate_size": 24_576, "num_hidden_layers": 44,
            "num_attention_heads": 64, "max_position_embeddings": 2048, "rms_norm_eps": 1e-5, "hidden_act": "gelu",
            "attention_bias": true, "use_parallel_residual": true, "partial_rotary_factor": 0.25,
        }),
        Kind::Falcon => json!({
            "vocab_size": 65_024, "hidden_size": 4544, "num_hidden_layers": 32, "num_attention_heads": 71,
            "max_position_embeddings": 2048, "rms_norm_eps": 1e-5, "hidden_act": "gelu", "tie_word_embeddings": true,
        }),
        _ => json!({}),
    }
}

/// A configuration with what it leaves out, under one name for each thing.
pub(super) fn complete(kind: Kind, value: Value) -> Result<Value, Error> {
    let Value::Object(mut given) = value else { return Err(Error::config("the configuration is not a JSON object")) };
    let model_type = given.get("model_type").and_then(Value::as_str).map(String::from);
    if let Some(name @ ("gemma3" | "llama4")) = model_type.as_deref() {
        given = model_of_text(name, given)?;
    }
    given.retain(|name, value| !value.is_null() || NULLABLE.contains(&name.as_str()));
    for (other, name) in kind.aliases() {
        match given.remove(*other) {
            // Files of Gemma name the activation twice; the longer name counts.
            Some(value) if *other == "hidden_activation" || !given.contains_key(*name) => {
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
    if kind == Kind::Falcon
        && !all.contains_key("intermediate_size")
        && let Some(width) = all.get("hidden_size").and_then(Value::as_u64)
    {
        all.insert("intermediate_size".into(), width.saturating_mul(4).into());
    }
    Ok(Value::Object(all))
}

/// The model of text within one that reads images. Whether its head is tied is said outside.
fn model_of_text(name: &str, mut given: Map<String, Value>) -> Result<Map<String, Value>, Error> {
    let mut text = match given.remove(TEXT) {
        Some(Value::Object(text)) => text,
        Some(Value::Null) | None if given.contains_key("hidden_size") => {
            return Err(Error::config(format!(
                "a {name} configuration has the sizes of its language model in {TEXT}, which is missing"
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
