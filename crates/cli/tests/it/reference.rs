//! HBM figures against JAX's own `memory_analysis()` for the same program, topology and flags.

use std::path::Path;

use testkit::{Needed, require};

use crate::harness::{Bench, arg};

/// The slice whose topology JAX was given.
fn slice_of(topology: &str) -> String {
    // JAX's names are libtpu's, which our parser reads.
    topology.to_string()
}

/// Compiles every program a `reference.json` lists, from bytecode or from text and bytecode, and compares every figure.
pub(crate) fn check_against(bench: &Bench, folder: &Path) {
    let reference: serde_json::Value =
        serde_json::from_slice(&std::fs::read(folder.join("reference.json")).unwrap()).unwrap();
    let cases = reference["cases"].as_array().unwrap();
    assert!(!cases.is_empty());
    for (at, case) in cases.iter().enumerate() {
        let name = case["name"].as_str().unwrap();
        let slice = slice_of(case["topology"].as_str().unwrap());
        let partitions = case["num_partitions"].to_string();
        let partitioner = if case["shardy"] == true { "shardy" } else { "gspmd" };
        let mut fingerprints = Vec::new();
        // The compiler takes seconds for each: of most programs the form that is sent in practice, of every third the text too.
        let forms = if at.is_multiple_of(3) { 2 } else { 1 };
        for file in [&case["bytecode"], &case["file"]].into_iter().take(forms) {
            let Some(file) = file.as_str() else { continue };
            let program = folder.join(file);
            let record = bench.json(&[
                "compile",
                arg(&program),
                "--slice",
                &slice,
                "--partitions",
                &partitions,
                "--partitioner",
                partitioner,
            ]);
            let memory = &record["report"]["memory"];
            let expected = &case["memory"];
            for (ours, theirs) in [
                ("arguments", "argument_bytes"),
                ("outputs", "output_bytes"),
                ("aliased", "alias_bytes"),
                ("temporaries", "temp_bytes"),
                ("code", "generated_code_bytes"),
                ("peak", "peak_bytes"),
            ] {
                assert_eq!(memory[ours], expected[theirs], "{name} ({file}): {ours}");
            }
            fingerprints.push(record["report"]["fingerprint"].clone());
        }
        assert!(fingerprints.windows(2).all(|pair| pair[0] == pair[1]), "{name}: text and bytecode differ");
    }
}

#[test]
fn figures_equal_jax_memory_analysis() {
    let Some(bench) = Bench::with_libtpu("figures_equal_jax_memory_analysis") else { return };
    let Some(folder) = require("figures_equal_jax_memory_analysis", Needed::Reference) else { return };
    check_against(&bench, &folder);
}
