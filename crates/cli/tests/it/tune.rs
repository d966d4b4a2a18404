//! `tpu tune` with the real TPU compiler: what gains is kept with equal results, and the tuned program is written.

use serde_json::Value;

use crate::harness::{Bench, arg};

/// Causal attention in plain ops of so many positions, and state that a result replaces.
fn attention(length: usize) -> String {
    let (q, s) = (format!("tensor<1x4x{length}x64xbf16>"), format!("tensor<1x4x{length}x{length}xf32>"));
    let (n, r) = (s.replace("f32", "bf16"), format!("tensor<1x4x{length}xf32>"));
    let (i, b) = (s.replace("f32", "i32"), s.replace("f32", "i1"));
    let w = "tensor<256x256xf32>";
    format!(
        "func.func @main(%q: {q}, %k: {q}, %v: {q}, %w: {w} {{jax.arg_info = \"state['params']['w']\"}}) -> ({q}, {w}) {{
  %s = stablehlo.dot_general %q, %k, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [3] : ({q}, {q}) -> {s}
  %c = stablehlo.constant dense<0.125> : {s}
  %t = stablehlo.multiply %s, %c : {s}
  %at = stablehlo.iota dim = 2 : {i}
  %of = stablehlo.iota dim = 3 : {i}
  %m = stablehlo.compare GE, %at, %of, SIGNED : ({i}, {i}) -> {b}
  %low = stablehlo.constant dense<-1.0e30> : {s}
  %h = stablehlo.select %m, %t, %low : {b}, {s}
  %least = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %0 = stablehlo.reduce(%h init: %least) applies stablehlo.maximum across dimensions = [3] : ({s}, tensor<f32>) -> {r}
  %1 = stablehlo.broadcast_in_dim %0, dims = [0, 1, 2] : ({r}) -> {s}
  %2 = stablehlo.subtract %h, %1 : {s}
  %3 = stablehlo.exponential %2 : {s}
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %4 = stablehlo.reduce(%3 init: %zero) applies stablehlo.add across dimensions = [3] : ({s}, tensor<f32>) -> {r}
  %5 = stablehlo.broadcast_in_dim %4, dims = [0, 1, 2] : ({r}) -> {s}
  %6 = stablehlo.divide %3, %5 : {s}
  %7 = stablehlo.convert %6 : ({s}) -> {n}
  %8 = stablehlo.dot_general %7, %v, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2] : ({n}, {q}) -> {q}
  %9 = stablehlo.add %w, %w : {w}
  return %8, %9 : {q}, {w}
}}"
    )
}

fn outcome<'a>(record: &'a Value, name: &str) -> &'a str {
    let trials = record["trials"].as_array().unwrap();
    let trial = trials.iter().find(|trial| trial["name"] == name).unwrap_or_else(|| panic!("{name}: {trials:#?}"));
    trial["outcome"].as_str().unwrap()
}

#[test]
fn what_gains_is_kept() {
    let Some(bench) = Bench::with_libtpu("what_gains_is_kept") else { return };
    let (program, small) = (bench.write("step.mlir", attention(4096)), bench.write("small.mlir", attention(256)));
    let (out, page, checked) = (bench.path("tuned.mlir"), bench.path("page.html"), bench.path("checked.mlir"));
    let asked = ["tune", arg(&program), "--slice", "v6e-1", "--no-flags", "--check-on", arg(&small)];
    let written = ["--out", arg(&out), "--out-check", arg(&checked), "--html", arg(&page)];
    let record = bench.json(&[&asked[..], &written].concat());
    assert_eq!(outcome(&record, "attention kernels"), "kept", "{record:#}");
    assert_eq!(outcome(&record, "one-hot indexing"), "nothing");
    assert!(record["speedup"].as_f64().unwrap() > 1.25, "{record:#}");
    assert!(record["after"]["hbm_bytes"].as_u64().unwrap() < record["before"]["hbm_bytes"].as_u64().unwrap());
    let tuned = std::fs::read_to_string(&out).unwrap();
    assert!(tuned.contains("tpubridge.flash_attention"), "{tuned}");
    assert!(std::fs::read_to_string(&checked).unwrap().contains("1x4x256x64xbf16"));
    let page = std::fs::read_to_string(&page).unwrap();
    assert!(page.contains("attention kernels") && page.contains("1 × 4 heads"), "{page}");
    // The answer is the same again, from the cache; what is tuned has nothing to gain.
    assert_eq!(bench.json(&asked), record);
    let again = bench.run(&["tune", arg(&out), "--slice", "v6e-1", "--no-flags", "--check-on", arg(&checked)]);
    assert_eq!(again.code, Some(1), "{again:?}");
    assert!(again.stdout.contains("no attention is written in plain ops"), "{}", again.stdout);
}

#[test]
fn what_cannot_be_compared_is_not_used() {
    let Some(bench) = Bench::with_libtpu("what_cannot_be_compared_is_not_used") else { return };
    let program = bench.write("step.mlir", attention(4096));
    // The smaller program is another one.
    let other = "func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> { return %x : tensor<4xf32> }";
    let small = bench.write("small.mlir", other);
    let ran =
        bench.run(&["tune", arg(&program), "--slice", "v6e-1", "--no-flags", "--check-on", arg(&small), "--json"]);
    let record: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(outcome(&record, "attention kernels"), "unchecked", "{record:#}");
    assert_eq!((record["speedup"].as_f64(), ran.code), (Some(1.0), Some(1)), "{record:#}");
}

/// A step on 2 × 4 devices whose batch is far larger than its weights.
#[test]
fn another_mesh_is_found() {
    let Some(bench) = Bench::with_libtpu("another_mesh_is_found") else { return };
    let steps = [
        ("shardy", include_str!("../../../plan/tests/data/megatron_step.mlir"), "\"data\"=1, \"model\"=8"),
        ("gspmd", include_str!("../../../plan/tests/data/megatron_step_gspmd.mlir"), "{devices=[1,8]<=[8]}"),
    ];
    for (name, small, expected) in steps {
        let program = bench.write(&format!("{name}.mlir"), small.replace("tensor<64x", "tensor<16384x"));
        let small = bench.write(&format!("{name}.small.mlir"), small);
        let (out, page) = (bench.path(&format!("{name}.tuned.mlir")), bench.path(&format!("{name}.html")));
        let asked = ["tune", arg(&program), "--slice", "v6e-8", "--no-flags", "--check-on", arg(&small)];
        let record = bench.json(&[&asked[..], &["--out", arg(&out), "--html", arg(&page)]].concat());
        // Gradients are summed over the first axis; over the second one nothing is, since no gradient of an input is asked for.
        let mesh = record["mesh"]["after"].as_str().unwrap_or_else(|| panic!("{name}: {record:#}"));
        assert!(mesh.ends_with("=8"), "{name}: {mesh}");
        assert!(record["speedup"].as_f64().unwrap() > 1.05, "{name}: {record:#}");
        let kept = record["trials"].as_array().unwrap().iter().find(|trial| trial["outcome"] == "kept").unwrap();
        assert!(kept["name"].as_str().unwrap().starts_with("mesh "), "{name}: {kept:#}");
        assert!(kept["results"]["deviation"].as_f64().unwrap() < 1e-3, "{name}: {kept:#}");
        let tuned = std::fs::read_to_string(&out).unwrap();
        assert!(tuned.contains(expected), "{name}: {tuned}");
        assert!(std::fs::read_to_string(&page).unwrap().contains("in place of"), "{name}");
    }
}
