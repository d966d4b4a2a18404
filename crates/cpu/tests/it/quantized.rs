//! Programs with quantized weights: narrow factors are read as they are, and give what the interpreter gives.

use cpu::interpret::InterpreterOptions;
use cpu::{Array, Compiled, Cpu, EngineOptions, ExecutionMode};
use tensor::{DType, Literal};

#[cfg(unix)]
use crate::guarded;

/// Small numbers whose products and sums are exact.
fn literal(dtype: DType, dims: &[usize]) -> Literal {
    let element = |n: usize| {
        let value = (n * 7 + n / 5 + n / 64) % 23;
        let bits = match dtype {
            _ if dtype.is_float() => tensor::encode_float(dtype, value as f64 / 4.0 - 2.5).unwrap(),
            DType::I32 => (value % 3) as u64,
            DType::I8 => (value as i64 - 11) as u64,
            // Callers leave anything above the bits of an element.
            _ => value as u64 * 11,
        };
        bits.to_le_bytes()[..dtype.size_bytes()].to_vec()
    };
    let count: usize = dims.iter().product();
    Literal::new(dtype, dims, (0..count).flat_map(element).collect::<Vec<u8>>()).unwrap()
}

/// Runs `@main` as compiled, with one thread and with two, in fenced memory, and by the interpreter: all agree to the bit.
/// Steps must have all these kinds, and none of those.
fn check(text: &str, arguments: &[(DType, &[usize])], kinds: &[&str], others: &[&str]) {
    let run = |cpu: &std::sync::Arc<Cpu>, mode: ExecutionMode| {
        let options = EngineOptions { mode, ..EngineOptions::default() };
        let compiled = Compiled::compile(cpu, text.as_bytes(), &options).unwrap_or_else(|e| panic!("{e}\n{text}"));
        let array = |(dtype, dims): &(DType, &[usize])| Array::from_literal(cpu.memory(), &literal(*dtype, dims));
        let arrays = || arguments.iter().map(array).collect::<Result<Vec<_>, _>>().unwrap();
        let limits = InterpreterOptions::default();
        let results = compiled.run(vec![arrays()], &limits).unwrap().remove(0);
        if mode == ExecutionMode::Compiled {
            assert_eq!(compiled.why_interpreted(), None, "{text}");
            #[cfg(unix)]
            guarded::check(&compiled, arrays(), &results, &limits).unwrap_or_else(|e| panic!("{e}\n{text}"));
        }
        let literals: Vec<Literal> = results.iter().map(Array::to_literal).collect();
        (literals, compiled.dump())
    };
    let (expected, _) = run(&Cpu::new(Some(1)), ExecutionMode::Interpreted);
    for threads in [1, 2] {
        let (results, dump) = run(&Cpu::new(Some(threads)), ExecutionMode::Compiled);
        for kind in kinds {
            assert!(dump.contains(kind), "no {kind} in\n{dump}\n{text}");
        }
        for kind in others {
            assert!(!dump.contains(kind), "{kind} in\n{dump}\n{text}");
        }
        assert!(results == expected, "{threads} threads\n{dump}\n{text}");
    }
}

/// `x · convert(w)` times a scale a column.
fn weight_only(x: DType, w: DType, rows: usize, k: usize, n: usize) -> String {
    format!(
        "func.func @main(%x: tensor<{rows}x{k}x{x}>, %w: tensor<{k}x{n}x{w}>, %s: tensor<1x{n}xf32>) -> tensor<{rows}x{n}xf32> {{
  %c = stablehlo.convert %w : (tensor<{k}x{n}x{w}>) -> tensor<{k}x{n}x{x}>
  %d = stablehlo.dot_general %x, %c, contracting_dims = [1] x [0] : (tensor<{rows}x{k}x{x}>, tensor<{k}x{n}x{x}>) -> tensor<{rows}x{n}xf32>
  %r = stablehlo.reshape %s : (tensor<1x{n}xf32>) -> tensor<{n}xf32>
  %b = stablehlo.broadcast_in_dim %r, dims = [1] : (tensor<{n}xf32>) -> tensor<{rows}x{n}xf32>
  %y = stablehlo.multiply %d, %b : tensor<{rows}x{n}xf32>
  return %y : tensor<{rows}x{n}xf32>
}}"
    )
}

#[test]
fn weights_are_read_as_they_are() {
    let types = [DType::I8, DType::U8, DType::I4, DType::U4, DType::I2, DType::F8E4M3FN, DType::F8E5M2];
    for w in types {
        for x in [DType::F32, DType::BF16] {
            for rows in [1, 3, 9] {
                let (k, n) = (40, 136);
                let arguments: [(DType, &[usize]); 3] = [(x, &[rows, k]), (w, &[k, n]), (DType::F32, &[1, n])];
                let dot = format!("dot {x} by {w}");
                check(&weight_only(x, w, rows, k, n), &arguments, &[&dot], &["unpack", "loop<convert>", "copy"]);
            }
        }
    }
}

#[test]
fn rows_that_end_within_a_byte_are_unpacked() {
    for (w, n) in [(DType::I4, 7), (DType::U2, 6), (DType::I2, 33)] {
        let arguments: [(DType, &[usize]); 3] = [(DType::F32, &[2, 9]), (w, &[9, n]), (DType::F32, &[1, n])];
        check(&weight_only(DType::F32, w, 2, 9, n), &arguments, &["unpack"], &[]);
    }
}

#[test]
fn small_integers_come_and_go_packed() {
    for (dtype, count) in [(DType::I4, 13), (DType::U4, 200_001), (DType::I2, 70_003), (DType::U2, 4)] {
        let text = format!(
            "func.func @main(%x: tensor<{count}x{dtype}>) -> (tensor<{count}x{dtype}>, tensor<{count}x{dtype}>, tensor<{count}xi8>) {{
  %y = stablehlo.add %x, %x : tensor<{count}x{dtype}>
  %z = stablehlo.convert %x : (tensor<{count}x{dtype}>) -> tensor<{count}xi8>
  return %x, %y, %z : tensor<{count}x{dtype}>, tensor<{count}x{dtype}>, tensor<{count}xi8>
}}"
        );
        check(&text, &[(dtype, &[count])], &["unpack", "pack"], &[]);
    }
}

/// A loop over layers whose weights are slices of one stacked argument.
#[test]
fn slices_of_stacked_weights_are_not_copied() {
    for w in [DType::I8, DType::I4, DType::F8E4M3FN] {
        let text = format!(
            "func.func @main(%x: tensor<2x32xf32>, %w: tensor<3x32x32x{w}>) -> tensor<2x32xf32> {{
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %three = stablehlo.constant dense<3> : tensor<i32>
  %r:2 = stablehlo.while(%a = %x, %k = %zero) : tensor<2x32xf32>, tensor<i32>
  cond {{
    %c = stablehlo.compare LT, %k, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  }} do {{
    %s = stablehlo.dynamic_slice %w, %k, %zero, %zero, sizes = [1, 32, 32] : (tensor<3x32x32x{w}>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x32x32x{w}>
    %v = stablehlo.reshape %s : (tensor<1x32x32x{w}>) -> tensor<32x32x{w}>
    %f = stablehlo.convert %v : (tensor<32x32x{w}>) -> tensor<32x32xf32>
    %d = stablehlo.dot_general %a, %f, contracting_dims = [1] x [0] : (tensor<2x32xf32>, tensor<32x32xf32>) -> tensor<2x32xf32>
    %g = stablehlo.sign %d : tensor<2x32xf32>
    %m = stablehlo.add %k, %one : tensor<i32>
    stablehlo.return %g, %m : tensor<2x32xf32>, tensor<i32>
  }}
  return %r#0 : tensor<2x32xf32>
}}"
        );
        let arguments: [(DType, &[usize]); 2] = [(DType::F32, &[2, 32]), (w, &[3, 32, 32])];
        let dot = format!("dot f32 by {w}");
        check(&text, &arguments, &["dynamic_slice in place", &dot], &["unpack", "loop<convert>"]);
    }
}

#[test]
fn an_index_beyond_a_stack_takes_its_last_slice() {
    let text = "func.func @main(%w: tensor<3x4x8xf32>, %i: tensor<i32>) -> tensor<4x8xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %hundred = stablehlo.constant dense<100> : tensor<i32>
  %j = stablehlo.add %i, %hundred : tensor<i32>
  %s = stablehlo.dynamic_slice %w, %j, %zero, %zero, sizes = [1, 4, 8] : (tensor<3x4x8xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x4x8xf32>
  %v = stablehlo.reshape %s : (tensor<1x4x8xf32>) -> tensor<4x8xf32>
  %y = stablehlo.negate %v : tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}";
    check(text, &[(DType::F32, &[3, 4, 8]), (DType::I32, &[])], &["dynamic_slice in place"], &[]);
}

/// Partial sums by group, times their scales, added up.
fn by_group(x: DType, w: DType, rows: usize, groups: usize, k: usize, n: usize) -> String {
    let sums = format!("tensor<{groups}x{rows}x{n}xf32>");
    let (xs, ws) = (format!("tensor<{rows}x{groups}x{k}x{x}>"), format!("tensor<{groups}x{k}x{n}x{x}>"));
    let whole = groups * k;
    format!(
        "func.func @main(%x: tensor<{rows}x{whole}x{x}>, %w: tensor<{whole}x{n}x{w}>, %s: tensor<{groups}x{n}xf32>) -> tensor<{rows}x{n}xf32> {{
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %xs = stablehlo.reshape %x : (tensor<{rows}x{whole}x{x}>) -> {xs}
  %c = stablehlo.convert %w : (tensor<{whole}x{n}x{w}>) -> tensor<{whole}x{n}x{x}>
  %ws = stablehlo.reshape %c : (tensor<{whole}x{n}x{x}>) -> {ws}
  %d = stablehlo.dot_general %xs, %ws, batching_dims = [1] x [0], contracting_dims = [2] x [1] : ({xs}, {ws}) -> {sums}
  %b = stablehlo.broadcast_in_dim %s, dims = [0, 2] : (tensor<{groups}x{n}xf32>) -> {sums}
  %p = stablehlo.multiply %d, %b : {sums}
  %y = stablehlo.reduce(%p init: %zero) applies stablehlo.add across dimensions = [0] : ({sums}, tensor<f32>) -> tensor<{rows}x{n}xf32>
  return %y : tensor<{rows}x{n}xf32>
}}"
    )
}

/// The same of a weight whose outputs are rows.
fn by_group_of_rows(x: DType, w: DType, rows: usize, groups: usize, k: usize, n: usize) -> String {
    let sums = format!("tensor<{groups}x{rows}x{n}xf32>");
    let (xs, ws) = (format!("tensor<{rows}x{groups}x{k}x{x}>"), format!("tensor<{n}x{groups}x{k}x{x}>"));
    let whole = groups * k;
    format!(
        "func.func @main(%x: tensor<{rows}x{whole}x{x}>, %w: tensor<{n}x{whole}x{w}>, %s: tensor<{n}x{groups}xf32>) -> tensor<{rows}x{n}xf32> {{
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %xs = stablehlo.reshape %x : (tensor<{rows}x{whole}x{x}>) -> {xs}
  %c = stablehlo.convert %w : (tensor<{n}x{whole}x{w}>) -> tensor<{n}x{whole}x{x}>
  %ws = stablehlo.reshape %c : (tensor<{n}x{whole}x{x}>) -> {ws}
  %d = stablehlo.dot_general %xs, %ws, batching_dims = [1] x [1], contracting_dims = [2] x [2] : ({xs}, {ws}) -> {sums}
  %t = stablehlo.transpose %s, dims = [1, 0] : (tensor<{n}x{groups}xf32>) -> tensor<{groups}x{n}xf32>
  %b = stablehlo.broadcast_in_dim %t, dims = [0, 2] : (tensor<{groups}x{n}xf32>) -> {sums}
  %p = stablehlo.multiply %d, %b : {sums}
  %y = stablehlo.reduce(%p init: %zero) applies stablehlo.add across dimensions = [0] : ({sums}, tensor<f32>) -> tensor<{rows}x{n}xf32>
  return %y : tensor<{rows}x{n}xf32>
}}"
    )
}

#[test]
fn groups_of_large_weights_are_one_step() {
    let sizes = [(1, 9, 32, 519), (3, 16, 16, 530), (7, 5, 64, 545), (20, 18, 16, 550), (32, 3, 96, 512)];
    for (x, w) in [(DType::F32, DType::U8), (DType::BF16, DType::I8), (DType::BF16, DType::I4)] {
        for (rows, groups, k, n) in sizes {
            let whole = groups * k;
            let arguments: [(DType, &[usize]); 3] = [(x, &[rows, whole]), (w, &[whole, n]), (DType::F32, &[groups, n])];
            check(&by_group(x, w, rows, groups, k, n), &arguments, &["by group"], &[]);
            let arguments: [(DType, &[usize]); 3] = [(x, &[rows, whole]), (w, &[n, whole]), (DType::F32, &[n, groups])];
            check(&by_group_of_rows(x, w, rows, groups, k, n), &arguments, &["by group"], &[]);
        }
    }
}

#[test]
fn groups_are_one_step() {
    for (x, w) in
        [(DType::F32, DType::I4), (DType::BF16, DType::I8), (DType::BF16, DType::U4), (DType::F32, DType::F8E4M3FN)]
    {
        for (rows, groups, k, n) in [(1, 5, 32, 264), (2, 3, 16, 40), (7, 4, 64, 128), (1, 2, 8, 4500)] {
            let arguments: [(DType, &[usize]); 3] =
                [(x, &[rows, groups * k]), (w, &[groups * k, n]), (DType::F32, &[groups, n])];
            check(&by_group(x, w, rows, groups, k, n), &arguments, &["by group"], &["unpack", "loop<convert>"]);
        }
    }
}

#[test]
fn integers_and_mixed_types_without_conversions() {
    let program = |x: DType, w: DType, out: DType| {
        format!(
            "func.func @main(%x: tensor<5x70x{x}>, %w: tensor<70x48x{w}>) -> tensor<5x48x{out}> {{
  %d = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<5x70x{x}>, tensor<70x48x{w}>) -> tensor<5x48x{out}>
  return %d : tensor<5x48x{out}>
}}"
        )
    };
    for (x, w, out) in [
        (DType::I8, DType::I8, DType::I32),
        (DType::I8, DType::I4, DType::I32),
        (DType::BF16, DType::I4, DType::F32),
        (DType::F32, DType::I8, DType::F32),
        (DType::F8E4M3FN, DType::F8E4M3FN, DType::F32),
        (DType::F8E4M3FN, DType::F8E5M2, DType::BF16),
        (DType::F64, DType::I8, DType::F64),
    ] {
        check(&program(x, w, out), &[(x, &[5, 70]), (w, &[70, 48])], &["dot"], &["interpret"]);
    }
}
