//! `tpu accuracy`: published rows become programs, predictions and a table.

use testkit::{Needed, require};

use crate::harness::{Bench, arg};

/// A small model on four chips, a matmul, a copy, and a row that says too little.
const MEASURED: &str = r#"{"rows": [
  {"kind": "train", "id": "small/v5e-4", "tpu": "v5e", "chips": 4, "slices": 1, "slice": "v5e-4", "model": "llama3.1-8b", "per_device_batch": 2,
   "seq": 512, "mesh": "fsdp4", "remat": "full", "precision": "bf16", "step_s": 0.05, "pairing": "verified: made up for this test",
   "dims": {"emb": 512, "layers": 3, "q_heads": 4, "kv_heads": 2, "head_dim": 128, "mlp": 1024, "vocab": 2048}},
  {"kind": "micro", "id": "gemm", "tpu": "v6e", "op": "bf16 gemm", "n": 8192, "ms": 1.328756094},
  {"kind": "micro", "id": "copy", "tpu": "tpu7x", "op": "hbm copy", "tensor_bytes": 1073741824, "GBps_per_device": 3198.4},
  {"kind": "micro", "id": "gather", "tpu": "tpu7x", "op": "all-gather over 4", "topology": "2x2x1", "transferred_GB": 0.402653184, "GBps": 178.77},
  {"kind": "micro", "id": "psum", "tpu": "v6e", "op": "psum of something"}
]}"#;

#[test]
fn rows_become_predictions() {
    let test = "rows_become_predictions";
    let (Some(bench), Some(python)) = (Bench::with_libtpu(test), require(test, Needed::Python)) else { return };
    let file = bench.write("measured.json", MEASURED);
    let out = bench.path("accuracy.md");
    let args = ["accuracy", arg(&file), "--python", arg(&python), "--out", arg(&out)];
    let ran = bench.expect(0, &args);
    let last = ran.stdout.lines().last().unwrap();
    assert!(last.starts_with("median ") && last.ends_with("rows 1"), "{}", ran.stdout);
    for id in ["| small/v5e-4 |", "| gemm |", "| copy |", "| gather |", "psum is left out"] {
        assert!(ran.stdout.contains(id), "{id}: {}", ran.stdout);
    }
    // What was measured of single ops is predicted within a tenth.
    let micro = ran.stdout.lines().find(|line| line.starts_with("Micro-benchmarks: ")).unwrap();
    let p90: f64 = micro.split("p90 ").nth(1).and_then(|text| text.split(' ').next()).unwrap().parse().unwrap();
    assert!(p90 < 10.0, "{micro}");
    let page = std::fs::read_to_string(&out).unwrap();
    assert!(page.starts_with("# Predictions and measurements") && page.contains("small/v5e-4"), "{page}");
}

#[test]
fn without_an_interpreter_the_remedy_is_named() {
    let Some(bench) = Bench::with_libtpu("without_an_interpreter_the_remedy_is_named") else { return };
    let file = bench.write("measured.json", MEASURED);
    let ran = bench.expect(2, &["accuracy", arg(&file), "--python", "/nowhere/python"]);
    assert!(ran.stderr.contains("--python"), "{}", ran.stderr);
    let file = bench.write("wrong.json", "{}");
    let ran = bench.expect(2, &["accuracy", arg(&file)]);
    assert!(ran.stderr.contains("rows"), "{}", ran.stderr);
}

/// The pages of this repository are what the command makes of the kept predictions, and nothing else.
#[test]
fn pages_are_written_by_the_command_alone() {
    let bench = Bench::bare();
    for (results, page) in [("accuracy.json", "accuracy.md"), ("accuracy-rust.json", "accuracy-rust.md")] {
        let results = testkit::repository().join("benchmarks/results").join(results);
        let page = testkit::repository().join("docs").join(page);
        let ran = bench.expect(0, &["accuracy", "--results", arg(&results)]);
        let written = std::fs::read_to_string(&page).unwrap();
        let hint = format!("tpu accuracy --results {} --out {} writes it", results.display(), page.display());
        assert!(ran.stdout == written, "{} is not what its record says; {hint}", page.display());
    }
}

#[test]
fn results_of_several_runs_are_one_page() {
    let test = "results_of_several_runs_are_one_page";
    let (Some(bench), Some(python)) = (Bench::with_libtpu(test), require(test, Needed::Python)) else { return };
    let file = bench.write("measured.json", MEASURED);
    let kept = bench.path("results.json");
    let earlier = r#"{"version": 1, "front_end": "jax", "notes": ["A note."], "differences": [], "rows": [
        {"id": "recipe-Mixtral-8x7B-MaxText", "slice": "v6e-256", "table": "verified", "fitted": true, "measured_s": 10.0,
         "predicted": {"step_s": 11.0}}]}"#;
    std::fs::write(&kept, earlier).unwrap();
    let args = ["accuracy", arg(&file), "--python", arg(&python), "--results", arg(&kept)];
    let page = bench.expect(0, &args).stdout;
    assert!(page.contains("A note.") && page.contains("| recipe-Mixtral-8x7B-MaxText | v6e-256 | yes |"), "{page}");
    assert!(page.contains("| small/v5e-4 | v5litepod-4 | no |"), "{page}");
    assert!(page.contains("constants fitted on them: median 10.0 %, p90 10.0 %, rows 1"), "{page}");
    assert!(page.lines().last().unwrap().ends_with("rows 2"), "{page}");
    // What was predicted is kept: the page can be written again from it alone.
    assert_eq!(bench.expect(0, &["accuracy", "--results", arg(&kept)]).stdout, page);
    let ran = bench.expect(2, &[&args[..], &["--front-end", "rust"]].concat());
    assert!(ran.stderr.contains("front end jax"), "{}", ran.stderr);
    bench.expect(2, &["accuracy", "--results", "/nowhere.json"]);
}

/// A small model that nobody published a rate of, one with a rate, one that is not known, and a training that is not asked for.
const SERVED: &str = r#"{"rows": [
  {"kind": "infer", "id": "served", "tpu": "v6e", "chips": 4, "model": "qwen3-0.6b", "concurrency": 16, "positions": 512},
  {"kind": "infer", "id": "rate", "tpu": "v6e", "chips": 1, "model": "qwen3-0.6b", "weights": "w8a8", "kv_cache": "int8", "concurrency": 16,
   "workload": "256/128", "output_tok_s_per_chip": 1000.0},
  {"kind": "infer", "id": "unknown", "tpu": "v6e", "chips": 1, "model": "another", "concurrency": 16, "positions": 512},
  {"kind": "train", "id": "training", "tpu": "v5e", "chips": 4, "model": "another"}
]}"#;

#[test]
fn rows_of_inference_become_predictions() {
    let Some(bench) = Bench::with_libtpu("rows_of_inference_become_predictions") else { return };
    let (file, kept) = (bench.write("measured.json", SERVED), bench.path("results.json"));
    let args = ["accuracy", arg(&file), "--results", arg(&kept), "--only", "served", "rate", "unknown"];
    // No interpreter is asked for.
    let ran = bench.expect(0, &[&args[..], &["--json", "--python", "/nowhere/python"]].concat());
    let record: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    let rows = record["inference"].as_array().unwrap();
    let row = |id: &str| rows.iter().find(|row| row["id"] == id).unwrap();
    let number = |id: &str, key: &str| row(id)[key].as_f64().unwrap();
    for id in ["served", "rate"] {
        let (step, rate) = (number(id, "step_s"), number(id, "tokens_per_s"));
        assert!((rate * step - 16.0).abs() < 1e-6 && number(id, "low_s") < step, "{record}");
        assert!(number(id, "hbm_bytes") < number(id, "hbm_limit_bytes"), "{record}");
    }
    // At least the weights are read: 0.6 billion parameters, of a byte each on one chip, at 1.6 TB/s.
    assert!(number("rate", "step_s") > 0.6e9 / 1.64e12, "{record}");
    assert_eq!(row("rate")["what"], "qwen3-0.6b, w8a8 weights, int8 KV cache, 320 positions");
    assert!(
        row("rate")["prefill"]["seconds"].as_f64().unwrap() > 0.0 && row("served")["prefill"].is_null(),
        "{record}"
    );
    // The page is written from what was kept.
    let page = bench.expect(0, &["accuracy", "--results", arg(&kept)]).stdout;
    for text in ["| served |", "| rate |", "unknown is left out: the dimensions of another"] {
        assert!(page.contains(text), "{text}: {page}");
    }
    let ran = bench.expect(2, &["accuracy", arg(&file), "--only", "nobody"]);
    assert!(ran.stderr.contains("no row nobody") && ran.stderr.contains("served, rate"), "{}", ran.stderr);
}
