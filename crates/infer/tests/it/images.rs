//! Models that read images do what transformers' models do: LLaVA writes the same tokens, ViT and ConvNeXt find the same classes.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use infer::server::{InferenceServer, ServerOptions};
use infer::{
    EmbedOptions, Embedder, Engine, ImageClassifier, ImageEmbedder, OpenOptions, OpenedModel, PromptImage, Request,
    SamplingOptions,
};
use nn::models::RunOptions;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::harness::{cpu, crowded, peer, sized};

#[derive(Deserialize)]
struct Line {
    text: String,
    images: Vec<usize>,
    prompt: Vec<u32>,
    tokens: Vec<u32>,
}

fn read<T: serde::de::DeserializeOwned>(path: &Path) -> T {
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn image(folder: &Path, n: usize) -> Vec<u8> {
    std::fs::read(folder.join(format!("{n}.png"))).unwrap()
}

#[test]
fn llavas_write_what_transformers_writes() {
    let folder = tempfile::tempdir().unwrap();
    let Some(folders) = peer("llavas_write_what_transformers_writes", "multimodal", folder.path()) else { return };
    assert_eq!(folders.len(), 2);
    for folder in &folders {
        let source = OpenedModel::open(folder, OpenOptions::default()).unwrap();
        let reader = source.images().unwrap();
        assert_eq!((reader.num_tokens(), reader.token()), (9, 60));
        let lines: Vec<Line> = read(&folder.join("answers.json"));
        // Chunks of 16 tokens cut through images; several prompts share pages, and give up theirs for others.
        let mut engine = Engine::load(&cpu(), &source, &crowded(3, 64)).unwrap();
        let sampling = |tokens: usize| SamplingOptions {
            max_tokens: tokens,
            temperature: 0.0,
            ignore_eos: true,
            ..SamplingOptions::default()
        };
        let mut asked = Vec::new();
        for line in lines.iter().chain(&lines) {
            let images: Vec<PromptImage> =
                line.images.iter().map(|&n| reader.read(&image(folder, n)).unwrap()).collect();
            let prompt = source.with_image_tokens(source.encode(&line.text).unwrap(), images.len()).unwrap();
            assert_eq!(prompt, line.prompt);
            let request = Request { prompt, sampling: sampling(line.tokens.len()) };
            asked.push((engine.add_with_images(request, images).unwrap(), &line.tokens));
        }
        let mut written: std::collections::BTreeMap<_, Vec<u32>> = std::collections::BTreeMap::new();
        engine
            .run(&mut |event| written.entry(event.id).or_default().extend(event.token.map(|token| token.token)))
            .unwrap();
        for (id, tokens) in asked {
            assert_eq!(&written[&id], tokens, "{}", folder.display());
        }
        // Images that have no tokens, and tokens that have no image.
        let one = reader.read(&image(folder, 0)).unwrap();
        let wrong = Request { prompt: vec![5, 60, 6], sampling: sampling(2) };
        let refused = engine.add_with_images(wrong, vec![one]).unwrap_err().to_string();
        assert!(refused.contains("1 tokens for 1 images of 9"), "{refused}");
        assert!(source.with_image_tokens(vec![60, 60], 1).is_err());
        assert_eq!(source.with_image_tokens(vec![1, 7], 1).unwrap(), [&[1][..], &[60; 9], &[7]].concat());
        assert!(reader.read(b"no image").unwrap_err().to_string().contains("PNG"));
    }
    let clip = folders.iter().find(|folder| folder.ends_with("clip")).unwrap();
    images_come_over_http(clip);
}

/// Images as `data:` URLs in messages.
fn images_come_over_http(folder: &Path) {
    let source = OpenedModel::open(folder, OpenOptions::default()).unwrap();
    let options = ServerOptions {
        engine: sized(2, 64),
        model: "small".into(),
        api_keys: Vec::new(),
        max_waiting: 8,
        is_warmed_up: false,
        max_body_bytes: 64 << 10,
    };
    let server = InferenceServer::start(&cpu(), source, options, "127.0.0.1:0".parse().unwrap(), &mut |_| {}).unwrap();
    let address = server.address().unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let running = {
        let stop = stop.clone();
        std::thread::spawn(move || server.run(&stop, Duration::from_secs(60)))
    };
    let ask = |content: Value| {
        let body = json!({"messages": [{"role": "user", "content": content}], "max_tokens": 8, "temperature": 0,
            "ignore_eos": true})
        .to_string();
        let mut connection = std::net::TcpStream::connect(address).unwrap();
        let head = format!(
            "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        use std::io::{Read as _, Write as _};
        connection.write_all(format!("{head}{body}").as_bytes()).unwrap();
        let mut answer = String::new();
        connection.read_to_string(&mut answer).unwrap();
        answer
    };
    let lines: Vec<Line> = read(&folder.join("answers.json"));
    let line = lines.iter().find(|line| line.images == [0, 1]).unwrap();
    let url = |n: usize| format!("data:image/png;base64,{}", STANDARD.encode(image(folder, n)));
    let part = |n: usize| json!({"type": "image_url", "image_url": {"url": url(n)}});
    let text = |text: &str| json!({"type": "text", "text": text});
    let answer = ask(json!([part(0), text("w9"), part(1), text("w10")]));
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let words: Vec<String> = line.tokens.iter().map(|token| format!("w{token}")).collect();
    let body: Value = serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap();
    let written = body["choices"][0]["message"]["content"].as_str().unwrap();
    let is_plain = line.tokens.iter().all(|token| (3..60).contains(token));
    assert!(!is_plain || written.split_whitespace().eq(words.iter()), "{written}, not {words:?}");
    assert_eq!(body["usage"]["prompt_tokens"], 20);
    let refused = ask(json!([{"type": "image_url", "image_url": {"url": "http://127.0.0.1/x.png"}}]));
    assert!(refused.starts_with("HTTP/1.1 400") && refused.contains("data URL"), "{refused}");
    let many: Vec<Value> = (0..8).map(|_| part(0)).collect();
    let refused = ask(json!(many));
    assert!(refused.starts_with("HTTP/1.1 400") && refused.contains("do not fit"), "{refused}");
    stop.store(true, Ordering::Relaxed);
    running.join().unwrap().unwrap();
}

#[test]
fn classes_are_those_of_transformers() {
    let folder = tempfile::tempdir().unwrap();
    let Some(folders) = peer("classes_are_those_of_transformers", "classifiers", folder.path()) else { return };
    assert_eq!(folders.len(), 2);
    for folder in &folders {
        let expected: Vec<Vec<f32>> = read(&folder.join("answers.json"));
        let mut classifier = ImageClassifier::open(&cpu(), folder, &RunOptions::default()).unwrap();
        assert_eq!(classifier.labels()[3], "kind 3");
        let files: Vec<Vec<u8>> = (0..expected.len()).map(|n| image(folder, n)).collect();
        let made = classifier.classify(&files, 5).unwrap();
        for (scores, expected) in made.iter().zip(&expected) {
            assert!(scores.is_sorted_by(|a, b| a.probability >= b.probability));
            for score in scores {
                let off = (score.probability - expected[score.class]).abs();
                assert!(off < 1e-4, "{}: {score:?} is off by {off}", folder.display());
                assert_eq!(score.label, format!("kind {}", score.class));
            }
            assert_eq!(scores.len(), 5);
        }
        // Probabilities of different images differ: the test sees the images.
        assert!((made[0][0].probability - made[1][0].probability).abs() > 1e-3 || made[0][0].class != made[1][0].class);
        assert_eq!(classifier.classify(&files[..1], 2).unwrap()[0].len(), 2);
        assert!(classifier.classify(&[b"GIF89a"], 2).is_err());
    }
}

#[test]
fn clips_make_the_vectors_of_transformers() {
    #[derive(Deserialize)]
    struct OfText {
        text: String,
        vector: Vec<f32>,
    }
    #[derive(Deserialize)]
    struct Answers {
        texts: Vec<OfText>,
        images: Vec<Vec<f32>>,
    }
    let folder = tempfile::tempdir().unwrap();
    if peer("clips_make_the_vectors_of_transformers", "clip", folder.path()).is_none() {
        return;
    }
    let folder = folder.path();
    let answers: Answers = read(&folder.join("answers.json"));
    let close = |made: &[f32], expected: &[f32]| {
        let off = made.iter().zip(expected).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        assert!(made.len() == 16 && expected.len() == 16 && off < 1e-4, "off by {off}");
    };
    let mut texts = Embedder::open(&cpu(), folder, &EmbedOptions::default()).unwrap();
    let plain: Vec<&str> = answers.texts.iter().map(|line| line.text.as_str()).collect();
    for (made, line) in texts.embed(&plain).unwrap().iter().zip(&answers.texts) {
        close(&made.vector, &line.vector);
    }
    let mut images = ImageEmbedder::open(&cpu(), folder, None, &RunOptions::default()).unwrap();
    for (n, expected) in answers.images.iter().enumerate() {
        close(&images.embed(&image(folder, n)).unwrap(), expected);
    }
    assert!(images.embed(b"no image").is_err());
}

#[test]
fn models_of_images_that_cannot_be_are_refused() {
    use nn::hf::{AnyClassifierConfig, read_llava_config};
    let llava = |more: Value| {
        let mut config = json!({"model_type": "llava"});
        config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        read_llava_config(&config).unwrap_err().to_string()
    };
    assert!(llava(json!({"vision_config": {"model_type": "pixtral"}})).contains("`pixtral`"));
    assert!(llava(json!({"vision_feature_layer": [-2, -5]})).contains("vision_feature_layer"));
    assert!(llava(json!({"vision_feature_layer": -40})).contains("-40"));
    assert!(llava(json!({"vision_feature_select_strategy": "some"})).contains("`some`"));
    assert!(llava(json!({"vision_config": {"patch_size": 0}})).contains("patch_size"));
    assert!(llava(json!({"vision_config": {"num_attention_heads": 7}})).contains("num_attention_heads 7"));
    assert!(llava(json!({"text_config": {"model_type": "t5"}})).contains("`t5`"));
    assert!(read_llava_config(&json!({"model_type": "llama"})).unwrap().is_none());
    let usual = read_llava_config(&json!({"model_type": "llava"})).unwrap().unwrap();
    assert_eq!((usual.num_tokens(), usual.tower.num_hidden_layers, usual.text_width), (576, 23, 4096));
    let classifier = |config: Value| AnyClassifierConfig::of(&config).unwrap_err().to_string();
    assert!(classifier(json!({"model_type": "swin"})).contains("`swin`"));
    assert!(classifier(json!({"model_type": "vit", "qkv_bias": false})).contains("qkv_bias"));
    assert!(classifier(json!({"model_type": "vit", "id2label": {"1": "a"}})).contains("id2label"));
    assert!(classifier(json!({"model_type": "vit", "patch_size": 0})).contains("patch_size"));
    assert!(classifier(json!({"model_type": "convnext", "depths": [1]})).contains("depths [1]"));
}
