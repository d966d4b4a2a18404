//! `tpu fit` and `tpu explain` with the real TPU compiler.

use serde_json::Value;
use testkit::{Needed, repository, require};

use crate::harness::{Bench, MATMUL, arg};

/// How a training step is written down.
struct Step {
    rows: u64,
    columns: u64,
    /// Devices of a mesh that every weight is replicated over.
    replicated_over: Option<u64>,
    is_donated: bool,
}

impl Step {
    /// One weight with two moments, updated by the gradient of a layer.
    fn text(&self) -> String {
        let w = format!("tensor<{}x{}xf32>", self.rows, self.columns);
        let x = format!("tensor<256x{}xf32>", self.rows);
        let y = format!("tensor<256x{}xf32>", self.columns);
        let sharding = |dims: &str| match self.replicated_over {
            Some(_) => format!(", sdy.sharding = #sdy.sharding<@mesh, [{dims}]>"),
            None => String::new(),
        };
        let state = |index: u32, name: &str| {
            let donated = if self.is_donated { format!(", tf.aliasing_output = {index} : i32") } else { String::new() };
            format!("{w} {{jax.arg_info = \"{name}\"{}{donated}}}", sharding("{}, {}"))
        };
        let result = format!("{w} {{jax.result_info = \"\"{}}}", sharding("{}, {}"));
        let head = match self.replicated_over {
            Some(n) => format!(
                "module @step attributes {{mhlo.num_partitions = {n} : i32}} {{\n  sdy.mesh @mesh = <[\"data\"={n}]>\n"
            ),
            None => "module @step {\n".into(),
        };
        format!(
            "{head}  func.func public @main(
    %w: {}, %m: {}, %v: {}, %x: {x} {{jax.arg_info = \"batch['inputs']\"{}}}) -> ({result}, {result}, {result}) {{
    %b = stablehlo.constant dense<0.9> : {w}
    %e = stablehlo.constant dense<1.0e-6> : {w}
    %y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : ({x}, {w}) -> {y}
    %t = stablehlo.tanh %y : {y}
    %g = stablehlo.dot_general %x, %t, contracting_dims = [0] x [0] : ({x}, {y}) -> {w}
    %m0 = stablehlo.multiply %m, %b : {w}
    %m1 = stablehlo.add %m0, %g : {w}
    %v0 = stablehlo.multiply %v, %b : {w}
    %g2 = stablehlo.multiply %g, %g : {w}
    %v1 = stablehlo.add %v0, %g2 : {w}
    %s = stablehlo.sqrt %v1 : {w}
    %s1 = stablehlo.add %s, %e : {w}
    %u = stablehlo.divide %m1, %s1 : {w}
    %w1 = stablehlo.subtract %w, %u : {w}
    return %w1, %m1, %v1 : {w}, {w}, {w}
  }}
}}
",
            state(0, "state['params']['w']"),
            state(1, "state['mu']['w']"),
            state(2, "state['nu']['w']"),
            sharding("{\"data\"}, {}"),
        )
    }
}

const SMALL: Step = Step { rows: 4096, columns: 4096, replicated_over: None, is_donated: true };
/// Three arrays of 3 GiB in and three out: twice what a v5e chip has room for, unless they share memory.
const UNDONATED: Step = Step { rows: 32768, columns: 24576, replicated_over: None, is_donated: false };
/// Three arrays of 5 GiB, all of them on each chip, and a gradient of 5 GiB.
const REPLICATED: Step = Step { rows: 40960, columns: 32768, replicated_over: Some(4), is_donated: true };

fn class(record: &Value, name: &str) -> u64 {
    let rows = record["memory"]["classes"].as_array().unwrap();
    rows.iter().find(|row| row["class"] == name).map_or(0, |row| row["bytes"].as_u64().unwrap())
}

#[track_caller]
fn assert_classes_add_up(record: &Value) {
    let rows = record["memory"]["classes"].as_array().unwrap();
    let sum: u64 = rows.iter().map(|row| row["bytes"].as_u64().unwrap()).sum();
    let total = record["memory"]["total_bytes"].as_u64().unwrap();
    assert!(sum.abs_diff(total) * 100 <= total, "{sum} of {total}\n{rows:#?}");
}

fn json_of(bench: &Bench, code: i32, args: &[&str]) -> Value {
    serde_json::from_str(&bench.expect(code, &[args, &["--json"]].concat()).stdout).unwrap()
}

#[test]
fn fit_tells_memory_by_class_time_and_cost() {
    let Some(bench) = Bench::with_libtpu("fit_tells_memory_by_class_time_and_cost") else { return };
    let program = bench.write("step.mlir", SMALL.text());
    let fit = ["fit", arg(&program), "--slice", "v5e-1", "--tokens", "256", "--steps", "1k", "--region", "us-west4"];
    let record = json_of(&bench, 0, &fit);
    assert_eq!((&record["version"], &record["verdict"]["fits"]), (&Value::from(1), &Value::from(true)));
    let weight = 4096 * 4096 * 4;
    assert_eq!(class(&record, "parameters"), weight);
    assert_eq!(class(&record, "optimizer_state"), 2 * weight);
    assert_eq!(class(&record, "inputs"), 256 * 4096 * 4);
    assert_eq!(class(&record, "outputs"), class(&record, "outputs").min(4096), "results lie in donated arguments");
    assert_eq!(record["memory"]["aliased_bytes"], 3 * weight);
    assert_classes_add_up(&record);
    let seconds = record["estimate"]["step"]["seconds"].as_f64().unwrap();
    let terms = &record["cost"]["terms"][0];
    assert_eq!((&terms["name"], &terms["region"]), (&Value::from("on demand"), &Value::from("us-west4")));
    let price = terms["usd_per_chip_hour"].as_f64().unwrap();
    let close = |found: &Value, expected: f64| (found.as_f64().unwrap() / expected - 1.0).abs() < 1e-9;
    assert!(close(&terms["usd_per_step"], price / 3600.0 * seconds), "{terms}");
    assert!(close(&terms["usd_per_million_tokens"], price / 3600.0 * seconds / 256.0 * 1e6), "{terms}");
    assert!(close(&terms["usd_per_run"], price / 3600.0 * seconds * 1000.0), "{terms}");
    let text = bench.expect(0, &fit).stdout;
    for expected in ["fits: ", "optimizer state", "of these padding", "limited by", "HFU", "on demand", "(cached)"] {
        assert!(text.contains(expected), "{expected}\n{text}");
    }
}

#[test]
fn classes_add_up_to_the_compilers_figure() {
    let Some(bench) = Bench::with_libtpu("classes_add_up_to_the_compilers_figure") else { return };
    let Some(folder) = require("classes_add_up_to_the_compilers_figure", Needed::Reference) else { return };
    let step = bench.write("step.mlir", SMALL.text());
    for (program, slice) in [
        (step, "v5e-1"),
        (repository().join("examples/ffn.mlir"), "v5e-4"),
        (folder.join("mlp_adam_v5e.mlir"), "v5e-4"),
        (folder.join("transformer_v6e.mlir"), "v6e-4"),
        (folder.join("ffn_4_shardy.mlir"), "v5e-4"),
        (folder.join("donation_v5e_one_chip.mlir"), "v5e-1"),
    ] {
        let record = json_of(&bench, 0, &["fit", arg(&program), "--slice", slice]);
        assert_classes_add_up(&record);
        let compiled = bench.json(&["compile", arg(&program), "--slice", slice, "--quick"]);
        assert_eq!(record["memory"]["total_bytes"], compiled["report"]["memory"]["total"], "{}", program.display());
        assert_eq!(record["memory"]["limit_bytes"], compiled["report"]["memory"]["limit"]);
        assert_eq!(record["verdict"]["fits"], compiled["fits"]);
    }
}

#[test]
fn what_waits_for_the_backward_pass_is_told_from_temporaries() {
    let Some(bench) = Bench::with_libtpu("what_waits_for_the_backward_pass") else { return };
    // 512 MiB each: %h is made by the forward pass and read by the backward pass, %d is made and read there.
    let (h, w) = ("tensor<65536x2048xf32>", "tensor<2048x2048xf32>");
    let forward = |name: &str| format!("loc(\"jit(step)/jvp()/{name}\")");
    let backward = |name: &str| format!("loc(\"jit(step)/transpose(jvp())/{name}\")");
    let dot = |dims: &str, types: &str| format!("contracting_dims = {dims} : {types}");
    let text = format!(
        "func.func @main(%x: {h} {{jax.arg_info = \"batch\"}}, %a: {w} {{jax.arg_info = \"params.a\"}},
             %b: {w} {{jax.arg_info = \"params.b\"}}) -> ({w}, {w}) {{
           %0 = stablehlo.dot_general %x, %a, {rows} {fa}
           %h = stablehlo.tanh %0 : {h} {ft}
           %y = stablehlo.dot_general %h, %b, {rows} {fb}
           %d = stablehlo.dot_general %y, %b, {rows} {bb}
           %e = stablehlo.multiply %d, %h : {h} {bm}
           %ga = stablehlo.dot_general %x, %e, {columns} {ba}
           %gb = stablehlo.dot_general %h, %y, {columns} {bg}
           return %ga, %gb : {w}, {w}
         }}",
        rows = dot("[1] x [0]", &format!("({h}, {w}) -> {h}")),
        columns = dot("[0] x [0]", &format!("({h}, {h}) -> {w}")),
        fa = forward("a/dot_general"),
        ft = forward("tanh"),
        fb = forward("b/dot_general"),
        bb = backward("b/dot_general"),
        bm = backward("mul"),
        ba = backward("a/dot_general"),
        bg = backward("b/transpose"),
    );
    let program = bench.write("step.mlir", text);
    let record = json_of(&bench, 0, &["explain", arg(&program), "--slice", "v5e-1", "--no-trials"]);
    let fit = &record["fit"];
    assert_classes_add_up(fit);
    assert!(class(fit, "activations") >= 256 << 20, "{}", fit["memory"]["classes"]);
    let alive = fit["memory"]["peak"]["alive"].as_array().unwrap();
    let kept = alive.iter().find(|held| held["class"] == "activations").unwrap();
    assert!(
        kept["source"].as_str().unwrap().contains("jvp()/") && kept["bytes"].as_u64().unwrap() >= 256 << 20,
        "{kept}"
    );
    assert!(!kept["source"].as_str().unwrap().contains("transpose("), "{kept}");
}

#[test]
fn what_does_not_fit_is_explained_and_the_first_fix_compiles() {
    let test = "what_does_not_fit_is_explained_and_the_first_fix_compiles";
    let Some(bench) = Bench::with_libtpu(test) else { return };
    let program = bench.write("step.mlir", UNDONATED.text());
    let fixed = bench.path("fixed.mlir");
    let ran = bench.expect(1, &["fit", arg(&program), "--slice", "v5e-1"]);
    assert!(ran.stdout.contains("does not fit") && ran.stdout.contains("optimizer state"), "{}", ran.stdout);
    assert!(ran.stderr.contains("E1000") && ran.stderr.contains("hint: `tpu explain`"), "{}", ran.stderr);

    let explain = ["explain", arg(&program), "--slice", "v5e-1"];
    let record = json_of(&bench, 1, &[&explain[..], &["--apply", arg(&fixed)]].concat());
    let fit = &record["fit"];
    assert_classes_add_up(fit);
    let gib = 1u64 << 30;
    let (needed, total) =
        (fit["verdict"]["needed_bytes"].as_u64().unwrap(), fit["memory"]["total_bytes"].as_u64().unwrap());
    assert!(needed.abs_diff(total) * 100 <= needed, "the refusal says {needed}, the report {total}");
    assert!(total > fit["memory"]["limit_bytes"].as_u64().unwrap());
    // The culprits: three arrays of 3 GiB that come in, and three that go out.
    let largest = fit["memory"]["largest"].as_array().unwrap();
    let named: Vec<&str> = largest.iter().take(6).filter_map(|held| held["name"].as_str()).collect();
    assert!(largest.iter().take(6).all(|held| held["bytes"].as_u64() == Some(3 * gib)), "{named:?}");
    for name in ["state['params']['w']", "state['mu']['w']", "state['nu']['w']"] {
        assert!(named.contains(&name), "{named:?}");
    }
    assert_eq!(fit["memory"]["classes"].as_array().unwrap().iter().filter(|row| row["class"] == "outputs").count(), 1);
    let first = &record["fixes"][0];
    assert_eq!((&first["kind"], &first["fits"]), (&Value::from("donation"), &Value::from(true)), "{first}");
    assert!(first["hbm_bytes"].as_u64().unwrap() < 10 * gib && first["step_s"].as_f64().unwrap() > 0.0);

    let text = std::fs::read_to_string(&fixed).unwrap();
    assert_eq!(text.matches("tf.aliasing_output").count(), 3);
    assert_eq!(bench.json(&["compile", arg(&fixed), "--slice", "v5e-1", "--quick"])["fits"], true);
    let text = bench.expect(1, &explain).stdout;
    for expected in ["what fills it", "state['mu']['w']", "fixes, each compiled", "1. donate 3 arguments"] {
        assert!(text.contains(expected), "{expected}\n{text}");
    }
}

#[test]
fn state_that_every_chip_holds_is_split() {
    let Some(bench) = Bench::with_libtpu("state_that_every_chip_holds_is_split") else { return };
    let program = bench.write("step.mlir", REPLICATED.text());
    let fixed = bench.path("fixed.mlir.bc");
    let record = json_of(&bench, 1, &["explain", arg(&program), "--slice", "v5e-4", "--apply", arg(&fixed)]);
    assert_classes_add_up(&record["fit"]);
    let fixes = record["fixes"].as_array().unwrap();
    let first = &fixes[0];
    assert_eq!((&first["kind"], &first["fits"]), (&Value::from("sharding"), &Value::from(true)), "{fixes:#?}");
    let compiled = bench.json(&["compile", arg(&fixed), "--slice", "v5e-4", "--quick"]);
    assert_eq!((&compiled["fits"], &compiled["report"]["partitions"]), (&Value::from(true), &Value::from(4)));
    assert_eq!(compiled["report"]["memory"]["total"], first["hbm_bytes"]);
}

#[test]
fn state_that_every_chip_holds_is_split_without_a_mesh() {
    let Some(bench) = Bench::with_libtpu("state_that_every_chip_holds_is_split_without_a_mesh") else { return };
    let text = REPLICATED.text().replace("  sdy.mesh @mesh = <[\"data\"=4]>\n", "");
    let text = text.replace("sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>", "mhlo.sharding = \"{replicated}\"");
    let rows = "mhlo.sharding = \"{devices=[4,1]<=[4]}\"";
    let text = text.replace("sdy.sharding = #sdy.sharding<@mesh, [{\"data\"}, {}]>", rows);
    assert!(!text.contains("sdy"), "{text}");
    let program = bench.write("step.mlir", text);
    let fixed = bench.path("fixed.mlir");
    let record = json_of(&bench, 1, &["explain", arg(&program), "--slice", "v5e-4", "--apply", arg(&fixed)]);
    let first = &record["fixes"][0];
    assert_eq!((&first["kind"], &first["fits"]), (&Value::from("sharding"), &Value::from(true)), "{first:#}");
    let applied = std::fs::read_to_string(&fixed).unwrap();
    assert!(!applied.contains("{replicated}") && applied.contains("{devices=[4,1]0,1,2,3}"), "{applied}");
    let compiled = bench.json(&["compile", arg(&fixed), "--slice", "v5e-4", "--quick"]);
    assert_eq!((&compiled["fits"], &compiled["report"]["partitions"]), (&Value::from(true), &Value::from(4)));
    assert_eq!(compiled["report"]["memory"]["total"], first["hbm_bytes"]);
}

#[test]
fn fixes_that_move_or_narrow_state_save_what_they_say() {
    let Some(bench) = Bench::with_libtpu("fixes_that_move_or_narrow_state_save_what_they_say") else { return };
    let program = bench.write("step.mlir", SMALL.text());
    // A budget between what the program takes and what it takes with less state: donation is there already.
    let budget = ["--flag", "xla_tpu_max_hbm_size_mib=170"];
    let record = json_of(&bench, 1, &[&["explain", arg(&program), "--slice", "v5e-1"][..], &budget].concat());
    let fixes = record["fixes"].as_array().unwrap();
    let narrow = fixes.iter().find(|fix| fix["kind"] == "bf16_state").unwrap_or_else(|| panic!("{fixes:#?}"));
    assert_eq!(narrow["fits"], true, "{fixes:#?}");
    assert!(fixes.iter().all(|fix| fix["kind"] != "donation"), "{fixes:#?}");
    assert!(fixes[0]["fits"] == true, "{fixes:#?}");
    // Two moments of 64 MiB become two of 32 MiB.
    let saved = record["fit"]["memory"]["total_bytes"].as_u64().unwrap() - narrow["hbm_bytes"].as_u64().unwrap();
    assert!(saved.abs_diff(64 << 20) < 1 << 20, "{saved}\n{fixes:#?}");
}

#[test]
fn weights_of_few_bits_fit_and_say_what_they_cost() {
    let Some(bench) = Bench::with_libtpu("weights_of_few_bits_fit_and_say_what_they_cost") else { return };
    let (x, w, y) = ("tensor<8x8192xbf16>", "tensor<8192x16384xbf16>", "tensor<8x16384xbf16>");
    let program = bench.write(
        "decode.mlir",
        format!(
            "func.func @main(%x: {x}, %weight: {w}) -> {y} {{
               %0 = stablehlo.dot_general %x, %weight, contracting_dims = [1] x [0] : ({x}, {w}) -> {y}
               return %0 : {y}
             }}"
        ),
    );
    // 256 MiB of weights in bf16, 128 in int8.
    let budget = ["--flag", "xla_tpu_max_hbm_size_mib=200"];
    let explain = [&["explain", arg(&program), "--slice", "v5e-1"][..], &budget].concat();
    let record = json_of(&bench, 1, &explain);
    let fixes = record["fixes"].as_array().unwrap();
    let narrow = fixes.iter().find(|fix| fix["kind"] == "quantization").unwrap_or_else(|| panic!("{fixes:#?}"));
    assert_eq!((&narrow["fits"], &narrow["changes_program"]), (&Value::from(true), &Value::from(true)), "{narrow:#}");
    let detail = narrow["detail"].as_str().unwrap();
    assert!(detail.contains("perplexity +0.0 to 0.3 %") && detail.contains("tpu quantize FOLDER --bits 8"), "{detail}");
    assert!(narrow["hbm_bytes"].as_u64().unwrap() < 140 << 20, "{narrow:#}");
}

#[test]
fn a_program_that_leaves_its_batch_open_gets_a_smaller_one() {
    let test = "a_program_that_leaves_its_batch_open_gets_a_smaller_one";
    let Some(bench) = Bench::with_libtpu(test) else { return };
    let (x, w, y) = ("tensor<?x16384xf32>", "tensor<16384x12288xf32>", "tensor<?x12288xf32>");
    let program = bench.write(
        "layer.mlir",
        format!(
            "func.func @main(%x: {x}, %w: {w}) -> {y} {{
               %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : ({x}, {w}) -> {y}
               return %0 : {y}
             }}"
        ),
    );
    let ran = bench.expect(2, &["fit", arg(&program), "--slice", "v5e-1"]);
    assert!(ran.stderr.contains("hint: give --batch N"), "{}", ran.stderr);
    // 10 GiB come in and 7.5 GiB go out; nothing but less of it helps on this chip.
    let fixed = bench.path("fixed.mlir");
    let explain = ["explain", arg(&program), "--slice", "v5e-1", "--batch", "163840", "--apply", arg(&fixed)];
    let record = json_of(&bench, 1, &explain);
    let first = &record["fixes"][0];
    assert_eq!((&first["kind"], &first["fits"]), (&Value::from("batch"), &Value::from(true)), "{}", record["fixes"]);
    assert!(std::fs::read_to_string(&fixed).unwrap().contains("tensor<81920x12288xf32>"));
    assert_eq!(bench.json(&["compile", arg(&fixed), "--slice", "v5e-1", "--quick"])["fits"], true);
}

#[test]
fn an_operation_without_vector_memory_is_named() {
    let Some(bench) = Bench::with_libtpu("an_operation_without_vector_memory_is_named") else { return };
    let program = bench.write("matmul.mlir", MATMUL);
    let explain = ["explain", arg(&program), "--slice", "v5e-1", "--full", "--flag", "xla_tpu_scoped_vmem_limit_kib=1"];
    let record = json_of(&bench, 1, &explain);
    let verdict = &record["fit"]["verdict"];
    assert_eq!((&verdict["space"], &verdict["limit_bytes"]), (&Value::from("VMEM"), &Value::from(1024)));
    assert!(verdict["operation"].as_str().unwrap().starts_with('%'), "{verdict}");
    assert_eq!(record["fixes"][0]["fits"], true, "{}", record["fixes"]);
}

#[test]
fn advice_on_a_program_that_fits_is_compiled_and_applied() {
    let Some(bench) = Bench::with_libtpu("advice_on_a_program_that_fits_is_compiled_and_applied") else { return };
    let program = bench.write("step.mlir", Step { is_donated: false, ..SMALL }.text());
    let applied = bench.path("applied.mlir");
    let record = json_of(&bench, 0, &["explain", arg(&program), "--slice", "v5e-1", "--apply", arg(&applied)]);
    let advice = record["fit"]["advice"].as_array().unwrap();
    let of = |kind: &str| advice.iter().find(|advice| advice["kind"] == kind).unwrap_or_else(|| panic!("{advice:#?}"));
    let donation = of("donation");
    let weight: u64 = 4096 * 4096 * 4;
    assert_eq!(donation["verified"], true);
    assert!(donation["gain_bytes"].as_u64().unwrap().abs_diff(3 * weight) * 100 <= 3 * weight, "{donation}");
    assert!(of("bf16_matmuls")["remedy"].as_str().unwrap().contains("bf16"));
    assert!(record["roofline"]["machine_intensity"].as_f64().unwrap() > 100.0);
    assert_eq!(record["roofline"]["compute_bound_batch"]["bf16"], 241);
    assert_eq!(bench.json(&["compile", arg(&applied), "--slice", "v5e-1", "--quick"])["fits"], true);
}

#[test]
fn wrong_questions_are_refused_with_the_remedy() {
    let Some(bench) = Bench::with_libtpu("wrong_questions_are_refused_with_the_remedy") else { return };
    let program = bench.write("matmul.mlir", MATMUL);
    let check = |file: &std::path::Path, options: &[&str], expected: &str| {
        for command in ["fit", "explain"] {
            let ran = bench.expect(2, &[&[command, arg(file), "--slice", "v5e-1"][..], options].concat());
            assert!(ran.stderr.contains(expected) && ran.stderr.contains("hint: "), "{expected}\n{}", ran.stderr);
            assert_eq!(ran.stdout, "");
        }
    };
    check(&program, &["--region", "mars-north1"], "us-west4");
    check(&program, &["--tokens", "0"], "--tokens: `0` is not a count");
    check(&program, &["--total-tokens", "1e12"], "give --tokens");
    check(&program, &["--price", "-1"], "--price: `-1` is not an amount of US dollars");
    let function =
        |name: &str| format!("func.func @{name}(%x: tensor<f32>) -> tensor<f32> {{ return %x : tensor<f32> }}\n");
    let headless = bench.write("headless.mlir", function("f") + &function("g"));
    check(&headless, &[], "has no entry function");
    let unpriced = bench.expect(0, &["fit", arg(&program), "--slice", "tpu7x-2"]);
    assert!(unpriced.stdout.contains("no price of"), "{}", unpriced.stdout);
}

#[test]
fn layers_that_do_not_fit_are_run_again() {
    let Some(bench) = Bench::with_libtpu("layers_that_do_not_fit_are_run_again") else { return };
    let program = bench.path("step.mlir");
    let file = testkit::repository().join("examples/train/small-llama.toml");
    let data = "data={kind=\"synthetic\",sequence_length=256}";
    let settings = ["--with", data, "--with", "run.remat=none", "--with", "train.batch_size=4096"];
    bench.expect(0, &[&["train", arg(&file), "--export", arg(&program)][..], &settings].concat());
    let fixed = bench.path("fixed.mlir");
    let explain = ["explain", arg(&program), "--slice", "v5e-1", "--apply", arg(&fixed)];
    let record = json_of(&bench, 1, &explain);
    let fixes = record["fixes"].as_array().unwrap();
    let again = fixes.iter().find(|fix| fix["kind"] == "recompute" && fix["fits"] == true);
    let again = again.unwrap_or_else(|| panic!("{fixes:#?}"));
    let needed = record["fit"]["verdict"]["needed_bytes"].as_u64().unwrap();
    assert!(again["hbm_bytes"].as_u64().unwrap() * 2 < needed, "{again}");
    assert_eq!(bench.json(&["compile", arg(&fixed), "--slice", "v5e-1", "--quick"])["fits"], true);
}
