//! What a manual computation becomes for all partitions at once.

use super::*;

/// The ops of a program after its manual computations were rewritten, but for constants and the return.
fn united(body: &str) -> (String, Vec<String>) {
    let text = format!("module {{ sdy.mesh @mesh = <[\"x\"=4, \"y\"=2]>\n{body} }}");
    let module = crate::verify(crate::read(text.as_bytes()).unwrap()).unwrap();
    let found = unite(module, "main", 8, &[]).unwrap();
    let is_work = |op: &&Op| !matches!(op.kind(), Some(OpKind::Constant | OpKind::FuncReturn | OpKind::Return));
    let func = found.func("main").unwrap();
    let names = func.ops.iter().filter(is_work).filter_map(|op| op.name.as_str().split('.').next_back());
    (crate::text::print(&found), names.map(str::to_string).collect())
}

fn sum(value: &str, ty: &str, groups: &str, shape: &str) -> String {
    format!(
        "\"stablehlo.all_reduce\"({value}) <{{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>,
             replica_groups = dense<{groups}> : tensor<{shape}xi64>, use_global_device_ids}}> ({{
         ^bb0(%p: tensor<f32>, %q: tensor<f32>):
           %s = stablehlo.add %p, %q : tensor<f32>
           stablehlo.return %s : tensor<f32>
         }}) : ({ty}) -> {ty}"
    )
}

#[test]
fn gradients_of_all_rows_are_one_matmul_and_the_update_is_computed_once() {
    let all = sum("%g", "tensor<16x8xf32>", "[[0, 1, 2, 3, 4, 5, 6, 7]]", "1x8");
    let (printed, ops) = united(&format!(
        "func.func @main(%w: tensor<16x8xf32>, %x: tensor<32x16xf32>, %y: tensor<32x8xf32>) -> tensor<16x8xf32> {{
           %0 = sdy.manual_computation(%w, %x, %y) in_shardings=[<@mesh, [{{}}, {{}}]>, <@mesh, [{{\"x\", \"y\"}}, {{}}]>, <@mesh, [{{\"x\", \"y\"}}, {{}}]>]
               out_shardings=[<@mesh, [{{}}, {{}}]>] manual_axes={{\"x\", \"y\"}} (%w1: tensor<16x8xf32>, %x1: tensor<4x16xf32>, %y1: tensor<4x8xf32>) {{
             %g = stablehlo.dot_general %x1, %y1, contracting_dims = [0] x [0] : (tensor<4x16xf32>, tensor<4x8xf32>) -> tensor<16x8xf32>
             %all = {all}
             %new = stablehlo.subtract %w1, %all : tensor<16x8xf32>
             sdy.return %new : tensor<16x8xf32>
           }} : (tensor<16x8xf32>, tensor<32x16xf32>, tensor<32x8xf32>) -> tensor<16x8xf32>
           return %0 : tensor<16x8xf32> }}"
    ));
    assert_eq!(ops, ["reshape", "reshape", "dot_general", "subtract"], "{printed}");
    assert!(printed.contains("-> tensor<16x8xf32>"), "{printed}");
}

#[test]
fn other_axes_than_manual_ones_do_not_count() {
    let groups = sum("%b", "tensor<2x4xf32>", "[[0, 2, 4, 6], [1, 3, 5, 7]]", "2x4");
    let (printed, ops) = united(&format!(
        "func.func @main(%a: tensor<8x4xf32>) -> tensor<2x4xf32> {{
           %0 = sdy.manual_computation(%a) in_shardings=[<@mesh, [{{\"x\"}}, {{?}}]>] out_shardings=[<@mesh, [{{}}, {{?}}]>]
               manual_axes={{\"x\"}} (%b: tensor<2x4xf32>) {{
             %1 = {groups}
             sdy.return %1 : tensor<2x4xf32>
           }} : (tensor<8x4xf32>) -> tensor<2x4xf32>
           return %0 : tensor<2x4xf32> }}"
    ));
    assert_eq!(ops, ["reshape", "reduce", "add"], "{printed}");
}

#[test]
fn what_depends_on_more_than_numbers_stays() {
    let same = |inside: &str| {
        united(&format!(
            "func.func @main(%a: tensor<8x4xf32>) -> tensor<8x4xf32> {{
               %0 = sdy.manual_computation(%a) in_shardings=[<@mesh, [{{\"x\"}}, {{}}]>] out_shardings=[<@mesh, [{{\"x\"}}, {{}}]>]
                   manual_axes={{\"x\"}} (%b: tensor<2x4xf32>) {{
                 {inside}
                 sdy.return %1 : tensor<2x4xf32>
               }} : (tensor<8x4xf32>) -> tensor<8x4xf32>
               return %0 : tensor<8x4xf32> }}"
        ))
    };
    let is_left = |inside: &str| same(inside).0.contains("sdy.manual_computation");
    assert!(!is_left("%1 = stablehlo.negate %b : tensor<2x4xf32>"));
    // Groups that are no axis.
    assert!(is_left(&format!("%1 = {}", sum("%b", "tensor<2x4xf32>", "[[0, 3, 4, 6], [1, 2, 5, 7]]", "2x4"))));
    // The number of a partition, where the compiler chooses along the other axis.
    assert!(is_left(
        "%id = stablehlo.partition_id : tensor<ui32>
         %f = stablehlo.convert %id : (tensor<ui32>) -> tensor<f32>
         %c = stablehlo.broadcast_in_dim %f, dims = [] : (tensor<f32>) -> tensor<2x4xf32>
         %1 = stablehlo.add %b, %c : tensor<2x4xf32>"
    ));
    assert!(is_left(
        "%1 = stablehlo.custom_call @print(%b) {has_side_effect = true} : (tensor<2x4xf32>) -> tensor<2x4xf32>"
    ));
}
