//! Models from Hugging Face files: the logits of transformers, generation with a cache, and files that do not fit.

use std::error::Error as _;
use std::path::Path;

use nn::hf::{self, Family, ModelConfig, TensorSource};
use nn::layers::{AttentionImpl, RopeScaling};
use nn::models::{Gemma4, GlobalLayers, GlobalPositions, Gpt2, Head, LanguageModel, Llama, RunOptions};
use nn::{DTypePolicy, Error};
use tensor::{DType, Literal};
use trace::{Key, Spec, Tensor, Tree};
use weights::SafeTensors;

use crate::harness::{apply, floats, off_by, peer, shape_of};
use weights::SafeTensorsFolder;
use weights::quant::QuantizedFolder;

/// A model's structure, without its numbers.
fn shapes<M: Tree>(init: impl FnOnce(&Key) -> M) -> M {
    let key = Tensor::of(Spec::new(DType::U32, [2]));
    trace::shapes_of(&key, |key| init(&Key::from_data(key))).unwrap()
}

/// Logits of all positions, and those that a prompt and one token after another give.
fn logits<M: LanguageModel>(model: &M, params: &[Literal], tokens: &Literal) -> (Vec<f32>, Vec<f32>) {
    let mut inputs = params.to_vec();
    inputs.push(tokens.clone());
    let [batch, positions] = tokens.dims() else { panic!("tokens are [batch, positions]") };
    let (batch, positions) = (*batch, *positions);
    let prompt = positions - 3;
    let outputs = apply(&(model.clone(), shape_of(tokens)), &inputs, |(model, tokens)| {
        let all = model.logits(tokens);
        // A prompt, then three tokens one by one, in a cache with room to spare.
        let cache = model.cache(batch, positions + 2);
        let (first, mut cache) = model.prefill(&tokens.slice(1, 0..prompt), &cache);
        let mut steps = vec![first];
        for position in prompt..positions {
            let at = Tensor::scalar(DType::I32, position as f64);
            let (next, after) = model.decode_step(&tokens.at(1, position), &at, &cache);
            steps.push(next);
            cache = after;
        }
        let last = all.slice(1, prompt - 1..positions);
        (all, last, Tensor::stack(&steps, 1))
    });
    let decoded = off_by(&floats(&outputs[2]), &floats(&outputs[1]));
    assert!(decoded < 1e-4, "decoding is off by {decoded}");
    (floats(&outputs[0]), floats(&outputs[2]))
}

/// How far the logits are off, and the model's parameters.
fn compared(folder: &Path, options: &RunOptions) -> (f32, Vec<Literal>) {
    let config = hf::read_config(folder).unwrap();
    let files = QuantizedFolder::open(folder).unwrap();
    let peer = SafeTensors::open(&folder.join("peer.safetensors")).unwrap();
    let (tokens, expected) = (peer.read("tokens").unwrap(), peer.read("logits").unwrap());
    let (actual, params) = match &config {
        ModelConfig::Gpt2(sizes) => {
            let model = shapes(|key| Gpt2::init(key, sizes, options));
            let params = hf::load(&files, config.family(), &model).unwrap();
            (logits(&model, &params, &tokens).0, params)
        }
        ModelConfig::Llama(sizes) => {
            let model = shapes(|key| Llama::init(key, sizes, options));
            let params = hf::load(&files, config.family(), &model).unwrap();
            (logits(&model, &params, &tokens).0, params)
        }
        ModelConfig::Gemma4(sizes) => {
            let model = shapes(|key| Gemma4::init(key, sizes, options));
            let params = hf::load(&files, config.family(), &model).unwrap();
            (logits(&model, &params, &tokens).0, params)
        }
    };
    (off_by(&actual, &floats(&expected)), params)
}

#[test]
fn logits_are_those_of_transformers() {
    let folder = tempfile::tempdir().unwrap();
    let Some(folder) = peer("logits_are_those_of_transformers", "models", folder.path()) else { return };
    let names = [
        "gpt2-small",
        "gpt2-124m",
        "llama",
        "llama-tied-bias",
        "qwen2",
        "mistral",
        "mixtral",
        "qwen3",
        "qwen3-window",
        "qwen3-moe",
        "qwen3-moe-scores",
        "gemma3",
        "gemma3-whole",
        "gemma3-short",
        "deepseek-v2",
        "deepseek-v2-groups",
        "deepseek-v3",
        "gemma",
        "gemma2",
        "phi",
        "phi3",
        "olmo2",
        "olmo3",
        "olmoe",
        "gpt-oss",
        "llama4",
        "granite",
        "smollm3",
        "glm",
        "glm4",
        "cohere",
        "cohere2",
        "starcoder2",
        "stablelm",
        "stablelm-parallel",
        "gpt-neox",
        "falcon",
        "phi3-long",
        "phi3-longer",
        "falcon-new",
        "falcon-sequential",
    ];
    for name in names {
        let folder = folder.join(name);
        let (off, params) = compared(&folder, &RunOptions::default());
        assert!(off < 1e-4, "{name}: off by {off}");
        if name == "gpt2-124m" {
            let count: usize = params.iter().map(Literal::num_elements).sum();
            assert_eq!(count, 124_439_808);
            continue;
        }
        let (off, _) = compared(&folder, &RunOptions { attention: AttentionImpl::Chunked(8), ..RunOptions::default() });
        assert!(off < 1e-4, "{name} in blocks: off by {off}");
        saved_again(&folder, &params);
    }
    files_that_do_not_fit(&folder.join("llama-tied-bias"));
    text_within_images(&folder.join("gemma3"));
}

/// A model of text is read from the files of one that reads images too.
fn text_within_images(folder: &Path) {
    let text = std::fs::read_to_string(folder.join("config.json")).unwrap();
    let alone = ModelConfig::parse(&text).unwrap();
    let around = format!(r#"{{"model_type":"gemma3","vision_config":{{"hidden_size":8}},"text_config":{text}}}"#);
    assert_eq!(ModelConfig::parse(&around).unwrap(), alone);
    let ModelConfig::Llama(config) = &alone else { panic!("of the Llama family") };
    let model = shapes(|key| Llama::init(key, config, &RunOptions::default()));
    let files = QuantizedFolder::open(folder).unwrap();
    let expected = hf::load(&files, Family::Gemma3, &model).unwrap();
    for (from, to) in [("model.", "language_model.model."), ("model.", "model.language_model.")] {
        let mut tensors: Vec<(String, Literal)> = QuantizedFolder::names(&files)
            .map(|name| (name.replacen(from, to, 1), TensorSource::read(&files, name, DType::F32).unwrap()))
            .collect();
        tensors.push(("vision_tower.encoder.weight".into(), tensors[0].1.clone()));
        let again = tempfile::tempdir().unwrap();
        let tensors = tensors.iter().map(|(name, literal)| (name.as_str(), literal));
        weights::write(&again.path().join("model.safetensors"), tensors, &Default::default()).unwrap();
        let loaded = hf::load(&QuantizedFolder::open(again.path()).unwrap(), Family::Gemma3, &model).unwrap();
        assert!(loaded == expected, "{to}");
    }
}

/// What is saved, in one file or in shards, is what was loaded.
fn saved_again(folder: &Path, params: &[Literal]) {
    let config = hf::read_config(folder).unwrap();
    for max_shard_bytes in [u64::MAX, 8 << 10] {
        let again = tempfile::tempdir().unwrap();
        let reloaded = match &config {
            ModelConfig::Gpt2(sizes) => {
                let model = shapes(|key| Gpt2::init(key, sizes, &RunOptions::default()));
                hf::save(again.path(), config.family(), &model, params, max_shard_bytes).unwrap();
                hf::load(&QuantizedFolder::open(again.path()).unwrap(), config.family(), &model).unwrap()
            }
            ModelConfig::Llama(sizes) => {
                let model = shapes(|key| Llama::init(key, sizes, &RunOptions::default()));
                hf::save(again.path(), config.family(), &model, params, max_shard_bytes).unwrap();
                hf::load(&QuantizedFolder::open(again.path()).unwrap(), config.family(), &model).unwrap()
            }
            ModelConfig::Gemma4(sizes) => {
                let model = shapes(|key| Gemma4::init(key, sizes, &RunOptions::default()));
                hf::save(again.path(), config.family(), &model, params, max_shard_bytes).unwrap();
                hf::load(&QuantizedFolder::open(again.path()).unwrap(), config.family(), &model).unwrap()
            }
        };
        assert!(reloaded == params);
        let (before, after) =
            (SafeTensorsFolder::open(folder).unwrap(), SafeTensorsFolder::open(again.path()).unwrap());
        assert_eq!(
            before.entries().map(|(name, _)| name).collect::<Vec<_>>(),
            after.entries().map(|(name, _)| name).collect::<Vec<_>>()
        );
    }
}

fn files_that_do_not_fit(folder: &Path) {
    let Ok(ModelConfig::Llama(config)) = hf::read_config(folder) else { panic!("a Llama") };
    let files = QuantizedFolder::open(folder).unwrap();
    let check = |config: nn::models::LlamaConfig| {
        let model = shapes(|key| Llama::init(key, &config, &RunOptions::default()));
        hf::load(&files, Family::Llama, &model).unwrap_err()
    };
    let deeper = nn::models::LlamaConfig { num_hidden_layers: 3, ..config.clone() };
    let error = check(deeper);
    assert!(matches!(&error, Error::Tensors { missing, .. } if missing.len() == 13), "{error}");
    assert!(error.to_string().contains("model.layers.2."), "{error}");
    let error = check(nn::models::LlamaConfig { num_hidden_layers: 1, ..config.clone() });
    assert!(matches!(&error, Error::Tensors { unexpected, .. } if unexpected.len() == 13), "{error}");
    let error = check(nn::models::LlamaConfig { intermediate_size: 41, ..config.clone() });
    assert!(error.to_string().contains("[40, 32], not [41, 32]"), "{error}");
    assert!(!error.remedy().is_empty());
    // Another type is converted.
    let narrow = RunOptions { precision: DTypePolicy::Bf16, ..RunOptions::default() };
    let model = shapes(|key| Llama::init(key, &config, &narrow));
    let loaded = hf::load(&files, Family::Llama, &model).unwrap();
    assert!(loaded.iter().all(|literal| literal.dtype() == DType::BF16));
}

/// What files leave out is what the published models have.
#[test]
fn a_gemma_says_little() {
    let text = r#""hidden_size":2560,"intermediate_size":10240,"num_hidden_layers":34,"sliding_window":1024"#;
    let stretched = r#""rope_scaling":{"factor":8.0,"rope_type":"linear"}"#;
    let ModelConfig::Llama(config) = ModelConfig::parse(&format!(
        r#"{{"model_type":"gemma3","text_config":{{"model_type":"gemma3_text",{text},{stretched}}}}}"#
    ))
    .unwrap() else {
        panic!("of the Llama family")
    };
    assert_eq!((config.vocab_size, config.num_attention_heads, config.num_key_value_heads), (262_208, 8, 4));
    assert_eq!((config.head_dim, config.head), (256, Head::Tied));
    assert_eq!((config.rope_theta, config.rope_scaling), (10_000.0, RopeScaling::None));
    let scaling = RopeScaling::Linear { factor: 8.0 };
    let positions = GlobalPositions::Rotary;
    let global = GlobalLayers { every: 6, rope_theta: 1_000_000.0, rope_scaling: scaling, positions };
    assert_eq!(config.global_layers, Some(global));
    assert_eq!(config.style.score_scale, Some(1.0 / 16.0));
    // Newer files say the angles of each type of layers in one place.
    let angles = r#""rope_parameters":{"full_attention":{"rope_type":"linear","factor":8.0,"rope_theta":1000000.0},
        "sliding_attention":{"rope_type":"default","rope_theta":10000.0}}"#;
    let newer = ModelConfig::parse(&format!(r#"{{"model_type":"gemma3_text",{text},{angles}}}"#)).unwrap();
    assert_eq!(newer, ModelConfig::Llama(config));
}

/// What transformers' own classes make of files: `crates/testkit/python/hf_configs.py` wrote them.
const PEER: &str = include_str!("../data/hf_configs.json");

/// A file that says little is read as the one in which transformers wrote every field.
#[test]
fn what_files_leave_out_is_what_transformers_takes() {
    let peer: serde_json::Value = serde_json::from_str(PEER).unwrap();
    let cases = peer["cases"].as_array().unwrap();
    for case in cases {
        let read = |which: &str| ModelConfig::parse(&case[which].to_string()).unwrap_or_else(|e| panic!("{e}: {case}"));
        assert_eq!(read("given"), read("full"), "{}", case["given"]);
        // `null` is as if a key were not there, but where it is a value of its own.
        let mut nulls = case["given"].clone();
        let more = ["hidden_act", "rms_norm_eps", "vocab_size", "mlp_bias", "norm_topk_prob", "layer_types", "n_inner"];
        let owner = if nulls["text_config"].is_object() { &mut nulls["text_config"] } else { &mut nulls };
        let owner = owner.as_object_mut().unwrap();
        more.iter().for_each(|name| {
            owner.entry(*name).or_insert(serde_json::Value::Null);
        });
        assert_eq!(ModelConfig::parse(&nulls.to_string()).unwrap(), read("full"), "{nulls}");
    }
    let families: std::collections::BTreeSet<&str> =
        cases.iter().map(|case| case["given"]["model_type"].as_str().unwrap()).collect();
    assert_eq!((families.len(), cases.len()), (30, 86));
}

/// Values, so that the test above cannot agree on a mistake.
#[test]
fn a_llama_says_nothing() {
    let ModelConfig::Llama(config) = ModelConfig::parse(r#"{"model_type":"llama"}"#).unwrap() else {
        panic!("a Llama")
    };
    assert_eq!((config.vocab_size, config.hidden_size, config.intermediate_size), (32_000, 4096, 11_008));
    assert_eq!((config.num_key_value_heads, config.head_dim, config.rope_theta), (32, 128, 10_000.0));
    assert_eq!((config.hidden_act, config.sliding_window), (nn::layers::Activation::Silu, None));
    let windows = |more: &str| match ModelConfig::parse(&format!(r#"{{"model_type":"mistral"{more}}}"#)).unwrap() {
        ModelConfig::Llama(config) => config.sliding_window,
        _ => panic!("a Mistral"),
    };
    assert_eq!((windows(""), windows(r#","sliding_window":null"#)), (Some(4096), None));
    // What older and newer files say of angles; both names of the type; the base within counts.
    let rope = |more: &str| match ModelConfig::parse(&format!(r#"{{"model_type":"llama"{more}}}"#)).unwrap() {
        ModelConfig::Llama(config) => (config.rope_theta, config.rope_scaling),
        _ => panic!("a Llama"),
    };
    let linear = RopeScaling::Linear { factor: 2.0 };
    let both = r#","rope_theta":5e5,"rope_scaling":{"type":"linear","rope_type":"linear","factor":2}"#;
    assert_eq!(rope(both), (5e5, linear));
    let newer =
        r#","rope_theta":5e5,"rope_scaling":{},"rope_parameters":{"rope_type":"linear","factor":2,"rope_theta":1e6}"#;
    assert_eq!(rope(newer), (1e6, linear));
}

#[test]
fn configurations_that_cannot_be_are_refused() {
    let check = |text: &str, expected: &str| {
        let error = ModelConfig::parse(text).unwrap_err().to_string();
        assert!(error.contains(expected), "{text}: {error}");
    };
    check("[", "malformed");
    check("{}", "not known");
    check(r#"{"model_type":"t5"}"#, "`t5`");
    check(r#"{"model_type":"gpt2","n_embd":10,"n_head":3}"#, "n_head 3");
    check(r#"{"model_type":"llama","vocab_size":"many"}"#, "malformed");
    let llama = |more: &str| {
        format!(
            r#"{{"model_type":"llama","vocab_size":8,"hidden_size":8,"intermediate_size":8,"num_hidden_layers":1,
            "num_attention_heads":4,"max_position_embeddings":8,"rms_norm_eps":1e-5,"hidden_act":"silu"{more}}}"#
        )
    };
    assert!(ModelConfig::parse(&llama("")).is_ok());
    check(&llama(r#","num_key_value_heads":3"#), "num_key_value_heads 3");
    check(&llama(r#","head_dim":3"#), "rotary positions");
    assert!(ModelConfig::parse(&llama(r#","mlp_bias":true"#)).is_ok());
    check(&llama(r#","rope_scaling":{"rope_type":"longrope"}"#), "short_factor");
    check(
        &llama(r#","rope_scaling":{"rope_type":"longrope","short_factor":[1],"long_factor":[1,2]}"#),
        "of 1 positive",
    );
    check(&llama(r#","rope_scaling":{"rope_type":"ntk"}"#), "`ntk`");
    check(&llama(r#","rope_scaling":{"rope_type":"yarn"}"#), "no usable factor");
    check(&llama(r#","rope_scaling":{"rope_type":"llama3"}"#), "no usable factor");
    // Others, by their own words.
    let other = |kind: &str, more: &str| llama(more).replace("\"llama\"", &format!("\"{kind}\""));
    check(&other("mixtral", r#","num_key_value_heads":4,"num_local_experts":1"#), "num_experts_per_tok is 2");
    check(&other("qwen3_moe", r#","num_experts":4,"mlp_only_layers":[0]"#), "mlp_only_layers");
    check(&other("qwen3_moe", r#","num_experts":4,"decoder_sparse_step":2"#), "decoder_sparse_step");
    check(&other("qwen3_moe", r#","num_experts":4,"num_experts_per_tok":5"#), "num_experts_per_tok is 5");
    let windows = r#","num_key_value_heads":4,"num_hidden_layers":4,"use_sliding_window":true,"sliding_window":4"#;
    let several = |more: &str| other("qwen3", more).replacen("\"num_hidden_layers\":1,", "", 1);
    check(&several(&format!(r#"{windows},"max_window_layers":2"#)), "max_window_layers");
    assert!(ModelConfig::parse(&several(&format!(r#"{windows},"max_window_layers":4"#))).is_ok());
    let types = |types: &str| several(&format!(r#"{windows},"layer_types":[{types}]"#));
    let (full, sliding) = (r#""full_attention""#, r#""sliding_attention""#);
    check(&types(full), "1 layers, but");
    check(&types(&[sliding, sliding, sliding, r#""chunked_attention""#].join(",")), "`chunked_attention`");
    check(&types(&[full, sliding, full, sliding].join(",")), "no regular order");
    assert!(ModelConfig::parse(&types(&[sliding, full, sliding, full].join(","))).is_ok());
    check(&other("gemma3", ""), "text_config");
    check(&other("gemma3_text", r#","final_logit_softcapping":30.0"#), "final_logit_softcapping");
    check(&other("gemma3_text", r#","query_pre_attn_scalar":0"#), "scale of scores");
    check(&other("gemma3_text", r#","sliding_window_pattern":0"#), "sliding_window_pattern");
    check(&other("gemma3_text", r#","sliding_window":0"#), "sliding_window is 0");
    check(
        &several(r#","num_hidden_layers":1000000000000,"sliding_window_pattern":1000000000"#)
            .replace("qwen3", "gemma3_text"),
        "2 to 64",
    );
    // What would change results is refused by its name.
    check(&other("qwen2", r#","mlp_bias":true"#), "mlp_bias");
    check(&llama(r#","partial_rotary_factor":0.5"#), "partial_rotary_factor");
    check(&other("phi", r#","qk_layernorm":true"#), "qk_layernorm");
    check(&other("phi", r#","partial_rotary_factor":2.0"#), "partial_rotary_factor");
    check(
        &other("phi3", r#","rope_scaling":{"type":"su","short_factor":[1.0],"long_factor":[1.0,2.0]}"#),
        "of 1 positive",
    );
    check(&other("phi3", r#","rope_scaling":{"type":"yarn","factor":2.0}"#), "stretched angles of phi3");
    check(&other("stablelm", r#","num_key_value_heads":4,"qk_layernorm":true"#), "qk_layernorm");
    check(&other("cohere", r#","use_qk_norm":true"#), "use_qk_norm");
    check(&other("cohere2", r#","sliding_window":null"#), "without sliding windows");
    check(&other("olmoe", r#","clip_qkv":8.0"#), "clip_qkv");
    check(&other("granite", r#","logits_scaling":0.0"#), "the scale of logits");
    check(&other("smollm3", r#","use_sliding_window":true,"sliding_window":4"#), "use_sliding_window");
    check(&other("smollm3", r#","num_key_value_heads":4,"no_rope_layers":[0]"#), "no regular order");
    check(&other("smollm3", r#","num_key_value_heads":4,"no_rope_layer_interval":0"#), "no_rope_layer_interval is 0");
    let llama4 = |more: &str| other("llama4_text", &format!(r#","num_key_value_heads":4,"head_dim":2{more}"#));
    assert!(ModelConfig::parse(&llama4("")).is_ok());
    check(&llama4(r#","interleave_moe_layer_step":0"#), "interleave_moe_layer_step");
    check(&llama4(r#","moe_layers":[0,2]"#), "moe_layers");
    check(&llama4(r#","moe_layers":[]"#), "moe_layers");
    check(&llama4(r#","layer_types":["full_attention"]"#), "layer_types of llama4_text");
    check(&llama4(r#","attention_chunk_size":0"#), "sliding_window is 0");
    check(&other("llama4", ""), "text_config");
    check(&other("gemma2", r#","num_key_value_heads":4,"attn_logit_softcapping":-1.0"#), "the soft cap of scores");
    let mla = r#","kv_lora_rank":4,"qk_nope_head_dim":4,"qk_rope_head_dim":2,"v_head_dim":4,"n_routed_experts":4,
        "num_experts_per_tok":2,"first_k_dense_replace":0,"n_group":1,"topk_group":1,"norm_topk_prob":false"#;
    let deepseek = |kind: &str, more: &str| other(kind, &format!("{mla}{more}"));
    assert!(ModelConfig::parse(&deepseek("deepseek_v3", "")).is_ok());
    check(&other("deepseek_v3", r#","num_key_value_heads":4"#), "no layer has experts");
    check(&deepseek("deepseek_v3", r#","q_lora_rank":0"#), "q_lora_rank");
    check(&deepseek("deepseek_v3", r#","first_k_dense_replace":1"#), "no layer has experts");
    check(&deepseek("deepseek_v3", r#","n_group":3,"topk_group":1"#), "1 of 3 groups");
    check(&deepseek("deepseek_v3", r#","n_group":4,"topk_group":1"#), "1 of 4 groups");
    check(&deepseek("deepseek_v3", r#","topk_method":"greedy""#), "topk_method `greedy`");
    check(&deepseek("deepseek_v3", r#","scoring_func":"softmax""#), "scoring_func `softmax`");
    check(&deepseek("deepseek_v2", r#","topk_method":"noaux_tc""#), "topk_method `noaux_tc`");
    check(&deepseek("deepseek_v2", r#","norm_topk_prob":true"#), "norm_topk_prob");
    check(&deepseek("deepseek_v2", r#","moe_layer_freq":2"#), "moe_layer_freq");
    assert!(matches!(hf::read_config(Path::new("/nonexistent")), Err(Error::ConfigFile { .. })));
    assert!(SafeTensorsFolder::open(Path::new("/nonexistent/model.safetensors")).is_err());
}

#[test]
fn configurations_without_an_end_or_a_bottom_are_refused() {
    let endless = hf::read_config(Path::new("/dev/zero")).unwrap_err();
    assert!(endless.source().unwrap().to_string().contains("longer than"), "{endless:?}");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config.json");
    std::fs::write(&path, r#"{"a":"#.repeat(100_000)).unwrap();
    let deep = hf::read_config(&path).unwrap_err();
    assert!(format!("{deep:?}").contains("recursion limit"), "{deep:?}");
}
