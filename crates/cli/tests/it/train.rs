//! `tpu train` and `tpu generate`: trained, stopped, killed, resumed, refused.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use testkit::{Needed, repository, require};

use crate::harness::{Bench, arg, ran};

pub(crate) const TINY: &str = r#"
[model]
model_type = "gpt2"
vocab_size = 256
n_positions = 32
n_embd = 16
n_layer = 2
n_head = 2
embd_pdrop = 0.1
resid_pdrop = 0.1

[data]
kind = "text"
files = ["text.txt"]
tokenizer = "bytes"
sequence_length = 16

[optimizer]
name = "adamw"
learning_rate = 1e-2

[train]
steps = 40
batch_size = 4
log_every = 1
save_every = 3
"#;

pub(crate) fn bench() -> Bench {
    let bench = Bench::bare();
    let text: String = (0..400).map(|n| format!("{} apples and {} pears. ", n % 7, n % 5)).collect();
    bench.write("text.txt", text);
    bench.write("tiny.toml", TINY);
    bench
}

/// Every tensor of the newest checkpoint.
fn newest(folder: &Path) -> (u64, BTreeMap<String, Vec<u8>>) {
    let manager = weights::CheckpointManager::open(arg(&folder.join("checkpoints"))).unwrap();
    let saved = manager.latest_good(weights::IntegrityCheck::Contents).unwrap().saved;
    let tensors = saved.read_all(weights::Types::AsSaved).unwrap();
    (saved.step(), tensors.into_iter().map(|(name, literal)| (name, literal.bytes().to_vec())).collect())
}

#[test]
fn a_model_is_trained_resumed_and_writes_text() {
    let bench = bench();
    let file = bench.path("tiny.toml");
    let record = bench.json(&["train", arg(&file), "--folder", "run", "-d", "cpu", "--with", "train.steps=20"]);
    assert_eq!((record["step"].as_u64(), record["ended"].as_str()), (Some(20), Some("finished")));
    assert_eq!(record["compilations"], 1);
    assert!(record["tokens_per_second"].as_f64().unwrap() > 0.0);
    let lines = std::fs::read_to_string(bench.path("run/metrics/metrics.jsonl")).unwrap();
    let losses: Vec<f64> = lines
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["loss"].as_f64().unwrap())
        .collect();
    assert_eq!(losses.len(), 20);
    assert!(losses[19] < losses[0], "{losses:?}");

    // Goes on to the end; the same as in one go.
    let again = bench.expect(0, &["train", arg(&file), "--folder", "run", "-d", "cpu"]);
    assert!(again.stderr.contains("resuming from step 20"), "{}", again.stderr);
    bench.expect(0, &["train", arg(&file), "--folder", "whole", "-d", "cpu"]);
    assert_eq!(newest(&bench.path("run")), newest(&bench.path("whole")));

    let written =
        bench.json(&["generate", "run", "--prompt", "3 apples", "-n", "12", "-d", "cpu", "--temperature", "0"]);
    assert_eq!(written["tokens"].as_array().unwrap().len(), 12);
    let same = bench.json(&["generate", "run", "--prompt", "3 apples", "-n", "12", "-d", "cpu", "--temperature", "0"]);
    assert_eq!(written["text"], same["text"]);
    let drawn = bench.expect(0, &["generate", "run", "--prompt", "3 apples", "-n", "5", "--top-k", "8", "-d", "cpu"]);
    assert!(drawn.stdout.starts_with("3 apples"), "{}", drawn.stdout);
    let long = bench.expect(2, &["generate", "run", "--prompt", "3 apples", "-n", "500", "-d", "cpu"]);
    assert!(long.stderr.contains("over the model's 32 positions"), "{}", long.stderr);

    // The model as a folder: ours and transformers' losses of it are the same.
    let exported = bench.json(&["export", "run", "--out", "hf", "--dtype", "f32"]);
    assert_eq!((exported["step"].as_u64(), exported["has_tokenizer"].as_bool()), (Some(40), Some(false)));
    let eval = "eval hf --data text.txt --tokenizer bytes --sequence 16 --windows 4 -d cpu";
    let loss = bench.json(&eval.split(' ').collect::<Vec<_>>())["loss"].as_f64().unwrap();
    let refused = bench.expect(2, &["export", "run", "--out", "hf"]);
    assert!(refused.stderr.contains("is not empty"), "{}", refused.stderr);
    bench.expect(2, &["export", "run", "--out", "other", "--dtype", "i8"]);
    let Some(python) = require("a_model_is_trained_resumed_and_writes_text", Needed::TorchPython) else { return };
    let script = repository().join("crates/testkit/python/exported_model.py");
    let mut command = std::process::Command::new(python);
    let output = command.arg(script).args([arg(&bench.path("hf")), arg(&bench.path("text.txt")), "16", "4"]).output();
    let output = output.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let theirs: f64 = String::from_utf8(output.stdout).unwrap().trim().parse().unwrap();
    assert!((loss - theirs).abs() < 1e-4, "{loss} here, {theirs} by transformers");
}

#[test]
fn killed_at_any_moment_it_ends_like_an_uninterrupted_run() {
    let bench = bench();
    let file = bench.path("tiny.toml");
    bench.expect(0, &["train", arg(&file), "--folder", "whole", "-d", "cpu"]);
    let (mut kills, mut rounds, mut last) = (0, 0, 0);
    // Killed after a number of lines of progress that changes from round to round, so that kills fall into compiling,
    // stepping and saving alike.
    while kills < 20 {
        rounds += 1;
        assert!(rounds < 60, "{kills} kills in {rounds} rounds");
        let mut command = bench.command(&["train", arg(&file), "--folder", "run", "-d", "cpu"]);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        for _ in 0..(rounds * 7) % 5 {
            let _ = lines.next();
        }
        std::thread::sleep(Duration::from_millis((rounds * 37) % 50));
        let _ = child.kill();
        if !child.wait().unwrap().success() {
            kills += 1;
        }
        if bench.path("run/checkpoints").exists()
            && !weights::CheckpointManager::open(arg(&bench.path("run/checkpoints")))
                .unwrap()
                .steps()
                .unwrap()
                .is_empty()
        {
            // Whatever is there is complete, and nothing goes back.
            let (step, _) = newest(&bench.path("run"));
            assert!(step >= last, "{step} after {last}");
            last = step;
            if step == 40 {
                std::fs::remove_dir_all(bench.path("run")).unwrap();
                last = 0;
            }
        }
    }
    bench.expect(0, &["train", arg(&file), "--folder", "run", "-d", "cpu"]);
    assert_eq!(newest(&bench.path("run")), newest(&bench.path("whole")));
}

#[test]
fn running_statistics_are_kept_resumed_and_used() {
    let bench = Bench::bare();
    let file = repository().join("examples/train/resnet.toml");
    let small = [
        "--with",
        "train.batch_size=4",
        "--with",
        "data.size=8",
        "--with",
        "model.width=4",
        "--with",
        "train.log_every=1",
    ];
    let train = |folder: &str, steps: &str, every: &str| {
        let (steps, every) = (format!("train.steps={steps}"), format!("train.eval_every={every}"));
        let own = ["train", arg(&file), "--folder", folder, "-d", "cpu", "--with", &steps, "--with", &every];
        bench.json(&[&own[..], &small].concat())
    };
    train("run", "3", "100");
    let (step, first) = newest(&bench.path("run"));
    let statistics: Vec<&String> = first.keys().filter(|name| name.starts_with("carried.")).collect();
    // A stem, two convolutions in each of two blocks, and the shortcut of the second: mean and variance of each.
    assert_eq!((step, statistics.len()), (3, 12), "{statistics:?}");
    train("run", "6", "100");
    let (_, last) = newest(&bench.path("run"));
    assert!(statistics.iter().all(|name| first[*name] != last[*name]));
    let record = train("whole", "6", "3");
    assert_eq!(last, newest(&bench.path("whole")).1);
    assert!(record["evaluation"]["loss"].as_f64().unwrap().is_finite(), "{record}");
}

#[test]
fn a_signal_saves_what_was_learned() {
    let bench = bench();
    let file = bench.path("tiny.toml");
    let args = [
        "train",
        arg(&file),
        "--folder",
        "run",
        "-d",
        "cpu",
        "--with",
        "train.steps=100000",
        "--with",
        "train.save_every=90000",
        "--json",
    ];
    let mut child = bench.command(&args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    lines.next().unwrap().unwrap();
    let reader = std::thread::spawn(move || lines.count());
    rustix::process::kill_process(rustix::process::Pid::from_child(&child), rustix::process::Signal::TERM).unwrap();
    let ran = ran(child.wait_with_output().unwrap());
    reader.join().unwrap();
    assert_eq!(ran.code, Some(75), "{ran:?}");
    let record: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(record["ended"], "stopped");
    assert_eq!(Some(newest(&bench.path("run")).0), record["step"].as_u64());
}

#[test]
fn wrong_files_are_refused_with_the_remedy() {
    let bench = bench();
    let refuse = |change: &str, words: &[&str]| {
        let ran = bench.expect(2, &["train", arg(&bench.path("tiny.toml")), "-d", "cpu", "--with", change]);
        for word in words {
            assert!(ran.stderr.contains(word), "{change}: `{word}` is not in\n{}", ran.stderr);
        }
        assert!(ran.stderr.contains("hint: "), "{change}\n{}", ran.stderr);
    };
    refuse("train.stepz=3", &["unknown field", "stepz"]);
    refuse("run.remat=nothing", &["\"nothing\" is ambiguous", "use \"full\""]);
    refuse("run.remat=everything", &["\"everything\" is ambiguous", "use \"none\""]);
    refuse("run.loss_piece=8", &["unknown field", "loss_piece"]);
    refuse("train.batch_size=0", &["train.batch_size is 0"]);
    refuse("train.gradient_accumulation_steps=3", &["not a multiple of train.gradient_accumulation_steps (3)"]);
    refuse("model.model_type=\"gpt9\"", &["gpt9"]);
    refuse("model.n_head=3", &["n_head 3"]);
    refuse("model.vocab_size=100", &["100"]);
    refuse("data.sequence_length=64", &["32 positions"]);
    refuse("data.files=[\"absent.txt\"]", &["absent.txt"]);
    refuse("data.tokenizer=\"absent.json\"", &["absent.json"]);
    refuse("data={kind=\"shapes\",size=16}", &["images"]);
    refuse("optimizer.name=\"adamx\"", &["adamx"]);
    bench.write("short.txt", "few");
    refuse("data.files=[\"short.txt\"]", &["short"]);
    bench.write("short.txt", [0xff, 0xfe, 0x00].repeat(100));
    refuse("data.files=[\"short.txt\"]", &["UTF-8"]);
    let absent = bench.expect(2, &["train", "absent.toml"]);
    assert!(absent.stderr.contains("absent.toml") && absent.stderr.contains("hint: "), "{}", absent.stderr);
    let none = bench.expect(2, &["generate", "nowhere", "--prompt", "x"]);
    assert!(none.stderr.contains("nowhere") && none.stderr.contains("hint: "), "{}", none.stderr);
    // Checkpoints of another training are not continued.
    bench.expect(
        0,
        &["train", arg(&bench.path("tiny.toml")), "--folder", "run", "-d", "cpu", "--with", "train.steps=3"],
    );
    let file = bench.path("tiny.toml");
    let other = ["train", arg(&file), "--folder", "run", "-d", "cpu", "--with", "model.n_embd=32"];
    let ran = bench.expect(2, &other);
    assert!(ran.stderr.contains("of another training"), "{}", ran.stderr);
}

#[test]
fn every_shipped_training_compiles_for_tpus() {
    let Some(bench) = Bench::with_libtpu("every_shipped_training_compiles_for_tpus") else { return };
    let examples = repository().join("examples/train");
    let mut files: Vec<_> = std::fs::read_dir(examples).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(files.len() >= 4);
    for file in files {
        let program = bench.path("step.mlir.bc");
        bench.expect(0, &["train", arg(&file), "--export", arg(&program), "-d", "cpu"]);
        for slice in ["v5e-1", "v6e-1"] {
            let record = bench.json(&["compile", arg(&program), "--slice", slice, "--quick"]);
            assert!(record["report"]["memory"]["total"].as_u64().unwrap() > 0, "{}: {record}", file.display());
        }
    }
}
