//! `tpu compile` with the real TPU compiler.

use std::path::Path;

use testkit::{Needed, repository, require};

use crate::harness::{Bench, MATMUL, arg};

#[test]
fn every_generation_compiles() {
    let Some(bench) = Bench::with_libtpu("every_generation_compiles") else { return };
    let program = bench.write("matmul.mlir", MATMUL);
    for slice in ["v2-8", "v3-8", "v4-8", "v5e-4", "v5p-8", "v6e-4", "tpu7x-8"] {
        let record = bench.json(&["compile", arg(&program), "--slice", slice]);
        let report = &record["report"];
        assert_eq!(record["fits"], true, "{slice}");
        // 512x1024 and 1024x256 in bf16, and 2 FLOPs for each product.
        assert_eq!(report["memory"]["arguments"], 2 * (512 * 1024 + 1024 * 256), "{slice}");
        assert_eq!(report["dot_flops"], 2.0 * 512.0 * 1024.0 * 256.0, "{slice}");
        let slice: chips::Slice = slice.parse().unwrap();
        assert_eq!(report["memory"]["limit"], slice.usable_hbm_bytes_per_device(), "{slice}");
        assert!(report["executable_bytes"].as_u64().unwrap() > 1000, "{slice}");
    }
}

#[test]
fn the_readme_example_shards_over_four_chips() {
    let Some(bench) = Bench::with_libtpu("the_readme_example_shards_over_four_chips") else { return };
    let program = repository().join("examples/ffn.mlir");
    let out = bench.path("ffn.bin");
    let text = bench.expect(0, &["compile", arg(&program), "--slice", "v5e-4", "--out", arg(&out)]).stdout;
    assert!(text.contains("all-reduce") && text.contains("fits"), "{text}");
    let record = bench.json(&["compile", arg(&program), "--slice", "v5e-4"]);
    assert_eq!(record["cached"], true);
    assert_eq!(record["report"]["executable_bytes"], std::fs::metadata(&out).unwrap().len());
    assert_eq!(record["report"]["collectives"][0]["kind"], "all-reduce");
    let hlo = bench.expect(0, &["compile", arg(&program), "--slice", "v5e-4", "--emit", "hlo"]);
    assert!(hlo.stdout.starts_with("HloModule ") && hlo.stdout.contains("ENTRY "), "{}", hlo.stdout);
    let stablehlo = bench.expect(0, &["compile", arg(&program), "--slice", "v5e-4", "--emit", "stablehlo"]);
    assert!(stablehlo.stdout.contains("stablehlo.tanh"));
}

#[test]
fn quick_mode_agrees_with_the_whole_compiler() {
    let Some(bench) = Bench::with_libtpu("quick_mode_agrees_with_the_whole_compiler") else { return };
    let program = repository().join("examples/ffn.mlir");
    let full = bench.json(&["compile", arg(&program), "--slice", "v5e-4"]);
    let quick = bench.json(&["compile", arg(&program), "--slice", "v5e-4", "--quick"]);
    for figure in ["arguments", "outputs", "aliased", "limit"] {
        assert_eq!(quick["report"]["memory"][figure], full["report"]["memory"][figure], "{figure}");
    }
    assert_eq!(quick["report"]["dot_flops"], full["report"]["dot_flops"]);
    assert_eq!(quick["report"]["collectives"], full["report"]["collectives"]);
    assert!(!quick["report"]["largest_buffers"].as_array().unwrap().is_empty());
    let ran = bench.expect(2, &["compile", arg(&program), "--slice", "v5e-4", "--quick", "--out", "x"]);
    assert!(ran.stderr.contains("--quick"), "{}", ran.stderr);
}

#[test]
fn several_slices_compile_together() {
    let Some(bench) = Bench::with_libtpu("several_slices_compile_together") else { return };
    let text = std::fs::read_to_string(repository().join("examples/ffn.mlir")).unwrap();
    let text = text.replace("num_partitions = 4", "num_partitions = 8").replace("\"data\"=2", "\"data\"=4");
    let program = bench.write("ffn8.mlir", text);
    let record = bench.json(&["compile", arg(&program), "--slice", "2xv5e-4"]);
    assert_eq!(record["report"]["devices"], 8);
    assert_eq!(record["report"]["partitions"], 8);
}

#[test]
fn the_answer_no_is_exit_code_one() {
    let Some(bench) = Bench::with_libtpu("the_answer_no_is_exit_code_one") else { return };
    let program = repository().join("examples/ffn.mlir");
    let compile = ["compile", arg(&program), "--slice", "v5e-4"];
    let small = [&compile[..], &["--flag", "xla_tpu_max_hbm_size_mib=100"]].concat();
    let ran = bench.expect(1, &small);
    assert!(
        ran.stdout.starts_with("does not fit into HBM of one device of v5litepod-4: needs 256 MiB"),
        "{}",
        ran.stdout
    );
    assert!(ran.stderr.contains("E1000") && ran.stderr.contains("hint: "), "{}", ran.stderr);
    let record: serde_json::Value =
        serde_json::from_str(&bench.expect(1, &[&small[..], &["--json"]].concat()).stdout).unwrap();
    assert_eq!(record["fits"], false);
    assert_eq!(record["out_of_memory"]["available_bytes"], 100 << 20);
}

#[test]
fn vector_memory_overflow_is_told() {
    let Some(bench) = Bench::with_libtpu("vector_memory_overflow_is_told") else { return };
    let program = bench.write("matmul.mlir", MATMUL);
    let ran =
        bench.expect(1, &["compile", arg(&program), "--slice", "v5e-4", "--flag", "xla_tpu_scoped_vmem_limit_kib=1"]);
    assert!(ran.stdout.contains("does not fit into VMEM"), "{}{}", ran.stdout, ran.stderr);
}

#[test]
fn wrong_options_are_refused_with_the_remedy() {
    let Some(bench) = Bench::with_libtpu("wrong_options_are_refused_with_the_remedy") else { return };
    let program = repository().join("examples/ffn.mlir");
    let check = |options: &[&str], expected: &str| {
        let ran = bench.expect(2, &[&["compile", arg(&program), "--slice", "v5e-4"][..], options].concat());
        assert!(ran.stderr.contains(expected) && ran.stderr.contains("hint: "), "{expected}\n{}", ran.stderr);
        assert_eq!(ran.stdout, "");
    };
    check(&["--partitions", "8"], "but v5litepod-4 has 4");
    check(&["--devices", "0,1,2,9"], "has no device 9");
    check(&["--devices", "0,1,2,-1"], "has no device -1");
    check(&["--devices", "0,1,2,2"], "given twice");
    check(&["--flag", "xla_tpu_scoped_vmem_limit_kb=1"], "did you mean xla_tpu_scoped_vmem_limit_kib?");
    check(&["--flag", "xla_tpu_scoped_vmem_limit_kib=true"], "refused a flag");
    check(&["--flag", "nonsense"], "has no value");
    check(&["--compilation-timeout-seconds", "0.01"], "did not finish within 0.01 s");
    check(&["--memory-limit", "0.1"], "more than the limit of 102 MiB");
}

#[test]
fn libtpu_says_nothing_unless_asked() {
    let Some(bench) = Bench::with_libtpu("libtpu_says_nothing_unless_asked") else { return };
    let program = bench.write("matmul.mlir", MATMUL);
    assert_eq!(bench.expect(0, &["compile", arg(&program), "--slice", "v5e-4"]).stderr, "");
}

#[test]
fn effort_levels_and_flags_reach_the_compiler() {
    let Some(bench) = Bench::with_libtpu("effort_levels_and_flags_reach_the_compiler") else { return };
    let program = repository().join("examples/ffn.mlir");
    let compile = |options: &[&str]| {
        bench.json(&[&["compile", arg(&program), "--slice", "v5e-4"][..], options].concat())["report"].clone()
    };
    let default = compile(&[]);
    let lowest = compile(&["--optimization-level", "O0", "--memory-fitting-level", "O0"]);
    assert_ne!(default["fingerprint"], lowest["fingerprint"]);
    let flagged = compile(&["--flag", "xla_tpu_scoped_vmem_limit_kib=65536"]);
    assert_ne!(default["fingerprint"], flagged["fingerprint"]);
}

#[test]
fn programs_libtpu_would_abort_on_are_refused_or_survived() {
    let Some(bench) = Bench::with_libtpu("programs_libtpu_would_abort_on_are_refused_or_survived") else { return };
    let check = |name: &str, text: &str, expected: &str| {
        let program = bench.write(name, text);
        let ran = bench.expect(2, &["compile", arg(&program), "--slice", "v5e-4"]);
        assert!(ran.stderr.contains(expected), "{name}: {expected}\n{}", ran.stderr);
    };
    check(
        "dynamic.mlir",
        "func.func @main(%x: tensor<?xf32>) -> tensor<?xf32> { return %x : tensor<?xf32> }",
        "dynamic",
    );
    check(
        "recursive.mlir",
        "func.func @main(%x: tensor<f32>) -> tensor<f32> {
           %0 = call @main(%x) : (tensor<f32>) -> tensor<f32>
           return %0 : tensor<f32>
         }",
        "calls @main, which calls it in turn",
    );
    check(
        "partner.mlir",
        "module attributes {mhlo.num_partitions = 4 : i32} { func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
           %0 = \"stablehlo.collective_permute\"(%x) <{source_target_pairs = dense<[[0, 9]]> : tensor<1x2xi64>,
             channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>}> : (tensor<8xf32>) -> tensor<8xf32>
           return %0 : tensor<8xf32>
         } }",
        "collective_permute",
    );
}

#[test]
fn pytorch_programs_compile() {
    let Some(bench) = Bench::with_libtpu("pytorch_programs_compile") else { return };
    let Some(folder) = require("pytorch_programs_compile", Needed::TorchCorpus) else { return };
    crate::reference::check_against(&bench, &folder);
}

#[test]
fn a_plugin_that_is_none_or_cannot_compile_for_slices_is_refused() {
    let Some(bench) = Bench::with_libtpu("a_plugin_that_is_none") else { return };
    let Some(xla_cpu) = require("a_plugin_that_is_none", Needed::XlaCpu) else { return };
    let program = bench.write("matmul.mlir", MATMUL);
    let with =
        |plugin: &Path| bench.expect(2, &["compile", arg(&program), "--slice", "v5e-4", "--plugin", arg(plugin)]);
    assert!(with(&xla_cpu).stderr.contains("Topology not supported"));
    let libm = Path::new("/lib/x86_64-linux-gnu/libm.so.6");
    if libm.exists() {
        assert!(with(libm).stderr.contains("GetPjrtApi"));
    }
}
