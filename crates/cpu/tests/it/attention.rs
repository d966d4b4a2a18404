//! Which programs become attention by tiles, and that all of them give what the interpreter gives.

use std::sync::Arc;

use cpu::{Array, Compiled, Cpu, EngineOptions, ExecutionMode};
use tensor::{DType, Literal};

const QUERIES: usize = 40;
const KEYS: usize = 250;
const WIDTH: usize = 8;

/// How a program's softmax is expected to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Tiles,
    Other,
}

/// What a mask does with scores that are hidden.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hiding {
    Replaced,
    /// Those where the mask is true.
    Filled,
    Added,
}

/// Attention over two heads; `mask` defines `%mask`, and `hidden` is what hides scores.
fn program(mask: &str, hidden: &str, hiding: Hiding) -> String {
    let scores = format!("tensor<2x{QUERIES}x{KEYS}xf32>");
    let bits = format!("tensor<{QUERIES}x{KEYS}xi1>");
    let rows = format!("tensor<2x{QUERIES}xf32>");
    let scores_bits = format!("tensor<2x{QUERIES}x{KEYS}xi1>");
    let hide = match hiding {
        Hiding::Replaced => format!("%score = stablehlo.select %seen, %scaled, %hidden : {scores_bits}, {scores}"),
        Hiding::Filled => format!(
            "%not = stablehlo.not %seen : {scores_bits}
  %score = stablehlo.select %not, %hidden, %scaled : {scores_bits}, {scores}"
        ),
        Hiding::Added => format!(
            "%nothing = stablehlo.constant dense<0.0> : {scores}
  %bias = stablehlo.select %seen, %nothing, %hidden : {scores_bits}, {scores}
  %score = stablehlo.add %scaled, %bias : {scores}"
        ),
    };
    format!(
        "func.func @main(%q: tensor<2x{QUERIES}x{WIDTH}xf32>, %k: tensor<2x{KEYS}x{WIDTH}xf32>, \
         %v: tensor<2x{KEYS}x{WIDTH}xf32>, %data: {bits}) -> tensor<2x{QUERIES}x{WIDTH}xf32> {{
  %dot = stablehlo.dot_general %q, %k, batching_dims = [0] x [0], contracting_dims = [2] x [2] : (tensor<2x{QUERIES}x{WIDTH}xf32>, tensor<2x{KEYS}x{WIDTH}xf32>) -> {scores}
  %scale = stablehlo.constant dense<3.0> : {scores}
  %scaled = stablehlo.divide %dot, %scale : {scores}
  {mask}
  %seen = stablehlo.broadcast_in_dim %mask, dims = [1, 2] : ({bits}) -> {scores_bits}
  %hidden = stablehlo.constant dense<{hidden}> : {scores}
  {hide}
  %least = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %max = stablehlo.reduce(%score init: %least) applies stablehlo.maximum across dimensions = [2] : ({scores}, tensor<f32>) -> {rows}
  %leasts = stablehlo.broadcast_in_dim %least, dims = [] : (tensor<f32>) -> {rows}
  %most = stablehlo.maximum %leasts, %max : {rows}
  %wide = stablehlo.broadcast_in_dim %most, dims = [0, 1] : ({rows}) -> {scores}
  %less = stablehlo.subtract %score, %wide : {scores}
  %e = stablehlo.exponential %less : {scores}
  %sum = stablehlo.reduce(%e init: %zero) applies stablehlo.add across dimensions = [2] : ({scores}, tensor<f32>) -> {rows}
  %sums = stablehlo.broadcast_in_dim %sum, dims = [0, 1] : ({rows}) -> {scores}
  %weight = stablehlo.divide %e, %sums : {scores}
  %out = stablehlo.dot_general %weight, %v, batching_dims = [0] x [0], contracting_dims = [2] x [1] : ({scores}, tensor<2x{KEYS}x{WIDTH}xf32>) -> tensor<2x{QUERIES}x{WIDTH}xf32>
  return %out : tensor<2x{QUERIES}x{WIDTH}xf32>
}}",
    )
}

fn positions(lines: &str) -> String {
    let (whole, bits) = (format!("tensor<{QUERIES}x{KEYS}xi32>"), format!("tensor<{QUERIES}x{KEYS}xi1>"));
    let text = format!(
        "%row = stablehlo.iota dim = 0 : WHOLE
  %column = stablehlo.iota dim = 1 : WHOLE
  %five = stablehlo.constant dense<5> : WHOLE
  {lines}"
    );
    text.replace("WHOLE", &whole).replace("BITS", &bits)
}

/// Numbers of [-1, 1) with some put elsewhere.
fn numbers(rows: usize, seed: u32, odd: &[(usize, f32)]) -> Literal {
    let mut state = seed;
    let mut values: Vec<f32> = (0..2 * rows * WIDTH)
        .map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) as f32 / (1 << 23) as f32 - 1.0
        })
        .collect();
    for &(at, value) in odd {
        values[at] = value;
    }
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    Literal::new(DType::F32, [2, rows, WIDTH], bytes).expect("bytes of the shape")
}

fn results(cpu: &Arc<Cpu>, text: &str, mode: ExecutionMode, odd: &[(usize, f32)]) -> (Vec<f32>, String) {
    let module = hlo::text::parse(text).and_then(hlo::verify).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let compiled =
        Compiled::from_module(cpu, module, &EngineOptions { mode, ..EngineOptions::default() }).expect("it compiles");
    let data: Vec<u8> = (0..QUERIES * KEYS).map(|n| u8::from(n % 3 != 0)).collect();
    let literals = [
        numbers(QUERIES, 1, &[]),
        numbers(KEYS, 2, odd),
        numbers(KEYS, 3, odd),
        Literal::new(DType::Bool, [QUERIES, KEYS], data).expect("bytes of the shape"),
    ];
    let arguments = || literals.iter().map(|l| Array::from_literal(cpu.memory(), l).expect("memory")).collect();
    let out = compiled.run(vec![arguments()], &Default::default()).expect("it runs");
    #[cfg(unix)]
    crate::guarded::check(&compiled, arguments(), &out[0], &Default::default())
        .expect("steps stay within their arrays");
    let floats = out[0][0].bytes().chunks(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect();
    (floats, compiled.dump())
}

fn check(mask: &str, hidden: &str, way: Way) {
    for hiding in [Hiding::Replaced, Hiding::Filled, Hiding::Added] {
        check_program(&program(mask, hidden, hiding), way);
    }
}

fn check_program(text: &str, way: Way) {
    for threads in [1, 2] {
        let cpu = Cpu::new(Some(threads));
        for odd in [&[][..], &[(9, f32::NAN)], &[(KEYS * WIDTH - 1, f32::INFINITY)], &[(700, f32::NEG_INFINITY)]] {
            let (got, dump) = results(&cpu, text, ExecutionMode::Compiled, odd);
            assert_eq!(dump.contains("by tiles"), way == Way::Tiles, "{dump}\n{text}");
            let (wanted, _) = results(&cpu, text, ExecutionMode::Interpreted, odd);
            for (n, (a, b)) in got.iter().zip(&wanted).enumerate() {
                let is_near = a == b || a.is_nan() && b.is_nan() || (a - b).abs() < 1e-5;
                assert!(is_near, "element {n}: {a} compiled, {b} interpreted, {odd:?}\n{text}");
            }
        }
    }
}

#[test]
fn masks_of_positions() {
    let causal = positions("%mask = stablehlo.compare GE, %row, %column, SIGNED : (WHOLE, WHOLE) -> BITS");
    for hidden in ["-1.0e9", "0xFF800000", "-3.0e38"] {
        check(&causal, hidden, Way::Tiles);
    }
    let window = positions(
        "%on = stablehlo.compare GE, %row, %column, SIGNED : (WHOLE, WHOLE) -> BITS
  %past = stablehlo.subtract %row, %five : WHOLE
  %near = stablehlo.compare LT, %past, %column, SIGNED : (WHOLE, WHOLE) -> BITS
  %mask = stablehlo.and %on, %near : BITS",
    );
    check(&window, "-1.0e9", Way::Tiles);
}

#[test]
fn masks_that_are_constants() {
    let bytes: String = (0..QUERIES * KEYS).map(|n| if n % KEYS <= n / KEYS + 4 { "01" } else { "00" }).collect();
    check(
        &format!("%mask = stablehlo.constant dense<\"0x{bytes}\"> : tensor<{QUERIES}x{KEYS}xi1>"),
        "-1.0e9",
        Way::Tiles,
    );
}

#[test]
fn masks_that_are_data_or_weigh() {
    check(&format!("%mask = stablehlo.and %data, %data : tensor<{QUERIES}x{KEYS}xi1>"), "-1.0e9", Way::Other);
    // Rows that see nothing, numbers that hide too little, and two runs in a row.
    let none = positions(
        "%past = stablehlo.subtract %row, %five : WHOLE
  %mask = stablehlo.compare GT, %past, %column, SIGNED : (WHOLE, WHOLE) -> BITS",
    );
    check(&none, "-1.0e9", Way::Other);
    let causal = positions("%mask = stablehlo.compare GE, %row, %column, SIGNED : (WHOLE, WHOLE) -> BITS");
    check(&causal, "-20.0", Way::Other);
    let other = positions("%mask = stablehlo.compare NE, %row, %column, SIGNED : (WHOLE, WHOLE) -> BITS");
    check(&other, "-1.0e9", Way::Other);
}
