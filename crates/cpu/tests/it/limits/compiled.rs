//! The same for compiled programs: too large, too deep, too long, or endless, they end in an error or a result.

use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use cpu::interpret::InterpreterOptions;
use cpu::{Array, Compiled, Cpu, EngineOptions, Error, Folding};
use tensor::{DType, Literal};

fn options() -> InterpreterOptions {
    InterpreterOptions { max_steps: Some(100_000), ..InterpreterOptions::default() }
}

/// Compiles and runs a program on zeros of `f32`.
fn run(text: &str, arguments: &[&[usize]], options: &InterpreterOptions) -> Result<Vec<Array>, Error> {
    let cpu = Cpu::new(Some(2));
    let choice = EngineOptions { folding: Folding::Nothing, ..EngineOptions::default() };
    let compiled = Compiled::compile(&cpu, text.as_bytes(), &choice)?;
    let array = |dims: &&[usize]| Array::from_literal(cpu.memory(), &Literal::zeros(DType::F32, *dims).unwrap());
    let arguments = arguments.iter().map(array).collect::<Result<Vec<_>, _>>()?;
    Ok(compiled.run(vec![arguments], options)?.remove(0))
}

fn check_fails(text: &str, expected: &str) {
    let error = run(text, &[], &options()).unwrap_err();
    assert!(error.to_string().contains(expected), "{error:?} does not say `{expected}`");
}

/// The first element of the first result.
fn first(results: &[Array]) -> f32 {
    f32::from_le_bytes(results[0].bytes()[..4].try_into().unwrap())
}

/// Its result is returned and changes: other loops are not run at all.
const ENDLESS: &str = "func.func @main(%a: tensor<f32>) -> tensor<f32> {
  %b = stablehlo.while(%i = %a) : tensor<f32>
  cond {
    %c = stablehlo.compare EQ, %i, %a : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %d = stablehlo.add %i, %i : tensor<f32>
    stablehlo.return %d : tensor<f32>
  }
  func.return %b : tensor<f32>
}";

#[test]
fn an_endless_loop_is_stopped() {
    let error = run(ENDLESS, &[&[]], &options()).unwrap_err();
    assert!(matches!(&error, Error::Exhausted(text) if text.contains("more than 100000 steps")), "{error:?}");
    let stop = Arc::new(AtomicBool::new(false));
    let other = stop.clone();
    let limits = InterpreterOptions { stop: Some(stop), ..InterpreterOptions::default() };
    let running = std::thread::spawn(move || run(ENDLESS, &[&[]], &limits));
    other.store(true, Ordering::Relaxed);
    assert!(matches!(running.join().unwrap(), Err(Error::Interrupted)));
}

#[test]
fn more_memory_than_the_machine_has_is_refused() {
    // Looked at only in part, so that nothing is folded away.
    let sized = |size: &str| {
        format!(
            "func.func @main() -> tensor<f32> {{
  %a = stablehlo.iota dim = 0 : tensor<{size}xf32>
  %b = stablehlo.reverse %a, dims = [0] : tensor<{size}xf32>
  %zero = stablehlo.constant dense<0> : tensor<i64>
  %c = \"stablehlo.sort\"(%b) <{{dimension = 0 : i64}}> ({{
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %z = stablehlo.compare LT, %x, %y : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %z : tensor<i1>
  }}) : (tensor<{size}xf32>) -> tensor<{size}xf32>
  %d = stablehlo.dynamic_slice %c, %zero, sizes = [1] : (tensor<{size}xf32>, tensor<i64>) -> tensor<1xf32>
  %e = stablehlo.reshape %d : (tensor<1xf32>) -> tensor<f32>
  func.return %e : tensor<f32>
}}"
        )
    };
    check_fails(&sized("200000000000"), "the machine has no");
    // So many that even sums of sizes would not fit: the interpreter takes it, and has limits of its own.
    check_fails(&sized("1000000000000000"), "elements");
    let limits = InterpreterOptions { max_bytes: Some(1 << 20), ..options() };
    let error = run(&sized("1000000"), &[], &limits).unwrap_err();
    assert!(error.to_string().contains("working memory"), "{error}");
}

#[test]
fn a_gigantic_constant_costs_one_element() {
    let text = "func.func @main(%i: tensor<1xf32>) -> tensor<1xf32> {
  %a = stablehlo.constant dense<7.0> : tensor<100000x1000000xf32>
  %b = stablehlo.slice %a [5:6, 7:8] : (tensor<100000x1000000xf32>) -> tensor<1x1xf32>
  %c = stablehlo.reshape %b : (tensor<1x1xf32>) -> tensor<1xf32>
  %d = stablehlo.add %c, %i : tensor<1xf32>
  func.return %d : tensor<1xf32>
}";
    assert_eq!(first(&run(text, &[&[1]], &options()).unwrap()), 7.0);
}

#[test]
fn sizes_of_zero_run() {
    let text = "func.func @main(%a: tensor<0x3xf32>, %b: tensor<3x0xf32>) -> (tensor<f32>, tensor<0x0xf32>, tensor<3x3xf32>, tensor<3xf32>, tensor<0x3xf32>) {
  %zero = stablehlo.constant dense<5.0> : tensor<f32>
  %0 = stablehlo.reduce(%a init: %zero) applies stablehlo.add across dimensions = [0, 1] : (tensor<0x3xf32>, tensor<f32>) -> tensor<f32>
  %1 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<0x3xf32>, tensor<3x0xf32>) -> tensor<0x0xf32>
  %2 = stablehlo.dot_general %b, %a, contracting_dims = [1] x [0] : (tensor<3x0xf32>, tensor<0x3xf32>) -> tensor<3x3xf32>
  %t = stablehlo.tanh %2 : tensor<3x3xf32>
  %3 = stablehlo.reduce(%a init: %zero) applies stablehlo.maximum across dimensions = [0] : (tensor<0x3xf32>, tensor<f32>) -> tensor<3xf32>
  %4 = stablehlo.exponential %a : tensor<0x3xf32>
  func.return %0, %1, %t, %3, %4 : tensor<f32>, tensor<0x0xf32>, tensor<3x3xf32>, tensor<3xf32>, tensor<0x3xf32>
}";
    let results = run(text, &[&[0, 3], &[3, 0]], &options()).unwrap();
    let floats = |n: usize| -> Vec<f32> {
        results[n].bytes().chunks(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect()
    };
    assert_eq!((floats(0), floats(1), floats(2), floats(3)), (vec![5.0], vec![], vec![0.0; 9], vec![5.0; 3]));
}

/// `depth` branches in each other, around one op.
fn nested(depth: usize) -> String {
    let mut text = String::from(
        "func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {\n  %yes = stablehlo.constant dense<true> : tensor<i1>\n",
    );
    for n in 0..depth {
        let _ = writeln!(text, "  %r{n} = \"stablehlo.if\"(%yes) ({{");
    }
    text.push_str("  %x = stablehlo.cosine %a : tensor<4xf32>\n  stablehlo.return %x : tensor<4xf32>\n");
    for n in (0..depth).rev() {
        text.push_str("  }, {\n  stablehlo.return %a : tensor<4xf32>\n  }) : (tensor<i1>) -> tensor<4xf32>\n");
        let end = if n == 0 { "func.return" } else { "stablehlo.return" };
        let _ = writeln!(text, "  {end} %r{n} : tensor<4xf32>");
    }
    text.push_str("}\n");
    text
}

#[test]
fn deep_nesting_runs_or_is_refused() {
    for depth in [10, 100, 400, 5000] {
        match run(&nested(depth), &[&[4]], &options()) {
            Ok(results) => assert_eq!(first(&results), 1.0),
            Err(error) => assert!(depth > 100 && !matches!(error, Error::Internal(_)), "{depth}: {error:?}"),
        }
    }
}

/// A chain of `count` ops, each made by `link` from the value before it and its number.
fn chain(count: usize, link: impl Fn(&str, usize) -> String) -> String {
    let mut text = String::from("func.func @main(%a: tensor<3x5xf32>) -> tensor<3x5xf32> {\n");
    let mut last = "%a".to_string();
    for n in 0..count {
        let _ = writeln!(text, "  %v{n} = {}", link(&last, n));
        last = format!("%v{n}");
    }
    let _ = writeln!(text, "  func.return {last} : tensor<3x5xf32>\n}}");
    text
}

fn check_chain(count: usize, link: impl Fn(&str, usize) -> String, expected: f32) {
    assert_eq!(first(&run(&chain(count, link), &[&[3, 5]], &options()).unwrap()), expected);
}

#[test]
fn long_chains_run() {
    check_chain(10_000, |v, _| format!("stablehlo.add {v}, %a : tensor<3x5xf32>"), 0.0);
    check_chain(10_000, |v, n| format!("stablehlo.reverse {v}, dims = [{}] : tensor<3x5xf32>", n % 2), 0.0);
    let barrier = |v: &str, n: usize| match n % 2 {
        0 => format!("stablehlo.cosine {v} : tensor<3x5xf32>"),
        _ => format!("stablehlo.optimization_barrier {v} : tensor<3x5xf32>"),
    };
    assert!(run(&chain(4000, barrier), &[&[3, 5]], &options()).is_ok());
    let update = |v: &str, _: usize| {
        format!(
            "stablehlo.dynamic_update_slice {v}, %a, %i, %i : (tensor<3x5xf32>, tensor<3x5xf32>, tensor<i32>, tensor<i32>) -> tensor<3x5xf32>"
        )
    };
    let text = chain(3000, update).replacen("{\n", "{\n  %i = stablehlo.constant dense<1> : tensor<i32>\n", 1);
    assert!(run(&text, &[&[3, 5]], &options()).is_ok());
}

#[test]
fn one_value_used_by_thousands_runs() {
    let count = 3000;
    let mut text = String::from(
        "func.func @main(%a: tensor<7xf32>) -> tensor<21000xf32> {\n  %b = stablehlo.cosine %a : tensor<7xf32>\n",
    );
    for n in 0..count {
        let _ = writeln!(
            text,
            "  %c{n} = stablehlo.constant dense<{n}.0> : tensor<7xf32>\n  %v{n} = stablehlo.add %b, %c{n} : tensor<7xf32>"
        );
    }
    let names: Vec<String> = (0..count).map(|n| format!("%v{n}")).collect();
    let types = vec!["tensor<7xf32>"; count].join(", ");
    let _ =
        writeln!(text, "  %r = stablehlo.concatenate {}, dim = 0 : ({types}) -> tensor<21000xf32>", names.join(", "));
    text.push_str("  func.return %r : tensor<21000xf32>\n}\n");
    let results = run(&text, &[&[7]], &options()).unwrap();
    assert_eq!(first(&results), 1.0);
    assert_eq!(results[0].bytes()[4 * 20_999..], 3000f32.to_le_bytes());
}

#[test]
fn a_concatenation_of_thousands_runs() {
    let count = 5000;
    let names = vec!["%a"; count].join(", ");
    let types = vec!["tensor<2xf32>"; count].join(", ");
    let text = format!(
        "func.func @main(%a: tensor<2xf32>) -> tensor<10000xf32> {{
  %r = stablehlo.concatenate {names}, dim = 0 : ({types}) -> tensor<10000xf32>
  func.return %r : tensor<10000xf32>
}}"
    );
    assert_eq!(run(&text, &[&[2]], &options()).unwrap()[0].dims(), [10_000]);
}

#[test]
fn thousands_of_loops_in_a_row_run() {
    let link = |v: &str, n: usize| {
        format!(
            "stablehlo.while(%x{n} = {v}) : tensor<3x5xf32>
  cond {{
    %c{n} = stablehlo.constant dense<false> : tensor<i1>
    stablehlo.return %c{n} : tensor<i1>
  }} do {{
    %y{n} = stablehlo.cosine %x{n} : tensor<3x5xf32>
    stablehlo.return %y{n} : tensor<3x5xf32>
  }}"
        )
    };
    check_chain(1000, link, 0.0);
}
