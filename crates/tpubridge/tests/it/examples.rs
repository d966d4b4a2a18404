//! Each example prints what its header says; `…` in a header stands for what varies from machine to machine.

use std::path::{Path, PathBuf};
use std::process::Command;

use testkit::{Needed, repository, require};

/// The output that the header of an example shows.
fn shown(name: &str) -> Vec<String> {
    let source = std::fs::read_to_string(source(name)).unwrap();
    let block = source.split("//! ```text\n").nth(1).and_then(|rest| rest.split("//! ```").next());
    let lines = block.unwrap_or_else(|| panic!("examples/{name}.rs has no ```text block in its header")).lines();
    let mut lines = lines.map(|line| line.trim_start_matches("//!").trim().to_string());
    let command = lines.next().unwrap();
    assert!(command.starts_with("$ cargo run") && command.ends_with(&format!("--example {name}")), "{command}");
    lines.collect()
}

fn source(name: &str) -> PathBuf {
    repository().join("examples").join(format!("{name}.rs"))
}

/// The binary of an example, which cargo builds beside this test.
fn binary(name: &str) -> PathBuf {
    let this = std::env::current_exe().unwrap();
    let folder = this.parent().and_then(Path::parent).unwrap().join("examples");
    let binary = folder.join(format!("{name}{}", std::env::consts::EXE_SUFFIX));
    let changed = |path: &Path| path.metadata().and_then(|found| found.modified());
    let is_current = changed(&binary).is_ok_and(|built| changed(&source(name)).unwrap() <= built);
    assert!(is_current, "{name} is not built: `cargo build -p tpubridge --examples`");
    binary
}

/// Whether a line is as the header has it.
fn fits(line: &str, pattern: &str) -> bool {
    let mut parts = pattern.split('…');
    let Some(mut rest) = line.strip_prefix(parts.next().unwrap_or_default()) else { return false };
    let parts: Vec<&str> = parts.collect();
    if parts.is_empty() {
        return rest.is_empty();
    }
    for (n, part) in parts.iter().enumerate() {
        let found = if n + 1 == parts.len() {
            rest.len().checked_sub(part.len()).filter(|_| rest.ends_with(part))
        } else {
            rest.find(part)
        };
        let Some(at) = found else { return false };
        rest = &rest[at + part.len()..];
    }
    true
}

#[test]
fn patterns_match_what_varies() {
    for (line, pattern, expected) in [
        ("loss 2.31", "loss 2.31", true),
        ("loss 2.31", "loss 2.32", false),
        ("loss 2.31", "loss 2.…", true),
        ("loss 2.31 after", "loss … after", true),
        ("loss 2.31 after", "loss … before", false),
        ("a 1 b 2 c", "a … b … c", true),
        ("a 1 c", "a … b … c", false),
        ("loss", "loss 2", false),
        ("loss 21", "loss 2", false),
    ] {
        assert_eq!(fits(line, pattern), expected, "{line} as {pattern}");
    }
}

fn check_with(name: &str, libtpu: Option<&Path>) {
    let cache = tempfile::tempdir().unwrap();
    let mut command = Command::new(binary(name));
    command.env("TPUBRIDGE_CACHE", cache.path());
    if let Some(libtpu) = libtpu {
        command.env("TPU_LIBRARY_PATH", libtpu);
    }
    let output = command.output().unwrap();
    let (printed, told) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{name} failed: {told}\n{printed}");
    let (lines, shown): (Vec<&str>, Vec<String>) = (printed.lines().collect(), shown(name));
    let is_same = lines.len() == shown.len() && lines.iter().zip(&shown).all(|(line, pattern)| fits(line, pattern));
    assert!(is_same, "examples/{name}.rs shows\n{}\nand printed\n{printed}", shown.join("\n"));
}

fn check(name: &str) {
    check_with(name, None);
}

fn check_with_libtpu(name: &str) {
    if let Some(libtpu) = require(name, Needed::Libtpu) {
        check_with(name, Some(&libtpu));
    }
}

#[test]
fn first_program() {
    check("first_program");
}

#[test]
fn linear_regression() {
    check("linear_regression");
}

#[test]
fn gpt() {
    assert!(std::fs::read_to_string(source("gpt")).unwrap().lines().count() < 120);
    check("gpt");
}

#[test]
fn run_stablehlo() {
    check("run_stablehlo");
}

#[test]
fn mesh() {
    check("mesh");
}

#[test]
fn fit_step() {
    check_with_libtpu("fit_step");
}

#[test]
fn plan_model() {
    check_with_libtpu("plan_model");
}

#[test]
fn tpu_kernel() {
    check_with_libtpu("tpu_kernel");
}

/// What the page that compares GPTs shows of ours is in the example.
#[test]
fn the_page_shows_lines_of_the_example() {
    let page = std::fs::read_to_string(repository().join("docs/explain/gpt-compared.md")).unwrap();
    let example = std::fs::read_to_string(repository().join("examples/gpt.rs")).unwrap();
    let pieces: Vec<&str> = page.split("Ours:\n```rust,ignore\n").skip(1).collect();
    assert!(pieces.len() >= 3, "{} pieces of ours", pieces.len());
    for line in pieces.iter().flat_map(|piece| piece.lines().take_while(|line| *line != "```")) {
        assert!(example.lines().any(|have| have.trim() == line.trim()), "examples/gpt.rs does not have: {line}");
    }
}

/// The JAX version of the page that compares GPTs runs, and learns as the page says.
#[test]
fn the_jax_version_of_the_gpt_runs() {
    let Some(python) = require("the_jax_version_of_the_gpt_runs", Needed::Python) else { return };
    let page = std::fs::read_to_string(repository().join("docs/explain/gpt-compared.md")).unwrap();
    let program = page.split("```python\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let mut command = Command::new(python);
    command.arg("-c").arg(program).arg(repository().join("examples/text/stories.txt")).env("JAX_PLATFORMS", "cpu");
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let printed = String::from_utf8_lossy(&output.stdout);
    let shown = ["112384 parameters", "step   1  loss 4.8…", "step 101  loss 2.…", "The old …"];
    let is_same = printed.lines().count() == shown.len() && printed.lines().zip(shown).all(|(a, b)| fits(a, b));
    assert!(is_same, "{printed}");
}

/// An example that needs the TPU compiler says how to get it where it is not.
#[test]
fn without_a_compiler_examples_say_how_to_get_it() {
    let nowhere = tempfile::tempdir().unwrap();
    let mut command = Command::new(binary("tpu_kernel"));
    command.env_clear().env("HOME", nowhere.path()).env("PATH", nowhere.path());
    let output = command.output().unwrap();
    let printed = String::from_utf8_lossy(&output.stdout);
    let last = printed.lines().last().unwrap_or_default();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(last.starts_with("the TPU compiler (libtpu) is not installed") && last.contains("tpu setup"), "{printed}");
}

/// Examples are written as users write: `tpubridge` alone.
#[test]
fn examples_use_tpubridge_alone() {
    for entry in std::fs::read_dir(repository().join("examples")).unwrap().map(Result::unwrap) {
        if entry.path().extension().is_some_and(|extension| extension == "rs") {
            let text = std::fs::read_to_string(entry.path()).unwrap();
            assert!(text.contains("use tpubridge::prelude::*;"), "{}", entry.path().display());
            for line in text.lines().filter(|line| line.starts_with("use ")) {
                let is_own = line.starts_with("use tpubridge::") || line.starts_with("use std::");
                assert!(is_own && !line.contains("sync::Arc"), "{}: {line}", entry.path().display());
            }
        }
    }
}
