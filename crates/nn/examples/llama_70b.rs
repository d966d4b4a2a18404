//! How long it takes to trace the training step of a Llama of 70 billion parameters; no device is needed.
//!
//! `cargo run --release -p tpubridge-nn --example llama_70b`. Started with `compile-worker` it is the compiler's process of the tests.

use std::time::Instant;

use nn::hf::ModelConfig;
use nn::layers::AttentionImpl;
use nn::models::{LanguageModel, Llama, RunOptions, TokenBatch};
use nn::optim::{Adam, Schedule};
use nn::{CrossEntropy, DTypePolicy, RematPolicy, StepOptions, trace_init, trace_train_step};
use trace::Tree;

const CONFIG: &str = r#"{
  "model_type": "llama", "vocab_size": 128256, "hidden_size": 8192, "intermediate_size": 28672,
  "num_hidden_layers": 80, "num_attention_heads": 64, "num_key_value_heads": 8, "max_position_embeddings": 131072,
  "rms_norm_eps": 1e-5, "rope_theta": 500000.0, "hidden_act": "silu",
  "rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                   "original_max_position_embeddings": 8192}
}"#;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    if std::env::args().any(|arg| arg == "compile-worker") {
        let code = compile::worker::serve();
        std::process::exit(if code == std::process::ExitCode::SUCCESS { 0 } else { 2 });
    }
    let ModelConfig::Llama(config) = ModelConfig::parse(CONFIG)? else { return Err("a Llama was expected".into()) };
    let run = RunOptions {
        precision: DTypePolicy::Mixed,
        remat: RematPolicy::Full,
        attention: AttentionImpl::Chunked(1024),
        loss_chunk_size: Some(1024),
        ..RunOptions::default()
    };
    let optimizer = Adam::with_weight_decay(
        Schedule::Cosine { peak_value: 3e-4, warmup_steps: 2000, total_steps: 500_000, end_value: 3e-5 },
        0.1,
    );
    let options = StepOptions { max_grad_norm: Some(1.0), ..StepOptions::default() };
    for _ in 0..3 {
        let started = Instant::now();
        let (_, state) = trace_init(&optimizer, &options, |key| Llama::init(key, &config, &run))?;
        let of_init = started.elapsed();
        let started = Instant::now();
        let batch = TokenBatch::shape(8, 8192);
        let step = trace_train_step(&state, &batch, &optimizer, &options, |model: &Llama, batch, key| {
            model.loss(batch, &CrossEntropy::default(), Some(key))
        })?;
        println!(
            "{:.1} billion parameters: init traced in {:.0} ms, training step of {} inputs in {:.0} ms",
            state.params.num_parameters() as f64 / 1e9,
            of_init.as_secs_f64() * 1e3,
            step.inputs.len(),
            started.elapsed().as_secs_f64() * 1e3,
        );
    }
    Ok(())
}
