//! Models that do not fit are refused before they are loaded, with what would.

use infer::{Engine, InferenceOptions, KvLayout, Request, SamplingOptions};
use nn::layers::KvCacheDType;
use nn::models::RunOptions;
use runtime::config::{Config, Mode, Target};
use runtime::{Backend, Surroundings};

use crate::harness::{opened, run, sized, write_llama};

const CONFIG: &str = r#"{"model_type": "llama", "vocab_size": 256, "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 4,
    "num_attention_heads": 8, "num_key_value_heads": 8, "max_position_embeddings": 4096, "tie_word_embeddings": false}"#;

/// Devices with so many bytes each.
fn devices(count: usize, bytes: i64) -> Backend {
    let around = Surroundings::host();
    let around = Surroundings { client: around.client.clone().option("memory_limit_bytes", bytes), ..around };
    let config = Config::new(Mode::Inference).device(Target::Cpu).cpu_devices(count);
    Backend::within(&around, &config).unwrap()
}

#[test]
fn what_does_not_fit_is_refused_with_what_would() {
    let folder = tempfile::tempdir().unwrap();
    write_llama(folder.path(), CONFIG, 0.0);
    let source = opened(folder.path());
    let load = |backend: &Backend, options: &InferenceOptions| Engine::load(backend, &source, options).map(|_| ());
    // 0.8 MB of weights; a row of 1,024 positions takes 2 MB of KV cache.
    let options = InferenceOptions { kv_layout: Some(KvLayout::Rows), ..sized(16, 1007) };
    let small = devices(1, 24 << 20);
    let error = load(&small, &options).unwrap_err();
    let (message, remedy) = (error.to_string(), error.remedy().unwrap());
    assert!(
        message.starts_with("the model does not fit: 0.8 MiB of weights in f32, 32.0 MiB of KV cache in f32, "),
        "{message}"
    );
    assert!(message.ends_with("too much"), "{message}");
    for would in ["--batch ", "--kv-cache int8", "--mesh model=4 on 4 such devices"] {
        assert!(remedy.contains(would), "{remedy}");
    }
    assert_eq!(small.memory().used_bytes(), 0);
    // What it says does fit, each on a device of its own: work that is under way when an engine goes still has its memory.
    let cache = RunOptions { kv_cache: Some(KvCacheDType::Int8), ..RunOptions::default() };
    load(&devices(1, 24 << 20), &InferenceOptions { run: cache, ..options.clone() }).unwrap();
    let half = RunOptions { precision: nn::DTypePolicy::Bf16, ..RunOptions::default() };
    // Programs are taken to need as much in bf16, so a little more room is asked for.
    let error = load(&devices(1, 32 << 20), &options).unwrap_err();
    assert!(error.remedy().unwrap().contains("--precision bf16"), "{:?}", error.remedy());
    load(&devices(1, 32 << 20), &InferenceOptions { run: half, ..options.clone() }).unwrap();
    let rows = remedy.split("--batch ").nth(1).and_then(|rest| rest.split(',').next()).unwrap().parse().unwrap();
    load(&devices(1, 24 << 20), &InferenceOptions { rows, ..options.clone() }).unwrap();
    load(&devices(4, 24 << 20), &InferenceOptions { mesh: Some("model=4".parse().unwrap()), ..options.clone() })
        .unwrap();
    // Weights and cache alone fit, but not what programs need besides.
    let error = load(&devices(1, 37 << 20), &options).unwrap_err().to_string();
    assert!(error.contains("of temporaries of programs"), "{error}");
    // Not even the weights.
    let error = load(&devices(1, 1 << 19), &options).unwrap_err();
    assert!(error.remedy().unwrap().contains("would do"), "{:?}", error.remedy());
}

#[test]
fn pages_are_as_many_as_fit() {
    let folder = tempfile::tempdir().unwrap();
    write_llama(folder.path(), CONFIG, 0.0);
    let source = opened(folder.path());
    let pages = |bytes: i64, options: &InferenceOptions| {
        Engine::load(&devices(1, bytes), &source, options).map(|engine| (engine.page_counts().total, engine))
    };
    // A page of 8 positions takes 16 KiB, and the longest sequence has 128 of them.
    let options = sized(16, 1007);
    assert_eq!(pages(128 << 20, &options).unwrap().0, 16 * 128);
    let (total, mut engine) = pages(16 << 20, &options).unwrap();
    assert!((128..1000).contains(&total), "{total} pages");
    assert_eq!(engine.cache_bytes(), total as u64 * (16 << 10));
    // They are enough for any requests, and memory for programs is left.
    let sampling =
        SamplingOptions { max_tokens: 300, temperature: 0.0, ignore_eos: true, ..SamplingOptions::default() };
    let request =
        |n: u32| Request { prompt: (0..500).map(|token| (token * n) % 256).collect(), sampling: sampling.clone() };
    let ids: Vec<_> = (1..=8).map(|n| engine.add(request(n)).unwrap()).collect();
    assert!(run(&mut engine, &ids).iter().all(|answer| answer.tokens.len() == 300));
    // One sequence must fit.
    let error = pages(2 << 20, &options).err().unwrap();
    assert!(error.to_string().contains("of KV cache in f32 for one sequence"), "{error}");
    assert!(error.remedy().unwrap().contains("a shorter --max-length"), "{:?}", error.remedy());
    // What was asked for is not changed.
    let asked = InferenceOptions { pages: Some(1900), ..options.clone() };
    let error = pages(16 << 20, &asked).err().unwrap();
    assert!(error.remedy().unwrap().contains("--kv-pages "), "{:?}", error.remedy());
    for (page_size, count, what) in [(24, None, "power of two"), (8, Some(127), "from 128 to")] {
        let options = InferenceOptions { page_size: Some(page_size), pages: count, ..options.clone() };
        let error = pages(64 << 20, &options).err().unwrap();
        assert!(error.remedy().unwrap().contains(what), "{:?}", error.remedy());
    }
}
