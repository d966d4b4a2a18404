//! StableHLO's own self-checking programs, run by the reference interpreter and compiled.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cpu::interpret::InterpreterOptions;
use cpu::{Compiled, Cpu, EngineOptions, Error, ExecutionMode, Folding};
use testkit::{Needed, repository, require};

/// Ops one program may execute; the suites need far fewer.
const MAX_STEPS: u64 = 50_000_000;

/// What compiled programs do differently, by file and function.
const DIFFERENT_COMPILED: &[&str] = &[
    // Numbers too small for the normal range count as zero.
    "ceil.mlir::ceil_op_test_bf16",
    "ceil.mlir::ceil_op_test_f32",
    "ceil.mlir::ceil_op_test_f64",
    "floor.mlir::floor_op_test_bf16",
    "floor.mlir::floor_op_test_f32",
    "floor.mlir::floor_op_test_f64",
    // Terms that cancel, added in another order: 4 units in the last place where 3 are allowed.
    "conv_general_dilated_float32_2_3_9_float32_12_1_3.mlir::main",
];

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
fn run(cpu: &Arc<Cpu>, mode: ExecutionMode, name: &str, text: &str, tally: &mut Tally) {
    let module = match hlo::text::parse(text).and_then(hlo::verify) {
        Ok(module) => module,
        Err(error) => return tally.failed.push(format!("{name}: {error}")),
    };
    let entries: Vec<String> = match module.func("main") {
        Some(main) => vec![main.name.to_string()],
        None => module.funcs.iter().map(|func| func.name.to_string()).collect(),
    };
    let limits = InterpreterOptions { max_steps: Some(MAX_STEPS), ..InterpreterOptions::default() };
    for entry in entries {
        if module.func(&entry).is_some_and(|func| !func.inputs.is_empty()) {
            continue;
        }
        // Inputs are constants: folded, they would never reach a kernel.
        let options =
            EngineOptions { mode, folding: Folding::Nothing, entry: Some(&entry), ..EngineOptions::default() };
        let compiled = Compiled::from_module(cpu, module.clone(), &options);
        match compiled.and_then(|compiled| compiled.run(vec![Vec::new()], &limits)) {
            Ok(_) => tally.passed += 1,
            Err(error @ Error::Unsupported { .. }) => tally.unsupported.push(format!("{name}::{entry}: {error}")),
            Err(error) => tally.failed.push(format!("{name}::{entry}: {error}")),
        }
    }
}

/// Every `stride`-th program of a folder.
fn suite(cpu: &Arc<Cpu>, mode: ExecutionMode, folder: &Path, stride: usize) -> Tally {
    let mut tally = Tally::default();
    let only = std::env::var("TPUBRIDGE_CONFORMANCE_ONLY").unwrap_or_default();
    for path in programs(folder).into_iter().step_by(stride) {
        let text = fs::read_to_string(&path).unwrap();
        // The suite's own mark: not even the reference of its authors gives these results.
        if text.contains("RUN-DISABLED") {
            tally.disabled += 1;
            continue;
        }
        for (n, part) in text.split("// -----").enumerate() {
            let name = format!("{}#{n}", path.file_name().unwrap().to_string_lossy());
            if name.contains(&only) {
                run(cpu, mode, &name, part, &mut tally);
            }
        }
    }
    tally
}

/// An archive of the suites and a fetch from their repository give the same programs.
#[test]
fn the_suite_is_the_listed_one() {
    let Some(folder) = require("the_suite_is_the_listed_one", Needed::Conformance) else { return };
    let list = fs::read_to_string(repository().join("crates/cpu/conformance/suite.txt")).unwrap();
    let listed: Vec<&str> = list.lines().filter(|line| line.ends_with(".mlir")).collect();
    let testdata = folder.join("testdata");
    let names = programs(&testdata).into_iter();
    let found: Vec<String> =
        names.map(|path| path.strip_prefix(&testdata).unwrap().to_string_lossy().into_owned()).collect();
    assert_eq!(found, listed);
}

#[test]
fn self_checking_programs_pass_interpreted() {
    check("self_checking_programs_pass_interpreted", ExecutionMode::Interpreted, &Cpu::new(None), 1);
}

#[test]
fn self_checking_programs_pass_compiled() {
    check("self_checking_programs_pass_compiled", ExecutionMode::Compiled, &Cpu::new(None), 1);
}

/// The same checks, within the same tolerances, on the instruction sets of other processors.
#[test]
fn self_checking_programs_pass_on_lower_tiers() {
    for cpu in crate::corpus::lower_tiers() {
        check("self_checking_programs_pass_on_lower_tiers", ExecutionMode::Compiled, &cpu, 5);
    }
}

fn check(test: &str, mode: ExecutionMode, cpu: &Arc<Cpu>, stride: usize) {
    let Some(folder) = require(test, Needed::Conformance) else { return };
    let mut wrong = Vec::new();
    for part in ["interpret", "testdata"] {
        let tally = suite(cpu, mode, &folder.join(part), stride);
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
    if mode == ExecutionMode::Compiled {
        let name = |line: &str| {
            let (file, rest) = line.split_once('#').unwrap_or((line, ""));
            let function = rest.split_once("::").map_or("", |(_, rest)| rest.split(':').next().unwrap_or_default());
            format!("{file}::{function}")
        };
        let found: Vec<String> = wrong.iter().map(|line| name(line)).collect();
        wrong.retain(|line| !DIFFERENT_COMPILED.contains(&&*name(line)));
        let passed = DIFFERENT_COMPILED.iter().filter(|known| !found.iter().any(|name| name == *known));
        if stride == 1 {
            wrong.extend(passed.map(|known| format!("{known} passes now: it must leave the list")));
        }
    }
    assert!(wrong.is_empty(), "{} programs fail on {}:\n{}", wrong.len(), cpu.isa(), wrong.join("\n"));
}
