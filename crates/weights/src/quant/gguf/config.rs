//! The configuration that Hugging Face would have for a GGUF file, from its metadata.

use serde_json::{Map, Value, json};

use crate::quant::format::QuantizedWeight;
use crate::quant::gguf::file::GgufFile;
use crate::quant::gguf::names::Architecture;
use crate::quant::gguf::value::GgufValue;
use crate::quant::refusal::Refusal;

/// How Llama 3 stretches positions: the same in every model but for the factor.
const LOW_FREQUENCY_FACTOR: f64 = 1.0;
const HIGH_FREQUENCY_FACTOR: f64 = 4.0;
const ORIGINAL_POSITIONS: f64 = 8192.0;

/// Keys of all architectures, after its name, and what `config.json` calls them.
const COUNTS: &[(&str, &str)] = &[
    ("embedding_length", "hidden_size"),
    ("block_count", "num_hidden_layers"),
    ("feed_forward_length", "intermediate_size"),
    ("attention.head_count", "num_attention_heads"),
    ("attention.head_count_kv", "num_key_value_heads"),
    ("attention.key_length", "head_dim"),
    ("context_length", "max_position_embeddings"),
];

/// Keys without which there is no model.
const NEEDED: &[&str] = &["embedding_length", "block_count", "attention.head_count"];

/// The name of the architecture.
pub(crate) fn architecture(file: &GgufFile) -> Result<(&str, Architecture), Refusal> {
    let missing = || Refusal::damaged("its metadata has no `general.architecture`");
    let name = file.metadata().get("general.architecture").and_then(GgufValue::as_text).ok_or_else(missing)?;
    Ok((name, Architecture::of(name)?))
}

/// Heads of queries and of keys.
pub(crate) fn heads(file: &GgufFile) -> Result<(usize, usize), Refusal> {
    let (name, _) = architecture(file)?;
    let count = |key: &str| file.metadata().get(&format!("{name}.attention.{key}")).and_then(GgufValue::as_count);
    let queries = count("head_count");
    let queries =
        queries.ok_or_else(|| Refusal::damaged(format!("its metadata has no `{name}.attention.head_count`")))?;
    Ok((queries, count("head_count_kv").unwrap_or(queries)))
}

/// As `config.json`.
pub(crate) fn config(file: &GgufFile) -> Result<Value, Refusal> {
    let (name, architecture) = architecture(file)?;
    let get = |key: &str| file.metadata().get(&format!("{name}.{key}"));
    let mut config = Map::new();
    let experts = get("expert_count").and_then(GgufValue::as_count).unwrap_or(0);
    let (model_type, class) = match architecture {
        Architecture::Llama if experts > 0 => ("mixtral", "MixtralForCausalLM"),
        Architecture::Llama => ("llama", "LlamaForCausalLM"),
        Architecture::Qwen2 => ("qwen2", "Qwen2ForCausalLM"),
        Architecture::Qwen3 => ("qwen3", "Qwen3ForCausalLM"),
        Architecture::Qwen3Moe => ("qwen3_moe", "Qwen3MoeForCausalLM"),
        Architecture::Gemma3 => ("gemma3_text", "Gemma3ForCausalLM"),
    };
    config.insert("model_type".into(), model_type.into());
    config.insert("architectures".into(), json!([class]));
    for (key, theirs) in COUNTS {
        match get(key) {
            Some(value) => {
                let count = value.as_count().ok_or_else(|| {
                    Refusal::new(
                        format!("`{name}.{key}` is not a number: layers differ"),
                        "take the model as safetensors",
                    )
                })?;
                config.insert(theirs.to_string(), count.into());
            }
            None if NEEDED.contains(key) => {
                return Err(Refusal::damaged(format!("its metadata has no `{name}.{key}`")));
            }
            None => {}
        }
    }
    let embedding = file.tensors().get("token_embd.weight").and_then(|tensor| tensor.dims.first().copied());
    let vocabulary = embedding.or(get("vocab_size").and_then(GgufValue::as_count));
    let vocabulary = vocabulary.ok_or_else(|| Refusal::damaged("it has no `token_embd.weight`"))?;
    config.insert("vocab_size".into(), vocabulary.into());
    config.insert("tie_word_embeddings".into(), (!file.tensors().contains_key("output.weight")).into());
    if let Some(epsilon) = get("attention.layer_norm_rms_epsilon").and_then(GgufValue::as_f64) {
        config.insert("rms_norm_eps".into(), json!(epsilon));
    }
    let theta = get("rope.freq_base").and_then(GgufValue::as_f64).unwrap_or(10_000.0);
    config.insert("rope_theta".into(), json!(theta));
    if let Some(scaling) = rope_scaling(file, name, &config, theta)? {
        config.insert("rope_scaling".into(), scaling);
    }
    let has_bias = |part: &str| file.tensors().contains_key(&format!("blk.0.{part}.bias"));
    if matches!(architecture, Architecture::Llama | Architecture::Qwen3 | Architecture::Qwen3Moe) {
        config.insert("attention_bias".into(), has_bias("attn_q").into());
    }
    if experts > 0 {
        let (count, width) = match architecture {
            Architecture::Llama => ("num_local_experts", "intermediate_size"),
            _ => ("num_experts", "moe_intermediate_size"),
        };
        config.insert(count.into(), experts.into());
        if let Some(size) = get("expert_feed_forward_length").and_then(GgufValue::as_count) {
            config.insert(width.into(), size.into());
        }
        if let Some(used) = get("expert_used_count").and_then(GgufValue::as_count) {
            config.insert("num_experts_per_tok".into(), used.into());
        }
        if architecture == Architecture::Qwen3Moe {
            config.insert("norm_topk_prob".into(), true.into());
            config.insert("decoder_sparse_step".into(), 1.into());
        }
    }
    if let Some(window) = get("attention.sliding_window").and_then(GgufValue::as_count).filter(|window| *window > 0) {
        config.insert("sliding_window".into(), window.into());
    }
    for (key, theirs) in
        [("bos_token_id", "bos_token_id"), ("eos_token_id", "eos_token_id"), ("padding_token_id", "pad_token_id")]
    {
        if let Some(id) = file.metadata().get(&format!("tokenizer.ggml.{key}")).and_then(GgufValue::as_count) {
            config.insert(theirs.into(), id.into());
        }
    }
    Ok(Value::Object(config))
}

fn rope_scaling(
    file: &GgufFile,
    name: &str,
    config: &Map<String, Value>,
    theta: f64,
) -> Result<Option<Value>, Refusal> {
    let get = |key: &str| file.metadata().get(&format!("{name}.rope.scaling.{key}"));
    if file.tensors().contains_key("rope_freqs.weight") {
        return llama3_scaling(file, config, theta).map(Some);
    }
    let factor = get("factor").and_then(GgufValue::as_f64);
    match (get("type").and_then(GgufValue::as_text), factor) {
        (None | Some("none"), _) => Ok(None),
        (Some("linear"), Some(factor)) => Ok(Some(json!({ "rope_type": "linear", "factor": factor }))),
        (Some("yarn"), Some(factor)) => {
            let original = get("original_context_length").and_then(GgufValue::as_count);
            let original =
                original.ok_or_else(|| Refusal::damaged("its yarn scaling has no original_context_length"))?;
            Ok(Some(json!({ "rope_type": "yarn", "factor": factor, "original_max_position_embeddings": original })))
        }
        (Some(other), _) => Err(Refusal::new(
            format!("rope scaling of type `{other}` is not read; linear and yarn are"),
            "take the model as safetensors",
        )),
    }
}

/// Llama 3's scaling, of which the file only has its effect: a factor for every frequency.
fn llama3_scaling(file: &GgufFile, config: &Map<String, Value>, theta: f64) -> Result<Value, Refusal> {
    let unknown = || {
        Refusal::new(
            "`rope_freqs.weight` is not the scaling of Llama 3 with any factor",
            "take the model as safetensors",
        )
    };
    let factors = match file.read("rope_freqs.weight").map_err(|_| unknown())? {
        QuantizedWeight::Dense(literal) => literal.to_vec::<f32>().map_err(|_| unknown())?,
        _ => return Err(unknown()),
    };
    let count = |key: &str| config.get(key).and_then(Value::as_u64);
    let size = count("head_dim").or_else(|| count("hidden_size")?.checked_div(count("num_attention_heads")?));
    let factor = factors.iter().copied().fold(1.0f32, f32::max);
    if size != Some(2 * factors.len() as u64) || !factor.is_finite() {
        return Err(unknown());
    }
    let factor = f64::from(factor);
    let expected = (0..factors.len()).map(|place| {
        let wavelength = std::f64::consts::TAU * theta.powf(place as f64 / factors.len() as f64);
        if wavelength < ORIGINAL_POSITIONS / HIGH_FREQUENCY_FACTOR {
            1.0
        } else if wavelength > ORIGINAL_POSITIONS / LOW_FREQUENCY_FACTOR {
            factor
        } else {
            let range = HIGH_FREQUENCY_FACTOR - LOW_FREQUENCY_FACTOR;
            let smooth = (ORIGINAL_POSITIONS / wavelength - LOW_FREQUENCY_FACTOR) / range;
            1.0 / ((1.0 - smooth) / factor + smooth)
        }
    });
    if expected.zip(&factors).any(|(expected, found)| (expected - f64::from(*found)).abs() > 1e-3 * expected) {
        return Err(unknown());
    }
    Ok(json!({
        "rope_type": "llama3",
        "factor": factor,
        "low_freq_factor": LOW_FREQUENCY_FACTOR,
        "high_freq_factor": HIGH_FREQUENCY_FACTOR,
        "original_max_position_embeddings": ORIGINAL_POSITIONS as u64,
    }))
}
