//! Attention to a paged KV cache as a composite: which kernel one asks for, and its decomposition in StableHLO.
//!
//! An attribute beside those of [`PagedAttributes`]: the block size `block_q` where the preferred one is not wanted.

use hlo::Func;
use tensor::{DType, Spec};

use super::{AttentionSinks, PagedAttention};
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
    let [sequences, kv_heads, queries, features] = request.dims(KERNEL, 4)?;
    let [layers, pages, _, page_size, of_keys] = request.dims(KERNEL, 5)?;
    let [.., depth] = request.dims::<5>(KERNEL, 6)?;
    let PagedAttributes { group, scale, window, chunk, soft_cap } = PagedAttributes::of(request.attributes);
    let dtype = |operand: usize| request.operands.get(operand).map_or(DType::F32, |spec| spec.dtype);
    let is_sinks = |spec: &Spec| spec.rank() == 2;
    let sinks = match request.operands.get(7).is_some_and(is_sinks) {
        true => AttentionSinks::Present,
        false => AttentionSinks::Absent,
    };
    Ok(PagedAttention {
        sequences,
        kv_heads,
        group,
        queries,
        depth,
        // Queries with the features of values and of keys: a value is a part of its key.
        rotary: (features != of_keys).then_some(of_keys),
        layers,
        pages,
        page_size,
        table: entries / sequences.max(1),
        dtype: dtype(4),
        codes: dtype(5),
        scale,
        window,
        chunk,
        soft_cap,
        sinks,
    })
}

/// Attention in plain ops, a function of that name: the pages of each sequence are gathered.
pub fn decomposition(attention: &PagedAttention, name: &str) -> Result<Func, Error> {
    let a = attention;
    let (b, h, n, d) = (a.sequences, a.kv_heads, a.queries, a.depth);
    let (pages, page, count) = (a.pages, a.page_size, a.table);
    let (keys, entries) = (count * page, b * count);
    let e = a.dtype;
    let (q, out) = (tensor(e, [b, h, n, a.query_depth()]), tensor(e, [b, h, n, d]));
    let scores = tensor(DType::F32, [b, h, n, keys]);
    let scores_i1 = tensor(DType::Bool, [b, h, n, keys]);
    let scores_i32 = tensor(DType::I32, [b, h, n, keys]);
    let scores_e = tensor(e, [b, h, n, keys]);
    let flat = tensor(DType::F32, [b, h, n]);
    let flat_i1 = tensor(DType::Bool, [b, h, n]);
    let out32 = tensor(DType::F32, [b, h, n, d]);
    let whole = |depth: usize| tensor(e, [b, h, keys, depth]);
    let per_sequence = tensor(DType::I32, [b]);
    let per_sequence_i1 = tensor(DType::Bool, [b]);
    let kv = |depth: usize| tensor(a.codes, [a.layers, pages, h, page, depth]);
    let mut read = gathered(a, "k", "ks", a.codes, Some(a.key_depth()));
    read += &gathered(a, "v", "vs", a.codes, Some(d));
    let mut arguments = format!("%k: {}, %v: {}", kv(a.key_depth()), kv(d));
    if a.sinks == AttentionSinks::Present {
        arguments += &format!(", %sinks: {}", tensor(DType::F32, [h, a.group]));
    }
    let per_position = tensor(DType::F32, [b, h, keys]);
    if a.has_scales() {
        let scales = tensor(DType::F32, [a.layers, pages, h, page]);
        arguments += &format!(", %k_scales: {scales}, %v_scales: {scales}");
        for of in ["k", "v"] {
            read += &gathered(a, &format!("{of}_scales"), &format!("{of}_scale"), DType::F32, None);
            read += &format!(
                "  %{of}_by = stablehlo.broadcast_in_dim %{of}_scale, dims = [0, 1, 3] : ({per_position}) -> {scores}\n"
            );
        }
    }
    // Scores of a part of the features of queries with what has them.
    let products = |to: &str, first: usize, size: usize, from: &str, scale: &str| {
        let part = tensor(e, [b, h, n, size]);
        let scaled = match a.has_scales() {
            true => format!("  %{to} = stablehlo.multiply %{to}_raw, %{scale} : {scores}\n"),
            false => format!("  %{to} = stablehlo.reshape %{to}_raw : ({scores}) -> {scores}\n"),
        };
        format!(
            "  %{to}_q = stablehlo.slice %q [0:{b}, 0:{h}, 0:{n}, {first}:{end}] : ({q}) -> {part}
  %{to}_raw = stablehlo.dot_general %{to}_q, %{from}, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [3] : \
             ({part}, {whole}) -> {scores}
{scaled}",
            end = first + size,
            whole = whole(size)
        )
    };
    read += &match a.rotary {
        None => products("plain", 0, d, "ks", "k_by"),
        Some(rotary) => {
            products("of_values", 0, d, "vs", "v_by")
                + &products("of_keys", d, rotary, "ks", "k_by")
                + &format!("  %plain = stablehlo.add %of_values, %of_keys : {scores}\n")
        }
    };
    let cap = match a.soft_cap {
        None => format!("  %scores = stablehlo.multiply %plain, %factor : {scores}\n"),
        Some(cap) => format!(
            "  %cap = stablehlo.constant dense<{}> : {scores}
  %scaled = stablehlo.multiply %plain, %factor : {scores}
  %share = stablehlo.divide %scaled, %cap : {scores}
  %bent = stablehlo.tanh %share : {scores}
  %scores = stablehlo.multiply %bent, %cap : {scores}\n",
            bits(cap)
        ),
    };
    let compare = format!(", SIGNED : ({scores_i32}, {scores_i32}) -> {scores_i1}");
    let size = |size: usize| i32::try_from(size).unwrap_or(i32::MAX / 4);
    let window = match a.window {
        None => format!("  %near = stablehlo.and %before, %any : {scores_i1}\n"),
        Some(window) => format!(
            "  %window = stablehlo.constant dense<{}> : {scores_i32}
  %edge = stablehlo.subtract %stands, %window : {scores_i32}
  %inside = stablehlo.compare GT, %key, %edge{compare}
  %both = stablehlo.and %before, %inside : {scores_i1}
  %near = stablehlo.and %both, %any : {scores_i1}\n",
            size(window)
        ),
    };
    let chunk = match a.chunk {
        None => format!("  %visible = stablehlo.and %near, %any : {scores_i1}\n"),
        Some(chunk) => format!(
            "  %chunk = stablehlo.constant dense<{}> : {scores_i32}
  %chunk_of_query = stablehlo.divide %stands, %chunk : {scores_i32}
  %chunk_of_key = stablehlo.divide %key, %chunk : {scores_i32}
  %is_same = stablehlo.compare EQ, %chunk_of_query, %chunk_of_key{compare}
  %visible = stablehlo.and %near, %is_same : {scores_i1}\n",
            size(chunk)
        ),
    };
    // A sink counts in the largest score and in the sum, and has no value.
    let (places, group) = (n.div_ceil(a.group.max(1)), a.group.max(1));
    let sinks = match a.sinks {
        AttentionSinks::Absent => format!(
            "  %most = stablehlo.reshape %most_key : ({flat}) -> {flat}
  %sink_weight = stablehlo.constant dense<0.0> : {flat}\n"
        ),
        AttentionSinks::Present => format!(
            "  %sinks_b = stablehlo.broadcast_in_dim %sinks, dims = [1, 3] : ({given}) -> {apart}
  %sinks_r = stablehlo.reshape %sinks_b : ({apart}) -> {rows}
  %sink = stablehlo.slice %sinks_r [0:{b}, 0:{h}, 0:{n}] : ({rows}) -> {flat}
  %most = stablehlo.maximum %most_key, %sink : {flat}
  %sink_shifted = stablehlo.subtract %sink, %most : {flat}
  %sink_weight = stablehlo.exponential %sink_shifted : {flat}\n",
            given = tensor(DType::F32, [h, a.group]),
            apart = tensor(DType::F32, [b, h, places, group]),
            rows = tensor(DType::F32, [b, h, places * group]),
        ),
    };
    let of_values = match a.has_scales() {
        true => format!("  %of_codes = stablehlo.multiply %weights, %v_by : {scores}\n"),
        false => format!("  %of_codes = stablehlo.reshape %weights : ({scores}) -> {scores}\n"),
    };
    function(format!(
        "func.func private @{name}(%layer: tensor<1xi32>, %table: tensor<{entries}xi32>, %filled: {per_sequence}, \
         %tokens: {per_sequence}, %q: {q}, {arguments}) -> {out} {{
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %at = stablehlo.reshape %layer : (tensor<1xi32>) -> tensor<i32>
{read}  %factor = stablehlo.constant dense<{scale}> : {scores}
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
{window}{chunk}  %low = stablehlo.constant dense<{mask}> : {scores}
  %hidden = stablehlo.select %visible, %scores, %low : {scores_i1}, {scores}
  %least = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %most_key = stablehlo.reduce(%hidden init: %least) applies stablehlo.maximum across dimensions = [3] : ({scores}, tensor<f32>) -> {flat}
{sinks}  %mosts = stablehlo.broadcast_in_dim %most, dims = [0, 1, 2] : ({flat}) -> {scores}
  %shifted = stablehlo.subtract %hidden, %mosts : {scores}
  %exponentials = stablehlo.exponential %shifted : {scores}
  %nothing = stablehlo.constant dense<0.0> : tensor<f32>
  %sum_keys = stablehlo.reduce(%exponentials init: %nothing) applies stablehlo.add across dimensions = [3] : ({scores}, tensor<f32>) -> {flat}
  %sum = stablehlo.add %sum_keys, %sink_weight : {flat}
  %sums = stablehlo.broadcast_in_dim %sum, dims = [0, 1, 2] : ({flat}) -> {scores}
  %normal = stablehlo.divide %exponentials, %sums : {scores}
  %half = stablehlo.constant dense<{half}> : {flat}
  %seeing = stablehlo.compare GT, %most_key, %half, FLOAT : ({flat}, {flat}) -> {flat_i1}
  %sees = stablehlo.broadcast_in_dim %seeing, dims = [0, 1, 2] : ({flat_i1}) -> {scores_i1}
  %blind = stablehlo.constant dense<0.0> : {scores}
  %weights = stablehlo.select %sees, %normal, %blind : {scores_i1}, {scores}
{of_values}  %narrow = stablehlo.convert %of_codes : ({scores}) -> {scores_e}
  %out32 = stablehlo.dot_general %narrow, %vs, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2] : \
         ({scores_e}, {values}) -> {out32}
  %out = stablehlo.convert %out32 : ({out32}) -> {out}
  return %out : {out}
}}",
        values = whole(d),
        scale = bits(a.scale),
        mask = bits(MASK_VALUE),
        half = bits(MASK_VALUE / 2.0),
    ))
}

/// The pages of all sequences of an array `[layers, pages, kv_heads, page_size, depth]`, or without the last axis, one after the other:
/// `[sequences, kv_heads, positions, depth]` in the type of queries, or in its own without a depth.
fn gathered(a: &PagedAttention, from: &str, to: &str, dtype: DType, depth: Option<usize>) -> String {
    let (b, h, pages, page, count) = (a.sequences, a.kv_heads, a.pages, a.page_size, a.table);
    let of = |dtype: DType, dims: &[usize]| {
        let dims: String = dims.iter().chain(&depth).map(|d| format!("{d}x")).collect();
        format!("tensor<{dims}{}>", dtype.name())
    };
    let (all, one_layer) = (of(dtype, &[a.layers, pages, h, page]), of(dtype, &[1, pages, h, page]));
    let (layer, gathered) = (of(dtype, &[pages, h, page]), of(dtype, &[b * count, h, page]));
    let (apart, turned) = (of(dtype, &[b, count, h, page]), of(dtype, &[b, h, count, page]));
    let (whole, typed) = (of(dtype, &[b, h, count * page]), if depth.is_some() { a.dtype } else { dtype });
    let typed = of(typed, &[b, h, count * page]);
    let last = depth.map_or(String::new(), |depth| format!(", {depth}"));
    let (zeros, types, offsets, turn) = match depth {
        Some(_) => ("%zero, %zero, %zero, %zero", vec!["tensor<i32>"; 5], "1, 2, 3", "0, 2, 1, 3, 4"),
        None => ("%zero, %zero, %zero", vec!["tensor<i32>"; 4], "1, 2", "0, 2, 1, 3"),
    };
    format!(
        "  %{to}1 = stablehlo.dynamic_slice %{from}, %at, {zeros}, sizes = [1, {pages}, {h}, {page}{last}] : ({all}, {types}) -> {one_layer}
  %{to}2 = stablehlo.reshape %{to}1 : ({one_layer}) -> {layer}
  %{to}3 = \"stablehlo.gather\"(%{to}2, %table) <{{dimension_numbers = #stablehlo.gather<offset_dims = [{offsets}], \
         collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, {h}, {page}{last}>}}> : \
         ({layer}, tensor<{entries}xi32>) -> {gathered}
  %{to}4 = stablehlo.reshape %{to}3 : ({gathered}) -> {apart}
  %{to}5 = stablehlo.transpose %{to}4, dims = [{turn}] : ({apart}) -> {turned}
  %{to}6 = stablehlo.reshape %{to}5 : ({turned}) -> {whole}
  %{to} = stablehlo.convert %{to}6 : ({whole}) -> {typed}
",
        types = types.join(", "),
        entries = b * count,
    )
}
