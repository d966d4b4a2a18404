//! Programs that break the specification, each with the findings expected of it; and programs that must not.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use hlo::ops::{OpView, Symbols};
use hlo::{Error, Module, OpKind, Processes};
use testkit::{Golden, Needed, golden_files};

const SPLIT: &str = "// -----";

/// Renders a file of programs with what the verifier says of each, as `// finding:` lines at its top.
fn render(text: &str, judge: impl Fn(&str) -> Vec<String>) -> String {
    let mut parts = Vec::new();
    for part in text.split(SPLIT) {
        let program: Vec<&str> = part.trim().lines().filter(|line| !line.starts_with("// finding:")).collect();
        let program = program.join("\n");
        let mut findings = judge(&program);
        if findings.is_empty() {
            findings.push("none".into());
        }
        let lines: String = findings.iter().map(|finding| format!("// finding: {finding}\n")).collect();
        parts.push(format!("{lines}{program}\n"));
    }
    parts.join(&format!("\n{SPLIT}\n\n"))
}

fn parse(program: &str) -> Module {
    hlo::text::parse(program).unwrap_or_else(|e| panic!("{e}\n{program}"))
}

fn say(finding: &hlo::Finding) -> String {
    hlo::Finding { source: None, ..finding.clone() }.to_string()
}

fn check_folder(folder: &str, judge: impl Fn(&str) -> Vec<String>) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(folder);
    for file in golden_files(&folder, ".mlir") {
        let text = std::fs::read_to_string(&file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
        Golden::new(&file).check(&render(&text, &judge));
    }
}

#[test]
fn findings_are_those_written_beside_the_programs() {
    check_folder("verify", |program| match hlo::verify(parse(program)) {
        Ok(_) => Vec::new(),
        Err(Error::Verify(findings)) => findings.iter().map(say).collect(),
        Err(other) => panic!("{other}"),
    });
}

#[test]
fn what_the_tpu_compiler_dies_on_is_found_before_it_runs() {
    let processes = Processes { replicas: 1, partitions: 4 };
    check_folder("verify/tpu", |program| {
        let module = hlo::verify(parse(program)).unwrap_or_else(|e| panic!("{e}\n{program}"));
        hlo::unsupported_by_tpu(&module, processes).iter().map(say).collect()
    });
}

#[test]
fn every_op_has_rules_or_needs_none() {
    let free: BTreeSet<&str> = [
        "stablehlo.return",
        "func.return",
        "sdy.return",
        "sdy.sharding_group",
        "interpreter.print",
        "check.expect_serialized_eq",
    ]
    .into();
    for &kind in OpKind::ALL {
        let def = kind.def();
        let has_rules = def.infer.is_some() || !std::ptr::fn_addr_eq(def.check, OpKind::Return.def().check);
        assert_ne!(has_rules, free.contains(kind.name()), "{}", kind.name());
    }
}

fn programs(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut pending = vec![folder.to_path_buf()];
    while let Some(folder) = pending.pop() {
        for entry in std::fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display())).flatten() {
            let path = entry.path();
            if path.is_dir() {
                pending.push(path);
            } else if path.extension().is_some_and(|ending| ending == "mlir") {
                files.push(path);
            }
        }
    }
    files.sort();
    files
}

/// Inferred types are the written ones, not merely compatible, where nothing is quantized.
fn check_inference(module: &Module, file: &Path) {
    let symbols = Symbols::of(module);
    for func in &module.funcs {
        for id in func.walk() {
            let op = func.op(id);
            let Some(infer) = op.kind().and_then(|kind| kind.def().infer) else { continue };
            let operands: Vec<_> = op.operands.iter().map(|&value| func.ty(value).clone()).collect();
            let results: Vec<_> = op.results().map(|value| func.ty(value).clone()).collect();
            let view = OpView {
                operands: &operands,
                values: &op.operands,
                attrs: &op.attrs,
                regions: &op.regions,
                results: &[],
                func,
                symbols: Some(&symbols),
            };
            let is_free = |ty: &hlo::Type| {
                ty.as_tensor().is_some_and(|t| !t.is_static() || matches!(t.element, hlo::ElementType::Quantized(_)))
            };
            if results.iter().any(is_free) {
                continue;
            }
            let inferred = (infer.types)(&view);
            assert_eq!(inferred.as_ref(), Ok(&results), "{}: {}", file.display(), op.name.as_str());
        }
    }
}

fn check_programs(folder: &Path) {
    let files = programs(folder);
    assert!(!files.is_empty(), "{} holds no programs", folder.display());
    let mut refused = Vec::new();
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
        for part in text.split(SPLIT) {
            // What the reader refuses is the business of its own tests.
            let Ok(module) = hlo::text::parse(part) else { continue };
            check_inference(&module, &file);
            if let Err(error) = hlo::verify(module) {
                refused.push(format!("{}: {error}", file.display()));
            }
        }
    }
    assert!(refused.is_empty(), "{}", refused.join("\n"));
}

#[test]
fn programs_of_jax_verify() {
    if let Some(folder) = testkit::require("programs_of_jax_verify", Needed::Corpus) {
        check_programs(&folder);
    }
}

#[test]
fn programs_of_pytorch_verify() {
    if let Some(folder) = testkit::require("programs_of_pytorch_verify", Needed::TorchCorpus) {
        check_programs(&folder);
    }
}

#[test]
fn conformance_programs_verify() {
    if let Some(folder) = testkit::require("conformance_programs_verify", Needed::Conformance) {
        for part in ["interpret", "testdata"] {
            check_programs(&folder.join(part));
        }
    }
}
