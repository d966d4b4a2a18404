//! The file probe on real plugins.

use fleet::doctor::{ProbeDepth, probe_file};
use testkit::{Needed, require};

fn check(test: &str, plugin: Needed) {
    let Some(path) = require(test, plugin) else { return };
    let probe = probe_file(&path).unwrap();
    assert_eq!(probe.depth, ProbeDepth::File);
    assert!(probe.file_bytes > 100_000_000);
}

#[test]
fn libtpu_is_a_plugin() {
    check("libtpu_is_a_plugin", Needed::Libtpu);
}

#[test]
fn xla_cpu_is_a_plugin() {
    check("xla_cpu_is_a_plugin", Needed::XlaCpu);
}
