//! `tpu plan` with the real TPU compiler, on steps exported from JAX.

use std::path::PathBuf;
use std::process::Command;

use testkit::{Needed, repository, require};

use crate::harness::{Bench, MATMUL, arg};

/// A step of a tiny Llama in the bench's folder.
fn exported(bench: &Bench, python: &PathBuf, options: &[&str]) -> PathBuf {
    let file = bench.path("step.bc");
    let script = repository().join("crates/testkit/python/export_step.py");
    let output = Command::new(python).arg(script).arg(&file).args(options).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    file
}

const MODEL: &str = r#"{"model_type":"llama","vocab_size":512,"hidden_size":256,"intermediate_size":512,"num_hidden_layers":2,
    "num_attention_heads":8,"num_key_value_heads":4,"max_position_embeddings":2048,"rms_norm_eps":1e-5,"rope_theta":1e4,
    "hidden_act":"silu","tie_word_embeddings":false}"#;

/// A model gets a plan from its sizes alone; the training it writes is one that `tpu train` takes, with the kernel inside.
#[test]
fn a_model_gets_a_plan_and_the_training_of_it() {
    let Some(bench) = Bench::with_libtpu("a_model_gets_a_plan_and_the_training_of_it") else { return };
    bench.write("config.json", MODEL);
    let common = [
        "plan",
        "config.json",
        "--slices",
        "v5e-4",
        "--batch-size",
        "8",
        "--sequence-length",
        "1024",
        "--compiles",
        "3",
    ];
    let record = bench.json(&[&common[..], &["--tokens", "1B", "--out", "planned.toml"]].concat());
    let best = &record["recommended"];
    assert!(best["remat"].is_string() && best["types"] == "mixed", "{best}");
    assert_eq!(record["next"], "tpu train planned.toml");
    assert_eq!(record["facts"]["tokens_per_sample"], 1024);
    bench.expect(0, &["train", "planned.toml", "--export", "step.mlir"]);
    let compiled = bench.json(&["compile", "step.mlir", "--slice", "v5e-4", "--quick"]);
    assert_eq!(compiled["report"]["memory"]["total"], best["hbm_bytes"]);
    let explained = bench.expect(0, &["explain", "step.mlir", "--slice", "v5e-4"]).stdout;
    assert!(explained.contains("flash_attention_fwd"), "{explained}");
    // Without a file to write, the command has everything in it.
    let text = bench.expect(0, &common).stdout;
    assert!(
        text.contains("next: tpu train TRAIN.toml --mesh ") && text.contains("--with train.batch_size=8"),
        "{text}"
    );
    let refused = bench.expect(2, &["plan", "config.json", "--sequence-length", "4096"]);
    assert!(
        refused.stderr.contains("the model has 2048 positions") && refused.stderr.contains("hint:"),
        "{}",
        refused.stderr
    );
}

/// Steps of inference come from the sizes alone too: caches are neither copied nor computed with as a whole, and prompts go
/// through the kernel.
#[test]
fn a_model_gets_a_plan_of_inference() {
    let Some(bench) = Bench::with_libtpu("a_model_gets_a_plan_of_inference") else { return };
    bench.write("config.json", MODEL);
    let common = ["plan", "config.json", "--slices", "v5e-4", "--batch-size", "64", "--sequence-length", "1024"];
    let of = |more: &[&str]| bench.json(&[&common[..], more].concat());
    let decode = of(&["--step", "decode", "--compiles", "2", "--out", "decode.mlir"]);
    let (facts, best) = (&decode["facts"], &decode["recommended"]);
    assert_eq!((&facts["kind"], &facts["tokens_per_sample"]), (&"inference".into(), &1.into()), "{facts}");
    // Two layers of four heads of 32, keys and values, bf16.
    let cache_bytes = 2 * 2 * 4 * 32 * 1024 * 2;
    assert_eq!(facts["cache_bytes_per_sample"], cache_bytes);
    assert_eq!(best["types"], "bf16");
    assert!(best.get("remat").is_none() && best["sharding"]["by_rule"]["fsdp"] == 1, "{best}");
    let all = 64 * cache_bytes / 4;
    let taken = best["hbm_bytes"].as_u64().unwrap();
    assert!((all..all + all / 2).contains(&taken), "{taken} bytes for caches of {all}");
    assert!(decode["next"].as_str().unwrap().starts_with("tpu fit decode.mlir --slice "), "{}", decode["next"]);
    let again = bench.json(&["compile", "decode.mlir", "--slice", "v5e-4", "--quick"]);
    assert_eq!(again["report"]["memory"]["total"], taken);

    let prefill = of(&["--step", "prefill", "--compiles", "1", "--precision", "mixed", "--out", "prefill.mlir"]);
    assert_eq!(
        (&prefill["facts"]["tokens_per_sample"], &prefill["recommended"]["types"]),
        (&1024.into(), &"mixed".into())
    );
    let explained = bench.expect(0, &["explain", "prefill.mlir", "--slice", "v5e-4"]).stdout;
    assert!(explained.contains("flash_attention_fwd"), "{explained}");
    let refused = bench.expect(2, &["plan", "decode.mlir", "--step", "decode"]);
    assert!(refused.stderr.contains("--step is for models") && refused.stderr.contains("hint:"), "{}", refused.stderr);
}

#[test]
fn a_training_step_gets_a_plan_that_compiles() {
    let test = "a_training_step_gets_a_plan_that_compiles";
    let (Some(bench), Some(python)) = (Bench::with_libtpu(test), require(test, Needed::Python)) else { return };
    let program = exported(&bench, &python, &[]);
    let out = bench.path("planned.mlir");
    let common = ["plan", arg(&program), "--slices", "v5e-4,v5e-16,v6e-8", "--batch-size", "16,32", "--compiles", "4"];
    let record = bench.json(&[&common[..], &["--tokens", "1B", "--deadline", "300d", "--out", arg(&out)]].concat());
    assert_eq!((record["version"].as_u64(), record["is_met"].as_bool()), (Some(1), Some(true)));
    assert_eq!(record["compiled"], 4);
    assert!(record["considered"].as_u64().unwrap() > 20, "{}", record["considered"]);
    let plans = record["plans"].as_array().unwrap();
    let best = &record["recommended"];
    assert_eq!(best, &plans[0]);
    assert!(plans.iter().any(|plan| plan["is_on_frontier"] == true));
    // The figures belong together: tokens, time and money.
    let number = |value: &serde_json::Value| value.as_f64().unwrap();
    let steps = (1e9 / number(&best["tokens_per_step"])).ceil();
    let seconds = number(&best["outcome"]["seconds"]);
    assert!((seconds / (steps * number(&best["step"]["seconds"])) - 1.0).abs() < 1e-9);
    let usd = number(&best["usd_per_chip_hour"]) * number(&best["chips"]) * seconds / 3600.0;
    assert!((number(&best["outcome"]["usd"]) / usd - 1.0).abs() < 1e-9);
    assert!((0.0..1.0).contains(&number(&best["mfu"])) && number(&best["mfu"]) < number(&best["hfu"]));
    // The program it writes is the one it compiled: same memory, from the cache.
    let slice = best["slice"].as_str().unwrap();
    assert!(record["next"].as_str().unwrap().contains(&format!("--slice {slice}")));
    let again = ["compile", arg(&out), "--slice", slice, "--quick"];
    let compiled = bench.json(&again);
    assert_eq!(compiled["report"]["memory"]["total"], best["hbm_bytes"]);

    // The same question again is answered from the cache, and as text.
    let text = bench.expect(0, &common).stdout;
    assert!(
        text.contains("training step") && text.contains("recommended:") && text.contains("next: tpu fit"),
        "{text}"
    );

    // What cannot be: the nearest plan and what it would take.
    let goal = ["--tokens", "1000T", "--deadline", "1h", "--budget", "$5"];
    let ran = bench.expect(1, &[&common[..], &goal].concat());
    assert!(ran.stdout.contains("no plan meets the goal; the nearest:"), "{}", ran.stdout);
    assert!(ran.stdout.contains("a deadline ") && ran.stdout.contains("a budget of $"), "{}", ran.stdout);
}

#[test]
fn a_decode_step_is_ranked_by_latency_and_tokens_per_chip() {
    let test = "a_decode_step_is_ranked_by_latency_and_tokens_per_chip";
    let (Some(bench), Some(python)) = (Bench::with_libtpu(test), require(test, Needed::Python)) else { return };
    let program = exported(&bench, &python, &["--step", "decode"]);
    let common = ["plan", arg(&program), "--slices", "v5e-1,v5e-4", "--compiles", "3"];
    let text = bench.expect(0, &common).stdout;
    assert!(text.contains("inference step") && text.contains("latency"), "{text}");
    assert!(text.contains("tokens/s/chip") && text.contains("keys and values:"), "{text}");
    let record = bench.json(&common);
    assert_eq!(record["facts"]["kind"], "inference");
    // Weights gathered for every token would be all it does.
    for plan in record["plans"].as_array().unwrap() {
        assert_eq!(plan["sharding"]["by_rule"]["fsdp"], 1, "{plan}");
    }
}

#[test]
fn an_inference_step_is_shown_against_concurrency() {
    let test = "an_inference_step_is_shown_against_concurrency";
    let (Some(bench), Some(python)) = (Bench::with_libtpu(test), require(test, Needed::Python)) else { return };
    for (step, tokens) in [("decode", 1.0), ("prefill", 256.0)] {
        let program = exported(&bench, &python, &["--step", step]);
        let common = ["plan", arg(&program), "--slices", "v5e-1", "--compiles", "12"];
        let record = bench.json(&common);
        assert_eq!(record["facts"]["tokens_per_sample"], tokens as u64, "{step}");
        let loads = record["loads"].as_array().unwrap();
        assert!(loads.len() >= 3, "{step}: {loads:?}");
        let figure = |n: usize, name: &str| loads[n][name].as_f64().unwrap();
        // Two layers of two heads of 64, keys and values, 256 positions, bf16.
        let cache_bytes = (2 * 2 * 64 * 2 * 256 * 2) as f64;
        for n in 0..loads.len() {
            let (sequences, latency) = (figure(n, "concurrency"), figure(n, "latency_s"));
            assert_eq!(figure(n, "cache_bytes"), cache_bytes * sequences, "{step}");
            let close = |a: f64, b: f64| (a / b - 1.0).abs() < 1e-9;
            assert!(close(figure(n, "latency_per_token_s") * tokens, latency), "{step}: {}", loads[n]);
            // One chip.
            assert!(close(figure(n, "tokens_per_s_per_chip"), sequences * tokens / latency), "{step}: {}", loads[n]);
            if n > 0 {
                assert!(sequences > figure(n - 1, "concurrency"), "{step}: {loads:?}");
                assert!(figure(n, "hbm_bytes") > figure(n - 1, "hbm_bytes"), "{step}: {loads:?}");
            }
        }
        let text = bench.expect(0, &common).stdout;
        let lines = text
            .split("against concurrency\n")
            .nth(1)
            .map_or(0, |table| table.lines().take_while(|line| !line.is_empty()).count());
        assert_eq!(lines, loads.len() + 1, "{text}");
    }
}

#[test]
fn what_is_asked_wrongly_is_refused_with_a_remedy() {
    let Some(bench) = Bench::with_libtpu("what_is_asked_wrongly_is_refused_with_a_remedy") else { return };
    let matmul = bench.write("matmul.mlir", MATMUL);
    let check = |args: &[&str], message: &str, hint: &str| {
        let ran = bench.expect(2, &[&["plan", arg(&matmul)], args].concat());
        assert!(ran.stderr.contains(message) && ran.stderr.contains(hint), "{args:?}\n{}", ran.stderr);
    };
    check(&[], "no batch dimension was found", "hint: name it: --batch");
    check(&["--batch", "5:0"], "no argument 5", "--batch 0:0");
    check(&["--batch", "b"], "no symbolic size `b`", "--batch 0:0");
    check(&["--batch", "0:0", "--tokens", "lots"], "`lots` is not a count", "1T");
    check(&["--batch", "0:0", "--deadline", "30d"], "needs a number of tokens", "--tokens");
    check(&["--batch", "0:0", "--region", "mars-north1"], "region `mars-north1`", "us-central1");
    check(&["--batch", "0:0", "--slices", "v9-*"], "v9-* is not a slice", "tpu chips");
    check(&["--batch", "0:0", "--generations", "v9"], "v9 is not a TPU generation", "tpu chips");
    let two = bench.write(
        "two.mlir",
        MATMUL.replace("@main", "@a").replace("module @matmul {", "module @matmul {\nfunc.func @b() { return }"),
    );
    let ran = bench.expect(2, &["plan", arg(&two)]);
    assert!(ran.stderr.contains("no entry function") && ran.stderr.contains("hint:"), "{}", ran.stderr);
    // A static program keeps its batch, and says so.
    let text =
        bench.expect(0, &["plan", arg(&matmul), "--batch", "0:0", "--slices", "v5e-1", "--compiles", "1"]).stdout;
    assert!(text.contains("the program's batch of 512 stays"), "{text}");
}
