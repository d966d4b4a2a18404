//! Every kind of kernel runs in fenced memory, touches what it declares, and gives what it gives elsewhere.
#![cfg(unix)]

use cpu::interpret::InterpreterOptions;
use cpu::{Array, Compiled, Cpu, EngineOptions, Error, Folding};
use tensor::{DType, Literal};

/// Runs a compiled program in fenced memory: its steps stay within what they declare, and the results are these.
pub(crate) fn check(
    compiled: &Compiled,
    arguments: Vec<Array>,
    results: &[Array],
    options: &InterpreterOptions,
) -> Result<(), Error> {
    let Some(guarded) = compiled.run_guarded(arguments, options)? else { return Ok(()) };
    let differs = guarded.iter().zip(results).position(|(a, b)| *a.bytes() != *b.bytes());
    match differs {
        Some(n) => Err(Error::Internal(format!("result {n} is another in fenced memory\n{}", compiled.dump()))),
        None if guarded.len() != results.len() => Err(Error::Internal("another number of results".into())),
        None => Ok(()),
    }
}

/// Small numbers of any type, some of them negative.
fn literal(dtype: DType, dims: &[usize]) -> Literal {
    let count: usize = dims.iter().product();
    let element = |n: usize| {
        let value = (n * 7 + n / 5) % 23;
        let part = dtype.complex_part().unwrap_or(dtype);
        let bits = match part {
            DType::Bool => (value % 2) as u64,
            _ if part.is_float() => tensor::encode_float(part, value as f64 / 4.0 - 2.5).unwrap(),
            _ => value as u64,
        };
        bits.to_le_bytes()[..part.size_bytes()].repeat(dtype.size_bytes() / part.size_bytes())
    };
    Literal::new(dtype, dims, (0..count).flat_map(element).collect::<Vec<u8>>()).unwrap()
}

/// Runs `@main` of a program with these arguments; its steps must have all these kinds.
fn check_program(text: &str, arguments: &[(DType, &[usize])], kinds: &[&str]) {
    for threads in [1, 2] {
        let cpu = Cpu::new(Some(threads));
        let options = EngineOptions { folding: Folding::Nothing, ..EngineOptions::default() };
        let compiled = Compiled::compile(&cpu, text.as_bytes(), &options).unwrap_or_else(|e| panic!("{e}\n{text}"));
        assert_eq!(compiled.why_interpreted(), None, "{text}");
        let dump = compiled.dump();
        for kind in kinds {
            assert!(dump.contains(kind), "no {kind} in\n{dump}\n{text}");
        }
        let arrays = || {
            let array = |(dtype, dims): &(DType, &[usize])| Array::from_literal(cpu.memory(), &literal(*dtype, dims));
            arguments.iter().map(array).collect::<Result<Vec<_>, _>>().unwrap()
        };
        let limits = InterpreterOptions::default();
        let results = compiled.run(vec![arrays()], &limits).unwrap().remove(0);
        check(&compiled, arrays(), &results, &limits).unwrap_or_else(|error| panic!("{error}\n{dump}\n{text}"));
    }
}

use DType::{BF16, Bool, C64, F32, F64, I8, I32, U64};

#[test]
fn dots_and_what_finishes_them() {
    for (m, k, n) in [(1, 5, 3), (3, 300, 17), (33, 47, 65), (130, 64, 100)] {
        for (dtype, ty) in [(F32, "f32"), (F64, "f64"), (BF16, "bf16")] {
            check_program(
                &format!(
                    "func.func @main(%a: tensor<2x{m}x{k}x{ty}>, %b: tensor<{n}x{k}x2x{ty}>, %c: tensor<2x{m}x{n}x{ty}>)
    -> (tensor<2x{m}x{n}x{ty}>, tensor<2x{m}x{n}x{ty}>) {{
  %d = stablehlo.dot_general %a, %b, batching_dims = [0] x [2], contracting_dims = [2] x [1] : (tensor<2x{m}x{k}x{ty}>, tensor<{n}x{k}x2x{ty}>) -> tensor<2x{m}x{n}x{ty}>
  %e = stablehlo.add %d, %c : tensor<2x{m}x{n}x{ty}>
  %f = stablehlo.tanh %e : tensor<2x{m}x{n}x{ty}>
  return %e, %f : tensor<2x{m}x{n}x{ty}>, tensor<2x{m}x{n}x{ty}>
}}"
                ),
                &[(dtype, &[2, m, k]), (dtype, &[n, k, 2]), (dtype, &[2, m, n])],
                &["dot "],
            );
        }
    }
    check_program(
        "func.func @main(%a: tensor<7x19xi8>, %b: tensor<19x9xi8>) -> tensor<7x9xi32> {
  %d = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<7x19xi8>, tensor<19x9xi8>) -> tensor<7x9xi32>
  return %d : tensor<7x9xi32>
}",
        &[(I8, &[7, 19]), (I8, &[19, 9])],
        &["dot "],
    );
}

/// The right factor stays the same in all rounds, and is packed before them.
#[test]
fn loops_branches_and_what_is_prepared_for_them() {
    check_program(
        "func.func @main(%x: tensor<12x70xf32>, %w: tensor<70x70xf32>, %n: tensor<i32>, %i: tensor<i32>)
    -> (tensor<12x70xf32>, tensor<12x70xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %five = stablehlo.constant dense<5> : tensor<i32>
  %r:2 = stablehlo.while(%a = %x, %k = %zero) : tensor<12x70xf32>, tensor<i32>
  cond {
    %c = stablehlo.compare LT, %k, %five : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %d = stablehlo.dot_general %a, %w, contracting_dims = [1] x [0] : (tensor<12x70xf32>, tensor<70x70xf32>) -> tensor<12x70xf32>
    %e = stablehlo.tanh %d : tensor<12x70xf32>
    %m = stablehlo.add %k, %one : tensor<i32>
    stablehlo.return %e, %m : tensor<12x70xf32>, tensor<i32>
  }
  %s = \"stablehlo.case\"(%i) ({
    %p = stablehlo.negate %r#0 : tensor<12x70xf32>
    stablehlo.return %p : tensor<12x70xf32>
  }, {
    stablehlo.return %x : tensor<12x70xf32>
  }) : (tensor<i32>) -> tensor<12x70xf32>
  return %r#0, %s : tensor<12x70xf32>, tensor<12x70xf32>
}",
        &[(F32, &[12, 70]), (F32, &[70, 70]), (I32, &[]), (I32, &[])],
        &["while(", "pack for dot", "case(", "copy "],
    );
}

#[test]
fn convolutions() {
    let conv = |input: &str, filter: &str, result: &str, rest: &str| {
        format!(
            "func.func @main(%x: tensor<{input}xf32>, %w: tensor<{filter}xf32>) -> tensor<{result}xf32> {{
  %y = stablehlo.convolution(%x, %w) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], {rest} : (tensor<{input}xf32>, tensor<{filter}xf32>) -> tensor<{result}xf32>
  return %y : tensor<{result}xf32>
}}"
        )
    };
    let one = "feature_group_count = 1 : i64, batch_group_count = 1 : i64";
    let check = |text: String, input: &[usize], filter: &[usize], kinds: &[&str]| {
        check_program(&text, &[(F32, input), (F32, filter)], kinds);
    };
    let padded = format!(
        "window = {{stride = [2, 1], pad = [[1, 2], [0, 1]], lhs_dilate = [1, 2], rhs_dilate = [2, 1]}} {{{one}}}"
    );
    check(conv("2x9x7x3", "3x2x3x5", "2x4x13x5", &padded), &[2, 9, 7, 3], &[3, 2, 3, 5], &["convolution"]);
    let plain = format!("window = {{stride = [1, 1]}} {{{one}}}");
    check(conv("2x9x7x3", "1x1x3x5", "2x9x7x5", &plain), &[2, 9, 7, 3], &[1, 1, 3, 5], &["dot "]);
    check(conv("1x40x40x16", "3x3x16x32", "1x38x38x32", &plain), &[1, 40, 40, 16], &[3, 3, 16, 32], &["convolution"]);
    let channels = "window = {stride = [1, 1]} {feature_group_count = 6 : i64, batch_group_count = 1 : i64}";
    check(conv("2x9x7x6", "3x3x1x6", "2x7x5x6", channels), &[2, 9, 7, 6], &[3, 3, 1, 6], &["convolution"]);
    let batches = "window = {stride = [1, 1]} {feature_group_count = 1 : i64, batch_group_count = 2 : i64}";
    check(conv("4x9x7x3", "8x6x3x6", "2x2x2x6", batches), &[4, 9, 7, 3], &[8, 6, 3, 6], &["convolution"]);
}

#[test]
fn indices_known_only_at_run_time() {
    check_program(
        "func.func @main(%x: tensor<10x7xf32>, %i: tensor<5x1xi32>, %u: tensor<5x7xf32>, %a: tensor<i32>, %b: tensor<i32>, %p: tensor<3x2xf32>)
    -> (tensor<5x7xf32>, tensor<10x7xf32>, tensor<10x7xf32>, tensor<4x3xf32>, tensor<10x7xf32>) {
  %g = \"stablehlo.gather\"(%x, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 7>}> : (tensor<10x7xf32>, tensor<5x1xi32>) -> tensor<5x7xf32>
  %s = \"stablehlo.scatter\"(%x, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
  ^bb0(%l: tensor<f32>, %r: tensor<f32>):
    %t = stablehlo.add %l, %r : tensor<f32>
    stablehlo.return %t : tensor<f32>
  }) : (tensor<10x7xf32>, tensor<5x1xi32>, tensor<5x7xf32>) -> tensor<10x7xf32>
  %o = \"stablehlo.scatter\"(%x, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
  ^bb0(%l: tensor<f32>, %r: tensor<f32>):
    %t = stablehlo.multiply %l, %r : tensor<f32>
    %v = stablehlo.subtract %t, %r : tensor<f32>
    stablehlo.return %v : tensor<f32>
  }) : (tensor<10x7xf32>, tensor<5x1xi32>, tensor<5x7xf32>) -> tensor<10x7xf32>
  %d = stablehlo.dynamic_slice %x, %a, %b, sizes = [4, 3] : (tensor<10x7xf32>, tensor<i32>, tensor<i32>) -> tensor<4x3xf32>
  %w = stablehlo.dynamic_update_slice %x, %p, %a, %b : (tensor<10x7xf32>, tensor<3x2xf32>, tensor<i32>, tensor<i32>) -> tensor<10x7xf32>
  return %g, %s, %o, %d, %w : tensor<5x7xf32>, tensor<10x7xf32>, tensor<10x7xf32>, tensor<4x3xf32>, tensor<10x7xf32>
}",
        &[(F32, &[10, 7]), (I32, &[5, 1]), (F32, &[5, 7]), (I32, &[]), (I32, &[]), (F32, &[3, 2])],
        &["gather(", "scatter(", "dynamic_slice(", "dynamic_update_slice("],
    );
}

#[test]
fn movement_and_loops() {
    check_program(
        "func.func @main(%x: tensor<6x11xf32>, %y: tensor<6x5xf32>, %v: tensor<f32>, %z: tensor<300x40xbf16>)
    -> (tensor<6x16xf32>, tensor<9x25xf32>, tensor<11x6xf32>, tensor<6xf32>, tensor<11xf32>, tensor<40xbf16>, tensor<300x40xi1>) {
  %c = stablehlo.concatenate %x, %y, dim = 1 : (tensor<6x11xf32>, tensor<6x5xf32>) -> tensor<6x16xf32>
  %p = stablehlo.pad %x, %v, low = [1, -1], high = [2, 5], interior = [0, 1] : (tensor<6x11xf32>, tensor<f32>) -> tensor<9x25xf32>
  %t = stablehlo.transpose %x, dims = [1, 0] : (tensor<6x11xf32>) -> tensor<11x6xf32>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %r = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<6x11xf32>, tensor<f32>) -> tensor<6xf32>
  %s = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<6x11xf32>, tensor<f32>) -> tensor<11xf32>
  %n = stablehlo.constant dense<0.0> : tensor<bf16>
  %m = stablehlo.reduce(%z init: %n) applies stablehlo.add across dimensions = [0] : (tensor<300x40xbf16>, tensor<bf16>) -> tensor<40xbf16>
  %q = stablehlo.compare LT, %z, %z : (tensor<300x40xbf16>, tensor<300x40xbf16>) -> tensor<300x40xi1>
  return %c, %p, %t, %r, %s, %m, %q : tensor<6x16xf32>, tensor<9x25xf32>, tensor<11x6xf32>, tensor<6xf32>, tensor<11xf32>, tensor<40xbf16>, tensor<300x40xi1>
}",
        &[(F32, &[6, 11]), (F32, &[6, 5]), (F32, &[]), (BF16, &[300, 40])],
        &["concatenate", "pad(", "copy ", "loop<"],
    );
}

#[test]
fn sorts_searches_windows_and_generators() {
    check_program(
        "func.func @main(%x: tensor<5x30xf32>, %k: tensor<5x30xi32>, %e: tensor<4x9xf32>, %s: tensor<2xui64>, %c: tensor<3x8xcomplex<f32>>, %u: tensor<2x4xf32>)
    -> (tensor<5x30xf32>, tensor<5x30xi32>, tensor<5x4xf32>, tensor<5x4xi32>, tensor<5xf32>, tensor<5xi32>, tensor<4x8xf32>, tensor<4x9xf32>, tensor<2xui64>, tensor<7xui32>, tensor<3x8xcomplex<f32>>, tensor<3x14xf32>) {
  %o:2 = \"stablehlo.sort\"(%x, %k) <{dimension = 1 : i64, is_stable = true}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>, %i: tensor<i32>, %j: tensor<i32>):
    %l = stablehlo.compare LT, %a, %b, TOTALORDER : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %l : tensor<i1>
  }) : (tensor<5x30xf32>, tensor<5x30xi32>) -> (tensor<5x30xf32>, tensor<5x30xi32>)
  %t:2 = chlo.top_k(%x, k = 4) : tensor<5x30xf32> -> (tensor<5x4xf32>, tensor<5x4xi32>)
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %none = stablehlo.constant dense<0> : tensor<i32>
  %r:2 = stablehlo.reduce(%x init: %zero), (%k init: %none) across dimensions = [1] : (tensor<5x30xf32>, tensor<5x30xi32>, tensor<f32>, tensor<i32>) -> (tensor<5xf32>, tensor<5xi32>)
   reducer(%a: tensor<f32>, %b: tensor<f32>) (%i: tensor<i32>, %j: tensor<i32>) {
    %l = stablehlo.compare GT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %v = stablehlo.select %l, %a, %b : tensor<i1>, tensor<f32>
    %w = stablehlo.select %l, %i, %j : tensor<i1>, tensor<i32>
    stablehlo.return %v, %w : tensor<f32>, tensor<i32>
  }
  %q = \"stablehlo.reduce_window\"(%e, %zero) <{window_dimensions = array<i64: 1, 2>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %l = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %l : tensor<f32>
  }) : (tensor<4x9xf32>, tensor<f32>) -> tensor<4x8xf32>
  %p = \"stablehlo.select_and_scatter\"(%e, %u, %zero) <{window_dimensions = array<i64: 2, 2>, window_strides = array<i64: 2, 2>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %l = stablehlo.compare GE, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %l : tensor<i1>
  }, {
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %l = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %l : tensor<f32>
  }) : (tensor<4x9xf32>, tensor<2x4xf32>, tensor<f32>) -> tensor<4x9xf32>
  %g:2 = stablehlo.rng_bit_generator %s, algorithm = THREE_FRY : (tensor<2xui64>) -> (tensor<2xui64>, tensor<7xui32>)
  %f = stablehlo.fft %c, type = FFT, length = [8] : (tensor<3x8xcomplex<f32>>) -> tensor<3x8xcomplex<f32>>
  %h = stablehlo.fft %c, type = IRFFT, length = [14] : (tensor<3x8xcomplex<f32>>) -> tensor<3x14xf32>
  return %o#0, %o#1, %t#0, %t#1, %r#0, %r#1, %q, %p, %g#0, %g#1, %f, %h : tensor<5x30xf32>, tensor<5x30xi32>, tensor<5x4xf32>, tensor<5x4xi32>, tensor<5xf32>, tensor<5xi32>, tensor<4x8xf32>, tensor<4x9xf32>, tensor<2xui64>, tensor<7xui32>, tensor<3x8xcomplex<f32>>, tensor<3x14xf32>
}",
        &[(F32, &[5, 30]), (I32, &[5, 30]), (F32, &[4, 9]), (U64, &[2]), (C64, &[3, 8]), (F32, &[2, 4])],
        &["sort(", "top_k(", "reduce(", "reduce_window(", "select_and_scatter(", "rng_bit_generator(", "fft("],
    );
}

#[test]
fn ops_without_a_kernel() {
    check_program(
        "func.func @main(%x: tensor<4x4xf32>, %p: tensor<i1>) -> (tensor<4x4xf32>, tensor<4x4xf32>) {
  %c = stablehlo.cholesky %x, lower = true : tensor<4x4xf32>
  %s = \"stablehlo.if\"(%p) ({
    %a = stablehlo.add %c, %x : tensor<4x4xf32>
    stablehlo.return %a : tensor<4x4xf32>
  }, {
    stablehlo.return %x : tensor<4x4xf32>
  }) : (tensor<i1>) -> tensor<4x4xf32>
  return %c, %s : tensor<4x4xf32>, tensor<4x4xf32>
}",
        &[(F32, &[4, 4]), (Bool, &[])],
        &["interpret ", "case("],
    );
}
