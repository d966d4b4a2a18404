//! Vectors of texts are those of transformers, from Rust and through OpenAI's own client.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use infer::server::{EmbeddingServer, EmbeddingServerOptions};
use infer::{EmbedOptions, Embedder, Pooling, TooLong, VectorLength};
use nn::hf::{self, AnyEncoderConfig};
use nn::models::{Encoder, EncoderConfig, RunOptions};
use serde::Deserialize;
use tensor::DType;
use testkit::{Needed, repository, require};
use trace::{Key, Tensor};
use weights::quant::QuantizedFolder;

use crate::harness::{cpu, peer};

#[derive(Deserialize)]
struct Line {
    text: String,
    tokens: Vec<u32>,
    vector: Vec<f32>,
}

fn lines(folder: &Path) -> Vec<Line> {
    serde_json::from_str(&std::fs::read_to_string(folder.join("answers.json")).unwrap()).unwrap()
}

#[test]
fn vectors_are_those_of_transformers() {
    let folder = tempfile::tempdir().unwrap();
    let Some(folders) = peer("vectors_are_those_of_transformers", "embeddings", folder.path()) else { return };
    assert_eq!(folders.len(), 6);
    let backend = cpu();
    for folder in &folders {
        let lines = lines(folder);
        // Fewer at once than there are: texts of other lengths share a batch.
        let options = EmbedOptions { batch: 3, ..EmbedOptions::default() };
        let mut embedder = Embedder::open(&backend, folder, &options).unwrap();
        let texts: Vec<&str> = lines.iter().map(|line| line.text.as_str()).collect();
        let made = embedder.embed(&texts).unwrap();
        for (line, made) in lines.iter().zip(&made) {
            assert_eq!(
                (made.tokens, made.vector.len()),
                (line.tokens.len(), 32),
                "{}: {}",
                folder.display(),
                line.text
            );
            let off = made.vector.iter().zip(&line.vector).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
            assert!(off < 1e-4, "{}: {} is off by {off}", folder.display(), line.text);
        }
        let tokens = lines.iter().map(|line| line.tokens.clone()).collect();
        assert_eq!(embedder.embed_tokens(tokens).unwrap(), made);
    }
    let bert = folders.iter().find(|folder| folder.ends_with("bert")).unwrap();
    what_is_asked_counts(bert);
    encoders_are_saved_as_they_were(bert);
    encoders_are_saved_as_they_were(folders.iter().find(|folder| folder.ends_with("distilbert")).unwrap());
    openais_client_gets_vectors(bert);
}

/// Options before what the folder says, and what cannot be embedded.
fn what_is_asked_counts(folder: &Path) {
    let open = |options: EmbedOptions| Embedder::open(&cpu(), folder, &options);
    let options = EmbedOptions {
        pooling: Some(Pooling::Mean),
        length: Some(VectorLength::AsComputed),
        max_length: Some(5),
        ..EmbedOptions::default()
    };
    let mut embedder = open(options.clone()).unwrap();
    let long = embedder.embed(&["w1 w2 w3 w4"]).unwrap_err().to_string();
    assert!(long.contains("6 tokens") && long.contains("at most 5"), "{long}");
    assert!(embedder.embed_tokens(vec![vec![]]).unwrap_err().to_string().contains("no tokens"));
    assert!(embedder.embed_tokens(vec![vec![61]]).unwrap_err().to_string().contains("knows 61"));
    // The token that ends a text stays.
    let mut cutting = open(EmbedOptions { too_long: TooLong::Truncated, ..options }).unwrap();
    let cut = cutting.embed(&["w1 w2 w3 w4"]).unwrap();
    assert_eq!(cut, embedder.embed(&["w1 w2 w3"]).unwrap());
    let wide = EmbedOptions { max_length: Some(25), ..EmbedOptions::default() };
    assert!(open(wide).err().unwrap().to_string().contains("24 positions"));
    let prompt = EmbedOptions { prompt: Some("query".into()), ..EmbedOptions::default() };
    assert!(open(prompt).err().unwrap().to_string().contains("no prompt `query`"));
}

/// What is saved is what was loaded, under the same names.
fn encoders_are_saved_as_they_were(folder: &Path) {
    let files = QuantizedFolder::open(folder).unwrap();
    let AnyEncoderConfig::Bert(config) = AnyEncoderConfig::of(files.config().unwrap()).unwrap() else {
        panic!("as BERT")
    };
    let model = trace::shapes_of(&(), |()| {
        Encoder::init(&Key::from_seed(&Tensor::scalar(DType::U32, 0.0)), &config, &RunOptions::default())
    })
    .unwrap();
    let params = hf::load(&files, config.family, &model).unwrap();
    let again = tempfile::tempdir().unwrap();
    hf::save(again.path(), config.family, &model, &params, u64::MAX).unwrap();
    let saved = QuantizedFolder::open(again.path()).unwrap();
    assert!(hf::load(&saved, config.family, &model).unwrap() == params);
    let is_encoders = |name: &&str| !name.starts_with("pooler.");
    assert!(files.names().filter(is_encoders).eq(saved.names()));
    let wider = EncoderConfig { intermediate_size: 41, ..config.clone() };
    let wider = trace::shapes_of(&(), |()| {
        Encoder::init(&Key::from_seed(&Tensor::scalar(DType::U32, 0.0)), &wider, &RunOptions::default())
    })
    .unwrap();
    let refused = hf::load(&files, config.family, &wider).unwrap_err().to_string();
    assert!(refused.contains("[40, 32], not [41, 32]"), "{refused}");
}

#[test]
fn encoders_that_cannot_be_are_refused() {
    let check = |more: &str, expected: &str| {
        let config = serde_json::from_str(&format!(r#"{{"model_type":"bert"{more}}}"#)).unwrap();
        let error = AnyEncoderConfig::of(&config).unwrap_err().to_string();
        assert!(error.contains(expected), "{more}: {error}");
    };
    check(r#","position_embedding_type":"relative_key""#, "position_embedding_type");
    check(r#","is_decoder":true"#, "is_decoder");
    check(r#","hidden_size":770"#, "hidden_size 770");
    check(r#","num_hidden_layers":0"#, "num_hidden_layers is 0");
    check(r#","hidden_act":"mish""#, "malformed");
    let modern = |more: &str, expected: &str| {
        let config = serde_json::from_str(&format!(r#"{{"model_type":"modernbert"{more}}}"#)).unwrap();
        let error = AnyEncoderConfig::of(&config).unwrap_err().to_string();
        assert!(error.contains(expected), "{more}: {error}");
    };
    modern(r#","layer_types":["full_attention"]"#, "no regular order");
    modern(r#","rope_parameters":{"full_attention":{"rope_type":"yarn"}}"#, "`yarn`");
    modern(r#","global_attn_every_n_layers":1"#, "from 2 to 64");
    modern(r#","num_attention_heads":768"#, "even multiple");
    let config = serde_json::json!({"model_type": "electra"});
    assert!(AnyEncoderConfig::of(&config).unwrap_err().to_string().contains("`electra`"));
}

fn openais_client_gets_vectors(folder: &Path) {
    let Some(python) = require("vectors_are_those_of_transformers", Needed::OperatePython) else { return };
    let options = EmbeddingServerOptions {
        embed: EmbedOptions::default(),
        model: "small".into(),
        api_keys: vec!["secret".into()],
        max_waiting: 64,
        max_body_bytes: 64 << 10,
    };
    let server = EmbeddingServer::start(&cpu(), folder, options, "127.0.0.1:0".parse().unwrap()).unwrap();
    let address = server.address().unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let running = {
        let stop = stop.clone();
        std::thread::spawn(move || server.run(&stop, Duration::from_secs(60)))
    };
    let script = repository().join("crates/testkit/python/openai_client.py");
    let output = Command::new(python)
        .arg(script)
        .args([&format!("http://{address}"), "secret", "small", "embeddings"])
        .arg(folder.join("answers.json"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    stop.store(true, Ordering::Relaxed);
    running.join().unwrap().unwrap();
}
