//! Programs whose types or names promise what is not so: refused before they run, or run as the interpreter runs them;
//! and what XLA does where the specification leaves room.

use std::fs;

use cpu::interpret::{Interpreter, InterpreterOptions};
use cpu::{Array, Compiled, Cpu, EngineOptions, Error, ExecutionMode, Folding};
use tensor::{DType, Literal};

fn options(mode: ExecutionMode) -> EngineOptions<'static> {
    EngineOptions { mode, folding: Folding::Nothing, ..EngineOptions::default() }
}

/// Compiles a program and runs it on zeros of its types; bytes of the results.
fn run(text: &str, options: EngineOptions<'_>, arguments: &[(DType, &[usize])]) -> Result<Vec<Vec<u8>>, Error> {
    let cpu = Cpu::new(Some(2));
    let compiled = Compiled::compile(&cpu, text.as_bytes(), &options)?;
    let zeros =
        |&(dtype, dims): &(DType, &[usize])| Array::from_literal(cpu.memory(), &Literal::zeros(dtype, dims).unwrap());
    let arguments = arguments.iter().map(zeros).collect::<Result<Vec<_>, _>>()?;
    let results = compiled.run(vec![arguments], &InterpreterOptions::default())?.remove(0);
    Ok(results.iter().map(|array| array.bytes().to_vec()).collect())
}

/// Both engines give the same bytes, whatever is computed before the run.
fn check_agrees(text: &str, arguments: &[(DType, &[usize])]) -> Vec<Vec<u8>> {
    let interpreted = run(text, options(ExecutionMode::Interpreted), arguments).unwrap();
    for folding in [Folding::Constants, Folding::Nothing] {
        let options = EngineOptions { folding, ..options(ExecutionMode::Compiled) };
        assert_eq!(run(text, options, arguments).unwrap(), interpreted, "{text}");
    }
    interpreted
}

/// Every program of a file of lies is refused by the device in either mode, with the finding that stands above it.
#[test]
fn what_the_verifier_finds_never_runs() {
    let path = testkit::repository().join("crates/hlo/tests/data/verify/hostile.mlir");
    let text = fs::read_to_string(path).unwrap();
    let (mut refused, mut sound) = (0, 0);
    for program in text.split("// -----") {
        let finding = program.lines().find_map(|line| line.strip_prefix("// finding: ")).unwrap();
        for mode in [ExecutionMode::Compiled, ExecutionMode::Interpreted] {
            let cpu = Cpu::new(Some(2));
            match Compiled::compile(&cpu, program.as_bytes(), &options(mode)) {
                Ok(_) if finding == "none" => sound += 1,
                Err(error) if finding != "none" => {
                    let (said, expected) = (error.to_string(), finding.split(": ").last().unwrap());
                    assert!(said.contains(expected), "{said}\ndoes not say\n{expected}");
                    refused += 1;
                }
                Ok(_) => panic!("not refused, though {finding}:\n{program}"),
                Err(error) => panic!("{error}\n{program}"),
            }
        }
    }
    assert!(refused >= 90 && sound == 4, "{refused} refused, {sound} sound");
}

/// A name promises nothing: the decomposition is what the composite computes.
#[test]
fn a_composite_with_other_types_than_its_name_says_is_its_decomposition() {
    let top_k = "module {
  func.func private @d(%x: tensor<64x8xf32>) -> (tensor<8xi8>, tensor<1xi32>) {
    %a = stablehlo.constant dense<7> : tensor<8xi8>
    %b = stablehlo.constant dense<9> : tensor<1xi32>
    return %a, %b : tensor<8xi8>, tensor<1xi32>
  }
  func.func @main(%x: tensor<64x8xf32>) -> (tensor<8xi8>, tensor<1xi32>) {
    %0:2 = stablehlo.composite \"chlo.top_k\" %x {decomposition = @d} : (tensor<64x8xf32>) -> (tensor<8xi8>, tensor<1xi32>)
    return %0#0, %0#1 : tensor<8xi8>, tensor<1xi32>
  }
}";
    for text in
        [top_k.to_string(), top_k.replace("{decomposition", "{composite_attributes = {k = 8 : i64}, decomposition")]
    {
        let results = check_agrees(&text, &[(DType::F32, &[64, 8])]);
        assert_eq!(results, [vec![7; 8], vec![9, 0, 0, 0]]);
    }
    let erf = "module {
  func.func private @d(%x: tensor<4xf32>) -> tensor<4xf64> {
    %a = stablehlo.constant dense<1.0> : tensor<4xf64>
    return %a : tensor<4xf64>
  }
  func.func @main(%x: tensor<4xf32>) -> tensor<4xf64> {
    %0 = stablehlo.composite \"chlo.erf\" %x {decomposition = @d} : (tensor<4xf32>) -> tensor<4xf64>
    return %0 : tensor<4xf64>
  }
}";
    assert_eq!(check_agrees(erf, &[(DType::F32, &[4])]), [1f64.to_le_bytes().repeat(4)]);
}

/// Composites of a name the device has a kernel for, one call after another until inlining has no room left.
#[test]
fn a_composite_that_is_not_inlined_is_its_decomposition_too() {
    let mut body = String::new();
    for n in 0..40_000 {
        body += &format!("    %b{} = stablehlo.add %b{n}, %b{n} : tensor<1xi32>\n", n + 1);
    }
    let mut calls = String::new();
    for n in 0..6 {
        calls += &format!(
            "    %c{n}:2 = stablehlo.composite \"chlo.top_k\" %x {{decomposition = @d}} : (tensor<64x8xf32>) -> (tensor<8xi8>, tensor<1xi32>)\n"
        );
    }
    let text = format!(
        "module {{
  func.func private @d(%x: tensor<64x8xf32>) -> (tensor<8xi8>, tensor<1xi32>) {{
    %a = stablehlo.constant dense<7> : tensor<8xi8>
    %b0 = stablehlo.constant dense<0> : tensor<1xi32>
{body}    return %a, %b40000 : tensor<8xi8>, tensor<1xi32>
  }}
  func.func @main(%x: tensor<64x8xf32>) -> (tensor<8xi8>, tensor<1xi32>) {{
{calls}    return %c0#0, %c5#1 : tensor<8xi8>, tensor<1xi32>
  }}
}}"
    );
    let results = run(&text, options(ExecutionMode::Compiled), &[(DType::F32, &[64, 8])]).unwrap();
    assert_eq!(results, [vec![7; 8], vec![0; 4]]);
}

#[test]
fn a_composite_with_the_types_of_its_name_is_the_op() {
    let text = "module {
  func.func private @d(%x: tensor<3x8xf32>) -> (tensor<3x2xf32>, tensor<3x2xi32>) {
    %0:2 = chlo.top_k(%x, k = 2) : tensor<3x8xf32> -> (tensor<3x2xf32>, tensor<3x2xi32>)
    return %0#0, %0#1 : tensor<3x2xf32>, tensor<3x2xi32>
  }
  func.func @main(%x: tensor<3x8xf32>) -> (tensor<3x2xf32>, tensor<3x2xi32>) {
    %i = stablehlo.iota dim = 1 : tensor<3x8xf32>
    %0:2 = stablehlo.composite \"chlo.top_k\" %i {composite_attributes = {k = 2 : i64, largest = true}, decomposition = @d, version = 1 : i32} : (tensor<3x8xf32>) -> (tensor<3x2xf32>, tensor<3x2xi32>)
    return %0#0, %0#1 : tensor<3x2xf32>, tensor<3x2xi32>
  }
}";
    let results = check_agrees(text, &[(DType::F32, &[3, 8])]);
    assert_eq!(results[1], [7i32, 6].map(i32::to_le_bytes).concat().repeat(3));
}

/// As on XLA: nobody looks at the decomposition of a composite that is taken for an op.
#[test]
fn a_composite_with_the_types_of_its_name_is_the_op_whatever_it_decomposes_to() {
    let text = "module {
  func.func private @d(%x: tensor<4xf32>) -> tensor<4xf32> {
    %a = stablehlo.constant dense<1.0> : tensor<4xf32>
    return %a : tensor<4xf32>
  }
  func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
    %0 = stablehlo.composite \"chlo.erf\" %x {decomposition = @d} : (tensor<4xf32>) -> tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}";
    assert_eq!(check_agrees(text, &[(DType::F32, &[4])]), [0f32.to_le_bytes().repeat(4)]);
}

/// The signs of NaNs and zeros, where the type has them: `x > -x` in the order of IEEE 754, of NaN, -NaN, 0 and -0.
#[test]
fn total_order_sees_the_signs_that_a_type_has() {
    let wide = [1, 0, 1, 0];
    for (dtype, nans, expected) in [
        ("f32", "0x7FC00000, 0xFFC00000", wide),
        ("f16", "0x7E00, 0xFE00", wide),
        ("bf16", "0x7FC0, 0xFFC0", wide),
        ("f8E5M2", "0x7E, 0xFE", wide),
        ("f8E4M3FN", "0x7F, 0xFF", wide),
        ("f8E4M3FNUZ", "0x80, 0x80", [0; 4]),
        ("f8E4M3B11FNUZ", "0x80, 0x80", [0; 4]),
    ] {
        let text = format!(
            "func.func @main() -> tensor<4xi1> {{
  %x = stablehlo.constant dense<[{nans}, 0.0, -0.0]> : tensor<4x{dtype}>
  %n = stablehlo.negate %x : tensor<4x{dtype}>
  %0 = stablehlo.compare GT, %x, %n, TOTALORDER : (tensor<4x{dtype}>, tensor<4x{dtype}>) -> tensor<4xi1>
  return %0 : tensor<4xi1>
}}"
        );
        assert_eq!(check_agrees(&text, &[]), [expected], "{dtype}");
    }
}

/// A scatter whose body works in a wider type converts what it reads and what it keeps.
#[test]
fn a_scatter_that_widens_gives_wide_elements() {
    let text = "func.func @main(%x: tensor<4xf32>, %i: tensor<1x1xi32>, %u: tensor<1xf32>) -> tensor<4xf64> {
  %one = stablehlo.constant dense<1.0> : tensor<4xf32>
  %two = stablehlo.constant dense<2.0> : tensor<1xf32>
  %0 = \"stablehlo.scatter\"(%one, %i, %two) <{scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
  ^bb0(%a: tensor<f64>, %b: tensor<f64>):
    %s = stablehlo.add %a, %b : tensor<f64>
    stablehlo.return %s : tensor<f64>
  }) : (tensor<4xf32>, tensor<1x1xi32>, tensor<1xf32>) -> tensor<4xf64>
  return %0 : tensor<4xf64>
}";
    let results = check_agrees(text, &[(DType::F32, &[4]), (DType::I32, &[1, 1]), (DType::F32, &[1])]);
    assert_eq!(results, [[3.0f64, 1.0, 1.0, 1.0].map(f64::to_le_bytes).concat()]);
}

/// The windows of the issue that JAX's gradients rely on: those that stick out are dropped whole.
#[test]
fn a_window_that_sticks_out_is_dropped_whole() {
    let text = "func.func @main() -> tensor<10xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<10xf32>
  %i = stablehlo.constant dense<[[9], [3], [-1]]> : tensor<3x1xi32>
  %u = stablehlo.constant dense<[[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]> : tensor<3x2xf32>
  %0 = \"stablehlo.scatter\"(%zero, %i, %u) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %s = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %s : tensor<f32>
  }) : (tensor<10xf32>, tensor<3x1xi32>, tensor<3x2xf32>) -> tensor<10xf32>
  return %0 : tensor<10xf32>
}";
    let expected = [0.0f32, 0.0, 0.0, 3.0, 4.0, 0.0, 0.0, 0.0, 0.0, 0.0].map(f32::to_le_bytes).concat();
    assert_eq!(check_agrees(text, &[]), [expected]);
}

/// `crates/testkit/python/as_xla.py` wrote the programs, with what XLA gave.
#[test]
fn both_engines_do_as_xla_does() {
    let path = testkit::repository().join("crates/cpu/tests/programs/as_xla.mlir");
    let module = hlo::verify(hlo::text::parse(&fs::read_to_string(path).unwrap()).unwrap()).unwrap();
    let interpreter = Interpreter::new(&module, InterpreterOptions::default());
    let cpu = Cpu::new(Some(2));
    let mut wrong = Vec::new();
    for func in &module.funcs {
        if let Err(error) = interpreter.run(&func.name, Vec::new()) {
            wrong.push(format!("interpreted @{}: {error}", func.name));
        }
        let options = EngineOptions { entry: Some(&func.name), ..options(ExecutionMode::Compiled) };
        let compiled = Compiled::from_module(&cpu, module.clone(), &options);
        if let Err(error) = compiled.and_then(|c| c.run(vec![Vec::new()], &InterpreterOptions::default())) {
            wrong.push(format!("compiled @{}: {error}", func.name));
        }
    }
    assert!(module.funcs.len() > 100, "{} programs", module.funcs.len());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A sparse matmul reads where its operands say: places outside, rows that go back and types of other sizes are refused.
#[test]
fn a_sparse_matmul_stays_in_its_operands() {
    let program = |starts: &str, columns: &str, dense: &str, result: &str| {
        let (rows, values) = (starts.split(',').count(), columns.split(',').count());
        format!(
            "func.func @main() -> tensor<{result}> {{
  %values = stablehlo.constant dense<1.0> : tensor<{values}xf32>
  %starts = stablehlo.constant dense<[{starts}]> : tensor<{rows}xi32>
  %columns = stablehlo.constant dense<[{columns}]> : tensor<{values}xi32>
  %dense = stablehlo.constant dense<2.0> : tensor<{dense}>
  %0 = stablehlo.custom_call @cpu_csr_sparse_dense_ffi(%values, %starts, %columns, %dense) : (tensor<{values}xf32>, tensor<{rows}xi32>, tensor<{values}xi32>, tensor<{dense}>) -> tensor<{result}>
  return %0 : tensor<{result}>
}}"
        )
    };
    let sound = check_agrees(&program("0, 1, 3", "0, 1, 2", "3x2xf32", "2x2xf32"), &[]);
    assert_eq!(sound, [[2.0f32, 2.0, 4.0, 4.0].map(f32::to_le_bytes).concat()]);
    for (starts, columns, dense, result, said) in [
        ("0, 1, 4", "0, 1, 2", "3x2xf32", "2x2xf32", "row 2 starts at value 4"),
        ("0, 2, 1", "0, 1, 2", "3x2xf32", "2x2xf32", "row 2 starts at value 1"),
        ("-1, 1, 3", "0, 1, 2", "3x2xf32", "2x2xf32", "row 0 starts at value"),
        ("0, 1, 3", "0, 1, 3", "3x2xf32", "2x2xf32", "value 2 is in column 3 of 3"),
        ("0, 1, 3", "0, -1, 2", "3x2xf32", "2x2xf32", "value 1 is in column -1 of 3"),
        ("0, 1, 3", "0, 1, 2", "3x2xf32", "65536x2xf32", "the result has sizes [65536, 2]"),
        ("0, 1, 3", "0, 1, 2", "3x2xf32", "2xf32", "the result has sizes [2]"),
        ("0, 1, 3", "0, 1, 2", "3x2xf64", "2x2xf32", "of one type"),
        ("0, 1, 3", "0, 1, 2", "3x2xf32", "2x2xf64", "of one type"),
        ("0, 1, 3", "0, 1, 2", "3x2x1xf32", "2x2x1xf32", "not those of a matrix"),
    ] {
        let text = program(starts, columns, dense, result);
        for mode in [ExecutionMode::Compiled, ExecutionMode::Interpreted] {
            let error = run(&text, options(mode), &[]).unwrap_err().to_string();
            assert!(error.contains(said), "{error}\ndoes not say\n{said}");
        }
    }
}
