//! GGUF files whose matrices stay blocks on the CPU device: the tokens of the same file unpacked, in any schedule.

use std::path::Path;

use infer::{Engine, InferenceOptions, Request, SamplingOptions};
use weights::SafeTensors;
use weights::quant::QuantizedWeight;
use weights::quant::gguf::{GgmlType, GgufEntry, llama_metadata, write_gguf};

use crate::harness::{cpu, cpus, crowded, engine, run, sized, write_llama};
use crate::schedules::any_schedule_gives_each_request_what_it_gets_alone;

const CONFIG: &str = r#"{"model_type": "llama", "vocab_size": 101, "hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 3,
    "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 128, "initializer_range": 0.2,
    "tie_word_embeddings": false}"#;

/// Writes a small Llama with matrices of two types; one layer differs from the others.
fn write_file(folder: &Path, path: &Path) {
    write_llama(folder, CONFIG, 0.0);
    let floats = SafeTensors::open(&folder.join("model.safetensors")).unwrap();
    let kind = |name: &str, dims: &[usize]| match name {
        _ if dims.len() < 2 => GgmlType::F32,
        "model.layers.1.mlp.down_proj.weight" => GgmlType::Q8_0,
        _ if name.contains("mlp") => GgmlType::Q4_0,
        _ => GgmlType::Q8_0,
    };
    let entry = |(name, entry): (&String, &weights::Entry)| GgufEntry {
        name: name.clone(),
        dims: entry.dims.clone(),
        kind: kind(name, &entry.dims),
    };
    let entries: Vec<GgufEntry> = floats.entries().iter().map(entry).collect();
    let metadata = llama_metadata(&serde_json::from_str(CONFIG).unwrap()).unwrap();
    write_gguf(path, &metadata, &entries, |name| Ok(QuantizedWeight::Dense(floats.read(name)?))).unwrap();
}

fn answers(engine: &mut Engine) -> Vec<Vec<u32>> {
    let sampling = SamplingOptions { max_tokens: 12, temperature: 0.0, ignore_eos: true, ..SamplingOptions::default() };
    // Prompts of one row, of a few, and of more than are read as blocks at a time.
    let prompts = [1, 3, 17, 40, 60].map(|length: u32| (0..length).map(|n| (n * 7 + length) % 101).collect());
    let ids = prompts.map(|prompt| engine.add(Request { prompt, sampling: sampling.clone() }).unwrap());
    run(engine, &ids).iter().map(|answer| answer.numbers()).collect()
}

#[test]
fn files_in_blocks_give_the_tokens_of_unpacked_ones() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.gguf");
    write_file(folder.path(), &path);
    let backend = cpu();
    let options = InferenceOptions { prefill_chunk: 64, ..sized(5, 100) };
    let in_blocks = answers(&mut engine(&backend, &path, &options));
    // On a mesh codes and scales lie apart.
    for mesh in ["model=2", "stage=2"] {
        let on_mesh = InferenceOptions { mesh: Some(mesh.parse().unwrap()), ..options.clone() };
        assert_eq!(in_blocks, answers(&mut engine(&cpus(2), &path, &on_mesh)), "{mesh}");
    }
    any_schedule_gives_each_request_what_it_gets_alone(&backend, &path, &crowded(5, 100), 0..1);
}
