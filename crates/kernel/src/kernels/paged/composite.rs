//! Attention to a paged KV cache as a composite: which kernel one asks for, and its decomposition in StableHLO.
//!
//! An attribute beside those of [`PagedAttributes`]: the block size `block_q` where the preferred one is not wanted.

use hlo::Func;
use tensor::DType;

use super::PagedAttention;
use crate::composites::PagedAttributes;
use crate::error::Error;
use crate::kernel::Kernel;
use crate::kernels::flash::MASK_VALUE;
use crate::kernels::{Request, bits, function, tensor};

const KERNEL: &str = "paged attention";

pub(crate) fn attention_for(request: &Request<'_>) -> Result<Kernel, Error> {
    let attention = read(request)?;
    let block = request.size("block_q").or_else(|| attention.preferred_block(request.generation));
    let block = block.ok_or_else(|| Error::Shape {
        kernel: KERNEL,
        message: format!("{} queries are not whole tiles", attention.queries),
    })?;
    super::attention(&attention, block, request.generation)
}

pub(crate) fn attention_plain(request: &Request<'_>, name: &str) -> Result<Func, Error> {
    decomposition(&read(request)?, name)
}

fn read(request: &Request<'_>) -> Result<PagedAttention, Error> {
    let [entries] = request.dims(KERNEL, 1)?;
    let [sequences, kv_heads, queries, depth] = request.dims(KERNEL, 4)?;
    let [layers, pages, _, page_size, _] = request.dims(KERNEL, 5)?;
    let PagedAttributes { group, scale, window, chunk, soft_cap } = PagedAttributes::of(request.attributes);
    if chunk.is_some() || request.operands.len() > 7 {
        return Err(Error::Shape { kernel: KERNEL, message: "chunks or attention sinks".into() });
    }
    Ok(PagedAttention {
        sequences,
        kv_heads,
        group,
        queries,
        depth,
        layers,
        pages,
        page_size,
        table: entries / sequences.max(1),
        dtype: request.operands.get(4).map_or(DType::F32, |spec| spec.dtype),
        scale,
        window,
        soft_cap,
    })
}

/// Attention in plain ops, a function of that name: the pages of each sequence are gathered.
pub fn decomposition(attention: &PagedAttention, name: &str) -> Result<Func, Error> {
    let a = attention;
    let (b, h, n, d) = (a.sequences, a.kv_heads, a.queries, a.depth);
    let (pages, page, count) = (a.pages, a.page_size, a.table);
    let keys = count * page;
    let e = a.dtype;
    let q = tensor(e, [b, h, n, d]);
    let kv = tensor(e, [a.layers, pages, h, page, d]);
    let layer = tensor(e, [pages, h, page, d]);
    let gathered = tensor(e, [b * count, h, page, d]);
    let apart = tensor(e, [b, count, h, page, d]);
    let turned = tensor(e, [b, h, count, page, d]);
    let whole = tensor(e, [b, h, keys, d]);
    let one_layer = tensor(e, [1, pages, h, page, d]);
    let scores = tensor(DType::F32, [b, h, n, keys]);
    let scores_i1 = tensor(DType::Bool, [b, h, n, keys]);
    let scores_i32 = tensor(DType::I32, [b, h, n, keys]);
    let scores_e = tensor(e, [b, h, n, keys]);
    let flat = tensor(DType::F32, [b, h, n]);
    let flat_i1 = tensor(DType::Bool, [b, h, n]);
    let q32 = tensor(DType::F32, [b, h, n, d]);
    let per_sequence = tensor(DType::I32, [b]);
    let per_sequence_i1 = tensor(DType::Bool, [b]);
    let mut read = String::new();
    for (from, to) in [("k", "ks"), ("v", "vs")] {
        read.push_str(&format!(
            "  %{to}1 = stablehlo.dynamic_slice %{from}, %at, %zero, %zero, %zero, %zero, sizes = [1, {pages}, {h}, {page}, {d}] : \
             ({kv}, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>) -> {one_layer}
  %{to}2 = stablehlo.reshape %{to}1 : ({one_layer}) -> {layer}
  %{to}3 = \"stablehlo.gather\"(%{to}2, %table) <{{dimension_numbers = #stablehlo.gather<offset_dims = [1, 2, 3], \
             collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, {h}, {page}, {d}>}}> : \
             ({layer}, tensor<{entries}xi32>) -> {gathered}
  %{to}4 = stablehlo.reshape %{to}3 : ({gathered}) -> {apart}
  %{to}5 = stablehlo.transpose %{to}4, dims = [0, 2, 1, 3, 4] : ({apart}) -> {turned}
  %{to} = stablehlo.reshape %{to}5 : ({turned}) -> {whole}
",
            entries = b * count
        ));
    }
    let cap = match a.soft_cap {
        None => format!(
            "  %scores = stablehlo.multiply %plain, %factor : {scores}
"
        ),
        Some(cap) => format!(
            "  %cap = stablehlo.constant dense<{}> : {scores}
  %scaled = stablehlo.multiply %plain, %factor : {scores}
  %share = stablehlo.divide %scaled, %cap : {scores}
  %bent = stablehlo.tanh %share : {scores}
  %scores = stablehlo.multiply %bent, %cap : {scores}
",
            bits(cap)
        ),
    };
    let compare = format!(", SIGNED : ({scores_i32}, {scores_i32}) -> {scores_i1}");
    let window = match a.window {
        None => format!(
            "  %visible = stablehlo.and %before, %any : {scores_i1}
"
        ),
        Some(window) => format!(
            "  %window = stablehlo.constant dense<{}> : {scores_i32}
  %edge = stablehlo.subtract %stands, %window : {scores_i32}
  %near = stablehlo.compare GT, %key, %edge{compare}
  %both = stablehlo.and %before, %near : {scores_i1}
  %visible = stablehlo.and %both, %any : {scores_i1}
",
            i32::try_from(window).unwrap_or(i32::MAX / 4)
        ),
    };
    function(format!(
        "func.func private @{name}(%layer: tensor<1xi32>, %table: tensor<{entries}xi32>, %filled: {per_sequence}, \
         %tokens: {per_sequence}, %q: {q}, %k: {kv}, %v: {kv}) -> {q} {{
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %at = stablehlo.reshape %layer : (tensor<1xi32>) -> tensor<i32>
{read}  %plain = stablehlo.dot_general %q, %ks, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [3] : ({q}, {whole}) -> {scores}
  %factor = stablehlo.constant dense<{scale}> : {scores}
{cap}  %key = stablehlo.iota dim = 3 : {scores_i32}
  %number = stablehlo.iota dim = 2 : {scores_i32}
  %group = stablehlo.constant dense<{group}> : {scores_i32}
  %token = stablehlo.divide %number, %group : {scores_i32}
  %start = stablehlo.broadcast_in_dim %filled, dims = [0] : ({per_sequence}) -> {scores_i32}
  %stands = stablehlo.add %start, %token : {scores_i32}
  %before = stablehlo.compare LE, %key, %stands{compare}
  %none = stablehlo.constant dense<0> : {per_sequence}
  %some = stablehlo.compare GT, %tokens, %none, SIGNED : ({per_sequence}, {per_sequence}) -> {per_sequence_i1}
  %any = stablehlo.broadcast_in_dim %some, dims = [0] : ({per_sequence_i1}) -> {scores_i1}
{window}  %low = stablehlo.constant dense<{mask}> : {scores}
  %hidden = stablehlo.select %visible, %scores, %low : {scores_i1}, {scores}
  %least = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %most = stablehlo.reduce(%hidden init: %least) applies stablehlo.maximum across dimensions = [3] : ({scores}, tensor<f32>) -> {flat}
  %mosts = stablehlo.broadcast_in_dim %most, dims = [0, 1, 2] : ({flat}) -> {scores}
  %shifted = stablehlo.subtract %hidden, %mosts : {scores}
  %exponentials = stablehlo.exponential %shifted : {scores}
  %nothing = stablehlo.constant dense<0.0> : tensor<f32>
  %sum = stablehlo.reduce(%exponentials init: %nothing) applies stablehlo.add across dimensions = [3] : ({scores}, tensor<f32>) -> {flat}
  %sums = stablehlo.broadcast_in_dim %sum, dims = [0, 1, 2] : ({flat}) -> {scores}
  %normal = stablehlo.divide %exponentials, %sums : {scores}
  %half = stablehlo.constant dense<{half}> : {flat}
  %seeing = stablehlo.compare GT, %most, %half, FLOAT : ({flat}, {flat}) -> {flat_i1}
  %sees = stablehlo.broadcast_in_dim %seeing, dims = [0, 1, 2] : ({flat_i1}) -> {scores_i1}
  %blind = stablehlo.constant dense<0.0> : {scores}
  %weights = stablehlo.select %sees, %normal, %blind : {scores_i1}, {scores}
  %narrow = stablehlo.convert %weights : ({scores}) -> {scores_e}
  %out32 = stablehlo.dot_general %narrow, %vs, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2] : ({scores_e}, {whole}) -> {q32}
  %out = stablehlo.convert %out32 : ({q32}) -> {q}
  return %out : {q}
}}",
        entries = b * count,
        scale = bits(a.scale),
        group = a.group.max(1),
        mask = bits(MASK_VALUE),
        half = bits(MASK_VALUE / 2.0),
    ))
}
