//! `tpu accuracy`: published rows become programs, predictions and a table.

use testkit::{Needed, require};

use crate::harness::{Bench, arg};

/// A small model on four chips, a product, a copy, and a row that says too little.
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
