//! What a program becomes for one partition: which parts its values are, and what is exchanged.

use super::*;
use crate::propagate::propagate;

/// Checks the collectives of a program for one of 8 partitions, 4 by 2, in order, and the types of its results.
fn check(body: &str, collectives: &[&str], results: &[&str]) {
    let text = format!("module {{ sdy.mesh @mesh = <[\"x\"=4, \"y\"=2]>\n{body} }}");
    let module = crate::verify(crate::read(text.as_bytes()).unwrap()).unwrap();
    let edges = propagate(&module, module.entry().unwrap());
    let name = module.entry().unwrap().name.clone();
    let found = partition(&module, &name, &edges, 8).unwrap();
    let func = found.func(&name).unwrap();
    let printed = crate::text::print(&found);
    let is_collective = |op: &&Op| op.kind().is_some_and(OpKind::is_collective);
    let names: Vec<&str> =
        func.ops.iter().filter(is_collective).filter_map(|op| op.name.as_str().split('.').next_back()).collect();
    assert_eq!(names, collectives, "{printed}");
    let types: Vec<String> = func.outputs.iter().map(ToString::to_string).collect();
    assert_eq!(types, results, "{printed}");
}

fn sharded(sharding: &str) -> String {
    format!("{{sdy.sharding = #sdy.sharding<@mesh, {sharding}>}}")
}

fn matmul(lhs: &str, rhs: &str, result: &str) -> String {
    let (lhs, rhs, result) = (sharded(lhs), sharded(rhs), sharded(result));
    format!(
        "func.func @main(%a: tensor<8x16xf32> {lhs}, %b: tensor<16x8xf32> {rhs}) -> (tensor<8x8xf32> {result}) {{
           %c = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<8x16xf32>, tensor<16x8xf32>) -> tensor<8x8xf32>
           return %c : tensor<8x8xf32> }}"
    )
}

#[test]
fn matmuls_exchange_only_what_they_must() {
    check(&matmul(r#"[{"x"}, {}]"#, r#"[{}, {"y"}]"#, r#"[{"x"}, {"y"}]"#), &[], &["tensor<2x4xf32>"]);
    check(&matmul(r#"[{}, {"x"}]"#, r#"[{"x"}, {}]"#, "[{}, {}]"), &["all_reduce"], &["tensor<8x8xf32>"]);
    check(&matmul(r#"[{}, {"x"}]"#, r#"[{"x"}, {}]"#, r#"[{"x"}, {}]"#), &["reduce_scatter"], &["tensor<2x8xf32>"]);
    check(&matmul(r#"[{"x"}, {}]"#, r#"[{"x"}, {}]"#, r#"[{"x"}, {}]"#), &["all_gather"], &["tensor<2x8xf32>"]);
    check(&matmul(r#"[{}, {"x"}]"#, r#"[{"x"}, {}]"#, r#"[{}, {}], unreduced={"x"}"#), &[], &["tensor<8x8xf32>"]);
    let moved = format!(
        "func.func @main(%a: tensor<8x16xf32> {}) -> (tensor<8x16xf32> {}) {{ return %a : tensor<8x16xf32> }}",
        sharded(r#"[{"x"}, {}]"#),
        sharded(r#"[{}, {"x"}]"#)
    );
    check(&moved, &["all_to_all"], &["tensor<8x4xf32>"]);
}

#[test]
fn sums_wait_and_other_reductions_do_not() {
    let x = sharded(r#"[{"x"}, {"y"}]"#);
    let body = |kind: &str, init: &str| {
        format!(
            "func.func @main(%a: tensor<8x4xf32> {x}, %b: tensor<8x4xf32> {x}) -> (tensor<8xf32> {}) {{
               %i = stablehlo.constant dense<{init}> : tensor<f32>
               %0 = stablehlo.reduce(%a init: %i) applies stablehlo.{kind} across dimensions = [1] : (tensor<8x4xf32>, tensor<f32>) -> tensor<8xf32>
               %1 = stablehlo.reduce(%b init: %i) applies stablehlo.{kind} across dimensions = [1] : (tensor<8x4xf32>, tensor<f32>) -> tensor<8xf32>
               %2 = stablehlo.add %0, %1 : tensor<8xf32>
               return %2 : tensor<8xf32> }}",
            sharded(r#"[{"x"}]"#)
        )
    };
    check(&body("add", "0.0"), &["all_reduce"], &["tensor<2xf32>"]);
    check(&body("maximum", "0xFF800000"), &["all_reduce", "all_reduce"], &["tensor<2xf32>"]);
    // Each part would begin with the one.
    check(&body("add", "1.0"), &["all_gather", "all_gather"], &["tensor<2xf32>"]);
}

#[test]
fn sources_and_loops_are_written_for_one_part() {
    let body = format!(
        "func.func @main(%a: tensor<8x4xf32> {0}) -> (tensor<8x4xf32> {0}) {{
           %i = stablehlo.iota dim = 0 : tensor<8x4xf32>
           %one = stablehlo.constant dense<1.0> : tensor<8x4xf32>
           %n = stablehlo.constant dense<0> : tensor<i32>
           %r:2 = stablehlo.while(%c = %a, %k = %n) : tensor<8x4xf32>, tensor<i32> cond {{
             %last = stablehlo.constant dense<3> : tensor<i32>
             %more = stablehlo.compare LT, %k, %last : (tensor<i32>, tensor<i32>) -> tensor<i1>
             stablehlo.return %more : tensor<i1>
           }} do {{
             %step = stablehlo.constant dense<1> : tensor<i32>
             %next = stablehlo.add %k, %step : tensor<i32>
             %s = stablehlo.add %c, %i : tensor<8x4xf32>
             %t = stablehlo.multiply %s, %one : tensor<8x4xf32>
             stablehlo.return %t, %next : tensor<8x4xf32>, tensor<i32>
           }}
           return %r#0 : tensor<8x4xf32> }}",
        sharded(r#"[{"x"}, {"y"}]"#)
    );
    check(&body, &[], &["tensor<2x2xf32>"]);
}

#[test]
fn an_op_without_a_rule_is_computed_whole() {
    let body = format!(
        "func.func @main(%a: tensor<8x8xf32> {0}) -> (tensor<8x8xf32> {0}) {{
           %0 = stablehlo.cholesky %a, lower = true : tensor<8x8xf32>
           return %0 : tensor<8x8xf32> }}",
        sharded(r#"[{"x"}, {}]"#)
    );
    check(&body, &["all_gather"], &["tensor<2x8xf32>"]);
}

#[test]
fn manual_computations_are_split_along_the_other_axes() {
    let body = format!(
        "func.func @main(%a: tensor<8x4xf32> {0}) -> (tensor<8x4xf32> {0}) {{
           %0 = sdy.manual_computation(%a) in_shardings=[<@mesh, [{{\"x\"}}, {{?}}]>] out_shardings=[<@mesh, [{{\"x\"}}, {{?}}]>]
               manual_axes={{\"x\"}} (%b: tensor<2x4xf32>) {{
             %1 = stablehlo.negate %b : tensor<2x4xf32>
             sdy.return %1 : tensor<2x4xf32>
           }} : (tensor<8x4xf32>) -> tensor<8x4xf32>
           return %0 : tensor<8x4xf32> }}",
        sharded(r#"[{"x"}, {"y"}]"#)
    );
    check(&body, &[], &["tensor<2x2xf32>"]);
}

#[test]
fn what_is_written_for_one_device_is_refused() {
    let text = "module { sdy.mesh @mesh = <[\"x\"=4, \"y\"=2]>
        func.func @main() -> tensor<ui32> { %0 = stablehlo.partition_id : tensor<ui32> return %0 : tensor<ui32> } }";
    let module = crate::verify(crate::read(text.as_bytes()).unwrap()).unwrap();
    assert!(partition(&module, "main", &PropagatedShardings::default(), 8).is_err());
}

#[test]
fn updates_of_zeros_are_summands() {
    let body = |zero: &str| {
        format!(
            "func.func @main(%i: tensor<8x1xi32> {0}, %u: tensor<8xf32> {1}) -> tensor<4xf32> {{
               %z = stablehlo.constant dense<{zero}> : tensor<f32>
               %to = stablehlo.broadcast_in_dim %z, dims = [] : (tensor<f32>) -> tensor<4xf32>
               %0 = \"stablehlo.scatter\"(%to, %i, %u) <{{scatter_dimension_numbers = #stablehlo.scatter<
                   inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}}> ({{
               ^bb0(%x: tensor<f32>, %y: tensor<f32>):
                 %s = stablehlo.add %x, %y : tensor<f32>
                 stablehlo.return %s : tensor<f32>
               }}) : (tensor<4xf32>, tensor<8x1xi32>, tensor<8xf32>) -> tensor<4xf32>
               return %0 : tensor<4xf32> }}",
            sharded(r#"[{"x"}, {}]"#),
            sharded(r#"[{"x"}]"#)
        )
    };
    check(&body("0.0"), &["all_reduce"], &["tensor<4xf32>"]);
    check(&body("1.0"), &["all_gather", "all_gather"], &["tensor<4xf32>"]);
}

#[test]
fn sums_that_need_not_wait_are_one_exchange() {
    let text = format!(
        "module {{ sdy.mesh @mesh = <[\"x\"=4, \"y\"=2]>
         func.func @main(%a: tensor<8xf32> {0}, %b: tensor<8x2xf32> {1}) -> (tensor<f32>, tensor<2xf32>, tensor<f32>) {{
           %z = stablehlo.constant dense<0.0> : tensor<f32>
           %0 = stablehlo.reduce(%a init: %z) applies stablehlo.add across dimensions = [0] : (tensor<8xf32>, tensor<f32>) -> tensor<f32>
           %1 = stablehlo.reduce(%b init: %z) applies stablehlo.add across dimensions = [0] : (tensor<8x2xf32>, tensor<f32>) -> tensor<2xf32>
           %r = stablehlo.tanh %0 : tensor<f32>
           %c = stablehlo.broadcast_in_dim %r, dims = [] : (tensor<f32>) -> tensor<8xf32>
           %d = stablehlo.multiply %c, %a : tensor<8xf32>
           %2 = stablehlo.reduce(%d init: %z) applies stablehlo.add across dimensions = [0] : (tensor<8xf32>, tensor<f32>) -> tensor<f32>
           return %0, %1, %2 : tensor<f32>, tensor<2xf32>, tensor<f32> }} }}",
        sharded(r#"[{"x"}]"#),
        sharded(r#"[{"x"}, {}]"#)
    );
    let module = crate::verify(crate::read(text.as_bytes()).unwrap()).unwrap();
    let edges = propagate(&module, module.entry().unwrap());
    let apart = partition(&module, "main", &edges, 8).unwrap();
    let count = |module: &Module| crate::text::print(module).matches("stablehlo.all_reduce").count();
    assert_eq!(count(&apart), 3);
    // The last one is of what the first one gives.
    let combined = crate::verify(combine_all_reduces(apart).into_inner()).unwrap();
    assert_eq!(count(&combined), 2, "{}", crate::text::print(&combined));
}
