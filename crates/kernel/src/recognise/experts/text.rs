//! Functions between the matmuls of experts, as text: rows sorted by expert, taken, weighed and brought back.

use tensor::DType;

use crate::kernels::tensor;

/// Rows in the order of experts: the token of each, its index before, where each went, and how many each expert has.
pub(super) fn dispatch(name: &str, rows: usize, choices: usize, experts: usize) -> String {
    let (of, wide) = (tensor(DType::I32, [rows]), tensor(DType::I32, [rows, experts]));
    let sorted = |result: &str, keys: &str| {
        format!(
            "  %{result}:2 = \"stablehlo.sort\"({keys}, %at) <{{dimension = 0 : i64, is_stable = true}}> ({{
  ^bb0(%a: tensor<i32>, %b: tensor<i32>, %c: tensor<i32>, %d: tensor<i32>):
    %less = stablehlo.compare LT, %a, %b, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %less : tensor<i1>
  }}) : ({of}, {of}) -> ({of}, {of})"
        )
    };
    format!(
        "func.func private @{name}(%chosen: {of}) -> ({of}, {of}, {of}, {count}) {{
  %at = stablehlo.iota dim = 0 : {of}
{by_expert}
  %choices = stablehlo.constant dense<{choices}> : {of}
  %tokens = stablehlo.divide %order#1, %choices : {of}
{back}
  %all = stablehlo.broadcast_in_dim %chosen, dims = [0] : ({of}) -> {wide}
  %counted = stablehlo.iota dim = 1 : {wide}
  %is_chosen = stablehlo.compare EQ, %all, %counted, SIGNED : ({wide}, {wide}) -> {truth}
  %ones = stablehlo.convert %is_chosen : ({truth}) -> {wide}
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %sizes = stablehlo.reduce(%ones init: %zero) applies stablehlo.add across dimensions = [0] : ({wide}, tensor<i32>) -> {count}
  return %tokens, %order#1, %back#1, %sizes : {of}, {of}, {of}, {count}
}}",
        by_expert = sorted("order", "%chosen"),
        back = sorted("back", "%order#1"),
        count = tensor(DType::I32, [experts]),
        truth = tensor(DType::Bool, [rows, experts]),
    )
}

/// Experts by their numbers on the device that has them, of which this is the first; others become one more than the last.
pub(super) fn on_device(name: &str, rows: usize, experts: usize) -> String {
    let (of, truth, number) = (tensor(DType::I32, [rows]), tensor(DType::Bool, [rows]), tensor(DType::I32, []));
    format!(
        "func.func private @{name}(%chosen: {of}, %first: {number}) -> {of} {{
  %firsts = stablehlo.broadcast_in_dim %first, dims = [] : ({number}) -> {of}
  %own = stablehlo.subtract %chosen, %firsts : {of}
  %zero = stablehlo.constant dense<0> : {of}
  %none = stablehlo.constant dense<{experts}> : {of}
  %is_behind = stablehlo.compare GE, %own, %zero, SIGNED : ({of}, {of}) -> {truth}
  %is_before = stablehlo.compare LT, %own, %none, SIGNED : ({of}, {of}) -> {truth}
  %is_own = stablehlo.and %is_behind, %is_before : {truth}
  %out = stablehlo.select %is_own, %own, %none : {truth}, {of}
  return %out : {of}
}}"
    )
}

/// Sorted rows, zeros where they are of no group.
pub(super) fn of_groups(name: &str, [rows, size, experts]: [usize; 3], dtype: DType) -> String {
    let (x, count) = (tensor(dtype, [rows, size]), tensor(DType::I32, [experts]));
    let (wide, truth) = (tensor(DType::I32, [rows, size]), tensor(DType::Bool, [rows, size]));
    format!(
        "func.func private @{name}(%x: {x}, %sizes: {count}) -> {x} {{
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %all = stablehlo.reduce(%sizes init: %zero) applies stablehlo.add across dimensions = [0] : ({count}, tensor<i32>) -> tensor<i32>
  %past = stablehlo.broadcast_in_dim %all, dims = [] : (tensor<i32>) -> {wide}
  %row = stablehlo.iota dim = 0 : {wide}
  %is_own = stablehlo.compare LT, %row, %past, SIGNED : ({wide}, {wide}) -> {truth}
  %none = stablehlo.constant dense<0.0> : {x}
  %out = stablehlo.select %is_own, %x, %none : {truth}, {x}
  return %out : {x}
}}"
    )
}

/// Rows by their indices.
pub(super) fn take(name: &str, [from, to, size]: [usize; 3], dtype: DType) -> String {
    let (all, some) = (tensor(dtype, [from, size]), tensor(dtype, [to, size]));
    let indices = tensor(DType::I32, [to]);
    format!(
        "func.func private @{name}(%x: {all}, %i: {indices}) -> {some} {{
{}
  return %taken : {some}
}}",
        gathered("%x", "%i", [from, to, size], dtype)
    )
}

pub(super) fn gathered(x: &str, indices: &str, [from, to, size]: [usize; 3], dtype: DType) -> String {
    let (flat, column) = (tensor(DType::I32, [to]), tensor(DType::I32, [to, 1]));
    let (all, some) = (tensor(dtype, [from, size]), tensor(dtype, [to, size]));
    format!(
        "  %column = stablehlo.reshape {indices} : ({flat}) -> {column}
  %taken = \"stablehlo.gather\"({x}, %column) <{{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], \
         start_index_map = [0], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1, {size}>}}> : ({all}, {column}) -> {some}"
    )
}

/// What chosen experts gave, back in the order of tokens and weighed.
pub(super) fn combine(name: &str, [tokens, choices, size]: [usize; 3], [dtype, weight, result]: [DType; 3]) -> String {
    let rows = tokens * choices;
    let (x, indices, weights) =
        (tensor(dtype, [rows, size]), tensor(DType::I32, [rows]), tensor(weight, [tokens, choices]));
    let (cube, wide) = (tensor(DType::F32, [tokens, choices, size]), tensor(DType::F32, [tokens, choices]));
    let (sum, out) = (tensor(DType::F32, [tokens, size]), tensor(result, [tokens, size]));
    format!(
        "func.func private @{name}(%x: {x}, %i: {indices}, %w: {weights}) -> {out} {{
{gathered}
  %cube = stablehlo.reshape %taken : ({x}) -> {narrow}
  %rows = stablehlo.convert %cube : ({narrow}) -> {cube}
  %weights = stablehlo.convert %w : ({weights}) -> {wide}
  %all = stablehlo.broadcast_in_dim %weights, dims = [0, 1] : ({wide}) -> {cube}
  %products = stablehlo.multiply %rows, %all : {cube}
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %sum = stablehlo.reduce(%products init: %zero) applies stablehlo.add across dimensions = [1] : ({cube}, tensor<f32>) -> {sum}
  %out = stablehlo.convert %sum : ({sum}) -> {out}
  return %out : {out}
}}",
        gathered = gathered("%x", "%i", [rows, rows, size], dtype),
        narrow = tensor(dtype, [tokens, choices, size]),
    )
}

/// Rows times what their choices weigh.
pub(super) fn weigh(name: &str, [rows, size]: [usize; 2], [dtype, weight, result]: [DType; 3]) -> String {
    let (x, indices) = (tensor(dtype, [rows, size]), tensor(DType::I32, [rows]));
    let (weights, column, wide) = (tensor(weight, [rows]), tensor(weight, [rows, 1]), tensor(DType::F32, [rows, size]));
    format!(
        "func.func private @{name}(%x: {x}, %w: {weights}, %i: {indices}) -> {out} {{
  %all = stablehlo.reshape %w : ({weights}) -> {column}
{gathered}
  %own = stablehlo.convert %taken : ({column}) -> {column32}
  %repeated = stablehlo.broadcast_in_dim %own, dims = [0, 1] : ({column32}) -> {wide}
  %rows = stablehlo.convert %x : ({x}) -> {wide}
  %weighed = stablehlo.multiply %rows, %repeated : {wide}
  %out = stablehlo.convert %weighed : ({wide}) -> {out}
  return %out : {out}
}}",
        out = tensor(result, [rows, size]),
        gathered = gathered("%all", "%i", [rows, rows, 1], weight),
        column32 = tensor(DType::F32, [rows, 1]),
    )
}

/// Rows back in the order of tokens, summed over choices.
pub(super) fn collect(name: &str, [tokens, choices, size]: [usize; 3], [dtype, result]: [DType; 2]) -> String {
    let rows = tokens * choices;
    let (x, indices) = (tensor(dtype, [rows, size]), tensor(DType::I32, [rows]));
    let (narrow, cube) = (tensor(dtype, [tokens, choices, size]), tensor(DType::F32, [tokens, choices, size]));
    let (sum, out) = (tensor(DType::F32, [tokens, size]), tensor(result, [tokens, size]));
    format!(
        "func.func private @{name}(%x: {x}, %i: {indices}) -> {out} {{
{gathered}
  %cube = stablehlo.reshape %taken : ({x}) -> {narrow}
  %rows = stablehlo.convert %cube : ({narrow}) -> {cube}
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %sum = stablehlo.reduce(%rows init: %zero) applies stablehlo.add across dimensions = [1] : ({cube}, tensor<f32>) -> {sum}
  %out = stablehlo.convert %sum : ({sum}) -> {out}
  return %out : {out}
}}",
        gathered = gathered("%x", "%i", [rows, rows, size], dtype),
    )
}

/// Products of rows, one number for each choice, at the places of the experts that were chosen.
pub(super) fn products(
    name: &str,
    [tokens, choices, experts, size]: [usize; 4],
    [of_tokens, of_rows, result]: [DType; 3],
) -> String {
    let rows = tokens * choices;
    let (a, b, wide) =
        (tensor(of_tokens, [rows, size]), tensor(of_rows, [rows, size]), tensor(DType::F32, [rows, size]));
    let (indices, flat, column) =
        (tensor(DType::I32, [rows]), tensor(DType::F32, [rows]), tensor(DType::F32, [rows, 1]));
    let (chosen, square) = (tensor(DType::I32, [tokens, choices]), tensor(DType::F32, [tokens, choices]));
    let cube = [tokens, choices, experts];
    let (cube32, cube_i32, cube_i1) = (tensor(DType::F32, cube), tensor(DType::I32, cube), tensor(DType::Bool, cube));
    format!(
        "func.func private @{name}(%a: {a}, %b: {b}, %i: {indices}, %chosen: {chosen}) -> {out} {{
  %a32 = stablehlo.convert %a : ({a}) -> {wide}
  %b32 = stablehlo.convert %b : ({b}) -> {wide}
  %products = stablehlo.multiply %a32, %b32 : {wide}
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %sums = stablehlo.reduce(%products init: %zero) applies stablehlo.add across dimensions = [1] : ({wide}, tensor<f32>) -> {flat}
  %sums1 = stablehlo.reshape %sums : ({flat}) -> {column}
{gathered}
  %own = stablehlo.reshape %taken : ({column}) -> {square}
  %all = stablehlo.broadcast_in_dim %own, dims = [0, 1] : ({square}) -> {cube32}
  %experts = stablehlo.iota dim = 2 : {cube_i32}
  %told = stablehlo.broadcast_in_dim %chosen, dims = [0, 1] : ({chosen}) -> {cube_i32}
  %is_own = stablehlo.compare EQ, %experts, %told, SIGNED : ({cube_i32}, {cube_i32}) -> {cube_i1}
  %none = stablehlo.constant dense<0.0> : {cube32}
  %placed = stablehlo.select %is_own, %all, %none : {cube_i1}, {cube32}
  %out32 = stablehlo.reduce(%placed init: %zero) applies stablehlo.add across dimensions = [1] : ({cube32}, tensor<f32>) -> {out32}
  %out = stablehlo.convert %out32 : ({out32}) -> {out}
  return %out : {out}
}}",
        gathered = gathered("%sums1", "%i", [rows, rows, 1], DType::F32),
        out32 = tensor(DType::F32, [tokens, experts]),
        out = tensor(result, [tokens, experts]),
    )
}
