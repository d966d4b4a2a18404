//! The quantized matmul as a composite: activations as the kernel reads them, and the decomposition in StableHLO.

use hlo::Func;
use tensor::DType;

use super::{KERNEL, QuantizedMatmul, QuantizedTiles};
use crate::error::Error;
use crate::kernel::Kernel;
use crate::kernels::{Request, function, tensor};

fn read(request: &Request<'_>) -> Result<QuantizedMatmul, Error> {
    let [rows, inner] = request.dims(KERNEL, 0)?;
    let [of_codes, columns] = request.dims(KERNEL, 1)?;
    let [groups, of_scales] = request.dims(KERNEL, 2)?;
    let dtype = |n: usize| request.operands.get(n).map_or(DType::F32, |spec| spec.dtype);
    if of_codes != inner || of_scales != columns || groups == 0 || !inner.is_multiple_of(groups) {
        let message = format!(
            "{groups} groups of {inner} input features, {of_codes} of codes; scales of {of_scales} of {columns}"
        );
        return Err(Error::Shape { kernel: KERNEL, message });
    }
    let group = inner / groups;
    Ok(QuantizedMatmul { rows, inner, columns, group, x: dtype(0), codes: dtype(1) })
}

pub(crate) fn matmul_plain(request: &Request<'_>, name: &str) -> Result<Func, Error> {
    decomposition(&read(request)?, name)
}

pub(crate) fn matmul_for(request: &Request<'_>) -> Result<Kernel, Error> {
    let shape = read(request)?;
    shape.check_shape()?;
    let preferred = QuantizedTiles::preferred(&shape, request.generation).ok_or_else(|| {
        let message = format!("{} input and {} output features are not whole tiles", shape.inner, shape.columns);
        Error::Shape { kernel: KERNEL, message }
    })?;
    let tiles = QuantizedTiles {
        inner: request.size("block_inner").unwrap_or(preferred.inner),
        columns: request.size("block_columns").unwrap_or(preferred.columns),
    };
    super::matmul(&shape, tiles, request.generation)
}

pub(crate) fn prepared_for(request: &Request<'_>, name: &str) -> Result<Func, Error> {
    let shape = read(request)?;
    shape.check_shape()?;
    prepared(&shape, name)
}

/// Activations as the kernel reads them, a function of that name: rows for each group of a pass, zeros at the places of others; for
/// codes of 4 bits in the order in which codes leave a word.
pub fn prepared(shape: &QuantizedMatmul, name: &str) -> Result<Func, Error> {
    let QuantizedMatmul { rows, inner, group, x, .. } = *shape;
    let (depth, parts, padded) = (shape.depth(), shape.parts(), shape.padded_rows());
    let passes = inner / depth.max(1);
    let (given, narrow, whole) =
        (tensor(x, [rows, inner]), tensor(DType::BF16, [rows, inner]), tensor(DType::BF16, [padded, inner]));
    let apart = tensor(DType::BF16, [padded, passes, depth]);
    let all = tensor(DType::BF16, [parts, padded, passes, depth]);
    let (all_i32, all_i1) =
        (tensor(DType::I32, [parts, padded, passes, depth]), tensor(DType::Bool, [parts, padded, passes, depth]));
    let out = tensor(DType::BF16, [parts * padded, inner]);
    let masked = if parts == 1 {
        format!("  %masked = stablehlo.reshape %apart : ({apart}) -> {all}\n")
    } else {
        format!(
            "  %wide = stablehlo.broadcast_in_dim %apart, dims = [1, 2, 3] : ({apart}) -> {all}
  %place = stablehlo.iota dim = 3 : {all_i32}
  %size = stablehlo.constant dense<{group}> : {all_i32}
  %group = stablehlo.divide %place, %size : {all_i32}
  %part = stablehlo.iota dim = 0 : {all_i32}
  %is_mine = stablehlo.compare EQ, %group, %part, SIGNED : ({all_i32}, {all_i32}) -> {all_i1}
  %none = stablehlo.constant dense<0.0> : {all}
  %masked = stablehlo.select %is_mine, %wide, %none : {all_i1}, {all}\n"
        )
    };
    let ordered = if shape.is_offset() {
        let words = depth / 8;
        let (by_word, by_place) = (
            tensor(DType::BF16, [parts * padded, passes, words, 2, 4]),
            tensor(DType::BF16, [parts * padded, passes, 4, words, 2]),
        );
        format!(
            "  %words = stablehlo.reshape %masked : ({all}) -> {by_word}
  %ordered = stablehlo.transpose %words, dims = [0, 1, 4, 2, 3] : ({by_word}) -> {by_place}
  %out = stablehlo.reshape %ordered : ({by_place}) -> {out}"
        )
    } else {
        format!("  %out = stablehlo.reshape %masked : ({all}) -> {out}")
    };
    function(format!(
        "func.func private @{name}(%x: {given}) -> {out} {{
  %narrow = stablehlo.convert %x : ({given}) -> {narrow}
  %zero = stablehlo.constant dense<0.0> : tensor<bf16>
  %padded = stablehlo.pad %narrow, %zero, low = [0, 0], high = [{more}, 0], interior = [0, 0] : ({narrow}, tensor<bf16>) -> {whole}
  %apart = stablehlo.reshape %padded : ({whole}) -> {apart}
{masked}{ordered}
  return %out : {out}
}}",
        more = padded - rows,
    ))
}

/// The matmul in plain ops, a function of that name: partial sums by group, each times its scale.
pub fn decomposition(shape: &QuantizedMatmul, name: &str) -> Result<Func, Error> {
    let QuantizedMatmul { rows, inner, columns, group, x, codes } = *shape;
    let groups = inner / group.max(1);
    let (given, apart) = (tensor(x, [rows, inner]), tensor(x, [rows, groups, group]));
    let (of_codes, wide) = (tensor(codes, [inner, columns]), tensor(x, [inner, columns]));
    let by_group = tensor(x, [groups, group, columns]);
    let scales = tensor(DType::F32, [groups, columns]);
    let (parts, out) = (tensor(DType::F32, [groups, rows, columns]), tensor(DType::F32, [rows, columns]));
    function(format!(
        "func.func private @{name}(%x: {given}, %codes: {of_codes}, %scales: {scales}) -> {out} {{
  %apart = stablehlo.reshape %x : ({given}) -> {apart}
  %wide = stablehlo.convert %codes : ({of_codes}) -> {wide}
  %weight = stablehlo.reshape %wide : ({wide}) -> {by_group}
  %dots = stablehlo.dot_general %apart, %weight, batching_dims = [1] x [0], contracting_dims = [2] x [1] : ({apart}, {by_group}) -> {parts}
  %factors = stablehlo.broadcast_in_dim %scales, dims = [0, 2] : ({scales}) -> {parts}
  %scaled = stablehlo.multiply %dots, %factors : {parts}
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %out = stablehlo.reduce(%scaled init: %zero) applies stablehlo.add across dimensions = [0] : ({parts}, tensor<f32>) -> {out}
  return %out : {out}
}}"
    ))
}
