//! JAX as a client of the plugin: training, transformations, sharded programs, compared with NumPy.

use std::process::Command;

use testkit::{Needed, repository, require};

use crate::plugin::library;

/// Runs every check; `num_ok` of them are possible on that many devices.
fn run(test: &str, devices: usize, num_ok: usize) {
    let Some(python) = require(test, Needed::Python) else { return };
    let script = repository().join("crates/testkit/python/jax_client.py");
    let mut command = Command::new(python);
    command.arg(script).arg(library()).arg(devices.to_string());
    // Nothing of the machine's may choose another platform.
    for name in ["JAX_PLATFORMS", "XLA_FLAGS", "PJRT_NAMES_AND_LIBRARY_PATHS"] {
        command.env_remove(name);
    }
    let output = command.output().unwrap();
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{stdout}\n{stderr}");
    assert_eq!(stdout.lines().filter(|line| line.starts_with("ok ")).count(), num_ok, "{stdout}");
}

#[test]
fn jax_runs_on_one_device() {
    run("jax_runs_on_one_device", 1, 14);
}

#[test]
fn jax_runs_on_eight_devices() {
    run("jax_runs_on_eight_devices", 8, 22);
}
