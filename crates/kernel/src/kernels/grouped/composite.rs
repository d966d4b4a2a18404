//! Grouped matmuls as composites: tables of visits, and decompositions in StableHLO.

use hlo::Func;
use tensor::{DType, Spec};

use super::{Grouped, Matrices, MatrixScales, Tiles, Visits};
use crate::composites::GroupedAttributes;
use crate::error::Error;
use crate::kernel::{Kernel, is_narrow};
use crate::kernels::{Request, function, tensor};

const KERNEL: &str = "grouped matmul";

#[derive(Clone, Copy)]
enum Second {
    Matrices,
    Gradients,
}

/// Shapes; the second operand is the matrices, or gradients of rows. A layer may be before the rows, scales of matrices behind them.
fn read(request: &Request<'_>, second: Second) -> Result<(Grouped, Tiles), Error> {
    let is_layer = |spec: &Spec| spec.dtype == DType::I32 && spec.dims == [1];
    let has_layer = matches!(second, Second::Matrices) && request.operands.first().is_some_and(is_layer);
    let first = usize::from(has_layer);
    let has_scales = matches!(second, Second::Matrices) && request.operands.len() > first + 3;
    let [rows, inner] = request.dims(KERNEL, first)?;
    let [groups] = request.dims(KERNEL, first + 2 + usize::from(has_scales))?;
    let attributes = GroupedAttributes::of(request.attributes);
    let matrices = if attributes.transposed { Matrices::Transposed } else { Matrices::AsIs };
    let (layers, [_, of_rows, of_columns]) = match (second, has_layer) {
        (Second::Gradients, _) => {
            let [rows, columns] = request.dims(KERNEL, 1)?;
            (None, [0, rows, columns])
        }
        (Second::Matrices, false) => (None, request.dims(KERNEL, 1)?),
        (Second::Matrices, true) => {
            let [layers, groups, rows, columns] = request.dims(KERNEL, 2)?;
            (Some(layers), [groups, rows, columns])
        }
    };
    let columns = match (second, matrices) {
        (Second::Matrices, Matrices::Transposed) => of_rows,
        (Second::Gradients, _) | (Second::Matrices, Matrices::AsIs) => of_columns,
    };
    let lhs = request.operands.get(first).map_or(DType::F32, |spec| spec.dtype);
    let dtype = attributes.result.unwrap_or(lhs);
    let codes = match second {
        Second::Matrices => request.operands.get(first + 1).map_or(dtype, |spec| spec.dtype),
        Second::Gradients => dtype,
    };
    let scales = if has_scales { MatrixScales::Columns } else { MatrixScales::None };
    let expected_rows = attributes.expected_rows;
    let grouped = Grouped { rows, inner, columns, groups, layers, dtype, lhs, codes, matrices, scales, expected_rows };
    let visits = match second {
        Second::Matrices => Visits::EveryTile,
        Second::Gradients => Visits::EveryGroup,
    };
    let tiles = Tiles::preferred(&grouped, visits, request.generation).ok_or_else(|| {
        let message = format!("{rows} rows, {inner} inner and {columns} columns are not whole tiles of 8, 128 and 128");
        Error::Shape { kernel: KERNEL, message }
    })?;
    Ok((grouped, tiles))
}

pub(crate) fn matmul_plain(request: &Request<'_>, name: &str) -> Result<Func, Error> {
    decomposition(&read(request, Second::Matrices)?.0, name)
}

pub(crate) fn gradient_plain(request: &Request<'_>, name: &str) -> Result<Func, Error> {
    decomposition_of_gradient(&read(request, Second::Gradients)?.0, name)
}

pub(crate) fn matmul_for(request: &Request<'_>) -> Result<Kernel, Error> {
    let (grouped, tiles) = read(request, Second::Matrices)?;
    super::matmul(&grouped, tiles, request.generation)
}

pub(crate) fn gradient_for(request: &Request<'_>) -> Result<Kernel, Error> {
    let (grouped, tiles) = read(request, Second::Gradients)?;
    super::gradient(&grouped, tiles, request.generation)
}

pub(crate) fn visits_for_matmul(request: &Request<'_>, name: &str) -> Result<Func, Error> {
    let (grouped, tiles) = read(request, Second::Matrices)?;
    visits(&grouped, &tiles, Visits::EveryTile, name)
}

pub(crate) fn visits_for_gradient(request: &Request<'_>, name: &str) -> Result<Func, Error> {
    let (grouped, tiles) = read(request, Second::Gradients)?;
    visits(&grouped, &tiles, Visits::EveryGroup, name)
}

/// Tables of visits from group sizes, a function of that name: group and tile of each visit, first rows of groups.
pub fn visits(grouped: &Grouped, tiles: &Tiles, which: Visits, name: &str) -> Result<Func, Error> {
    let (g, listed, count) = (grouped.groups, grouped.listed(which), grouped.visits(tiles));
    let (rows, tile) = (grouped.rows, tiles.rows);
    let (of_g, of_l, of_v) =
        (format!("tensor<{g}xi32>"), format!("tensor<{listed}xi32>"), format!("tensor<{count}xi32>"));
    let square = tensor(DType::I32, [listed, listed]);
    let square_i1 = tensor(DType::Bool, [listed, listed]);
    let (wide, wide_i1) = (tensor(DType::I32, [count, listed]), tensor(DType::Bool, [count, listed]));
    // The group of rows that no group has.
    let sizes = match which {
        Visits::EveryGroup => format!("  %sizes = stablehlo.reshape %given : ({of_g}) -> {of_l}\n"),
        Visits::EveryTile => format!(
            "  %all_rows = stablehlo.constant dense<{rows}> : tensor<i32>
  %taken = stablehlo.reduce(%given init: %zero) applies stablehlo.add across dimensions = [0] : ({of_g}, tensor<i32>) -> tensor<i32>
  %rest = stablehlo.subtract %all_rows, %taken : tensor<i32>
  %rest1 = stablehlo.reshape %rest : (tensor<i32>) -> tensor<1xi32>
  %sizes = stablehlo.concatenate %given, %rest1, dim = 0 : ({of_g}, tensor<1xi32>) -> {of_l}\n"
        ),
    };
    let least = if which == Visits::EveryGroup { 1 } else { 0 };
    let prefix = |to: &str, from: &str, how: &str| {
        // Sums of those before (and, for LE, itself), as a small triangular matmul.
        format!(
            "  %{to}_b = stablehlo.broadcast_in_dim %{from}, dims = [1] : ({of_l}) -> {square}
  %{to}_m = stablehlo.compare {how}, %col, %row, SIGNED : ({square}, {square}) -> {square_i1}
  %{to}_s = stablehlo.select %{to}_m, %{to}_b, %zeros : {square_i1}, {square}
  %{to} = stablehlo.reduce(%{to}_s init: %zero) applies stablehlo.add across dimensions = [1] : ({square}, tensor<i32>) -> {of_l}\n"
        )
    };
    let (begins, ends) = (prefix("begins", "sizes", "LT"), prefix("ends", "sizes", "LE"));
    let (earlier, so_far) = (prefix("earlier", "visits", "LT"), prefix("so_far", "visits", "LE"));
    function(format!(
        "func.func private @{name}(%given: {of_g}) -> ({of_v}, {of_v}, tensor<{next}xi32>) {{
  %zero = stablehlo.constant dense<0> : tensor<i32>
{sizes}  %zeros = stablehlo.constant dense<0> : {square}
  %row = stablehlo.iota dim = 0 : {square}
  %col = stablehlo.iota dim = 1 : {square}
{begins}{ends}  %tile = stablehlo.constant dense<{tile}> : {of_l}
  %tile_less = stablehlo.constant dense<{tile_less}> : {of_l}
  %last_tile = stablehlo.constant dense<{last_tile}> : {of_l}
  %first0 = stablehlo.divide %begins, %tile : {of_l}
  %first = stablehlo.minimum %first0, %last_tile : {of_l}
  %up = stablehlo.add %ends, %tile_less : {of_l}
  %past = stablehlo.divide %up, %tile : {of_l}
  %span = stablehlo.subtract %past, %first0 : {of_l}
  %none = stablehlo.constant dense<0> : {of_l}
  %is_some = stablehlo.compare GT, %sizes, %none, SIGNED : ({of_l}, {of_l}) -> tensor<{listed}xi1>
  %least = stablehlo.constant dense<{least}> : {of_l}
  %visits = stablehlo.select %is_some, %span, %least : tensor<{listed}xi1>, {of_l}
{earlier}{so_far}  %n = stablehlo.iota dim = 0 : {wide}
  %so_far_w = stablehlo.broadcast_in_dim %so_far, dims = [1] : ({of_l}) -> {wide}
  %earlier_w = stablehlo.broadcast_in_dim %earlier, dims = [1] : ({of_l}) -> {wide}
  %first_w = stablehlo.broadcast_in_dim %first, dims = [1] : ({of_l}) -> {wide}
  %done = stablehlo.compare LE, %so_far_w, %n, SIGNED : ({wide}, {wide}) -> {wide_i1}
  %ones = stablehlo.convert %done : ({wide_i1}) -> {wide}
  %groups = stablehlo.reduce(%ones init: %zero) applies stablehlo.add across dimensions = [1] : ({wide}, tensor<i32>) -> {of_v}
  %group_w = stablehlo.broadcast_in_dim %groups, dims = [0] : ({of_v}) -> {wide}
  %index = stablehlo.iota dim = 1 : {wide}
  %is_mine = stablehlo.compare EQ, %group_w, %index, SIGNED : ({wide}, {wide}) -> {wide_i1}
  %within = stablehlo.subtract %n, %earlier_w : {wide}
  %at = stablehlo.add %first_w, %within : {wide}
  %nothing = stablehlo.constant dense<0> : {wide}
  %picked = stablehlo.select %is_mine, %at, %nothing : {wide_i1}, {wide}
  %found = stablehlo.reduce(%picked init: %zero) applies stablehlo.add across dimensions = [1] : ({wide}, tensor<i32>) -> {of_v}
  %listed = stablehlo.constant dense<{listed}> : {of_v}
  %is_visit = stablehlo.compare LT, %groups, %listed, SIGNED : ({of_v}, {of_v}) -> tensor<{count}xi1>
  %end_tile = stablehlo.constant dense<{last_tile}> : {of_v}
  %tiles = stablehlo.select %is_visit, %found, %end_tile : tensor<{count}xi1>, {of_v}
  %start = stablehlo.constant dense<0> : tensor<1xi32>
  %bounds = stablehlo.concatenate %start, %ends, dim = 0 : (tensor<1xi32>, {of_l}) -> tensor<{next}xi32>
  return %groups, %tiles, %bounds : {of_v}, {of_v}, tensor<{next}xi32>
}}",
        next = listed + 1,
        tile_less = tile - 1,
        last_tile = rows / tile - 1,
    ))
}

/// The grouped matmul in plain ops, a function of that name: every row with every matrix, masked.
pub fn decomposition(grouped: &Grouped, name: &str) -> Result<Func, Error> {
    let Grouped { rows, inner, columns, groups, layers, dtype, codes, .. } = *grouped;
    let (lhs, out) = (tensor(grouped.lhs, [rows, inner]), tensor(dtype, [rows, columns]));
    // What rows of codes and matrices of codes are multiplied as: all codes of both are among its numbers.
    let factor = if is_narrow(grouped.lhs) { DType::BF16 } else { dtype };
    let (dims, summed) = match grouped.matrices {
        Matrices::AsIs => ([groups, inner, columns], 1),
        Matrices::Transposed => ([groups, columns, inner], 2),
    };
    let (given, rhs) = (tensor(codes, dims), tensor(factor, dims));
    let [_, first, second] = dims;
    let (layer, stored, of_layer) = match layers {
        None => {
            (String::new(), given.clone(), format!("  %of_layer = stablehlo.reshape %stored : ({given}) -> {given}\n"))
        }
        Some(layers) => {
            let (all, one) =
                (tensor(codes, [layers, groups, first, second]), tensor(codes, [1, groups, first, second]));
            let index = "tensor<i32>";
            let read = format!(
                "  %number = stablehlo.reshape %layer : (tensor<1xi32>) -> {index}
  %begin = stablehlo.constant dense<0> : {index}
  %one = stablehlo.dynamic_slice %stored, %number, %begin, %begin, %begin, sizes = [1, {groups}, {first}, {second}] : \
                 ({all}, {index}, {index}, {index}, {index}) -> {one}
  %of_layer = stablehlo.reshape %one : ({one}) -> {given}\n"
            );
            ("%layer: tensor<1xi32>, ".to_owned(), all, read)
        }
    };
    let (all, sum) = (tensor(factor, [groups, rows, inner]), tensor(DType::F32, [rows, columns]));
    let masked = masked_rows(rows, inner, groups, factor);
    let wide = tensor(factor, [rows, inner]);
    let (scales, scaled) = match grouped.scales {
        MatrixScales::None => (String::new(), String::new()),
        MatrixScales::Columns => {
            let given = tensor(DType::F32, [groups, 1, columns]);
            let by_group = tensor(DType::F32, [groups, rows, columns]);
            let (mine, mine_w) = (tensor(DType::Bool, [groups, rows]), tensor(DType::Bool, [groups, rows, columns]));
            let text = format!(
                "  %scales_w = stablehlo.broadcast_in_dim %scales, dims = [0, 1, 2] : ({given}) -> {by_group}
  %scale_mine = stablehlo.broadcast_in_dim %mine, dims = [0, 1] : ({mine}) -> {mine_w}
  %no_scales = stablehlo.constant dense<0.0> : {by_group}
  %own_scales = stablehlo.select %scale_mine, %scales_w, %no_scales : {mine_w}, {by_group}
  %no_scale = stablehlo.constant dense<0.0> : tensor<f32>
  %scale = stablehlo.reduce(%own_scales init: %no_scale) applies stablehlo.add across dimensions = [0] : ({by_group}, tensor<f32>) -> {sum}
  %scaled = stablehlo.multiply %sum, %scale : {sum}\n"
            );
            (format!("%scales: {given}, "), text)
        }
    };
    let result = if scaled.is_empty() { "%sum" } else { "%scaled" };
    function(format!(
        "func.func private @{name}({layer}%given_lhs: {lhs}, %stored: {stored}, {scales}%given: tensor<{groups}xi32>) -> {out} {{
{of_layer}  %rhs = stablehlo.convert %of_layer : ({given}) -> {rhs}
  %lhs = stablehlo.convert %given_lhs : ({lhs}) -> {wide}
{masked}
  %sum = stablehlo.dot_general %masked, %rhs, contracting_dims = [0, 2] x [0, {summed}] : ({all}, {rhs}) -> {sum}
{scaled}  %out = stablehlo.convert {result} : ({sum}) -> {out}
  return %out : {out}
}}"
    ))
}

/// The gradient of the matrices in plain ops, a function of that name.
pub fn decomposition_of_gradient(grouped: &Grouped, name: &str) -> Result<Func, Error> {
    let Grouped { rows, inner, columns, groups, dtype, .. } = *grouped;
    let (lhs, rhs) = (tensor(dtype, [rows, inner]), tensor(dtype, [rows, columns]));
    let (all, out) = (tensor(dtype, [groups, rows, inner]), tensor(dtype, [groups, inner, columns]));
    let sum = tensor(DType::F32, [groups, inner, columns]);
    let masked = masked_rows(rows, inner, groups, dtype);
    function(format!(
        "func.func private @{name}(%lhs: {lhs}, %rhs: {rhs}, %given: tensor<{groups}xi32>) -> {out} {{
{masked}
  %sum = stablehlo.dot_general %masked, %rhs, contracting_dims = [1] x [0] : ({all}, {rhs}) -> {sum}
  %out = stablehlo.convert %sum : ({sum}) -> {out}
  return %out : {out}
}}"
    ))
}

/// Rows for each group, zeros where they are of another (`%masked`).
fn masked_rows(rows: usize, inner: usize, g: usize, dtype: DType) -> String {
    let (square, square_i1) = (tensor(DType::I32, [g, g]), tensor(DType::Bool, [g, g]));
    let (wide, wide_i1) = (tensor(DType::I32, [g, rows]), tensor(DType::Bool, [g, rows]));
    let (lhs, all, all_i1) =
        (tensor(dtype, [rows, inner]), tensor(dtype, [g, rows, inner]), tensor(DType::Bool, [g, rows, inner]));
    format!(
        "  %zero = stablehlo.constant dense<0> : tensor<i32>
  %zeros = stablehlo.constant dense<0> : {square}
  %row = stablehlo.iota dim = 0 : {square}
  %col = stablehlo.iota dim = 1 : {square}
  %sizes_b = stablehlo.broadcast_in_dim %given, dims = [1] : (tensor<{g}xi32>) -> {square}
  %is_before = stablehlo.compare LE, %col, %row, SIGNED : ({square}, {square}) -> {square_i1}
  %before = stablehlo.select %is_before, %sizes_b, %zeros : {square_i1}, {square}
  %ends = stablehlo.reduce(%before init: %zero) applies stablehlo.add across dimensions = [1] : ({square}, tensor<i32>) -> tensor<{g}xi32>
  %begins = stablehlo.subtract %ends, %given : tensor<{g}xi32>
  %at = stablehlo.iota dim = 1 : {wide}
  %ends_w = stablehlo.broadcast_in_dim %ends, dims = [0] : (tensor<{g}xi32>) -> {wide}
  %begins_w = stablehlo.broadcast_in_dim %begins, dims = [0] : (tensor<{g}xi32>) -> {wide}
  %after = stablehlo.compare GE, %at, %begins_w, SIGNED : ({wide}, {wide}) -> {wide_i1}
  %until = stablehlo.compare LT, %at, %ends_w, SIGNED : ({wide}, {wide}) -> {wide_i1}
  %mine = stablehlo.and %after, %until : {wide_i1}
  %mine_w = stablehlo.broadcast_in_dim %mine, dims = [0, 1] : ({wide_i1}) -> {all_i1}
  %lhs_w = stablehlo.broadcast_in_dim %lhs, dims = [1, 2] : ({lhs}) -> {all}
  %nothing = stablehlo.constant dense<0.0> : {all}
  %masked = stablehlo.select %mine_w, %lhs_w, %nothing : {all_i1}, {all}"
    )
}
