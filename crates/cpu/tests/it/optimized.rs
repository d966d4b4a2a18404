//! The program that a compiled one shows as what it runs: the same results, written for one device.

use cpu::interpret::InterpreterOptions;
use cpu::{Array, Compiled, Cpu, EngineOptions, Spread};
use tensor::{DType, Literal};

const PARTITIONS: usize = 4;

/// Row sums of a product, with constraints on the way and on the result, one of them inside a called function.
const SHARDED: &str = r#"module @sharded attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["x"=2, "y"=2]>
  func.func @main(%a: tensor<4x6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {"y"}]>},
                  %b: tensor<6x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"y"}, {}]>},
                  %c: tensor<f32>) -> (tensor<4x4xf32>, tensor<4xf32>) {
    %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<4x6xf32>, tensor<6x4xf32>) -> tensor<4x4xf32>
    %1 = sdy.sharding_constraint %0 <@mesh, [{}, {"x"}]> : tensor<4x4xf32>
    %2 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<f32>) -> tensor<4x4xf32>
    %3 = stablehlo.add %1, %2 : tensor<4x4xf32>
    %4 = func.call @constrained(%3) : (tensor<4x4xf32>) -> tensor<4x4xf32>
    %5 = func.call @rows(%4) : (tensor<4x4xf32>) -> tensor<4xf32>
    return %4, %5 : tensor<4x4xf32>, tensor<4xf32>
  }
  func.func private @constrained(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
    %0 = sdy.sharding_constraint %x <@mesh, [{"y"}, {"x"}]> : tensor<4x4xf32>
    return %0 : tensor<4x4xf32>
  }
  func.func private @rows(%x: tensor<4x4xf32>) -> tensor<4xf32> {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<4x4xf32>, tensor<f32>) -> tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}"#;

fn compile(cpu: &std::sync::Arc<Cpu>, text: &str, num_partitions: usize) -> Compiled {
    let spread = Spread { num_replicas: 1, num_partitions };
    Compiled::compile(cpu, text.as_bytes(), &EngineOptions { spread, ..EngineOptions::default() }).unwrap()
}

/// A literal that counts up from a number.
fn counting(dims: &[usize], from: f32) -> Literal {
    let count: usize = dims.iter().product();
    Literal::new(DType::F32, dims, (0..count).flat_map(|n| (from + n as f32).to_le_bytes()).collect()).unwrap()
}

#[test]
fn a_partitioned_program_is_shown_for_one_device() {
    let cpu = Cpu::new(Some(2));
    let compiled = compile(&cpu, SHARDED, PARTITIONS);
    let wholes = [counting(&[4, 6], 1.0), counting(&[6, 4], -5.0), counting(&[], 0.5)];
    let split: Vec<Vec<Literal>> = wholes
        .iter()
        .zip(compiled.argument_shardings())
        .map(|(whole, sharding)| sharding.split(whole).unwrap())
        .collect();
    let run = |compiled: &Compiled| {
        let device = |n: usize| {
            split.iter().map(|parts| Array::from_literal(cpu.memory(), &parts[n]).unwrap()).collect::<Vec<Array>>()
        };
        let arguments = (0..PARTITIONS).map(device).collect();
        let results = compiled.run(arguments, &InterpreterOptions::default()).unwrap();
        results.iter().map(|list| list.iter().map(Array::to_literal).collect()).collect::<Vec<Vec<Literal>>>()
    };
    // The constraint of the called function is that of the first result: rows over `y`, columns over `x`.
    assert_eq!(compiled.result_shardings()[0].tiles, [2, 2]);
    assert_eq!(compiled.result_shardings()[0].partitions, [0, 2, 1, 3]);
    // So are the rows of the second.
    assert_eq!(compiled.result_shardings()[1].tiles, [2]);

    let text = hlo::text::print(&compiled.optimized().unwrap());
    assert!(text.contains("stablehlo.reduce_scatter") || text.contains("stablehlo.all_reduce"), "{text}");
    // No partition has a whole argument.
    for gone in ["sharding", "call", "tensor<4x6x", "tensor<6x4x"] {
        assert!(!text.contains(gone), "{gone} in\n{text}");
    }
    let shown = compile(&cpu, &text, PARTITIONS);
    assert_eq!(shown.arguments(), compiled.arguments());
    assert_eq!(shown.results(), compiled.results());
    let results = run(&compiled);
    assert_eq!(run(&shown), results);
    let whole = compiled.result_shardings()[0].join(&results.iter().map(|list| &list[0]).collect::<Vec<_>>(), 0);
    let one = compile(&cpu, &SHARDED.replace("num_partitions = 4", "num_partitions = 1"), 1);
    let arguments = wholes.iter().map(|whole| Array::from_literal(cpu.memory(), whole).unwrap()).collect();
    let expected = one.run(vec![arguments], &InterpreterOptions::default()).unwrap();
    assert_eq!(whole.unwrap(), expected[0][0].to_literal());
}

#[test]
fn calls_stay_where_they_ask_to() {
    let text = |asked: &str| {
        format!(
            "module {{
  func.func @main(%x: tensor<f32>) -> tensor<f32> {{
    %0 = func.call @twice(%x) {asked} : (tensor<f32>) -> tensor<f32>
    return %0 : tensor<f32>
  }}
  func.func private @twice(%x: tensor<f32>) -> tensor<f32> {{
    %0 = stablehlo.add %x, %x : tensor<f32>
    return %0 : tensor<f32>
  }}
}}"
        )
    };
    let cpu = Cpu::new(Some(1));
    for (asked, stays) in [("", false), ("xla_early", false), ("xla_late", true), ("false", true)] {
        let attrs = match asked {
            "" => String::new(),
            asked => format!("{{mhlo.frontend_attributes = {{inlineable = \"{asked}\"}}}}"),
        };
        let shown = hlo::text::print(&compile(&cpu, &text(&attrs), 1).optimized().unwrap());
        assert_eq!(shown.contains("call @twice"), stays, "{asked}: {shown}");
        assert_eq!(shown.contains("@twice"), stays, "{asked}: {shown}");
    }
}
