//! Programs split over partitions at random: run apart, each partition on its parts, they give what one run of the whole
//! program gives.

use cpu::interpret::InterpreterOptions;
use cpu::{Array, Compiled, Cpu, EngineOptions, PartitionRuns, PortType, Spread};
use tensor::{DType, Literal};

const PARTITIONS: usize = 4;

/// Arguments and results of each program, and its body. Sizes are multiples of 4 wherever a dimension may be split.
pub(crate) const PROGRAMS: &[(&str, &[&str], &[&str], &str)] = &[
    (
        "a layer and its norm",
        &["8x16xf32", "16x8xf32", "8xf32"],
        &["8x8xf32", "8xf32"],
        "%0 = stablehlo.dot_general %a0, %a1, contracting_dims = [1] x [0] : (tensor<8x16xf32>, tensor<16x8xf32>) -> tensor<8x8xf32>
         %1 = stablehlo.broadcast_in_dim %a2, dims = [1] : (tensor<8xf32>) -> tensor<8x8xf32>
         %2 = stablehlo.add %0, %1 : tensor<8x8xf32>
         %3 = stablehlo.tanh %2 : tensor<8x8xf32>
         %zero = stablehlo.constant dense<0.0> : tensor<f32>
         %4 = stablehlo.reduce(%3 init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<8x8xf32>, tensor<f32>) -> tensor<8xf32>
         return %3, %4 : tensor<8x8xf32>, tensor<8xf32>",
    ),
    (
        "heads",
        &["4x8x4xf32", "4x8x4xf32"],
        &["4x4x4xf32", "8x16xf32", "4xf32"],
        "%0 = stablehlo.dot_general %a0, %a1, batching_dims = [0] x [0], contracting_dims = [1] x [1] :
           (tensor<4x8x4xf32>, tensor<4x8x4xf32>) -> tensor<4x4x4xf32>
         %1 = stablehlo.transpose %a0, dims = [1, 0, 2] : (tensor<4x8x4xf32>) -> tensor<8x4x4xf32>
         %2 = stablehlo.reshape %1 : (tensor<8x4x4xf32>) -> tensor<8x16xf32>
         %low = stablehlo.constant dense<0xFF800000> : tensor<f32>
         %3 = stablehlo.reduce(%0 init: %low) applies stablehlo.maximum across dimensions = [0, 2] : (tensor<4x4x4xf32>, tensor<f32>) -> tensor<4xf32>
         return %0, %2, %3 : tensor<4x4x4xf32>, tensor<8x16xf32>, tensor<4xf32>",
    ),
    (
        "numbers and pieces",
        &["8x8xf32", "4x8xf32"],
        &["8x8xf32", "8x4xf32", "12x8xf32", "8x8xf32"],
        "%0 = stablehlo.iota dim = 1 : tensor<8x8xf32>
         %1 = stablehlo.multiply %a0, %0 : tensor<8x8xf32>
         %2 = stablehlo.slice %1 [0:8, 2:6] : (tensor<8x8xf32>) -> tensor<8x4xf32>
         %3 = stablehlo.concatenate %a0, %a1, dim = 0 : (tensor<8x8xf32>, tensor<4x8xf32>) -> tensor<12x8xf32>
         %4 = stablehlo.reverse %a0, dims = [0] : tensor<8x8xf32>
         return %1, %2, %3, %4 : tensor<8x8xf32>, tensor<8x4xf32>, tensor<12x8xf32>, tensor<8x8xf32>",
    ),
    (
        "a loop and a branch",
        &["8x8xf32", "8x8xf32"],
        &["8x8xf32", "8x8xf32"],
        "%n = stablehlo.constant dense<0> : tensor<i32>
         %r:2 = stablehlo.while(%c = %a0, %k = %n) : tensor<8x8xf32>, tensor<i32> cond {
           %last = stablehlo.constant dense<3> : tensor<i32>
           %more = stablehlo.compare LT, %k, %last : (tensor<i32>, tensor<i32>) -> tensor<i1>
           stablehlo.return %more : tensor<i1>
         } do {
           %one = stablehlo.constant dense<1> : tensor<i32>
           %next = stablehlo.add %k, %one : tensor<i32>
           %d = stablehlo.dot_general %c, %a1, contracting_dims = [1] x [0] : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
           %t = stablehlo.tanh %d : tensor<8x8xf32>
           stablehlo.return %t, %next : tensor<8x8xf32>, tensor<i32>
         }
         %zero = stablehlo.constant dense<0.0> : tensor<f32>
         %sum = stablehlo.reduce(%r#0 init: %zero) applies stablehlo.add across dimensions = [0, 1] : (tensor<8x8xf32>, tensor<f32>) -> tensor<f32>
         %p = stablehlo.compare GT, %sum, %zero : (tensor<f32>, tensor<f32>) -> tensor<i1>
         %b = \"stablehlo.if\"(%p) ({
           stablehlo.return %a0 : tensor<8x8xf32>
         }, {
           %m = stablehlo.negate %r#0 : tensor<8x8xf32>
           stablehlo.return %m : tensor<8x8xf32>
         }) : (tensor<i1>) -> tensor<8x8xf32>
         return %r#0, %b : tensor<8x8xf32>, tensor<8x8xf32>",
    ),
    (
        "rows by index, and a solver that is computed whole",
        &["8x4xf32", "4x1xi32", "4x4xf32"],
        &["4x4xf32", "8x4xf32", "4x4xf32"],
        "%0 = \"stablehlo.gather\"(%a0, %a1) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0],
             start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 4>}> : (tensor<8x4xf32>, tensor<4x1xi32>) -> tensor<4x4xf32>
         %1 = \"stablehlo.scatter\"(%a0, %a1, %a2) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1],
             inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
         ^bb0(%x: tensor<f32>, %y: tensor<f32>):
           %s = stablehlo.add %x, %y : tensor<f32>
           stablehlo.return %s : tensor<f32>
         }) : (tensor<8x4xf32>, tensor<4x1xi32>, tensor<4x4xf32>) -> tensor<8x4xf32>
         %t = stablehlo.transpose %a2, dims = [1, 0] : (tensor<4x4xf32>) -> tensor<4x4xf32>
         %g = stablehlo.dot_general %a2, %t, contracting_dims = [1] x [0] : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
         %i = stablehlo.constant dense<[[9.0, 0.0, 0.0, 0.0], [0.0, 9.0, 0.0, 0.0], [0.0, 0.0, 9.0, 0.0], [0.0, 0.0, 0.0, 9.0]]> : tensor<4x4xf32>
         %h = stablehlo.add %g, %i : tensor<4x4xf32>
         %l = stablehlo.cholesky %h, lower = true : tensor<4x4xf32>
         return %0, %1, %l : tensor<4x4xf32>, tensor<8x4xf32>, tensor<4x4xf32>",
    ),
    (
        "windows and images",
        &["4x8x8x4xf32", "3x3x4x8xf32"],
        &["4x8x8x8xf32", "4x4x4x4xf32", "8x4xf32"],
        "%0 = stablehlo.convolution(%a0, %a1) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f],
             window = {pad = [[1, 1], [1, 1]]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} :
             (tensor<4x8x8x4xf32>, tensor<3x3x4x8xf32>) -> tensor<4x8x8x8xf32>
         %zero = stablehlo.constant dense<0.0> : tensor<f32>
         %1 = \"stablehlo.reduce_window\"(%a0, %zero) <{window_dimensions = array<i64: 1, 2, 2, 1>, window_strides = array<i64: 1, 2, 2, 1>}> ({
         ^bb0(%x: tensor<f32>, %y: tensor<f32>):
           %s = stablehlo.add %x, %y : tensor<f32>
           stablehlo.return %s : tensor<f32>
         }) : (tensor<4x8x8x4xf32>, tensor<f32>) -> tensor<4x4x4x4xf32>
         %2 = stablehlo.reduce(%a0 init: %zero) applies stablehlo.add across dimensions = [0, 1] : (tensor<4x8x8x4xf32>, tensor<f32>) -> tensor<8x4xf32>
         %p = stablehlo.pad %2, %zero, low = [1, 0], high = [-1, 0], interior = [0, 0] : (tensor<8x4xf32>, tensor<f32>) -> tensor<8x4xf32>
         return %0, %1, %p : tensor<4x8x8x8xf32>, tensor<4x4x4x4xf32>, tensor<8x4xf32>",
    ),
];

/// The next number of a fixed sequence.
pub(crate) fn next(state: &mut u64) -> usize {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*state >> 33) as usize
}

/// A sharding over a mesh of 2 by 2 that splits dimensions of multiples of 4 at random.
fn sharding(ty: &str, state: &mut u64) -> String {
    let sizes: Vec<usize> = ty.split('x').filter_map(|part| part.parse().ok()).collect();
    let mut axes = vec![Vec::new(); sizes.len()];
    for axis in ["\"x\"", "\"y\""] {
        let at = next(state) % (sizes.len() + 1);
        if sizes.get(at).is_some_and(|size| size % 4 == 0) {
            axes[at].push(axis);
        }
    }
    let dims: Vec<String> = axes.iter().map(|axes| format!("{{{}}}", axes.join(", "))).collect();
    format!("{{sdy.sharding = #sdy.sharding<@mesh, [{}]>}}", dims.join(", "))
}

pub(crate) fn argument(ty: &str, seed: usize) -> Literal {
    let parts: Vec<&str> = ty.split('x').collect();
    let dims: Vec<usize> = parts.iter().filter_map(|part| part.parse().ok()).collect();
    let count: usize = dims.iter().product();
    let value = |n: usize| ((n * 7 + seed * 13) as f32 * 0.37).sin();
    match parts.last() {
        Some(&"i32") => {
            Literal::new(DType::I32, dims, (0..count).flat_map(|n| ((n * 3 % 8) as i32).to_le_bytes()).collect())
        }
        _ => Literal::new(DType::F32, dims, (0..count).flat_map(|n| value(n).to_le_bytes()).collect()),
    }
    .unwrap()
}

fn run(
    cpu: &std::sync::Arc<Cpu>,
    text: &str,
    wholes: &[Literal],
    partitions: PartitionRuns,
) -> (Vec<Literal>, Compiled) {
    let spread = Spread { num_replicas: 1, num_partitions: PARTITIONS };
    let options = EngineOptions { spread, partitions, ..EngineOptions::default() };
    let compiled = Compiled::compile(cpu, text.as_bytes(), &options).unwrap();
    let split: Vec<Vec<Literal>> = wholes
        .iter()
        .zip(compiled.argument_shardings())
        .map(|(whole, sharding)| sharding.split(whole).unwrap())
        .collect();
    let device =
        |n: usize| split.iter().map(|parts| Array::from_literal(cpu.memory(), &parts[n]).unwrap()).collect::<Vec<_>>();
    let results = compiled.run((0..PARTITIONS).map(device).collect(), &InterpreterOptions::default()).unwrap();
    let joined = compiled.result_shardings().iter().enumerate().map(|(n, sharding)| {
        let parts: Vec<Literal> = results.iter().map(|list| list[n].to_literal()).collect();
        sharding.join(&parts, 0).unwrap()
    });
    (joined.collect(), compiled)
}

#[test]
fn partitions_apart_give_what_one_run_gives() {
    let cpu = Cpu::new(Some(2));
    let mut state = 7;
    for (name, arguments, results, body) in PROGRAMS {
        for round in 0..6 {
            let list = |types: &[&str], state: &mut u64, argument: &str| {
                let one = |(n, ty): (usize, &&str)| match argument {
                    "" => format!("tensor<{ty}> {}", sharding(ty, state)),
                    argument => format!("%{argument}{n}: tensor<{ty}> {}", sharding(ty, state)),
                };
                types.iter().enumerate().map(one).collect::<Vec<_>>().join(", ")
            };
            let (inputs, outputs) = (list(arguments, &mut state, "a"), list(results, &mut state, ""));
            let text = format!(
                "module attributes {{mhlo.num_partitions = 4 : i32}} {{ sdy.mesh @mesh = <[\"x\"=2, \"y\"=2]>
                 func.func @main({inputs}) -> ({outputs}) {{ {body} }} }}"
            );
            let wholes: Vec<Literal> = arguments.iter().enumerate().map(|(n, ty)| argument(ty, n + round)).collect();
            let (expected, _) = run(&cpu, &text, &wholes, PartitionRuns::Together);
            let (found, compiled) = run(&cpu, &text, &wholes, PartitionRuns::Apart);
            assert!(compiled.runs_apart(), "{name}: {text}");
            for (a, b) in found.iter().zip(&expected) {
                let values = |literal: &Literal| -> Vec<f32> {
                    literal.bytes().chunks_exact(4).map(|c| f32::from_le_bytes([c[0], c[1], c[2], c[3]])).collect()
                };
                assert_eq!(a.dims(), b.dims());
                for (x, y) in values(a).iter().zip(values(b)) {
                    assert!((x - y).abs() <= 1e-4 * y.abs().max(1.0), "{name}: {x} is not {y} in {text}");
                }
            }
        }
    }
}

#[test]
fn partial_values_are_what_each_partition_computed() {
    let cpu = Cpu::new(Some(2));
    let text = r#"module attributes {mhlo.num_partitions = 4 : i32} { sdy.mesh @mesh = <["x"=4]>
      func.func @main(%a: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>})
          -> (tensor<f32> {sdy.sharding = #sdy.sharding<@mesh, [], unreduced={"x"}>}) {
        %zero = stablehlo.constant dense<0.0> : tensor<f32>
        %0 = stablehlo.reduce(%a init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<8xf32>, tensor<f32>) -> tensor<f32>
        return %0 : tensor<f32> } }"#;
    let spread = Spread { num_replicas: 1, num_partitions: PARTITIONS };
    let compiled =
        Compiled::compile(&cpu, text.as_bytes(), &EngineOptions { spread, ..EngineOptions::default() }).unwrap();
    assert!(compiled.runs_apart());
    assert_eq!(compiled.arguments(), [PortType::Array(DType::F32, vec![Some(2)])]);
    let part = |n: usize| {
        let bytes = [2.0 * n as f32, 1.0].iter().flat_map(|x| x.to_le_bytes()).collect();
        vec![Array::from_literal(cpu.memory(), &Literal::new(DType::F32, [2], bytes).unwrap()).unwrap()]
    };
    let results = compiled.run((0..PARTITIONS).map(part).collect(), &InterpreterOptions::default()).unwrap();
    for (n, list) in results.iter().enumerate() {
        assert_eq!(list[0].to_literal().bytes(), (2.0 * n as f32 + 1.0).to_le_bytes());
    }
}
