//! Trainings slowed on purpose: `tpu diagnose` names the cause, `tpu hang` the culprit, alerts are told; and nothing is found in a
//! healthy one.

mod alerts;
mod hang;
mod slowed;

use std::process::Command;

use serde_json::Value;

use crate::harness::{Bench, arg};
use crate::metrics::{Running, answering, get, value, wait_for};

/// A model whose steps take long enough that what is around them costs little, and no longer.
const HEALTHY: &str = r#"
[model]
model_type = "gpt2"
vocab_size = 256
n_positions = 64
n_embd = 64
n_layer = 2
n_head = 4
embd_pdrop = 0.0
resid_pdrop = 0.0

[run]
precision = "mixed"

[data]
kind = "synthetic"
sequence_length = 64

[optimizer]
name = "adamw"
learning_rate = 1e-3

[train]
steps = 1000000
batch_size = 16
log_every = 1
save_every = 1000000
"#;

fn bench() -> Bench {
    let bench = Bench::bare();
    bench.write("healthy.toml", HEALTHY);
    bench
}

fn train(bench: &Bench, file: &str, more: &[&str]) -> Command {
    let args = ["train", file, "-d", "cpu", "--metrics", "127.0.0.1:0"];
    let mut command = bench.command(&[&args[..], more].concat());
    // Tests run beside each other.
    command.env("TPUBRIDGE_CPU_THREADS", "1");
    command
}

/// Starts a training and waits until so many steps have ended.
fn start(bench: &Bench, file: &str, steps: f64, more: &[&str]) -> (Running, String) {
    let (running, address) = answering(&mut train(bench, file, more));
    wait_for("steps", || {
        let done = value(&get(&address, "/metrics", "text/plain"), "tpubridge_training_steps_total");
        done.filter(|done| *done >= steps)
    });
    (running, address)
}

/// The exit code, the kinds of issues, and the record of `tpu diagnose`.
fn diagnosed(bench: &Bench, of: &str) -> (Option<i32>, Vec<String>, Value) {
    let ran = bench.run(&["diagnose", of, "--json"]);
    let record: Value = serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {ran:?}"));
    let kinds = record["issues"].as_array().unwrap().iter().map(|issue| issue["kind"].as_str().unwrap().to_string());
    (ran.code, kinds.collect(), record)
}

#[track_caller]
fn finds(bench: &Bench, of: &str, kind: &str) -> Value {
    let (code, kinds, record) = diagnosed(bench, of);
    assert_eq!(code, Some(1), "{record:#}");
    assert!(kinds.iter().any(|found| found == kind), "{record:#}");
    let issues = record["issues"].as_array().unwrap();
    let issue = issues.iter().find(|issue| issue["kind"] == kind).unwrap().clone();
    assert!(!issue["remedy"].as_str().unwrap().is_empty(), "{record:#}");
    issue
}

#[test]
fn what_is_no_run_is_told() {
    let bench = bench();
    std::fs::create_dir(bench.path("empty")).unwrap();
    let refused = |args: &[&str], part: &str| {
        let ran = bench.expect(2, args);
        assert!(ran.stderr.contains(part) && ran.stderr.contains("hint: "), "{args:?}: {}", ran.stderr);
    };
    refused(&["diagnose", "nowhere"], "neither the folder of a run nor HOST:PORT");
    refused(&["diagnose", "empty"], "no folder of a run");
    refused(&["diagnose", "127.0.0.1:1"], "nobody listens there");
    refused(&["hang", "empty"], "processes");
    refused(&["hang", arg(&bench.path("nowhere"))], "processes");
    refused(&["hang"], "this machine has no TPU");
    refused(&["hang", "--hosts", "a b"], "`a b` cannot be asked");
    refused(&["hang", "--selector", "a=b"], "kubectl");
    refused(&["hang", "--metrics", "no port", "--apart", "0"], "nothing is known of who hangs");
    let blamed = |args: &[&str], part: &str| {
        let ran = bench.expect(1, &[&["hang", "--apart", "0"][..], args].concat());
        assert!(ran.stdout.contains("culprit: 127.0.0.1:1") && ran.stdout.contains(part), "{}", ran.stdout);
    };
    blamed(&["--metrics", "127.0.0.1:1"], "nobody listens");
    blamed(&["--hosts", "127.0.0.1:1"], "no program holds its chips");
}
