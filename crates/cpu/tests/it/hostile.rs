//! Programs written to make compiled code leave its arrays: refused, or run as the interpreter runs them.
//!
//! Each stands for a class: a result whose type is not what a kernel derives from its operands, an annotation that stands for
//! a value of another size, and sizes whose products overflow. Composites with the name of an op but not its types are in
//! `refused.rs`.

use cpu::{Array, Compiled, Cpu, EngineOptions, Error, ExecutionMode, Folding};
use tensor::{DType, Literal};

fn run(
    text: &str,
    arguments: &[(DType, &[usize])],
    mode: ExecutionMode,
    folding: Folding,
) -> Result<Vec<Literal>, Error> {
    let cpu = Cpu::new(Some(2));
    let compiled = Compiled::compile(&cpu, text.as_bytes(), &EngineOptions { mode, folding, ..Default::default() })?;
    let array = |(dtype, dims): &(DType, &[usize])| {
        let literal = Literal::zeros(*dtype, *dims).expect("it fits");
        Array::from_literal(cpu.memory(), &literal)
    };
    let arrays = arguments.iter().map(array).collect::<Result<Vec<_>, _>>()?;
    Ok(compiled.run(vec![arrays], &Default::default())?[0].iter().map(Array::to_literal).collect())
}

/// Both refuse it, or both give the same.
fn check(text: &str, arguments: &[(DType, &[usize])]) {
    for folding in [Folding::Constants, Folding::Nothing] {
        let compiled = run(text, arguments, ExecutionMode::Compiled, folding);
        let interpreted = run(text, arguments, ExecutionMode::Interpreted, folding);
        match (compiled, interpreted) {
            (Ok(compiled), Ok(interpreted)) => assert_eq!(compiled, interpreted, "{text}"),
            (Err(error), _) => assert!(!error.to_string().is_empty()),
            (Ok(_), Err(error)) => panic!("only the interpreter refuses: {error}\n{text}"),
        }
    }
}

fn scatter(operand: &str, body: &str, result: &str) -> String {
    format!(
        "func.func @main(%operand: tensor<{operand}>, %places: tensor<1x1xi32>, %updates: tensor<1xf64>) -> tensor<{result}> {{
  %0 = \"stablehlo.scatter\"(%operand, %places, %updates) <{{scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}}> ({{
  ^bb0(%old: tensor<{body}>, %new: tensor<{body}>):
    stablehlo.return %new : tensor<{body}>
  }}) : (tensor<{operand}>, tensor<1x1xi32>, tensor<1xf64>) -> tensor<{result}>
  return %0 : tensor<{result}>
}}"
    )
}

#[test]
fn hostile_results_of_a_narrower_type() {
    let arguments: &[(DType, &[usize])] = &[(DType::F64, &[65536]), (DType::I32, &[1, 1]), (DType::F64, &[1])];
    check(&scatter("65536xf64", "f64", "65536xf64"), arguments);
    check(&scatter("65536xf64", "f32", "65536xf32"), arguments);
    check(&scatter("65536xf64", "f64", "65536xf32"), arguments);
    check(&scatter("65536xf64", "f64", "512xf64"), arguments);
    for (kind, rest) in [("reduce", ""), ("reduce_window", "window_dimensions = array<i64: 16>, ")] {
        let attributes =
            if kind == "reduce" { "dimensions = array<i64: 0>" } else { "window_strides = array<i64: 16>" };
        let result = if kind == "reduce" { "tensor<f32>" } else { "tensor<4096xf32>" };
        check(
            &format!(
                "func.func @main(%x: tensor<65536xf64>, %first: tensor<f64>) -> {result} {{
  %0 = \"stablehlo.{kind}\"(%x, %first) <{{{rest}{attributes}}}> ({{
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %c = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %c : tensor<f32>
  }}) : (tensor<65536xf64>, tensor<f64>) -> {result}
  return %0 : {result}
}}"
            ),
            &[(DType::F64, &[65536]), (DType::F64, &[])],
        );
    }
}

#[test]
fn hostile_annotations_of_another_size() {
    for (name, given) in [
        ("Sharding", "stablehlo.custom_call @Sharding(%x)"),
        ("SPMDFullToShardShape", "stablehlo.custom_call @SPMDFullToShardShape(%x)"),
        ("cast", "builtin.unrealized_conversion_cast %x"),
    ] {
        let (from, to) = ("tensor<4xf32>", "tensor<1048576xf32>");
        let call =
            if name == "cast" { format!("{given} : {from} to {to}") } else { format!("{given} : ({from}) -> {to}") };
        check(
            &format!(
                "func.func @main(%x: {from}) -> {to} {{
  %0 = {call}
  %1 = stablehlo.add %0, %0 : {to}
  return %1 : {to}
}}"
            ),
            &[(DType::F32, &[4])],
        );
    }
}

/// The padded input of the window's two axes and 16 features has 2^64 elements: 0, where sizes are multiplied unchecked.
#[test]
fn hostile_padding_whose_size_overflows() {
    let (stride, hole) = ((1i64 << 38) - 1, (1i64 << 22) - 1);
    for (dtype, name) in [(DType::F32, "f32"), (DType::I32, "i32")] {
        check(
            &format!(
                "func.func @main(%x: tensor<1x1x1x16x{name}>, %w: tensor<1x2x16x4x{name}>) -> tensor<1x2x1x4x{name}> {{
  %0 = stablehlo.convolution(%x, %w) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {{stride = [{stride}, 1], pad = [[0, {stride}], [0, {hole}]], rhs_dilate = [1, {hole}]}} {{batch_group_count = 1 : i64, feature_group_count = 1 : i64}} : (tensor<1x1x1x16x{name}>, tensor<1x2x16x4x{name}>) -> tensor<1x2x1x4x{name}>
  return %0 : tensor<1x2x1x4x{name}>
}}"
            ),
            &[(dtype, &[1, 1, 1, 16]), (dtype, &[1, 2, 16, 4])],
        );
    }
}
