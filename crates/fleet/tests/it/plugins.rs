//! The file probe on real plugins.

use std::path::Path;

use fleet::doctor::{ProbeDepth, probe_file};

fn check(variable: &str) {
    match std::env::var_os(variable) {
        Some(path) => {
            let probe = probe_file(Path::new(&path)).unwrap();
            assert_eq!(probe.depth, ProbeDepth::File);
            assert!(probe.file_bytes > 100_000_000);
        }
        None => {
            let required = ["CI", "TPUBRIDGE_REQUIRE_ALL"].iter().any(|v| std::env::var_os(v).is_some());
            assert!(!required, "{variable} is not set");
            eprintln!("SKIPPED: {variable} is not set");
        }
    }
}

#[test]
fn libtpu_is_a_plugin() {
    check("TPUBRIDGE_LIBTPU");
}

#[test]
fn xla_cpu_is_a_plugin() {
    check("TPUBRIDGE_XLA_CPU");
}
