//! Programs that once gave something else compiled.

use cpu::Folding;
use fuzzing::{Allowed, Bench, FuzzVerdict, Numbers, Subject};

/// Runs a program both ways on quarters; the results are the same to the last bit.
fn check(text: &str) {
    let module = hlo::text::parse(text).and_then(hlo::verify).unwrap();
    let main = module.entry().unwrap();
    let mut numbers = Numbers::new(1);
    let mut quarters = |ty: &hlo::Type| {
        let ty = ty.as_tensor().unwrap();
        let dims: Vec<usize> = ty.dims.iter().map(|&size| size as usize).collect();
        numbers.quarters(ty.element.plain().unwrap(), &dims)
    };
    let arguments = Some(main.inputs.iter().map(&mut quarters).collect());
    let subject = Subject { text: text.into(), arguments, allowed: Allowed::Within(vec![0.0; main.outputs.len()]) };
    for folding in [Folding::Nothing, Folding::Constants] {
        let verdict = Bench::new().judge_folded(&subject, folding);
        assert!(matches!(&verdict, FuzzVerdict::Agreed(agreed) if agreed.is_compiled), "{verdict:?}\n{text}");
    }
}

#[test]
fn a_reduction_over_no_dimension_is_elementwise() {
    check(
        "func.func @main(%a: tensor<5xi32>, %b: tensor<i32>) -> (tensor<5xi32>, tensor<5xi32>) {
  %0 = stablehlo.negate %a : tensor<5xi32>
  %1 = stablehlo.negate %b : tensor<i32>
  %2 = stablehlo.reduce(%0 init: %1) applies stablehlo.add across dimensions = [] : (tensor<5xi32>, tensor<i32>) -> tensor<5xi32>
  %3 = stablehlo.multiply %2, %0 : tensor<5xi32>
  func.return %2, %3 : tensor<5xi32>, tensor<5xi32>
}",
    );
}

#[test]
fn what_a_reduction_starts_from_is_computed_before_it() {
    check(
        "func.func @main(%a: tensor<4x3xf32>, %b: tensor<f32>) -> (tensor<3xf32>, tensor<4x3xf32>) {
  %0 = stablehlo.add %b, %b : tensor<f32>
  %1 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<f32>) -> tensor<4x3xf32>
  %2 = stablehlo.add %a, %1 : tensor<4x3xf32>
  %3 = stablehlo.reduce(%2 init: %0) applies stablehlo.add across dimensions = [0] : (tensor<4x3xf32>, tensor<f32>) -> tensor<3xf32>
  func.return %3, %2 : tensor<3xf32>, tensor<4x3xf32>
}",
    );
}

#[test]
fn columns_of_one_element_are_reduced() {
    check(
        "func.func @main(%a: tensor<1xf32>, %b: tensor<17x1xf16>) -> (tensor<1xf32>, tensor<1xf16>) {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %none = stablehlo.constant dense<0.0> : tensor<f16>
  %0 = stablehlo.broadcast_in_dim %a, dims = [1] : (tensor<1xf32>) -> tensor<17x1xf32>
  %1 = stablehlo.reduce(%0 init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<17x1xf32>, tensor<f32>) -> tensor<1xf32>
  %2 = stablehlo.reduce(%b init: %none) applies stablehlo.maximum across dimensions = [0] : (tensor<17x1xf16>, tensor<f16>) -> tensor<1xf16>
  func.return %1, %2 : tensor<1xf32>, tensor<1xf16>
}",
    );
}

#[test]
fn a_copy_made_before_a_loop_lasts_through_it() {
    let sort = |to: &str, from: &str| {
        format!(
            "{to} = \"stablehlo.sort\"({from}) <{{dimension = 1 : i64}}> ({{
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %z = stablehlo.compare LT, %x, %y : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %z : tensor<i1>
  }}) : (tensor<7x40xf32>) -> tensor<7x40xf32>"
        )
    };
    let (before, inside, again) = (sort("%s", "%t"), sort("%u", "%t"), sort("%m", "%w"));
    check(&format!(
        "func.func @main(%a: tensor<40x7xf32>) -> (tensor<7x40xf32>, tensor<7x40xf32>) {{
  %t = stablehlo.transpose %a, dims = [1, 0] : (tensor<40x7xf32>) -> tensor<7x40xf32>
  {before}
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %r:2 = stablehlo.while(%v = %s, %i = %zero) : tensor<7x40xf32>, tensor<i32>
  cond {{
    %three = stablehlo.constant dense<3> : tensor<i32>
    %more = stablehlo.compare LT, %i, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  }} do {{
    {inside}
    %w = stablehlo.add %u, %v : tensor<7x40xf32>
    {again}
    %k = stablehlo.add %m, %u : tensor<7x40xf32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %next = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %k, %next : tensor<7x40xf32>, tensor<i32>
  }}
  func.return %s, %r#0 : tensor<7x40xf32>, tensor<7x40xf32>
}}"
    ));
}

#[test]
fn a_dot_is_there_before_it_is_read_in_another_order() {
    check(
        "func.func @main(%a: tensor<40x8xf32>, %b: tensor<8x50xf32>, %c: tensor<50x40xf32>) -> tensor<50x40xf32> {
  %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<40x8xf32>, tensor<8x50xf32>) -> tensor<40x50xf32>
  %1 = stablehlo.transpose %0, dims = [1, 0] : (tensor<40x50xf32>) -> tensor<50x40xf32>
  %2 = stablehlo.add %1, %c : tensor<50x40xf32>
  func.return %2 : tensor<50x40xf32>
}",
    );
}

#[test]
fn factors_are_packed_before_a_loop_only_if_no_round_changes_them() {
    let dot = "contracting_dims = [1] x [0] : (tensor<6x48xf32>, tensor<48x48xf32>) -> tensor<6x48xf32>";
    let (rows, square) = ("tensor<6x48xf32>", "tensor<48x48xf32>");
    check(&format!(
        "func.func @main(%x: {rows}, %w: {square}, %v: {square}) -> ({rows}, {rows}, {rows}) {{
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %two = stablehlo.constant dense<2> : tensor<i32>
  %r:6 = stablehlo.while(%i = %zero, %a = %x, %b = %x, %c = %x, %changed = %v, %kept = %v)
    : tensor<i32>, {rows}, {rows}, {rows}, {square}, {square}
  cond {{
    %more = stablehlo.compare LT, %i, %two : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %more : tensor<i1>
  }} do {{
    %next = stablehlo.add %i, %one : tensor<i32>
    %a1 = stablehlo.dot_general %a, %w, {dot}
    %b1 = stablehlo.dot_general %x, %changed, {dot}
    %c1 = stablehlo.dot_general %c, %kept, {dot}
    %changed1 = stablehlo.add %changed, %w : {square}
    stablehlo.return %next, %a1, %b1, %c1, %changed1, %kept : tensor<i32>, {rows}, {rows}, {rows}, {square}, {square}
  }}
  func.return %r#1, %r#2, %r#3 : {rows}, {rows}, {rows}
}}"
    ));
}

#[test]
fn the_default_generator_is_the_interpreters() {
    check(
        "func.func @main(%s: tensor<2xui64>) -> (tensor<2xui64>, tensor<9xui8>) {
  %0:2 = stablehlo.rng_bit_generator %s, algorithm = DEFAULT : (tensor<2xui64>) -> (tensor<2xui64>, tensor<9xui8>)
  func.return %0#0, %0#1 : tensor<2xui64>, tensor<9xui8>
}",
    );
}
