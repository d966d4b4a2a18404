//! Quantized weights through the real TPU compiler: no wider copy of them in any form that promises so, and what plans say of them.

use nn::hf::ModelConfig;
use nn::layers::{CacheStart, KvCache, KvCacheDType};
use nn::models::{LanguageModel, Llama, RunOptions};
use nn::quant::{InputAxis, QuantScheme, QuantizedTensor};
use tensor::DType;
use trace::{DTypePolicy, Donate, Key, Spec, Tensor, Tree};

use crate::harness::{Bench, arg};

const INPUTS: usize = 2048;
const OUTPUTS: usize = 1536;

/// A program with a matmul of so many rows for each scheme.
fn matmuls(schemes: &[&str], rows: usize) -> String {
    let weights = trace::shapes_of(&(), |()| {
        let of = |scheme: &&str| {
            let scheme: QuantScheme = scheme.parse().unwrap();
            QuantizedTensor::of_shape(&[INPUTS, OUTPUTS], &scheme, InputAxis::First)
        };
        schemes.iter().map(of).collect::<Vec<_>>()
    })
    .unwrap();
    let x = Tensor::of(Spec::new(DType::BF16, [rows, INPUTS]));
    let multiply = |(weights, x): &(Vec<QuantizedTensor>, Tensor)| {
        weights.iter().map(|weight| weight.matmul(x, DType::BF16)).collect::<Vec<_>>()
    };
    let traced = trace::trace("matmuls", &(weights, x), Donate::Leading(0), multiply).unwrap();
    hlo::text::print(&traced.0.module)
}

/// Values of the size of a weight that the scheduled program holds in a wide type, with the ops that write them.
fn wide_copies(hlo: &str) -> Vec<String> {
    let entry = hlo.split("\nENTRY ").nth(1).expect("an entry computation");
    let is_copy = |line: &&str| {
        let Some((_, value)) = line.split_once(" = ") else { return false };
        let Some((dtype, rest)) = value.trim_start_matches('(').split_once('[') else { return false };
        let dims = rest.split(']').next().unwrap_or_default();
        let elements: usize = dims.split(',').filter_map(|size| size.parse::<usize>().ok()).product();
        matches!(dtype, "bf16" | "f32" | "s32") && elements == INPUTS * OUTPUTS && !value.contains(" parameter(")
    };
    entry.lines().filter(is_copy).map(str::to_owned).collect()
}

#[test]
fn no_weight_is_written_in_a_wider_type() {
    let Some(bench) = Bench::with_libtpu("no_weight_is_written_in_a_wider_type") else { return };
    let few = matmuls(&["w8a16", "w4a16", "w8a16-fp8", "w8a8", "w8a8-fp8", "w4a16-g128", "w8a16-g128"], 8);
    // With many rows groups are dequantized: that is a copy, and shows that one is seen.
    let many = matmuls(&["w4a16-g128"], 512);
    for slice in ["v5e-1", "v5p-8", "v6e-1", "tpu7x-2"] {
        let compiled = |name: &str, text: &str| {
            let file = bench.write(name, text);
            bench.expect(0, &["compile", arg(&file), "--slice", slice, "--quick", "--emit", "hlo"]).stdout
        };
        let copies = wide_copies(&compiled("few.mlir", &few));
        assert!(copies.is_empty(), "{slice}: {copies:#?}");
        assert!(!wide_copies(&compiled("many.mlir", &many)).is_empty(), "{slice}");
    }
}

/// Pages of the cache of [`paged_decode`].
const PAGES: usize = 96;

/// A step of so many tokens of each sequence, whose keys and values are codes in pages.
fn paged_decode(kv_cache: KvCacheDType, tokens: usize) -> String {
    let config = r#"{"model_type":"llama","vocab_size":512,"hidden_size":512,"intermediate_size":1024,"num_hidden_layers":8,
        "num_attention_heads":16,"num_key_value_heads":4,"head_dim":128,"max_position_embeddings":4096,"rms_norm_eps":1e-5,
        "rope_theta":5e5,"hidden_act":"silu","tie_word_embeddings":false}"#;
    let ModelConfig::Llama(config) = ModelConfig::parse(config).unwrap() else { panic!("a Llama") };
    let options = RunOptions { precision: DTypePolicy::Bf16, kv_cache: Some(kv_cache), ..RunOptions::default() };
    let (model, cache) = trace::shapes_of(&(), |()| {
        let model = Llama::init(&Key::from_seed(&Tensor::scalar(DType::U32, 0.0)), &config, &options);
        let cache = model.cache(PAGES, 256);
        (model, cache)
    })
    .unwrap();
    let (sequences, table) = (16, PAGES / 16);
    let of = |dims: &[usize]| Tensor::of(Spec::new(DType::I32, dims));
    type Inputs = (KvCache, Llama, (Tensor, Tensor, Tensor), Tensor);
    let places = (of(&[sequences]), of(&[sequences]), of(&[sequences, table]));
    let donate = Donate::Leading(cache.specs().len());
    let inputs: Inputs = (cache, model, places, of(&[sequences, tokens]));
    let step = |(cache, model, (filled, count, table), tokens): &Inputs| {
        let start = CacheStart::Pages { filled: filled.clone(), tokens: count.clone(), table: table.clone() };
        let (hidden, cache) = model.extend(tokens, &start, cache);
        (cache, model.lm_head(&hidden.slice(1, 0..1)).argmax(-1))
    };
    hlo::text::print(&trace::trace("decode", &inputs, donate, step).unwrap().0.module)
}

/// Ops that lay out a whole array of the cache anew.
fn copies_of_the_cache(hlo: &str) -> Vec<&str> {
    let whole = format!("[8,{PAGES},4,256");
    let is_copy = |line: &str| [" copy(", " reshape(", " transpose("].iter().any(|op| line.contains(op));
    hlo.lines().filter(|line| line.contains(&whole) && is_copy(line)).collect()
}

#[test]
fn a_paged_cache_of_codes_is_written_where_it_lies() {
    let Some(bench) = Bench::with_libtpu("a_paged_cache_of_codes_is_written_where_it_lies") else { return };
    for (slice, kv_cache) in [("v6e-1", KvCacheDType::Int8), ("tpu7x-2", KvCacheDType::Fp8)] {
        for tokens in [1, 3, 300] {
            let file = bench.write("step.mlir", paged_decode(kv_cache, tokens));
            let ran = bench.expect(0, &["compile", arg(&file), "--slice", slice, "--quick", "--emit", "hlo"]);
            let copies = copies_of_the_cache(&ran.stdout);
            assert!(copies.is_empty(), "{slice}, {tokens} tokens: {copies:#?}");
        }
    }
}

/// Llama 3.1 70B.
const LARGE: &str = r#"{"model_type":"llama","vocab_size":128256,"hidden_size":8192,"intermediate_size":28672,"num_hidden_layers":80,
    "num_attention_heads":64,"num_key_value_heads":8,"max_position_embeddings":131072,"rms_norm_eps":1e-5,"rope_theta":5e5,
    "hidden_act":"silu","tie_word_embeddings":false}"#;

#[test]
fn four_bits_decode_a_large_model_faster_and_on_half_the_chips() {
    let test = "four_bits_decode_a_large_model_faster_and_on_half_the_chips";
    let Some(bench) = Bench::with_libtpu(test) else { return };
    bench.write("config.json", LARGE);
    let planned = |slice: &str, weights: &str, status: i32| {
        let command = [
            "plan",
            "config.json",
            "--step",
            "decode",
            "--slices",
            slice,
            "--batch-size",
            "8",
            "--sequence-length",
            "4096",
            "--weights",
            weights,
            "--compiles",
            "1",
        ];
        bench.expect(status, &[&command[..], &["--json"]].concat()).stdout
    };
    let step_s = |record: &str| {
        let record: serde_json::Value = serde_json::from_str(record).unwrap();
        (record["recommended"]["step"]["seconds"].as_f64().unwrap(), record)
    };
    let (dense_s, _) = step_s(&planned("v6e-8", "dense", 0));
    let (narrow_s, record) = step_s(&planned("v6e-8", "w4a16", 0));
    assert!(dense_s / narrow_s >= 1.75, "{dense_s} s in bf16, {narrow_s} s in 4 bits");
    // With activations of 8 bits the matrix units take codes as they are.
    let (both_s, _) = step_s(&planned("v6e-8", "w4a8", 0));
    assert!(dense_s / both_s >= 1.99, "{dense_s} s in bf16, {both_s} s in 4 bits with activations of 8");
    assert_eq!(record["recommended"]["weights"], "w4a16");
    let notes = record["notes"].to_string();
    assert!(notes.contains("weights of w4a16: perplexity +2 to 4 %"), "{notes}");
    let (half_s, _) = step_s(&planned("v6e-4", "w4a16", 0));
    // A chip then decodes more than twice as many tokens.
    assert!(half_s < dense_s, "{half_s} s on half the chips");
    // In bf16 it does not fit there.
    planned("v6e-4", "dense", 1);
    let refused = bench.expect(2, &["plan", "config.json", "--weights", "w4a16"]);
    assert!(refused.stderr.contains("--weights, --lm-head and --kv-cache are for inference"), "{}", refused.stderr);
}
