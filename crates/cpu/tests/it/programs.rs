//! Self-checking programs of this repository: every function without arguments runs and its checks hold.

use std::fs;

use cpu::interpret::{Interpreter, InterpreterOptions};

fn check(file: &str) {
    let path = testkit::repository().join("crates/cpu/tests/programs").join(file);
    let module = hlo::verify(hlo::text::parse(&fs::read_to_string(path).unwrap()).unwrap()).unwrap();
    let interpreter = Interpreter::new(&module, InterpreterOptions::default());
    let entries = module.funcs.iter().filter(|func| func.inputs.is_empty());
    let wrong: Vec<String> = entries
        .filter_map(|func| interpreter.run(&func.name, Vec::new()).err().map(|e| format!("@{}: {e}", func.name)))
        .collect();
    assert!(wrong.is_empty(), "{file}\n{}", wrong.join("\n"));
}

#[test]
fn elementwise() {
    check("elementwise.mlir");
}

#[test]
fn shape() {
    check("shape.mlir");
}

#[test]
fn control_flow() {
    check("control_flow.mlir");
}

#[test]
fn chlo() {
    check("chlo.mlir");
}

#[test]
fn contraction() {
    check("contraction.mlir");
}

#[test]
fn batch_norm() {
    check("batch_norm.mlir");
}

#[test]
fn indexing() {
    check("indexing.mlir");
}

#[test]
fn linear_algebra() {
    check("linear_algebra.mlir");
}

#[test]
fn collectives() {
    check("collectives.mlir");
}

#[test]
fn sparse() {
    check("sparse.mlir");
}
