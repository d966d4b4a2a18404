//! What works without any plugin: chips, hlo, cache, completions, man pages, and clear refusals.

use testkit::repository;

use crate::harness::{Bench, MATMUL, arg};

#[test]
fn no_command_shows_help_and_a_wrong_one_is_an_error() {
    let bench = Bench::bare();
    assert!(bench.expect(2, &[]).stderr.contains("Usage: tpu"));
    assert!(bench.expect(2, &["frobnicate"]).stderr.contains("unrecognized subcommand"));
    assert!(bench.expect(0, &["--version"]).stdout.starts_with("tpu "));
    assert!(bench.expect(0, &["compile", "--help"]).stdout.contains("--slice"));
}

#[test]
fn chips_tell_generations_and_slices() {
    let bench = Bench::bare();
    let all = bench.json(&["chips"]);
    assert_eq!(all["generations"].as_array().map(Vec::len), Some(7));
    let slice = bench.expect(0, &["chips", "v4-8"]).stdout;
    assert!(slice.contains("chips                  4\n"), "{slice}");
    assert!(bench.expect(0, &["chips", "v5e", "--slices"]).stdout.contains("v5litepod-256"));
    let overridden = bench.expect(0, &["chips", "tpu7x-8", "--set", "v7_memory_gb=128", "--json"]).stdout;
    assert!(overridden.contains("137438953472"), "{overridden}");
}

#[test]
fn a_slice_that_does_not_exist_names_its_neighbours() {
    let bench = Bench::bare();
    let program = bench.write("p.mlir", MATMUL);
    let ran = bench.expect(2, &["compile", arg(&program), "--slice", "v5e-5"]);
    assert_eq!(ran.stdout, "");
    assert!(ran.stderr.contains("next smaller v5litepod-4, next larger v5litepod-8"), "{}", ran.stderr);
    assert!(ran.stderr.contains("hint: "), "{}", ran.stderr);
}

#[test]
fn a_missing_plugin_names_the_remedy() {
    let bench = Bench::bare();
    let program = bench.write("p.mlir", MATMUL);
    let ran = bench.expect(2, &["compile", arg(&program), "--slice", "v5e-4"]);
    assert!(ran.stderr.contains("not installed") && ran.stderr.contains("tpu setup"), "{}", ran.stderr);
    assert_eq!(bench.expect(1, &["info"]).stderr, "");
    let text = bench.write("libtpu.so", "text");
    let ran = bench.expect(2, &["compile", arg(&program), "--slice", "v5e-4", "--plugin", arg(&text)]);
    assert!(ran.stderr.contains("not a shared library"), "{}", ran.stderr);
    let report = bench.expect(1, &["doctor", "--offline"]).stdout;
    assert!(report.contains("FAIL  plugin") && report.contains("tpu setup"), "{report}");
}

#[test]
fn hlo_verifies_counts_and_converts_both_ways() {
    let bench = Bench::bare();
    let program = repository().join("examples/ffn.mlir");
    let record = bench.json(&["hlo", arg(&program)]);
    assert_eq!(record["ops"]["stablehlo.dot_general"], 2);
    assert_eq!(record["meshes"]["mesh"], 4);
    let (bytecode, text) = (bench.path("p.mlir.bc"), bench.path("again.mlir"));
    bench.expect(0, &["hlo", arg(&program), "--out", arg(&bytecode)]);
    assert!(std::fs::read(&bytecode).unwrap().starts_with(b"ML\xefR"));
    bench.expect(0, &["hlo", arg(&bytecode), "--out", arg(&text)]);
    let printed = bench.expect(0, &["hlo", arg(&program), "--print"]).stdout;
    assert_eq!(std::fs::read_to_string(&text).unwrap(), printed);
}

#[test]
fn a_bad_program_says_where_and_why() {
    let bench = Bench::bare();
    let check = |contents: &[u8], expected: &[&str]| {
        let file = bench.write("bad", contents);
        let ran = bench.expect(2, &["hlo", arg(&file)]);
        for part in expected {
            assert!(ran.stderr.contains(part), "{part} is not in\n{}", ran.stderr);
        }
    };
    check(b"root:x:0:0", &["line 1, column 1", "hint: expected StableHLO"]);
    check(&MATMUL.as_bytes()[..200], &["line "]);
    check(b"ML\xefR\x0d", &["bytecode", "cut short"]);
    check(MATMUL.replace("<1024x256", "<1000x256").as_bytes(), &["dot_general C10", "1024", "1000"]);
    let wrong = MATMUL.replace("contracting_dims = [1] x [0]", "contracting_dims = [0] x [0]");
    check(wrong.as_bytes(), &["dot_general", "512", "1024"]);
    assert!(bench.expect(2, &["hlo", "nowhere.mlir"]).stderr.contains("hint: check the path"));
}

#[test]
fn the_cache_commands_work_on_an_empty_cache() {
    let bench = Bench::bare();
    assert_eq!(bench.expect(0, &["cache", "list"]).stdout, "the cache is empty\n");
    assert_eq!(bench.json(&["cache", "stats"])["entries"], 0);
    assert!(bench.expect(0, &["cache", "clear"]).stdout.starts_with("removed 0 entries"));
    let bundle = bench.write("b", "not a bundle");
    let ran = bench.expect(2, &["cache", "import", "--trust", arg(&bundle)]);
    assert!(ran.stderr.contains("cannot be imported") && ran.stderr.contains("hint: "), "{}", ran.stderr);
}

#[test]
fn completions_and_man_pages_are_made() {
    let bench = Bench::bare();
    for shell in ["bash", "zsh", "fish"] {
        assert!(bench.expect(0, &["completions", shell]).stdout.contains("compile"));
    }
    let folder = bench.path("man");
    bench.expect(0, &["man", arg(&folder)]);
    assert!(folder.join("tpu-compile.1").exists());
}

#[test]
fn setup_says_what_it_would_do_before_doing_it() {
    let bench = Bench::bare();
    let ran = bench.run(&["setup", "--dry-run"]);
    // Without pip or uv there is nothing to set up with, and that is said.
    assert_eq!(ran.code, Some(2), "{}{}", ran.stdout, ran.stderr);
    assert!(ran.stderr.contains("hint: "), "{}", ran.stderr);
    assert!(bench.expect(2, &["setup", "nonsense"]).stderr.contains("nonsense"));
}

#[test]
fn generations_and_slices_stand_side_by_side() {
    let bench = Bench::bare();
    let shown = bench.expect(0, &["chips", "compare", "v5e", "v6e", "v5p-128"]).stdout;
    for expected in ["v6e/v5e", "v5p-128/v5e", "PER SLICE", "HBM bandwidth", "USD PER CHIP-HOUR", "spot, us-central1"] {
        assert!(shown.contains(expected), "{expected}\n{shown}");
    }
    let record = bench.json(&["chips", "compare", "v5e", "v6e"]);
    assert_eq!(record["version"], 1);
    assert_eq!(record["names"], serde_json::json!(["v5e", "v6e"]));
    assert!(record["slice"].as_array().unwrap().is_empty());
    let row = |rows: &str, quantity: &str| {
        let list = record[rows].as_array().unwrap();
        list.iter().find(|row| row["quantity"] == quantity).unwrap_or_else(|| panic!("{quantity}: {record}")).clone()
    };
    let bf16 = row("chip", "bf16");
    let [v5e, v6e] = [0, 1].map(|at| bf16["values"][at].as_f64().unwrap());
    assert_eq!(bf16["to_first"], serde_json::json!([1.0, v6e / v5e]));
    // A chip-hour at the price of the rate it has is a chip-hour again.
    let rate_hour = row("chip", "bf16 PFLOP/s-hour, on demand")["values"][0].as_f64().unwrap();
    let chip_hour = row("chip", "chip-hour, on demand")["values"][0].as_f64().unwrap();
    assert!((rate_hour * v5e / 1e3 - chip_hour).abs() < 1e-9);
}

#[test]
fn a_tpu_is_set_against_a_gpu() {
    let bench = Bench::bare();
    let shown = bench.expect(0, &["chips", "compare", "v4", "v5p", "h200", "mi300x"]).stdout;
    for expected in [
        "H200/v4",
        "bf16 per watt",
        "bf16 per USD/h, on demand",
        "on demand, aws us-east-1",
        "power is not published: v5p\n",
        "no published price found: MI300X\n",
    ] {
        assert!(shown.contains(expected), "{expected}\n{shown}");
    }
    let record = bench.json(&["chips", "compare", "v4", "v5p", "h200"]);
    let row = |quantity: &str| {
        let list = record["chip"].as_array().unwrap();
        let row = list.iter().find(|row| row["quantity"] == quantity);
        row.unwrap_or_else(|| panic!("{quantity}: {record}"))["values"].clone()
    };
    assert_eq!(row("bf16"), serde_json::json!([275.0, 459.0, 989.5]));
    assert_eq!(row("fp8"), serde_json::json!([null, 459.0, 1979.0]));
    assert_eq!(row("power"), serde_json::json!([192.0, null, 700.0]));
    assert_eq!(row("bf16 per watt"), serde_json::json!([275.0 / 192.0, null, 989.5 / 700.0]));
    assert_eq!(row("bf16 per USD/h, on demand"), serde_json::json!([275.0 / 3.22, 459.0 / 4.2, 989.5 / 7.912]));
    assert_eq!(row("smallest compute-bound batch, bf16"), serde_json::json!([230.0, 167.0, 207.0]));
    assert_eq!(record["power_not_published"], serde_json::json!(["v5p"]));
    assert!(record["price_not_published"].as_array().unwrap().is_empty());

    let shown = bench.expect(0, &["chips", "h200"]).stdout;
    for expected in ["NVIDIA H200 SXM", "design power (TDP), W", "https://www.nvidia.com", "2026-08-22"] {
        assert!(shown.contains(expected), "{expected}\n{shown}");
    }
    assert_eq!(bench.json(&["chips", "h200"])["gpu"]["bf16_tflops"]["value"], 989.5);
}

#[test]
fn the_smallest_batch_that_is_compute_bound_is_shown() {
    let bench = Bench::bare();
    let generations = &bench.json(&["chips"])["generations"];
    let v5e = generations.as_array().unwrap().iter().find(|spec| spec["generation"] == "v5e").unwrap();
    let expected = serde_json::json!({"bf16": 241, "weights_8_bit": 121, "bf16_from_vmem": 11});
    assert_eq!(v5e["compute_bound_batch"], expected);
    assert_eq!(bench.json(&["chips", "v5e-8"])["generation"]["compute_bound_batch"], expected);
    let shown = bench.expect(0, &["chips", "v5e"]).stdout;
    assert!(shown.contains("smallest compute-bound batch") && shown.contains("power, W"), "{shown}");
    assert!(bench.expect(0, &["chips"]).stdout.contains("BATCH is the smallest that is compute bound"));
}

#[test]
fn a_comparison_takes_overrides() {
    let bench = Bench::bare();
    let record = bench.json(&["chips", "compare", "v6e-8", "tpu7x-8", "--set", "v7_price=12"]);
    let slice = record["slice"].as_array().unwrap();
    let hour = slice.iter().find(|row| row["quantity"] == "hour, on demand").unwrap();
    // `tpu7x-8` is eight TensorCores on four chips.
    assert_eq!(hour["values"][1], 48.0);
}

#[test]
fn a_comparison_of_unknown_or_single_names_is_refused() {
    let bench = Bench::bare();
    let unknown = bench.expect(2, &["chips", "compare", "v5e", "v9-8"]).stderr;
    assert!(unknown.contains("unknown TPU generation") && unknown.contains("hint: `tpu chips`"), "{unknown}");
    let neighbours = bench.expect(2, &["chips", "compare", "v5e", "v5e-5"]).stderr;
    assert!(neighbours.contains("next smaller v5litepod-4"), "{neighbours}");
    assert!(bench.expect(2, &["chips", "compare", "v5e"]).stderr.contains("2 values required"));
}
