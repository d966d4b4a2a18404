//! `tpu quantize` and `tpu eval` on a small Llama whose folder is written here.

use std::path::{Path, PathBuf};

use nn::hf;
use nn::models::{Llama, RunOptions};
use tensor::{DType, Literal};
use trace::{Key, Tensor, Tree};

use crate::harness::{Bench, arg};

const CONFIG: &str = r#"{"model_type": "llama", "vocab_size": 256, "hidden_size": 64, "intermediate_size": 96,
    "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64,
    "rms_norm_eps": 1e-5, "tie_word_embeddings": true}"#;

/// A folder with drawn weights; the weight at `nan` is NaN.
pub(crate) fn model(bench: &Bench, name: &str, nan: Option<&str>) -> PathBuf {
    let folder = bench.path(name);
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("config.json"), CONFIG).unwrap();
    let config = hf::ModelConfig::parse(CONFIG).unwrap();
    let hf::ModelConfig::Llama(sizes) = &config else { panic!("a Llama") };
    let shapes = trace::shapes_of(&(), |()| {
        Llama::init(&Key::from_seed(&Tensor::scalar(DType::U32, 0.0)), sizes, &RunOptions::default())
    })
    .unwrap();
    let mut state = 1u64;
    let mut drawn = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        ((state >> 40) as f32 / (1 << 24) as f32 - 0.5) * 3.4
    };
    let params: Vec<Literal> = shapes
        .paths()
        .iter()
        .zip(shapes.specs())
        .map(|(path, spec)| {
            let count: usize = spec.dims.iter().product();
            let scale = if path.contains("norm") { 0.0 } else { (*spec.dims.last().unwrap() as f32).sqrt().recip() };
            let mut values: Vec<f32> =
                (0..count).map(|n| drawn() * scale + if scale == 0.0 { 1.0 + (n % 3) as f32 } else { 0.0 }).collect();
            if nan.is_some_and(|nan| path == nan) {
                values[count / 2] = f32::NAN;
            }
            Literal::from_slice(&values, spec.dims.clone()).unwrap()
        })
        .collect();
    hf::save(&folder, config.family(), &shapes, &params, u64::MAX).unwrap();
    folder
}

/// Text with words to learn statistics from.
fn text(bench: &Bench) -> PathBuf {
    let words = ["the ", "step ", "of a ", "chip ", "is ", "slow, ", "and ", "memory ", "fills.\n"];
    let text: String = (0..1500usize).map(|n| words[(n * n + n / 7) % words.len()]).collect();
    bench.write("text.txt", text)
}

fn number(value: &serde_json::Value, path: &str) -> f64 {
    value.pointer(path).and_then(serde_json::Value::as_f64).unwrap_or_else(|| panic!("no {path} in {value}"))
}

fn perplexity(bench: &Bench, folder: &Path, data: &Path) -> f64 {
    let args = ["eval", arg(folder), "--data", arg(data), "--tokenizer", "bytes", "--sequence", "32", "-d", "cpu"];
    number(&bench.json(&args), "/perplexity")
}

#[test]
fn methods_keep_what_a_model_predicts() {
    let bench = Bench::bare();
    let (folder, data) = (model(&bench, "dense", None), text(&bench));
    let dense = perplexity(&bench, &folder, &data);
    let quantized = |scheme: &str, method: &str| {
        let out = bench.path(&format!("{scheme}-{method}"));
        let args = [
            "quantize",
            arg(&folder),
            "--out",
            arg(&out),
            "--scheme",
            scheme,
            "--method",
            method,
            "--calibration",
            arg(&data),
            "--samples",
            "32",
            "--sequence",
            "32",
            "-d",
            "cpu",
        ];
        let record = bench.json(&args);
        // What the command says of the folder is what a stranger finds in it.
        let found = perplexity(&bench, &out, &data);
        assert!((number(&record, "/before/perplexity") / dense - 1.0).abs() < 0.2, "{record}");
        (found, record)
    };
    // Folding norms and rotations changes nothing but the rounding.
    for (scheme, method) in [
        ("w8a16", "rtn"),
        ("w8a16", "rotate"),
        ("w8a8", "rtn"),
        ("w8a8-static", "rtn"),
        ("w8a16-g32", "gptq"),
        ("w8a16-fp8", "rtn"),
        ("nvfp4", "rtn"),
        ("mxfp4", "gptq"),
    ] {
        let (found, record) = quantized(scheme, method);
        let most = match scheme {
            "nvfp4" | "mxfp4" => 0.2,
            _ if scheme.ends_with("fp8") || scheme.starts_with("w8a8") => 0.05,
            _ => 0.01,
        };
        // Scales of a byte for every 16 or 32 weights.
        if let Some(bits) = [("nvfp4", 4.5), ("mxfp4", 4.25)].iter().find(|(name, _)| *name == scheme) {
            assert_eq!(number(&record, "/bits_per_weight"), bits.1, "{scheme}");
        }
        assert!((found / dense - 1.0).abs() < most, "{scheme} by {method}: {found}, dense {dense}");
    }
    let error = |record: &serde_json::Value| {
        let layers = record["layers"].as_array().unwrap().clone();
        let weights = layers.iter().flat_map(|layer| layer["weights"].as_array().unwrap().clone());
        weights.map(|weight| weight["output_error"].as_f64().unwrap()).sum::<f64>()
    };
    let (_, nearest) = quantized("w4a16", "rtn");
    assert!(number(&nearest, "/bits_per_weight") < 5.0);
    assert!(nearest["layers"][0]["weights"][0]["output_error"].is_null(), "rounding looks at no activations");
    let (_, codebook) = quantized("w2a16", "codebook");
    let (_, scalar) = quantized("w2a16", "rtn");
    let noise = |record: &serde_json::Value| number(record, "/layers/0/weights/0/sqnr_db");
    assert!(noise(&codebook) > noise(&scalar), "{} and {}", noise(&codebook), noise(&scalar));
    let (_, gptq) = quantized("w4a16", "gptq");
    let (_, rotated) = quantized("w4a16", "rotate-gptq");
    assert!(error(&gptq) < 0.5 && error(&rotated) < 0.5, "{} and {}", error(&gptq), error(&rotated));
}

#[test]
fn layers_get_bits_by_what_they_lose() {
    let bench = Bench::bare();
    let (folder, data) = (model(&bench, "dense", None), text(&bench));
    let dense = perplexity(&bench, &folder, &data);
    let quantize = |out: &str, bits: &str| -> Vec<String> {
        let line = format!(
            "quantize dense --out {out} --average-bits {bits} --method gptq --calibration text.txt --samples 8 --sequence 32 -d cpu"
        );
        line.split(' ').map(str::to_string).collect()
    };
    let args = quantize("out", "6.6");
    let record = bench.json(&args.iter().map(String::as_str).collect::<Vec<_>>());
    assert!(number(&record, "/bits_per_weight") <= 6.6, "{record}");
    let bits: Vec<f64> = (0..2).map(|n| number(&record, &format!("/layers/{n}/weights/0/bits_per_weight"))).collect();
    assert!((bits[0] - bits[1]).abs() > 1.0, "both layers have {bits:?} bits");
    // What is read back has the bits that were written.
    let found = perplexity(&bench, &bench.path("out"), &data);
    assert!((found / dense - 1.0).abs() < 0.1, "{found}, dense {dense}");
    let args = quantize("few", "1.5");
    let refused = bench.expect(2, &args.iter().map(String::as_str).collect::<Vec<_>>());
    assert!(refused.stderr.contains("too few") && refused.stderr.contains("--average-bits 2"), "{}", refused.stderr);
}

#[test]
fn an_interrupted_quantization_goes_on() {
    let bench = Bench::bare();
    let data = text(&bench);
    let broken = model(&bench, "model", Some("layers.feed_forward.dense.down.weight"));
    let args = |out: &str| -> Vec<String> {
        let words = [
            "quantize",
            "model",
            "--out",
            out,
            "--bits",
            "4",
            "--method",
            "gptq",
            "--no-eval",
            "--calibration",
            "text.txt",
            "--samples",
            "8",
            "--sequence",
            "32",
            "-d",
            "cpu",
        ];
        words.map(str::to_string).to_vec()
    };
    fn borrowed(args: &[String]) -> Vec<&str> {
        args.iter().map(String::as_str).collect()
    }
    let _ = arg(&data);
    let stopped = bench.expect(2, &borrowed(&args("out")));
    assert!(stopped.stderr.contains("mlp.down_proj.weight"), "{}", stopped.stderr);
    assert!(bench.path("out/quantize-progress.json").is_file());
    // Another plan does not go on from there, and neither writes over it.
    std::fs::remove_dir_all(&broken).unwrap();
    model(&bench, "model", None);
    bench.expect(0, &borrowed(&args("out")));
    bench.expect(0, &borrowed(&args("fresh")));
    assert!(!bench.path("out/quantize-progress.json").exists());
    let files = |name: &str| {
        let mut files: Vec<(String, Vec<u8>)> = std::fs::read_dir(bench.path(name))
            .unwrap()
            .map(|entry| entry.unwrap())
            .map(|entry| (entry.file_name().into_string().unwrap(), std::fs::read(entry.path()).unwrap()))
            .collect();
        files.sort();
        files
    };
    assert!(files("out") == files("fresh"), "resumed and fresh folders differ");
    let refused = bench.expect(2, &borrowed(&args("out")));
    assert!(refused.stderr.contains("is not empty"), "{}", refused.stderr);
}

#[test]
fn a_target_that_is_not_reached_is_a_no() {
    let bench = Bench::bare();
    let (folder, data) = (model(&bench, "dense", None), text(&bench));
    let out = bench.path("out");
    let args = [
        "quantize",
        arg(&folder),
        "--out",
        arg(&out),
        "--bits",
        "2",
        "--calibration",
        arg(&data),
        "--target",
        "1.0",
        "--samples",
        "8",
        "--sequence",
        "32",
        "-d",
        "cpu",
    ];
    let ran = bench.run(&[&args[..], &["--json"]].concat());
    let record: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(ran.code, Some(if record["is_target_met"] == true { 0 } else { 1 }), "{}", ran.stderr);
    assert!(record["trials"].as_array().unwrap().len() >= 2 || record["is_target_met"] == true, "{record}");
    assert!(out.join("model.safetensors.index.json").is_file());
    let named: Vec<String> = std::fs::read_dir(bench.path("."))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.starts_with("out."))
        .collect();
    assert!(named.is_empty(), "trials are left behind: {named:?}");
}

#[test]
fn what_cannot_be_quantized_is_refused_with_a_remedy() {
    let bench = Bench::bare();
    let (folder, data) = (model(&bench, "dense", None), text(&bench));
    let short = bench.write("short.txt", "too short");
    let check = |args: &[&str], parts: &[&str]| {
        let all = [&["quantize", arg(&folder), "--out", "out", "-d", "cpu"], args].concat();
        let ran = bench.expect(2, &all);
        for part in parts {
            assert!(ran.stderr.contains(part), "{args:?}: {}", ran.stderr);
        }
    };
    check(&["--bits", "16"], &["--bits 16", "bf16"]);
    check(&["--bits", "4", "--method", "gptq"], &["no text to look at", "--calibration"]);
    check(&["--method", "gptq", "--calibration", arg(&short)], &["the calibration text has", "longer text"]);
    check(&["--method", "unheard"], &["is not a method of quantization"]);
    check(&["--scheme", "w5a5"], &["is not a quantization scheme"]);
    check(&["--scheme", "w4a16-g48", "--method", "rtn"], &["are not divided by its groups"]);
    check(&["--scheme", "w4a16-fp4"], &["a scale for each channel", "--scheme nvfp4", "--scheme mxfp4"]);
    check(&["--scheme", "w4a16-fp4-g64"], &["groups of 64", "--scheme nvfp4"]);
    check(&["--scheme", "w8a16-fp8-zp"], &["floats have no zero points", "w8a16-g128-zp"]);
    check(&["--scheme", "nvfp4", "--average-bits", "4.5"], &["mixed precision is of integer codes", "w4a16"]);
    check(&["--scheme", "w4a16-g32", "--method", "codebook"], &["codebooks of w4a16-g32", "--bits 2, 4, 6 or 8"]);
    check(&["--bits", "3", "--method", "codebook"], &["with 3 bits", "--bits 2, 4, 6 or 8"]);
    check(&["--bits", "8", "--method", "smoothquant"], &["smoothquant", "--scheme w8a8", "--method awq"]);
    let out = bench.path("done");
    bench.expect(0, &["quantize", arg(&folder), "--out", arg(&out), "--bits", "8", "-d", "cpu"]);
    let again = bench.expect(2, &["quantize", arg(&out), "--out", "twice", "-d", "cpu"]);
    assert!(again.stderr.contains("is quantized already"), "{}", again.stderr);
    let eval = bench
        .expect(2, &["eval", arg(&out), "--data", arg(&data), "--tokenizer", "bytes", "--sequence", "65", "-d", "cpu"]);
    assert!(eval.stderr.contains("64 positions"), "{}", eval.stderr);
}
