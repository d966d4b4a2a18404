//! Programs of PyTorch on the command line: archives that it wrote, with its own answers.

use testkit::{Needed, require};

use crate::harness::{Bench, arg};

#[test]
fn archives_are_checked_against_pytorch() {
    let Some(folder) = require("archives_are_checked_against_pytorch", Needed::TorchExport) else { return };
    let bench = Bench::bare();
    let record = bench.json(&["check", arg(&folder)]);
    assert_eq!((&record["failed"], &record["skipped"]), (&0.into(), &0.into()), "{record}");
    assert!(record["passed"].as_u64().unwrap() >= 30, "{}", record["passed"]);
}

#[test]
fn an_archive_is_a_program_like_others() {
    let Some(folder) = require("an_archive_is_a_program_like_others", Needed::TorchExport) else { return };
    let bench = Bench::bare();
    let archive = folder.join("mlp.pt2");
    let out = bench.path("mlp.mlir");
    let hlo = bench.json(&["hlo", arg(&archive), "--out", arg(&out)]);
    assert_eq!(hlo["verified"], true, "{hlo}");
    assert!(std::fs::read_to_string(&out).unwrap().contains("params.up.weight"));
    // Weights come from the archive, sizes from the inputs.
    let ran = bench.json(&["run", arg(&archive), "--inputs", arg(&folder.join("mlp.2.npz")), "-d", "cpu"]);
    assert_eq!(ran["results"][0]["name"], "outputs.0", "{ran}");
    bench.json(&["run", arg(&archive), "-d", "cpu"]);
    let refused = bench.expect(2, &["run", arg(&archive), "--inputs", arg(&folder.join("gpt.0.npz")), "-d", "cpu"]);
    assert!(refused.stderr.contains("argument `x` has no value"), "{}", refused.stderr);
    let cut = bench.write("cut.pt2", &std::fs::read(&archive).unwrap()[..5000]);
    let refused = bench.expect(2, &["hlo", arg(&cut)]);
    assert!(refused.stderr.contains("zip") && refused.stderr.contains("hint:"), "{}", refused.stderr);
}
