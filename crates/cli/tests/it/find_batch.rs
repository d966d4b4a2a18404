//! `tpu train --find-batch`: measured on the CPU device, and by the real TPU compiler for slices.

use testkit::repository;

use crate::harness::{Bench, arg};

const TINY: &str = r#"
[model]
model_type = "gpt2"
vocab_size = 64
n_positions = 32
n_embd = 32
n_layer = 1
n_head = 2

[data]
kind = "synthetic"
sequence_length = 16

[optimizer]
name = "sgd"
learning_rate = 1e-2

[train]
steps = 40
batch_size = 2
gradient_accumulation_steps = 2
"#;

/// Checks a record against itself: what is named was tried and fits, and the command carries it.
fn check(record: &serde_json::Value, multiple_of: u64) {
    assert_eq!(record["version"], 1);
    let trials = record["trials"].as_array().unwrap();
    let (largest, fastest) = (record["largest"].as_u64().unwrap(), record["fastest"].as_u64().unwrap());
    for trial in trials {
        let batch = trial["batch"].as_u64().unwrap();
        assert!(batch.is_multiple_of(multiple_of), "{trial}");
        assert_eq!(trial["outcome"] == "fits", batch <= largest, "{trial}");
        assert!(trial["outcome"] != "fits" || trial["step_seconds"].as_f64().unwrap() > 0.0, "{trial}");
    }
    assert!(trials.iter().any(|trial| trial["batch"] == fastest && trial["outcome"] == "fits"));
    let setting = format!("train.batch_size={fastest}");
    assert_eq!(record["setting"], setting.as_str());
    assert!(record["next"].as_str().unwrap().ends_with(&format!("--with {setting} -d cpu")), "{}", record["next"]);
}

#[test]
fn batches_are_measured_where_no_slice_is_named() {
    let bench = Bench::bare();
    let file = bench.write("tiny.toml", TINY);
    let record = bench.json(&["train", arg(&file), "--find-batch", "-d", "cpu"]);
    assert_eq!(record["how"], "measured");
    check(&record, 2);
    // Without a slice nothing needs a TPU compiler; with one it is missed, and the remedy is named.
    let ran = bench.expect(2, &["train", arg(&file), "--find-batch", "--slice", "v5e-1", "-d", "cpu"]);
    assert!(ran.stderr.contains("libtpu") && ran.stderr.contains("hint: `tpu setup`"), "{}", ran.stderr);
    let ran = bench.expect(2, &["train", arg(&file), "--find-batch", "--slice", "v5e-7", "-d", "cpu"]);
    assert!(ran.stderr.contains("hint: "), "{}", ran.stderr);
    bench.expect(2, &["train", arg(&file), "--slice", "v5e-1"]);
}

#[test]
fn a_device_that_is_too_small_is_an_answer() {
    let bench = Bench::bare();
    let file = bench.write("tiny.toml", TINY);
    let ran = bench
        .command(&["train", arg(&file), "--find-batch", "-d", "cpu"])
        .env("TPUBRIDGE_CPU_MEMORY_LIMIT_BYTES", "65536")
        .output()
        .unwrap();
    let (stdout, stderr) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert_eq!(ran.status.code(), Some(1), "{stdout}{stderr}");
    assert!(stdout.contains("does not fit") && stdout.contains("no batch fits"), "{stdout}");
    assert!(stderr.contains("hint: "), "{stderr}");
    // With a little more room, memory ends the search.
    let record = bench
        .command(&["train", arg(&file), "--find-batch", "-d", "cpu", "--json"])
        .env("TPUBRIDGE_CPU_MEMORY_LIMIT_BYTES", "1500000")
        .output()
        .unwrap();
    let record: serde_json::Value = serde_json::from_slice(&record.stdout).unwrap();
    check(&record, 2);
    assert!(record["ended"] == "memory" || record["ended"] == "flat", "{record}");
}

#[test]
fn the_tpu_compiler_finds_batches_for_slices() {
    let Some(bench) = Bench::with_libtpu("the_tpu_compiler_finds_batches_for_slices") else { return };
    let file = repository().join("examples/train/small-llama.toml");
    // Batches near the limit of one chip, so that few compilations are enough.
    let data = "data={kind=\"synthetic\",sequence_length=256}";
    let common = ["train", arg(&file), "--find-batch", "-d", "cpu", "--with", data];
    let record = bench.json(&[&common[..], &["--slice", "v5e-1", "--with", "train.batch_size=1024"]].concat());
    assert_eq!((record["how"].as_str(), record["ended"].as_str()), (Some("compiled"), Some("memory")));
    check(&record, 1);
    let fits = record["trials"].as_array().unwrap().iter().filter(|trial| trial["outcome"] == "fits");
    let fits: Vec<(u64, u64)> =
        fits.map(|trial| (trial["needed_bytes"].as_u64().unwrap(), trial["limit_bytes"].as_u64().unwrap())).collect();
    assert!(fits.iter().all(|(needed, limit)| needed <= limit), "{fits:?}");
    assert!(fits.windows(2).all(|pair| pair[0].0 < pair[1].0), "{fits:?}");
    // Four chips hold four times as much, give or take the gap that is left open, and every batch divides among them.
    let wide = bench.json(&[&common[..], &["--slice", "v5e-4", "--with", "train.batch_size=4096"]].concat());
    check(&wide, 4);
    assert_eq!((wide["chips"].as_u64(), wide["mesh"].as_str()), (Some(4), Some("data=4")));
    let ratio = wide["largest"].as_f64().unwrap() / record["largest"].as_f64().unwrap();
    assert!((3.0..5.5).contains(&ratio), "{ratio}");
    // A mesh of the user's is followed.
    let mesh =
        ["--slice", "v5e-4", "--mesh", "data=2,model=2", "--strategy", "megatron", "--with", "train.batch_size=4096"];
    let split = bench.json(&[&common[..], &mesh].concat());
    check(&split, 2);
    assert_eq!(split["mesh"], "data=2,model=2");
    let next = split["next"].as_str().unwrap();
    assert!(next.contains("--mesh data=2,model=2 --strategy megatron"), "{next}");
    let wrong = ["--slice", "v5e-8", "--mesh", "data=2,model=2"];
    let ran = bench.expect(2, &[&common[..], &wrong].concat());
    assert!(ran.stderr.contains("4 devices, but v5litepod-8 has 8; data=4,model=2 would work"), "{}", ran.stderr);
}
