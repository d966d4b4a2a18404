//! StableHLO's own self-checking programs, run by the reference interpreter.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use cpu::Error;
use cpu::interpret::{Interpreter, Options};
use testkit::{Needed, require};

/// Ops one program may execute; the suites need far fewer.
const MAX_STEPS: u64 = 50_000_000;

#[derive(Default)]
struct Tally {
    passed: usize,
    disabled: usize,
    failed: Vec<String>,
    unsupported: Vec<String>,
}

fn programs(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut pending = vec![folder.to_path_buf()];
    while let Some(folder) = pending.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                pending.push(path);
            } else if path.extension().is_some_and(|ext| ext == "mlir") {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// Runs `@main`, or every function that takes nothing.
fn run(name: &str, text: &str, tally: &mut Tally) {
    let module = match hlo::text::parse(text).and_then(hlo::verify) {
        Ok(module) => module,
        Err(error) => return tally.failed.push(format!("{name}: {error}")),
    };
    let entries: Vec<String> = match module.func("main") {
        Some(main) => vec![main.name.to_string()],
        None => module.funcs.iter().map(|func| func.name.to_string()).collect(),
    };
    let interpreter = Interpreter::new(&module, Options { max_steps: Some(MAX_STEPS), ..Options::default() });
    for entry in entries {
        if module.func(&entry).is_some_and(|func| !func.inputs.is_empty()) {
            continue;
        }
        match interpreter.run(&entry, Vec::new()) {
            Ok(_) => tally.passed += 1,
            Err(error @ Error::Unsupported { .. }) => tally.unsupported.push(format!("{name}::{entry}: {error}")),
            Err(error) => tally.failed.push(format!("{name}::{entry}: {error}")),
        }
    }
}

fn suite(folder: &Path) -> Tally {
    let mut tally = Tally::default();
    let only = std::env::var("TPUBRIDGE_CONFORMANCE_ONLY").unwrap_or_default();
    for path in programs(folder) {
        let text = fs::read_to_string(&path).unwrap();
        // The suite's own mark: not even the reference of its authors gives these results.
        if text.contains("RUN-DISABLED") {
            tally.disabled += 1;
            continue;
        }
        for (n, part) in text.split("// -----").enumerate() {
            let name = format!("{}#{n}", path.file_name().unwrap().to_string_lossy());
            if name.contains(&only) {
                run(&name, part, &mut tally);
            }
        }
    }
    tally
}

#[test]
fn self_checking_programs_pass() {
    let Some(folder) = require("self_checking_programs_pass", Needed::Conformance) else { return };
    let mut wrong = Vec::new();
    for part in ["interpret", "testdata"] {
        let tally = suite(&folder.join(part));
        let mut reasons: BTreeMap<&str, usize> = BTreeMap::new();
        for line in &tally.unsupported {
            *reasons.entry(line.split(": ").last().unwrap_or_default()).or_default() += 1;
        }
        eprintln!(
            "{part}: {} passed, {} failed, {} unsupported, {} disabled by the suite",
            tally.passed,
            tally.failed.len(),
            tally.unsupported.len(),
            tally.disabled
        );
        eprintln!("{reasons:?}");
        wrong.extend(tally.failed);
    }
    assert!(wrong.is_empty(), "{} programs fail:\n{}", wrong.len(), wrong.join("\n"));
}
