//! Programs that ask for too much, or for what is not there, get an error that says so.

mod compiled;

use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use cpu::Error;
use cpu::interpret::{Interpreter, InterpreterOptions};

fn run(text: &str, options: InterpreterOptions) -> Error {
    let module = hlo::verify(hlo::text::parse(text).unwrap()).unwrap();
    Interpreter::new(&module, options).run("main", Vec::new()).unwrap_err()
}

fn check(text: &str, expected: &str) {
    let error = run(text, InterpreterOptions { max_steps: Some(10_000), ..InterpreterOptions::default() });
    assert!(error.to_string().contains(expected), "{error:?} does not say `{expected}`");
}

const ENDLESS: &str = "func.func @main() {
  %a = stablehlo.constant dense<true> : tensor<i1>
  %b = stablehlo.while(%i = %a) : tensor<i1>
  cond {
    stablehlo.return %i : tensor<i1>
  } do {
    stablehlo.return %i : tensor<i1>
  }
  func.return
}";

#[test]
fn an_endless_loop_is_stopped() {
    check(ENDLESS, "more than 10000 ops were executed");
    let stop = Arc::new(AtomicBool::new(true));
    assert_eq!(
        run(ENDLESS, InterpreterOptions { stop: Some(stop), ..InterpreterOptions::default() }),
        Error::Interrupted
    );
}

#[test]
fn huge_tensors_are_refused_before_they_are_made() {
    check(
        "func.func @main() {
  %a = stablehlo.constant dense<0> : tensor<1000000x1000000xi8>
  func.return
}",
        "more than 268435456 elements",
    );
    check(
        "func.func @main() {
  %shape = stablehlo.constant dense<[9223372036854775807, 2]> : tensor<2xi64>
  %a = stablehlo.dynamic_iota %shape, dim = 0 : (tensor<2xi64>) -> tensor<?x?xi32>
  func.return
}",
        "more than 268435456 elements",
    );
    check(
        "func.func @main() {
  %shape = stablehlo.constant dense<[4]> : tensor<1xi64>
  %less = stablehlo.negate %shape : tensor<1xi64>
  %a = stablehlo.dynamic_iota %less, dim = 0 : (tensor<1xi64>) -> tensor<?xi32>
  func.return
}",
        "the result has sizes [-4]",
    );
}

#[test]
fn values_together_are_bounded() {
    let text = "func.func @main() {
  %a = stablehlo.constant dense<0> : tensor<100xi32>
  %b = stablehlo.add %a, %a : tensor<100xi32>
  func.return
}";
    let error = run(text, InterpreterOptions { max_bytes: Some(2000), ..InterpreterOptions::default() });
    assert_eq!(error, Error::Exhausted("the values of the program take more than 2000 bytes".into()));
}

#[test]
fn deep_calls_are_refused() {
    let mut text = String::from("func.func @main() {\n  func.call @f0() : () -> ()\n  func.return\n}\n");
    for n in 0..1000 {
        let _ = write!(text, "func.func @f{n}() {{\n  func.call @f{}() : () -> ()\n  func.return\n}}\n", n + 1);
    }
    text.push_str("func.func @f1000() {\n  func.return\n}\n");
    check(&text, "nest deeper than 400");
}

#[test]
fn unknown_custom_calls_are_named() {
    let call = |target: &str| {
        format!(
            "func.func @main() {{
  %a = stablehlo.constant dense<0> : tensor<i32>
  %b = stablehlo.custom_call @{target}(%a) : (tensor<i32>) -> tensor<i32>
  func.return
}}"
        )
    };
    check(&call("my_kernel"), "not supported on this device: custom call @my_kernel");
    check(&call("xla_ffi_python_cpu_callback"), "calls back into the host program");
}

#[test]
fn failed_checks_tell_where() {
    check(
        "func.func @main() {
  %a = stablehlo.constant dense<[[1, 2], [3, 4]]> : tensor<2x2xi32>
  check.expect_eq_const %a, dense<[[1, 2], [3, 5]]> : tensor<2x2xi32>
  func.return
}",
        "check failed: at [1, 1] expected 5, got 4",
    );
}

#[test]
fn sizes_that_turn_out_not_to_fit_are_told() {
    check(
        "func.func private @any(%n: tensor<1xi64>) -> tensor<?xi32> {
  %a = stablehlo.dynamic_iota %n, dim = 0 : (tensor<1xi64>) -> tensor<?xi32>
  func.return %a : tensor<?xi32>
}
func.func @main() {
  %two = stablehlo.constant dense<[2]> : tensor<1xi64>
  %three = stablehlo.constant dense<[3]> : tensor<1xi64>
  %a = func.call @any(%two) : (tensor<1xi64>) -> tensor<?xi32>
  %b = func.call @any(%three) : (tensor<1xi64>) -> tensor<?xi32>
  %c = stablehlo.add %a, %b : tensor<?xi32>
  func.return
}",
        "stablehlo.add: the operands have sizes [2] and [3]",
    );
    check(
        "func.func private @any(%n: tensor<1xi64>) -> tensor<?xi64> {
  %a = stablehlo.dynamic_iota %n, dim = 0 : (tensor<1xi64>) -> tensor<?xi64>
  func.return %a : tensor<?xi64>
}
func.func @main() {
  %two = stablehlo.constant dense<[2]> : tensor<1xi64>
  %three = stablehlo.constant dense<[3]> : tensor<1xi64>
  %a = func.call @any(%two) : (tensor<1xi64>) -> tensor<?xi64>
  %b = func.call @any(%three) : (tensor<1xi64>) -> tensor<?xi64>
  %c = \"stablehlo.map\"(%a, %b) ({
  ^bb0(%x: tensor<i64>, %y: tensor<i64>):
    stablehlo.return %y : tensor<i64>
  }) {dimensions = array<i64: 0>} : (tensor<?xi64>, tensor<?xi64>) -> tensor<?xi64>
  func.return
}",
        "stablehlo.map: the operands have sizes [2] and [3]",
    );
}
