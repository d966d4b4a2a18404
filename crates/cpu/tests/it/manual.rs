//! Parts of programs that are written for one device: compiled they give what the interpreter gives, and nothing of them is
//! interpreted. They are computed for all devices at once, unless devices go different ways.

use cpu::interpret::InterpreterOptions;
use cpu::{Array, Compiled, Cpu, EngineOptions, ExecutionMode, Spread};
use tensor::{DType, Literal};

/// In each of three rounds every device multiplies its rows by its columns and sums over `model`; the count of rounds is
/// carried along.
const PROGRAM: &str = r#"
module @manual attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["data"=2, "model"=2]>
  func.func public @main(%x: tensor<4x6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {"model"}]>}, %w: tensor<6x6xf32>)
      -> (tensor<4x6xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}]>}, tensor<i32>) {
    %n = stablehlo.constant dense<0> : tensor<i32>
    %last = stablehlo.constant dense<3> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %r:2 = stablehlo.while(%carried = %x, %round = %n) : tensor<4x6xf32>, tensor<i32>
     cond {
      %more = stablehlo.compare LT, %round, %last : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %more : tensor<i1>
    } do {
      %2 = sdy.manual_computation(%carried, %w)
          in_shardings=[<@mesh, [{"data"}, {"model"}]>, <@mesh, [{"model"}, {}]>]
          out_shardings=[<@mesh, [{"data"}, {}]>] manual_axes={"data", "model"} (%rows: tensor<2x3xf32>, %part: tensor<3x6xf32>) {
        %dot = stablehlo.dot_general %rows, %part, contracting_dims = [1] x [0] : (tensor<2x3xf32>, tensor<3x6xf32>) -> tensor<2x6xf32>
        %sum = "stablehlo.all_reduce"(%dot) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>,
            replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, use_global_device_ids}> ({
        ^bb0(%a: tensor<f32>, %b: tensor<f32>):
          %s = stablehlo.add %a, %b : tensor<f32>
          stablehlo.return %s : tensor<f32>
        }) : (tensor<2x6xf32>) -> tensor<2x6xf32>
        %small = stablehlo.tanh %sum : tensor<2x6xf32>
        sdy.return %small : tensor<2x6xf32>
      } : (tensor<4x6xf32>, tensor<6x6xf32>) -> tensor<4x6xf32>
      %next = stablehlo.add %round, %one : tensor<i32>
      stablehlo.return %2, %next : tensor<4x6xf32>, tensor<i32>
    }
    return %r#0, %r#1 : tensor<4x6xf32>, tensor<i32>
  }
}
"#;

fn floats(dims: &[usize], value: impl Fn(usize) -> f32) -> Literal {
    let count = dims.iter().product();
    Literal::new(DType::F32, dims, (0..count).flat_map(|n| value(n).to_le_bytes()).collect()).unwrap()
}

#[test]
fn compiled_parts_of_a_device_give_what_interpreted_ones_give() {
    let cpu = Cpu::new(Some(2));
    let whole = floats(&[4, 6], |n| (n as f32 * 0.37).sin());
    let weights = floats(&[6, 6], |n| (n as f32 * 0.61).cos());
    let run = |mode: ExecutionMode| {
        let spread = Spread { num_replicas: 1, num_partitions: 4 };
        let compiled =
            Compiled::compile(&cpu, PROGRAM.as_bytes(), &EngineOptions { spread, mode, ..EngineOptions::default() })
                .unwrap();
        let parts = compiled.argument_shardings()[0].split(&whole).unwrap();
        let of = |literal: &Literal| Array::from_literal(cpu.memory(), literal).unwrap();
        let arguments = parts.iter().map(|part| vec![of(part), of(&weights)]).collect();
        let results = compiled.run(arguments, &InterpreterOptions::default()).unwrap();
        let results: Vec<Vec<Literal>> =
            results.iter().map(|list| list.iter().map(Array::to_literal).collect()).collect();
        (results, compiled.dump())
    };
    let ((compiled, steps), (interpreted, _)) = (run(ExecutionMode::Compiled), run(ExecutionMode::Interpreted));
    assert!(!steps.contains("partitions of") && !steps.contains("= interpret "), "{steps}");
    for (device, (a, b)) in compiled.iter().zip(&interpreted).enumerate() {
        assert_eq!(a[1].bytes(), 3i32.to_le_bytes(), "iterations of device {device}");
        assert_eq!((a[0].dims(), b[0].dims()), (&[2usize, 6][..], &[2usize, 6][..]));
        let values = |literal: &Literal| -> Vec<f32> {
            literal.bytes().chunks_exact(4).map(|c| f32::from_le_bytes([c[0], c[1], c[2], c[3]])).collect()
        };
        for (x, y) in values(&a[0]).iter().zip(values(&b[0])) {
            assert!((x - y).abs() <= 1e-5, "device {device}: {x} instead of {y}");
        }
    }
}

/// Every device repeats its own number of times.
const OWN_WAYS: &str = r#"
module @ways attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["x"=4]>
  func.func public @main(%x: tensor<4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>})
      -> (tensor<4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>}) {
    %0 = sdy.manual_computation(%x) in_shardings=[<@mesh, [{"x"}]>] out_shardings=[<@mesh, [{"x"}]>] manual_axes={"x"} (%own: tensor<1xf32>) {
      %last = stablehlo.constant dense<10.0> : tensor<f32>
      %r = stablehlo.while(%c = %own) : tensor<1xf32> cond {
        %s = stablehlo.reshape %c : (tensor<1xf32>) -> tensor<f32>
        %more = stablehlo.compare LT, %s, %last : (tensor<f32>, tensor<f32>) -> tensor<i1>
        stablehlo.return %more : tensor<i1>
      } do {
        %t = stablehlo.add %c, %own : tensor<1xf32>
        stablehlo.return %t : tensor<1xf32>
      }
      sdy.return %r : tensor<1xf32>
    } : (tensor<4xf32>) -> tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}
"#;

#[test]
fn devices_that_go_different_ways_run_by_themselves() {
    let cpu = Cpu::new(Some(2));
    let spread = Spread { num_replicas: 1, num_partitions: 4 };
    let options = EngineOptions { spread, ..EngineOptions::default() };
    let compiled = Compiled::compile(&cpu, OWN_WAYS.as_bytes(), &options).unwrap();
    let steps = compiled.dump();
    assert!(steps.contains("4 partitions of") && steps.contains("steps, 0 interpreted"), "{steps}");
    let own = |n: usize| vec![Array::from_literal(cpu.memory(), &floats(&[1], |_| n as f32 + 2.0)).unwrap()];
    let results = compiled.run((0..4).map(own).collect(), &InterpreterOptions::default()).unwrap();
    let found: Vec<Vec<u8>> = results.iter().map(|list| list[0].to_literal().bytes().to_vec()).collect();
    assert_eq!(found, [10.0f32, 12.0, 12.0, 10.0].map(|x| x.to_le_bytes().to_vec()));
}

/// What lies on several devices is not made up where there is one.
#[test]
fn parts_for_several_devices_do_not_run_on_one() {
    let cpu = Cpu::new(Some(1));
    let of = |literal: &Literal| Array::from_literal(cpu.memory(), literal).unwrap();
    let compiled = Compiled::compile(&cpu, PROGRAM.as_bytes(), &EngineOptions::default()).unwrap();
    let arguments = vec![vec![of(&floats(&[4, 6], |_| 1.0)), of(&floats(&[6, 6], |_| 1.0))]];
    let error = compiled.run(arguments, &InterpreterOptions::default()).unwrap_err().to_string();
    assert!(error.contains("for several devices"), "{error}");
}

/// Rows are summed up: along `model` into partial values at the edge, along `data` by the program.
const PARTIAL: &str = r#"
module @partial attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["data"=2, "model"=2]>
  func.func public @main(%x: tensor<4x2xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"data"}, {}], unreduced={"model"}>})
      -> (tensor<4x2xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"data"}], unreduced={"model"}>}, tensor<4x2xf32>) {
    %y = stablehlo.add %x, %x : tensor<4x2xf32>
    return %y, %y : tensor<4x2xf32>, tensor<4x2xf32>
  }
}
"#;

#[test]
fn partial_values_are_added_up() {
    let cpu = Cpu::new(Some(1));
    for mode in [ExecutionMode::Compiled, ExecutionMode::Interpreted] {
        let spread = Spread { num_replicas: 1, num_partitions: 4 };
        let options = EngineOptions { spread, mode, ..EngineOptions::default() };
        let compiled = Compiled::compile(&cpu, PARTIAL.as_bytes(), &options).unwrap();
        let parts: Vec<Literal> = (0..4).map(|device| floats(&[2, 2], |n| (10 * device + n) as f32)).collect();
        let arguments = parts.iter().map(|part| vec![Array::from_literal(cpu.memory(), part).unwrap()]).collect();
        let results = compiled.run(arguments, &InterpreterOptions::default()).unwrap();
        let values = |array: &Array| -> Vec<f32> {
            array.to_literal().bytes().chunks_exact(4).map(|c| f32::from_le_bytes([c[0], c[1], c[2], c[3]])).collect()
        };
        // Devices 0 and 1 have summands of the first rows, 2 and 3 of the others; all is doubled.
        let whole = [20.0, 24.0, 28.0, 32.0, 100.0, 104.0, 108.0, 112.0];
        let columns = |n: usize| whole.iter().skip(n).step_by(2).copied().collect::<Vec<f32>>();
        for (n, pair) in [[0, 1], [2, 3]].iter().enumerate() {
            let (a, b) = (values(&results[pair[0]][0]), values(&results[pair[1]][0]));
            assert_eq!(a.iter().zip(&b).map(|(a, b)| a + b).collect::<Vec<f32>>(), columns(n));
        }
        // Nothing says how the second is split: it follows the argument, and is a sum.
        assert_eq!(results.iter().map(|list| list[1].dims().to_vec()).collect::<Vec<_>>(), vec![vec![2, 2]; 4]);
        assert_eq!(values(&results[3][1]), whole[4..]);
    }
}
