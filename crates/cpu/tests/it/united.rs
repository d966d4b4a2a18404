//! Manual computations that one run computes for all partitions: they give what partitions give that each run by themselves.

use cpu::interpret::InterpreterOptions;
use cpu::{Array, Compiled, Cpu, EngineOptions, ExecutionMode, Spread};
use tensor::Literal;

use crate::partitions::{PROGRAMS, argument, next};

const PARTITIONS: usize = 4;

/// Arguments and results of one partition of a mesh of 2 by 2, and what it computes with the others.
const EXCHANGES: &[(&str, &[&str], &[&str], &str)] = &[
    (
        "sums",
        &["8x4xf32", "8x4xf32", "4xf32"],
        &["4x4xf32", "8x4xf32", "4xf32", "8x4xf32"],
        "%d = stablehlo.dot_general %a0, %a1, contracting_dims = [0] x [0] : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
         %t = stablehlo.transpose %d, dims = [1, 0] : (tensor<4x4xf32>) -> tensor<4x4xf32>
         %0 = ALL_REDUCE(%t, add, [[0, 1, 2, 3]], 1x4) : (tensor<4x4xf32>) -> tensor<4x4xf32>
         %1 = ALL_REDUCE(%a0, add, [[0, 2], [1, 3]], 2x2) : (tensor<8x4xf32>) -> tensor<8x4xf32>
         %2 = ALL_REDUCE(%a2, maximum, [[1, 0], [2, 3]], 2x2) : (tensor<4xf32>) -> tensor<4xf32>
         %3 = ALL_REDUCE(%a1, multiply, [[0, 1], [2, 3]], 2x2) : (tensor<8x4xf32>) -> tensor<8x4xf32>
         return %0, %1, %2, %3 : tensor<4x4xf32>, tensor<8x4xf32>, tensor<4xf32>, tensor<8x4xf32>",
    ),
    (
        "gathers and scatters",
        &["8x4xf32", "4x8xf32"],
        &["8x8xf32", "8x16xf32", "2x4xf32", "8x2xf32"],
        "%0 = \"stablehlo.all_gather\"(%a0) <{all_gather_dim = 1 : i64, CHANNEL, replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>,
             use_global_device_ids}> : (tensor<8x4xf32>) -> tensor<8x8xf32>
         %1 = \"stablehlo.all_gather\"(%a0) <{all_gather_dim = 1 : i64, CHANNEL, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>,
             use_global_device_ids}> : (tensor<8x4xf32>) -> tensor<8x16xf32>
         %2 = SCATTER(%a0, 0, [[0, 1, 2, 3]], 1x4) : (tensor<8x4xf32>) -> tensor<2x4xf32>
         %3 = SCATTER(%a0, 1, [[0, 2], [1, 3]], 2x2) : (tensor<8x4xf32>) -> tensor<8x2xf32>
         return %0, %1, %2, %3 : tensor<8x8xf32>, tensor<8x16xf32>, tensor<2x4xf32>, tensor<8x2xf32>",
    ),
    (
        "moves",
        &["8x4xf32", "4x4x2xf32"],
        &["4x8xf32", "8x4xf32", "8x4xf32", "4x1x8xf32", "4x4xf32"],
        "%0 = \"stablehlo.all_to_all\"(%a0) <{split_dimension = 0 : i64, concat_dimension = 1 : i64, split_count = 2 : i64, CHANNEL,
             replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>}> : (tensor<8x4xf32>) -> tensor<4x8xf32>
         %1 = \"stablehlo.all_to_all\"(%a0) <{split_dimension = 1 : i64, concat_dimension = 1 : i64, split_count = 4 : i64, CHANNEL,
             replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>}> : (tensor<8x4xf32>) -> tensor<8x4xf32>
         %2 = \"stablehlo.collective_permute\"(%a0) <{CHANNEL, source_target_pairs = dense<[[0, 1], [1, 2], [2, 3]]> : tensor<3x2xi64>}> :
             (tensor<8x4xf32>) -> tensor<8x4xf32>
         %3 = \"stablehlo.all_to_all\"(%a1) <{split_dimension = 1 : i64, concat_dimension = 2 : i64, split_count = 4 : i64, CHANNEL,
             replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>}> : (tensor<4x4x2xf32>) -> tensor<4x1x8xf32>
         %id = stablehlo.partition_id : tensor<ui32>
         %start = stablehlo.convert %id : (tensor<ui32>) -> tensor<i32>
         %zero = stablehlo.constant dense<0> : tensor<i32>
         %4 = stablehlo.dynamic_slice %a0, %start, %zero, sizes = [4, 4] : (tensor<8x4xf32>, tensor<i32>, tensor<i32>) -> tensor<4x4xf32>
         return %0, %1, %2, %3, %4 : tensor<4x8xf32>, tensor<8x4xf32>, tensor<8x4xf32>, tensor<4x1x8xf32>, tensor<4x4xf32>",
    ),
    (
        "a loop that exchanges, and numbers that only one argument of the loop has at first",
        &["4x4xf32", "4x4xf32", "4xi32"],
        &["4x4xf32", "4x4xf32", "4xf32", "4xi32"],
        "%n = stablehlo.constant dense<0> : tensor<i32>
         %same = stablehlo.constant dense<0.25> : tensor<4x4xf32>
         %r:3 = stablehlo.while(%c = %a0, %w = %same, %k = %n) : tensor<4x4xf32>, tensor<4x4xf32>, tensor<i32> cond {
           %last = stablehlo.constant dense<3> : tensor<i32>
           %more = stablehlo.compare LT, %k, %last : (tensor<i32>, tensor<i32>) -> tensor<i1>
           stablehlo.return %more : tensor<i1>
         } do {
           %one = stablehlo.constant dense<1> : tensor<i32>
           %next = stablehlo.add %k, %one : tensor<i32>
           %d = stablehlo.dot_general %c, %w, contracting_dims = [1] x [0] : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
           %s = ALL_REDUCE(%d, add, [[0, 1], [2, 3]], 2x2) : (tensor<4x4xf32>) -> tensor<4x4xf32>
           %t = stablehlo.tanh %s : tensor<4x4xf32>
           %v = stablehlo.add %w, %a1 : tensor<4x4xf32>
           %i = stablehlo.constant dense<1> : tensor<i32>
           %z = stablehlo.constant dense<0> : tensor<i32>
           %row = stablehlo.slice %t [0:1, 0:4] : (tensor<4x4xf32>) -> tensor<1x4xf32>
           %u = stablehlo.dynamic_update_slice %v, %row, %k, %z : (tensor<4x4xf32>, tensor<1x4xf32>, tensor<i32>, tensor<i32>) -> tensor<4x4xf32>
           stablehlo.return %t, %u, %next : tensor<4x4xf32>, tensor<4x4xf32>, tensor<i32>
         }
         %low = stablehlo.slice %a1 [0:1, 0:1] : (tensor<4x4xf32>) -> tensor<1x1xf32>
         %least = stablehlo.reshape %low : (tensor<1x1xf32>) -> tensor<f32>
         %most = stablehlo.constant dense<0.5> : tensor<f32>
         %row = stablehlo.slice %r#0 [1:2, 0:4] : (tensor<4x4xf32>) -> tensor<1x4xf32>
         %flat = stablehlo.reshape %row : (tensor<1x4xf32>) -> tensor<4xf32>
         %clamped = stablehlo.clamp %least, %flat, %most : (tensor<f32>, tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
         %sorted = \"stablehlo.sort\"(%a2) <{dimension = 0 : i64, is_stable = true}> ({
         ^bb0(%x: tensor<i32>, %y: tensor<i32>):
           %lt = stablehlo.compare LT, %x, %y : (tensor<i32>, tensor<i32>) -> tensor<i1>
           stablehlo.return %lt : tensor<i1>
         }) : (tensor<4xi32>) -> tensor<4xi32>
         return %r#0, %r#1, %clamped, %sorted : tensor<4x4xf32>, tensor<4x4xf32>, tensor<4xf32>, tensor<4xi32>",
    ),
];

/// Spells out collectives.
fn expand(body: &str) -> String {
    let channel = "channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>";
    let mut lines = Vec::new();
    for line in body.lines() {
        let mut text = line.replace("CHANNEL", channel);
        for (name, op) in [("ALL_REDUCE", "all_reduce"), ("SCATTER", "reduce_scatter")] {
            let Some(at) = text.find(&format!("{name}(")) else { continue };
            let end = at + text[at..].find(") :").unwrap();
            let inside = text[at + name.len() + 1..end].to_string();
            let (value, rest) = inside.split_once(", ").unwrap();
            let (what, rest) = rest.split_once(", ").unwrap();
            let (groups, shape) = rest.rsplit_once(", ").unwrap();
            let (fold, dim) = match op {
                "all_reduce" => (what, String::new()),
                _ => ("add", format!("scatter_dimension = {what} : i64, ")),
            };
            let written = format!(
                "\"stablehlo.{op}\"({value}) <{{{dim}{channel}, replica_groups = dense<{groups}> : tensor<{shape}xi64>, use_global_device_ids}}> ({{
                   ^bb0(%x: tensor<f32>, %y: tensor<f32>):
                     %s = stablehlo.{fold} %x, %y : tensor<f32>
                     stablehlo.return %s : tensor<f32> }})"
            );
            text = format!("{}{written}{}", &text[..at], &text[end + 1..]);
        }
        lines.push(text);
    }
    lines.join("\n")
}

/// A type with dimensions split at random over both axes, or over those that chance takes; the whole type and the sharding.
fn whole(ty: &str, must_use: bool, state: &mut u64) -> (String, String) {
    let parts: Vec<&str> = ty.split('x').collect();
    let mut sizes: Vec<usize> = parts.iter().filter_map(|part| part.parse().ok()).collect();
    let mut axes = vec![Vec::new(); sizes.len()];
    for axis in ["\"x\"", "\"y\""] {
        let at = next(state) % (sizes.len() + usize::from(!must_use));
        if let Some(list) = axes.get_mut(at) {
            list.push(axis);
            sizes[at] *= 2;
        }
    }
    let dims: Vec<String> = axes.iter().map(|axes| format!("{{{}}}", axes.join(", "))).collect();
    let sizes: Vec<String> = sizes.iter().map(ToString::to_string).collect();
    (format!("{}x{}", sizes.join("x"), parts[parts.len() - 1]), format!("<@mesh, [{}]>", dims.join(", ")))
}

fn run(cpu: &std::sync::Arc<Cpu>, text: &str, wholes: &[Literal], mode: ExecutionMode) -> (Vec<Literal>, String) {
    let spread = Spread { num_replicas: 1, num_partitions: PARTITIONS };
    let options = EngineOptions { spread, mode, ..EngineOptions::default() };
    let compiled = Compiled::compile(cpu, text.as_bytes(), &options).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let arguments: Vec<Vec<Literal>> = (compiled.argument_shardings().iter().zip(wholes))
        .map(|(sharding, whole)| sharding.split(whole).unwrap())
        .collect();
    let device = |n: usize| {
        arguments.iter().map(|parts| Array::from_literal(cpu.memory(), &parts[n]).unwrap()).collect::<Vec<_>>()
    };
    let results = compiled.run((0..PARTITIONS).map(device).collect(), &InterpreterOptions::default()).unwrap();
    let joined = compiled.result_shardings().iter().enumerate().map(|(n, sharding)| {
        let parts: Vec<Literal> = results.iter().map(|list| list[n].to_literal()).collect();
        sharding.join(&parts, 0).unwrap()
    });
    (joined.collect(), compiled.dump())
}

fn close(a: &Literal, b: &Literal, what: &str) {
    assert_eq!((a.dims(), a.dtype()), (b.dims(), b.dtype()), "{what}");
    if a.dtype() != tensor::DType::F32 {
        assert_eq!(a.bytes(), b.bytes(), "{what}");
        return;
    }
    let values = |literal: &Literal| -> Vec<f32> {
        literal.bytes().chunks_exact(4).map(|c| f32::from_le_bytes([c[0], c[1], c[2], c[3]])).collect()
    };
    for (x, y) in values(a).iter().zip(values(b)) {
        assert!((x - y).abs() <= 1e-4 * y.abs().max(1.0), "{x} is not {y}: {what}");
    }
}

#[test]
fn united_partitions_give_what_each_gives_by_itself() {
    let cpu = Cpu::new(Some(2));
    let mut state = 11;
    for (name, arguments, results, body) in PROGRAMS.iter().chain(EXCHANGES) {
        let body = expand(body).replace("return %", "sdy.return %").replace("stablehlo.sdy.return", "stablehlo.return");
        for round in 0..6 {
            let inputs: Vec<(String, String)> = arguments.iter().map(|ty| whole(ty, false, &mut state)).collect();
            let outputs: Vec<(String, String)> = results.iter().map(|ty| whole(ty, true, &mut state)).collect();
            let types = |list: &[(String, String)]| {
                list.iter().map(|(ty, _)| format!("tensor<{ty}>")).collect::<Vec<_>>().join(", ")
            };
            let shardings =
                |list: &[(String, String)]| list.iter().map(|(_, s)| s.clone()).collect::<Vec<_>>().join(", ");
            let edge =
                |(ty, sharding): &(String, String)| format!("tensor<{ty}> {{sdy.sharding = #sdy.sharding{sharding}}}");
            let parameters: Vec<String> =
                inputs.iter().enumerate().map(|(n, input)| format!("%w{n}: {}", edge(input))).collect();
            let inside: Vec<String> =
                arguments.iter().enumerate().map(|(n, ty)| format!("%a{n}: tensor<{ty}>")).collect();
            let passed: Vec<String> = (0..arguments.len()).map(|n| format!("%w{n}")).collect();
            let returned: Vec<String> = (0..results.len()).map(|n| format!("%r#{n}")).collect();
            let text = format!(
                "module attributes {{mhlo.num_partitions = 4 : i32}} {{ sdy.mesh @mesh = <[\"x\"=2, \"y\"=2]>
                 func.func @main({}) -> ({}) {{
                   %r:{} = sdy.manual_computation({}) in_shardings=[{}] out_shardings=[{}] manual_axes={{\"x\", \"y\"}} ({}) {{
                     {body}
                   }} : ({}) -> ({})
                   return {} : {} }} }}",
                parameters.join(", "),
                outputs.iter().map(edge).collect::<Vec<_>>().join(", "),
                results.len(),
                passed.join(", "),
                shardings(&inputs),
                shardings(&outputs),
                inside.join(", "),
                types(&inputs),
                types(&outputs),
                returned.join(", "),
                types(&outputs),
            );
            let wholes: Vec<Literal> = inputs.iter().enumerate().map(|(n, (ty, _))| argument(ty, n + round)).collect();
            let (found, steps) = run(&cpu, &text, &wholes, ExecutionMode::Compiled);
            let (expected, _) = run(&cpu, &text, &wholes, ExecutionMode::Interpreted);
            // A branch that partitions take differently is left to each of them.
            assert!(*name == "a loop and a branch" || !steps.contains("partitions of"), "{name}\n{steps}\n{text}");
            for (a, b) in found.iter().zip(&expected) {
                close(a, b, &format!("{name}\n{text}\n{steps}"));
            }
        }
    }
}
