//! Gemma 4 and what stands around a model of text: configurations that are read and refused, and files written as they were read.

use nn::hf::{self, Family, ModelConfig};
use nn::models::{Gemma4, Gemma4Config, Llama, RunOptions};
use tensor::{DType, Literal};
use trace::{Key, Spec, Tensor, Tree};
use weights::quant::QuantizedFolder;

const SMALL: &str = r#""vocab_size":9,"hidden_size":8,"intermediate_size":12,"num_attention_heads":4,"num_key_value_heads":2,"head_dim":4,
    "global_head_dim":6,"vocab_size_per_layer_input":9,"hidden_size_per_layer_input":2,"max_position_embeddings":32"#;

fn gemma4(more: &str) -> Result<Gemma4Config, String> {
    match ModelConfig::parse(&format!(r#"{{"model_type":"gemma4_text",{SMALL}{more}}}"#)) {
        Ok(ModelConfig::Gemma4(config)) => Ok(config),
        Ok(_) => panic!("a Gemma 4"),
        Err(error) => Err(error.to_string()),
    }
}

#[test]
fn configurations_say_what_they_mean() {
    let usual = gemma4(r#","num_hidden_layers":7"#).unwrap();
    assert_eq!(usual.is_full, [false, false, false, false, false, true, true]);
    assert_eq!((usual.full.head_dim, usual.full.num_key_value_heads, usual.num_cached_layers()), (6, 2, 7));
    let by_layer = r#","num_hidden_layers":2,"attention_k_eq_v":true,"layer_types":["sliding_attention","full_attention"],
        "per_layer_config":{"1":{"head_dim":6,"num_key_value_heads":1}}"#;
    let outside = r#","num_hidden_layers":2,"attention_k_eq_v":true,"layer_types":["sliding_attention","full_attention"],
        "num_global_key_value_heads":1"#;
    assert_eq!(gemma4(by_layer), gemma4(outside));
    let check = |more: &str, expected: &str| {
        let refused = gemma4(more).unwrap_err();
        assert!(refused.contains(expected), "{refused}");
    };
    check(r#","num_hidden_layers":2,"num_kv_shared_layers":2"#, "num_kv_shared_layers is 2");
    check(r#","num_hidden_layers":3,"num_kv_shared_layers":1"#, "layer 2 of 3 shares keys and values with no layer");
    check(r#","num_hidden_layers":1,"layer_types":["linear_attention"]"#, "`linear_attention`");
    check(r#","num_hidden_layers":2,"layer_types":[]"#, "layer_types lists 0 layers");
    check(r#","num_hidden_layers":9999999"#, "num_hidden_layers 9999999");
    check(r#","num_hidden_layers":2,"per_layer_config":{"0":{"head_dim":6}}"#, "layer 0 has other heads");
    check(r#","num_hidden_layers":2,"use_bidirectional_attention":"all""#, "use_bidirectional_attention");
    check(r#","num_hidden_layers":2,"enable_moe_block":true,"num_experts":4"#, "top_k_experts is 0");
    check(r#","num_hidden_layers":2,"final_logit_softcapping":0.0"#, "soft cap");
    check(r#","num_hidden_layers":2,"sliding_window":0"#, "sliding_window is 0");
}

/// The model of text of a folder that reads images.
#[test]
fn models_of_text_are_found_within_others() {
    let text = r#""hidden_size":8,"intermediate_size":12,"num_hidden_layers":2,"num_attention_heads":4,"num_key_value_heads":2,"vocab_size":9"#;
    let parse = |config: String| ModelConfig::parse(&config).unwrap();
    let plain = parse(format!(r#"{{"model_type":"qwen2",{text}}}"#));
    let rope = r#""rope_scaling":{"type":"mrope","mrope_section":[1,1,1]}"#;
    assert_eq!(parse(format!(r#"{{"model_type":"qwen2_vl",{text},{rope}}}"#)), plain);
    for kind in ["qwen2_vl", "qwen2_5_vl"] {
        let within = format!(r#"{{"model_type":"{kind}","text_config":{{"model_type":"{kind}_text",{text},{rope}}}}}"#);
        assert_eq!(parse(within), plain);
    }
    let gemma = parse(format!(r#"{{"model_type":"gemma",{text}}}"#));
    assert_eq!(parse(format!(r#"{{"model_type":"paligemma","text_config":{{{text}}}}}"#)), gemma);
}

/// Parameters of random numbers, written and read again.
fn written_and_read<M: Tree>(family: Family, init: impl FnOnce(&Key) -> M) -> Vec<String> {
    let key = Tensor::of(Spec::new(DType::U32, [2]));
    let model = trace::shapes_of(&key, |key| init(&Key::from_data(key))).unwrap();
    let mut state = 1u32;
    let params: Vec<Literal> = model
        .specs()
        .into_iter()
        .map(|spec| {
            let count: usize = spec.dims.iter().product();
            let mut draw = || {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (state >> 9) as f32 / 1e6
            };
            let bytes = (0..count).flat_map(|_| draw().to_le_bytes()).collect::<Vec<u8>>();
            Literal::new(DType::F32, spec.dims.clone(), bytes).unwrap()
        })
        .collect();
    let folder = tempfile::tempdir().unwrap();
    hf::save(folder.path(), family, &model, &params, u64::MAX).unwrap();
    let files = QuantizedFolder::open(folder.path()).unwrap();
    assert!(hf::load(&files, family, &model).unwrap() == params);
    files.names().map(str::to_string).collect()
}

#[test]
fn files_are_written_as_they_are_read() {
    let config = gemma4(
        r#","num_hidden_layers":5,"num_kv_shared_layers":2,"use_double_wide_mlp":true,"enable_moe_block":true,"num_experts":3,
        "top_k_experts":2,"moe_intermediate_size":5,
        "layer_types":["sliding_attention","full_attention","sliding_attention","sliding_attention","full_attention"]"#,
    )
    .unwrap();
    let names = written_and_read(Family::Gemma4, |key| Gemma4::init(key, &config, &RunOptions::default()));
    let has = |name: &str| names.iter().any(|have| have == name);
    assert!(has("model.layers.2.self_attn.k_proj.weight") && !has("model.layers.3.self_attn.k_proj.weight"));
    assert!(has("model.layers.4.experts.gate_up_proj") && has("model.embed_tokens_per_layer.weight"));
    let maverick = ModelConfig::parse(
        r#"{"model_type":"llama4_text","vocab_size":9,"hidden_size":8,"intermediate_size":6,"intermediate_size_mlp":10,"head_dim":2,
        "num_hidden_layers":5,"num_attention_heads":4,"num_key_value_heads":2,"num_local_experts":2,"interleave_moe_layer_step":2}"#,
    );
    let Ok(ModelConfig::Llama(maverick)) = maverick else { panic!("a Llama") };
    let names = written_and_read(Family::Llama4, |key| Llama::init(key, &maverick, &RunOptions::default()));
    let has = |name: &str| names.iter().any(|have| have == name);
    assert!(
        has("model.layers.3.feed_forward.experts.down_proj") && has("model.layers.4.feed_forward.down_proj.weight")
    );
}
