//! The audit log of the real command: trainings, checkpoints, bundles, keys, and logs that cannot be written.

use std::path::Path;

use serde_json::Value;

use crate::harness::{Bench, arg, ran};
use crate::train::bench;

fn lines(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn events(lines: &[Value]) -> Vec<&str> {
    lines.iter().map(|line| line["event"].as_str().unwrap()).collect()
}

#[test]
fn a_training_leaves_who_did_what() {
    let bench = bench();
    let file = bench.path("tiny.toml");
    let train = |steps: &str| {
        let given =
            ["train", arg(&file), "--folder", "run", "-d", "cpu", "--with", "train.max_to_keep=1", "--with", steps];
        bench.expect(0, &given);
    };
    train("train.steps=3");
    let log = bench.path("run/audit.jsonl");
    let first = lines(&log);
    assert_eq!(events(&first), ["training.start", "checkpoint.save", "training.stop"]);
    for line in &first {
        assert_eq!(
            (line["version"].as_u64(), line["outcome"].as_str(), line["target"].as_str()),
            (Some(1), Some("done"), Some("run"))
        );
        assert!(line["command"].as_str().unwrap().contains("train.steps=3"), "{line}");
        assert!(
            line["time"].as_str().unwrap().ends_with('Z') && line["host"].is_string() && line["uid"].is_u64(),
            "{line}"
        );
        assert_eq!(line["pid"], first[0]["pid"]);
    }
    assert_eq!((&first[1]["details"]["step"], &first[2]["details"]["ended"]), (&3.into(), &"finished".into()));

    train("train.steps=6");
    let all = lines(&log);
    let expected = ["training.start", "checkpoint.restore", "checkpoint.save", "checkpoint.delete", "training.stop"];
    assert_eq!(events(&all[3..]), expected);
    assert_eq!((&all[4]["details"]["step"], &all[6]["details"]["steps"]), (&3.into(), &vec![Value::from(3)].into()));

    // A training of other data is refused; that is in the log too.
    let other = ["train", arg(&file), "--folder", "run", "-d", "cpu", "--with", "optimizer.learning_rate=1.0"];
    bench.expect(2, &other);
    let last = lines(&log).pop().unwrap();
    assert_eq!((last["event"].as_str(), last["outcome"].as_str()), (Some("training.stop"), Some("failed")));
    assert!(last["error"].as_str().unwrap().contains("another training"), "{last}");
}

#[test]
fn bundles_and_keys_are_logged_and_a_full_log_stops_nothing() {
    let bench = Bench::bare();
    let bundle = bench.path("warm.bundle");
    bench.expect(0, &["cache", "export", arg(&bundle)]);
    bench.expect(2, &["cache", "import", arg(&bundle)]);
    bench.expect(0, &["cache", "clear"]);
    bench.expect(0, &["key", "new"]);
    let log = bench.path("home/.local/state/tpubridge/audit.jsonl");
    let found = lines(&log);
    assert_eq!(events(&found), ["cache.export", "cache.import", "cache.clear", "key.new"]);
    assert_eq!(found[1]["outcome"], "failed");
    assert!(found[1]["error"].as_str().unwrap().contains("not signed"), "{}", found[1]);

    let full = ran(bench.command(&["cache", "clear"]).env("TPUBRIDGE_AUDIT_LOG", "/dev/full").output().unwrap());
    assert_eq!(full.code, Some(0));
    assert!(full.stderr.contains("warning: the audit log /dev/full cannot be written"), "{}", full.stderr);
    let off = ran(bench.command(&["cache", "clear"]).env("TPUBRIDGE_AUDIT_LOG", "off").output().unwrap());
    assert_eq!((off.code, off.stderr.as_str()), (Some(0), ""));
    assert_eq!(lines(&log).len(), 4);
}
