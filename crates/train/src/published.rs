//! A published run as our own front end writes it, from the record of how it was run.

use std::path::Path;

use compile::Program;
use nn::{ShardingRules, Strategy};
use plan::accuracy::RunRecord;
use serde_json::{Value, json};
use trace::Mesh;

use crate::config::TrainConfig;
use crate::model::TrainModelConfig;
use crate::step::{PlannedStepKind, StepShape};

/// What recipes call the values of a layer, and what ours are called.
const NAMES: &[(&str, &[&str])] = &[
    ("decoder_layer_input", &["layer_input"]),
    ("query_proj", &["query"]),
    ("key_proj", &["key"]),
    ("value_proj", &["value"]),
    ("kv_proj", &["key", "value"]),
    ("mla_q", &["mla_q"]),
    ("mla_kv", &["mla_kv"]),
    ("qkv_proj", &["query", "key", "value"]),
    ("context", &["attention"]),
    ("out_proj", &["attention_output"]),
    ("mlpwi", &["up"]),
    ("mlpwi_0", &["gate"]),
    ("mlpwi_1", &["up"]),
    ("mlpwo", &["feed_forward_output"]),
];
/// Our axes and those of recipes, the slowest first. Parameters that recipes split along another dimension (`fsdp_transpose`) are
/// split along their width here: as much is gathered.
const AXES: &[(&str, &[&str])] = &[
    ("data", &["data"]),
    ("fsdp", &["fsdp", "fsdp_transpose"]),
    ("context", &["context"]),
    ("model", &["tensor"]),
    ("expert", &["expert"]),
];
/// Logits computed at a time for the loss, in positions.
const LOSS_CHUNK_SIZE: u64 = 2048;

/// The step of a run; why there is none, otherwise.
pub fn program_of(record: &RunRecord) -> Result<Program, String> {
    let run = record.run.as_ref().ok_or("its record does not describe the run")?;
    // Moments have the type of the parameters, as in the recipes.
    let (precision, moments) = match (run.weight_dtype.as_str(), run.quantization.as_str()) {
        ("float32", "none") => ("mixed", "f32"),
        ("bfloat16", "none") => ("bf16", "bf16"),
        ("float32", "fp8" | "int8") if run.model.contains_key("experts") => {
            return Err(format!("grouped matmuls of experts in {} are not in our front end", run.quantization));
        }
        ("float32", quantization @ ("fp8" | "int8")) => (quantization, "f32"),
        ("float32" | "bfloat16", other) => {
            return Err(format!("matmuls in {other} of parameters in {} are not in our front end", run.weight_dtype));
        }
        (other, _) => return Err(format!("parameters in {other} are not in our front end")),
    };
    let model = model(&run.model)?;
    let remat = json!({ "offload": { "host": names(&run.offload)?, "device": names(&run.save)? } });
    let is_kept = !(run.offload.is_empty() && run.save.is_empty());
    let mut options = json!({
        "precision": precision,
        "loss_chunk_size": LOSS_CHUNK_SIZE,
        "remat": if is_kept { remat } else { json!("full") },
    });
    if let Some(matmul) = matmul(&run.quantization, run.calibration.as_deref())? {
        options["matmul"] = matmul;
    }
    if let Some(capacity) = run.capacity_factor.filter(|capacity| *capacity > 0.0) {
        options["experts"] = json!({ "capacity": capacity });
    } else if run.model.get("experts").is_some() {
        options["experts"] = json!("grouped");
    }
    let config = json!({
        "model": model,
        "run": options,
        "data": { "kind": "synthetic", "sequence_length": run.sequence },
        "optimizer": {
            "name": "adamw",
            "learning_rate": 1e-4,
            "weight_decay": 0.1,
            "moment_dtype": moments,
        },
        "train": { "steps": 1, "batch_size": run.sequences, "max_grad_norm": 1.0 },
    });
    let config: TrainConfig = serde_json::from_value(config).map_err(|error| error.to_string())?;
    let TrainModelConfig::Language(model) =
        TrainModelConfig::read(&config.model, Path::new("")).map_err(|error| error.to_string())?
    else {
        return Err("no model of token sequences".into());
    };
    let rules = mesh(&run.mesh_in_slice, &run.mesh_between_slices)?
        .map(|mesh| ShardingRules::new(&mesh, Strategy::Hybrid))
        .transpose()
        .map_err(|error| error.to_string())?;
    let (step, sequence, rules) = (PlannedStepKind::Training, run.sequence, rules.as_ref());
    let step = StepShape { step, config: &config, sequence, rules, weights: None, lm_head: None }
        .of(&model)
        .map_err(|error| error.to_string())?;
    Ok(Program::from_module(step.module))
}

/// The table of matmuls in few bits as recipes have them: int8 by channels forward and backward, as AQT trains, fp8 with a scale
/// for each tensor, as Qwix does.
fn matmul(quantization: &str, calibration: Option<&str>) -> Result<Option<Value>, String> {
    match (quantization, calibration.unwrap_or("absmax")) {
        ("int8", _) => Ok(Some(json!({ "backward": "quantized" }))),
        ("fp8", "absmax") => Ok(Some(json!({ "scaling": "current" }))),
        ("fp8", fixed) => {
            let most = fixed.strip_prefix("fixed,").and_then(|range| range.split(',').next_back()?.parse::<f64>().ok());
            let most = most.ok_or(format!("the calibration `{fixed}` is not in our front end"))?;
            Ok(Some(json!({ "scaling": { "fixed": most } })))
        }
        _ => Ok(None),
    }
}

/// A `config.json` of the dimensions of a model.
pub fn model(dims: &serde_json::Map<String, Value>) -> Result<Value, String> {
    let text = |name: &str| dims.get(name).and_then(Value::as_str).unwrap_or_default();
    let size = |name: &str| dims.get(name).and_then(Value::as_u64).ok_or(format!("its record has no size `{name}`"));
    let model_type = match text("family") {
        "gpt3" => {
            // Positions are learned; the step needs no dropout to be the published one.
            return Ok(json!({
                "model_type": "gpt2",
                "vocab_size": size("vocab")?,
                "n_positions": size("positions")?,
                "n_embd": size("emb")?,
                "n_inner": size("mlp")?,
                "n_layer": size("layers")?,
                "n_head": size("q_heads")?,
                "embd_pdrop": 0.0,
                "resid_pdrop": 0.0,
                "attn_pdrop": 0.0,
            }));
        }
        "llama2" => "llama",
        "mixtral" => "mixtral",
        "qwen3" => "qwen3",
        "qwen3_moe" => "qwen3_moe",
        "gemma3" => "gemma3_text",
        "deepseek" if text("routed_score_func") == "sigmoid" => "deepseek_v3",
        "deepseek" => "deepseek_v2",
        other => return Err(format!("the family {other} is not in our front end")),
    };
    let mut model = json!({
        "model_type": model_type,
        "vocab_size": size("vocab")?,
        "hidden_size": size("emb")?,
        "intermediate_size": size("mlp")?,
        "num_hidden_layers": size("layers")?,
        "num_attention_heads": size("q_heads")?,
        "num_key_value_heads": size("kv_heads")?,
        "head_dim": size("head_dim")?,
        "max_position_embeddings": 1 << 20,
        "rms_norm_eps": 1e-5,
        "rope_theta": 500_000.0,
        "hidden_act": "silu",
        "tie_word_embeddings": dims.get("tied").and_then(Value::as_bool).unwrap_or(false),
    });
    match model_type {
        "mixtral" => {
            model["num_local_experts"] = json!(size("experts")?);
            model["num_experts_per_tok"] = json!(size("experts_per_token")?);
        }
        "qwen3_moe" => {
            model["num_experts"] = json!(size("experts")?);
            model["num_experts_per_tok"] = json!(size("experts_per_token")?);
            model["moe_intermediate_size"] = json!(size("moe_mlp")?);
            model["norm_topk_prob"] = json!(dims.get("norm_topk_prob").and_then(Value::as_bool).unwrap_or(false));
        }
        "deepseek_v2" | "deepseek_v3" => {
            let same = [
                ("kv_lora_rank", "kv_lora_rank"),
                ("qk_nope_head_dim", "qk_nope_head_dim"),
                ("qk_rope_head_dim", "qk_rope_head_dim"),
                ("v_head_dim", "v_head_dim"),
                ("moe_intermediate_size", "moe_mlp"),
                ("n_routed_experts", "experts"),
                ("num_experts_per_tok", "experts_per_token"),
                ("n_shared_experts", "shared_experts"),
                ("first_k_dense_replace", "first_num_dense_layers"),
            ];
            for (ours, theirs) in same {
                model[ours] = json!(size(theirs)?);
            }
            // Where these are not said, there are none: the family's defaults do not count.
            model["q_lora_rank"] = json!(Some(size("q_lora_rank")?).filter(|rank| *rank > 0));
            model["n_group"] = Value::Null;
            model["topk_group"] = Value::Null;
            model["routed_scaling_factor"] = dims.get("routed_scaling_factor").cloned().unwrap_or(json!(1.0));
            model["norm_topk_prob"] = json!(model_type == "deepseek_v3");
        }
        "gemma3_text" => {
            model["hidden_act"] = json!("gelu_pytorch_tanh");
            model["sliding_window"] = json!(size("window")?);
        }
        _ => {}
    }
    Ok(model)
}

fn names(theirs: &[String]) -> Result<Vec<&'static str>, String> {
    let mut ours = Vec::new();
    for name in theirs {
        let (_, same) =
            NAMES.iter().find(|(known, _)| known == name).ok_or(format!("no value is called `{name}` here"))?;
        for &name in *same {
            if !ours.contains(&name) {
                ours.push(name);
            }
        }
    }
    Ok(ours)
}

type Sizes = std::collections::BTreeMap<String, u64>;

/// The mesh of a run. Between slices our strategies split the batch alone.
fn mesh(in_slice: &Sizes, between: &Sizes) -> Result<Option<Mesh>, String> {
    let known = |name: &String| AXES.iter().any(|(_, theirs)| theirs.contains(&name.as_str()));
    if let Some((axis, _)) = in_slice.iter().chain(between).find(|(name, size)| **size > 1 && !known(name)) {
        return Err(format!("the axis `{axis}` is not in our front end"));
    }
    let size = |sizes: &Sizes, theirs: &[&str]| {
        let each = theirs.iter().filter_map(|axis| sizes.get(*axis));
        each.fold(1usize, |all, size| all.saturating_mul(usize::try_from(*size).unwrap_or(usize::MAX)))
    };
    let axes: Vec<(&str, usize)> =
        AXES.iter().map(|(ours, theirs)| (*ours, size(in_slice, theirs))).filter(|(_, size)| *size > 1).collect();
    let slices = AXES.iter().fold(1usize, |all, (_, theirs)| all.saturating_mul(size(between, theirs)));
    if axes.is_empty() && slices == 1 {
        return Ok(None);
    }
    let mesh = Mesh::new(axes).map_err(|error| error.to_string())?;
    let mesh = if slices > 1 { mesh.across_slices([("replica", slices)]) } else { Ok(mesh) };
    mesh.map(Some).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(capacity_factor: Value) -> String {
        let experts = json!({ "family": "mixtral", "experts": 4, "experts_per_token": 2 });
        let changes = json!({ "capacity_factor": capacity_factor });
        program_text(&experts, &changes).unwrap()
    }

    /// The text of a small model's step, with changes of its model and of its run.
    fn program_text(of_model: &Value, of_run: &Value) -> Result<String, String> {
        let mut model = json!({
            "family": "llama2", "emb": 256, "mlp": 512, "layers": 2, "q_heads": 4, "kv_heads": 2, "head_dim": 64, "vocab": 512,
        });
        let mut run = json!({
            "sequences": 8, "sequence": 64, "mesh_in_slice": { "fsdp": 2, "expert": 2 },
            "mesh_between_slices": {}, "save": [], "offload": [], "quantization": "none", "weight_dtype": "float32",
        });
        let put = |table: &mut Value, changes: &Value| {
            for (name, value) in changes.as_object().into_iter().flatten() {
                table[name] = value.clone();
            }
        };
        put(&mut model, of_model);
        run["model"] = model;
        put(&mut run, of_run);
        let record = json!({
            "version": 1, "id": "a", "program": "a", "slice": "v5e-4", "device_ids": [], "model": "m", "run": run,
        });
        let record = RunRecord::read(record.to_string().as_bytes()).unwrap();
        Ok(hlo::text::print(program_of(&record)?.module()))
    }

    #[test]
    fn runs_in_few_bits_are_written() {
        let of = |run: Value| program_text(&json!({}), &run);
        let current = of(json!({ "quantization": "fp8" })).unwrap();
        let fixed = of(json!({ "quantization": "fp8", "calibration": "fixed,-224,224" })).unwrap();
        for program in [&current, &fixed] {
            assert!(program.contains("f8E4M3FN") && program.contains("f8E5M2"));
        }
        // A range that is known needs no look at activations and weights.
        let maxima = |program: &str| program.matches("stablehlo.abs").count();
        assert!(maxima(&fixed) < maxima(&current), "{} {}", maxima(&fixed), maxima(&current));
        let int8 = of(json!({ "quantization": "int8" })).unwrap();
        assert!(int8.contains("xi8>") && int8.contains("xi32>"));
        let refused = |run: Value, words: &str| assert!(of(run).unwrap_err().contains(words), "{words}");
        refused(json!({ "quantization": "fp4" }), "matmuls in fp4 of parameters in float32");
        refused(
            json!({ "quantization": "fp8", "weight_dtype": "bfloat16" }),
            "matmuls in fp8 of parameters in bfloat16",
        );
        refused(json!({ "quantization": "fp8", "calibration": "minmax" }), "the calibration `minmax`");
        let experts = json!({ "family": "mixtral", "experts": 4, "experts_per_token": 2 });
        let refused = program_text(&experts, &json!({ "quantization": "fp8" })).unwrap_err();
        assert!(refused.contains("grouped matmuls of experts in fp8"), "{refused}");
    }

    #[test]
    fn dropless_experts_are_grouped_matmuls() {
        let (dropless, dropping) = (written(Value::Null), written(json!(1.25)));
        for name in [kernel::composites::GROUPED_MATMUL, kernel::composites::GROUPED_MATMUL_GRADIENT] {
            assert!(dropless.contains(name) && !dropping.contains(name), "{name}");
        }
        assert!(dropping.contains("stablehlo.all_to_all"));
    }
}
