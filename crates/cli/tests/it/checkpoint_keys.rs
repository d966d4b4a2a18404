//! `tpu train` with encrypted and signed checkpoints, and `tpu generate` from them.

use crate::harness::arg;
use crate::train::bench;

#[test]
fn a_training_keeps_its_checkpoints_to_itself() {
    let bench = bench();
    let file = bench.path("tiny.toml");
    let made = bench.json(&["key", "new", "--encryption", "--out", "secret"]);
    bench.json(&["key", "new", "--out", "ours"]);
    assert!(bench.expect(2, &["key", "new", "--encryption", "--out", "secret"]).stderr.contains("secret.key"));
    let train = |steps: &str, keys: &[&str], code: i32| {
        let command = ["train", arg(&file), "--folder", "run", "-d", "cpu", "--with", steps];
        bench.expect(code, &[&command[..], keys].concat())
    };
    let keys = ["--encryption-key", "file:secret.key", "--signing-key", "ours.key", "--trusted-key", "ours.pub"];
    train("train.steps=3", &keys, 0);
    let resumed = train("train.steps=6", &keys, 0);
    assert!(resumed.stderr.contains("resuming from step 3"), "{}", resumed.stderr);

    let without = train("train.steps=9", &[], 2).stderr;
    assert!(without.contains("is encrypted, and there is no key") && without.contains("--encryption-key"), "{without}");
    bench.expect(0, &["key", "new", "--encryption", "--out", "other"]);
    let other = train("train.steps=9", &["--encryption-key", "file:other.key"], 2).stderr;
    assert!(other.contains(made["key"].as_str().unwrap()) && other.contains("give the key"), "{other}");
    bench.expect(0, &["key", "new", "--out", "stranger"]);
    let stranger = ["--encryption-key", "command:read key < secret.key; echo $key", "--trusted-key", "stranger.pub"];
    assert!(train("train.steps=9", &stranger, 2).stderr.contains("is not trusted here"));
    let open = train("train.steps=9", &["--encryption-key", "file:tiny.toml"], 2).stderr;
    assert!(open.contains("others can read the key") || open.contains("is not a key"), "{open}");

    let generate = ["generate", "run", "--prompt", "3 apples", "-n", "2", "-d", "cpu"];
    assert!(bench.expect(2, &generate).stderr.contains("is encrypted"));
    let keys = ["--encryption-key", "file:secret.key", "--trusted-key", "ours.pub"];
    assert_eq!(bench.json(&[&generate[..], &keys].concat())["step"], 6);
    // Nobody's secrets are in the log.
    let log = std::fs::read_to_string(bench.path("run/audit.jsonl")).unwrap();
    let secret = std::fs::read_to_string(bench.path("secret.key")).unwrap();
    assert!(!log.contains(secret.trim()) && log.contains("--encryption-key ***"), "{log}");
}
