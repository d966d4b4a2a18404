//! `tpu cost`: exact dollars of runs from what they wrote down.

use telemetry::{Attempt, GoodputFile, Spent, TRAINING_RECORD_VERSION, TrainingRecord};

use crate::harness::Bench;

/// A run on four v6e chips: two hours, of which so many seconds of steps were done again after ten minutes of nothing.
fn write_run(bench: &Bench, name: &str) {
    let run = bench.path(name);
    let record = TrainingRecord {
        version: TRAINING_RECORD_VERSION,
        device: "TPU v6 lite".into(),
        platform: "tpu".into(),
        devices: 4,
        processes: 1,
        precision: "bf16".into(),
        is_bf16_faster: None,
        peak_flops: None,
        memory_bytes_per_second: None,
        batch_size: 8,
        tokens_per_step: Some(1_000_000),
        steps: 100,
        save_every: None,
        data_workers: 1,
        predicted_step_seconds: None,
    };
    record.write(&run).unwrap();
    let spent = |step_seconds: f64, restore_seconds: f64| Spent { step_seconds, restore_seconds, ..Spent::default() };
    let mut file = GoodputFile::open(&run.join("goodput/0.jsonl"));
    file.write(&Attempt::new(1000.0, 0, 10, spent(3600.0, 0.0)));
    file.write(&Attempt::new(5200.0, 5, 13, spent(2880.0, 120.0)));
}

#[test]
fn runs_are_billed_and_added_up() {
    let bench = Bench::bare();
    write_run(&bench, "runs/a");
    write_run(&bench, "runs/b");
    let report = bench.json(&["cost", "runs", "--region", "us-east5", "--by", "team", "--label", "team=vision"]);
    assert_eq!((&report["version"], &report["jobs"].as_array().unwrap().len()), (&1.into(), &2));
    let close = |found: &serde_json::Value, expected: f64| {
        assert!((found.as_f64().unwrap() - expected).abs() < 1e-9, "{found} {expected}");
    };
    // Four chips at $2.70 for two hours; 1,800 s done again, 600 s between, 120 s of reading.
    close(&report["jobs"][0]["usd"], 21.6);
    close(&report["jobs"][0]["wasted_usd"], 7.56);
    close(&report["jobs"][0]["usd_per_million_tokens"], 21.6 / 13.0);
    close(&report["groups"][0]["usd"], 43.2);
    assert_eq!(report["groups"][0]["label"], "vision");
    close(&report["total"]["goodput"], 0.65);
    let text = bench.expect(0, &["cost", "runs/a", "--price", "spot", "--region", "us-east5"]).stdout;
    // 4 x 1.5437 x 2 = 12.35.
    assert!(text.contains("$12.35") && text.contains("(35 %)") && text.contains("list prices of 2026-08-22"), "{text}");
    let text = bench.expect(0, &["cost", "runs/a", "--price", "1"]).stdout;
    assert!(text.contains("$8.00") && !text.contains("list prices"), "{text}");
}

#[test]
fn what_has_no_cost_is_told() {
    let bench = Bench::bare();
    write_run(&bench, "runs/a");
    std::fs::create_dir(bench.path("empty")).unwrap();
    let folder = bench.path("job");
    let slices = "[run]\ntrain = 't.toml'\n[slices]\ntype = 'v6e-8'\nzones = ['us-east5-a']\n";
    bench.write("job.toml", format!("name = 'tiny'\nfolder = '{}'\n{slices}", folder.display()));
    for (args, expected) in [
        (&["cost", "empty"][..], "holds no run"),
        (&["cost", "nowhere"], "nowhere"),
        (&["cost", "job.toml"], "was never started"),
        (&["cost", "runs", "--price", "cheap"], "`cheap` is no price"),
        (&["cost", "runs", "--price", "NaN"], "`NaN` is no price"),
        (&["cost", "runs", "--region", "moon-north1"], "no such price"),
        (&["cost", "runs", "--label", "team"], "`team` is no label"),
    ] {
        let ran = bench.expect(2, args);
        assert!(ran.stderr.contains(expected) && ran.stderr.contains("hint: "), "{args:?}\n{}", ran.stderr);
    }
}
