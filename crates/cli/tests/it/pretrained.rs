//! `tpu train` from a Hugging Face folder: its weights, its sizes, its tokenizer; folders that do not do.

use std::path::Path;

use compile::optimize::ComputePrecision;
use nn::models::{Gpt2, Gpt2Config, LanguageModel, RunOptions, TokenBatch};
use nn::{CrossEntropy, hf};
use runtime::config::{Config, Mode, Target};
use runtime::{Backend, ReadTensor, TreeArrays};
use tensor::Literal;
use trace::{Key, Tensor};
use train::data::{Batching, Dataset, MarkovOptions, MarkovTokens};

use crate::harness::{Bench, arg};

const TRAINING: &str = r#"
[model]
from = "weights"

[data]
kind = "synthetic"
sequence_length = 8

[optimizer]
name = "adamw"
learning_rate = 1e-2

[train]
steps = 2
batch_size = 4
log_every = 1
ema = { decay = 0.9 }
"#;

fn sizes() -> Gpt2Config {
    Gpt2Config {
        vocab_size: 12,
        n_positions: 8,
        n_embd: 16,
        n_layer: 2,
        n_head: 2,
        embd_pdrop: 0.0,
        resid_pdrop: 0.0,
        attn_pdrop: 0.0,
        // Far from what a fresh model has, so that its loss is another.
        initializer_range: 0.5,
        ..Gpt2Config::default()
    }
}

/// Writes a model and gives its loss on the first batch of the training.
fn write_model(folder: &Path) -> f32 {
    std::fs::create_dir_all(folder).unwrap();
    let backend =
        Backend::auto(&Config::new(Mode::Training).device(Target::Cpu).precision(ComputePrecision::F32)).unwrap();
    let make = |(): &()| Gpt2::init(&Key::from_seed(77), &sizes(), &RunOptions::default());
    let model: Gpt2 = backend.jit(make).call(()).unwrap();
    let params: Vec<Literal> = model.to_literals().unwrap().into_iter().map(|(_, literal)| literal).collect();
    hf::save(folder, hf::Family::Gpt2, &model, &params, u64::MAX).unwrap();
    let mut config = serde_json::to_value(sizes()).unwrap();
    config["model_type"] = "gpt2".into();
    config["architectures"] = serde_json::json!(["GPT2LMHeadModel"]);
    std::fs::write(folder.join("config.json"), config.to_string()).unwrap();
    let options = MarkovOptions { vocab_size: 12, sequence_length: 8, chain_seed: 0, batching: Batching::new(4, 0) };
    let batch = MarkovTokens::new(options).unwrap().batch(0).unwrap();
    let loss = |(model, batch): &(Gpt2, Vec<Tensor>)| {
        let batch = TokenBatch { tokens: batch[0].clone(), targets: batch[1].clone() };
        model.loss(&batch, &CrossEntropy::default(), None)
    };
    let batch = batch.into_iter().map(Tensor::from).collect();
    backend.jit(loss).call((model, batch)).unwrap().item().unwrap()
}

fn losses(bench: &Bench, folder: &str) -> Vec<f64> {
    let lines = std::fs::read_to_string(bench.path(folder).join("metrics/metrics.jsonl")).unwrap();
    let values = lines.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    values.filter_map(|line| line["loss"].as_f64()).collect()
}

#[test]
fn the_first_loss_is_that_of_the_weights() {
    let bench = Bench::bare();
    let expected = f64::from(write_model(&bench.path("weights")));
    let file = bench.write("training.toml", TRAINING);
    bench.expect(0, &["train", arg(&file), "--folder", "run", "-d", "cpu"]);
    let first = losses(&bench, "run")[0];
    assert!((first / expected - 1.0).abs() < 1e-5, "{first} {expected}");
    // A fresh model of the same sizes has another.
    assert!((expected / f64::ln(12.0) - 1.0).abs() > 0.05, "{expected}");

    // It goes on from its checkpoint, without the weights.
    std::fs::remove_file(bench.path("weights/model.safetensors")).unwrap();
    let more = bench.json(&["train", arg(&file), "--folder", "run", "-d", "cpu", "--with", "train.steps=3"]);
    assert_eq!((more["first_step"].as_u64(), more["step"].as_u64()), (Some(2), Some(3)));
    // And its checkpoints are read without the folder.
    std::fs::remove_dir_all(bench.path("weights")).unwrap();
    let ran = bench.run(&["generate", "run", "--prompt", "a", "-n", "2", "--tokenizer", "bytes", "-d", "cpu"]);
    assert!(!ran.stderr.contains("config.json"), "{}", ran.stderr);
}

#[test]
fn text_is_read_with_the_tokenizer_of_the_folder() {
    let bench = Bench::bare();
    write_model(&bench.path("weights"));
    let file = bench.write("training.toml", TRAINING);
    bench.write("text.txt", "the fox runs. ".repeat(200));
    let text = "data={kind=\"text\",files=[\"text.txt\"],sequence_length=8}";
    let run = ["train", arg(&file), "--folder", "run", "-d", "cpu", "--with", text];
    let ran = bench.expect(2, &run);
    assert!(ran.stderr.contains("tokenizer.json does not exist") && ran.stderr.contains("hint: "), "{}", ran.stderr);
    let tokenizer = r#"{"version": "1.0", "truncation": null, "padding": null, "normalizer": null,
      "pre_tokenizer": {"type": "Whitespace"}, "post_processor": null, "decoder": null, "added_tokens": [],
      "model": {"type": "WordLevel", "unk_token": "?", "vocab": {"?": 0, "the": 1, "fox": 2, "runs": 3, ".": 4}}}"#;
    bench.write("weights/tokenizer.json", tokenizer);
    bench.expect(0, &run);
    let written = bench.json(&["generate", "run", "--prompt", "the fox", "-n", "3", "-d", "cpu"]);
    assert_eq!(written["tokens"].as_array().unwrap().len(), 3);
    // Without `from` there is no tokenizer to take.
    let model = "model={model_type=\"gpt2\",vocab_size=12,n_positions=8,n_embd=16,n_layer=1,n_head=2}";
    let ran = bench.expect(2, &[&run[..], &["--with", model]].concat());
    assert!(ran.stderr.contains("data.tokenizer is not set"), "{}", ran.stderr);
}

#[test]
fn folders_that_do_not_do_are_refused() {
    let bench = Bench::bare();
    let file = bench.write("training.toml", TRAINING);
    let refuse = |change: &[&str], words: &[&str]| {
        let ran = bench.expect(2, &[&["train", arg(&file), "-d", "cpu"], change].concat());
        for word in words {
            assert!(ran.stderr.contains(word), "{change:?}: `{word}` is not in\n{}", ran.stderr);
        }
        assert!(ran.stderr.contains("hint: "), "{change:?}\n{}", ran.stderr);
    };
    refuse(&[], &["weights/config.json"]);
    write_model(&bench.path("weights"));
    refuse(&["--with", "model.from=3"], &["model.from is not a string"]);
    refuse(&["--with", "model.model_type=\"gpt9\""], &["gpt9"]);
    refuse(&["--with", "model.n_layer=3"], &["not those of the model", "missing: ", "h.2."]);
    refuse(&["--with", "model.n_embd=32"], &["of another shape"]);
    let weights = bench.path("weights/model.safetensors");
    let whole = std::fs::read(&weights).unwrap();
    std::fs::write(&weights, &whole[..whole.len() / 2]).unwrap();
    refuse(&[], &["model.safetensors"]);
    std::fs::remove_file(&weights).unwrap();
    refuse(&[], &["weights"]);
    bench.write("weights/config.json", "{");
    refuse(&[], &["config.json"]);
}
