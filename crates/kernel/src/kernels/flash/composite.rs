//! Flash attention as composites: which kernel one asks for, and its decomposition in StableHLO.
//!
//! Attributes beside those of [`FlashAttributes`]: block sizes `block_q`, `block_kv_major`, `block_kv` where the preferred ones
//! are not wanted.

use hlo::Func;
use tensor::DType;

use super::mask::TableEntry;
use super::{Causality, FlashAttention, FlashBlockSizes, FlashMask, MaskKind, PassDirection, Segments};
use crate::composites::FlashAttributes;
use crate::error::Error;
use crate::kernel::Kernel;
use crate::kernels::{LAST, Request, Tables, bits, function, tensor};

const KERNEL: &str = "flash attention";

/// Operands of the forward pass without segments and mask.
const FORWARD_OPERANDS: usize = 3;
/// Those of the backward pass.
const BACKWARD_OPERANDS: usize = 6;

/// The mask of the forward pass: the last operand, where the number of those behind queries, keys and values is odd.
pub(crate) const FORWARD_MASK: Tables = Tables {
    operand: LAST,
    is_given: |request| request.operands.len().saturating_sub(FORWARD_OPERANDS) % 2 == 1,
    function: |request, name| {
        let (attention, blocks) = read(request, FORWARD_OPERANDS, PassDirection::Forward)?;
        mask_for(&attention, &blocks, PassDirection::Forward, name)
    },
};

/// The mask of the backward pass.
pub(crate) const BACKWARD_MASK: Tables = Tables {
    operand: LAST,
    is_given: |request| request.operands.len().saturating_sub(BACKWARD_OPERANDS) % 2 == 1,
    function: |request, name| {
        let (attention, blocks) = read(request, BACKWARD_OPERANDS, PassDirection::Backward)?;
        mask_for(&attention, &blocks, PassDirection::Backward, name)
    },
};

pub(crate) fn forward_for(request: &Request<'_>) -> Result<Kernel, Error> {
    let (attention, blocks) = read(request, FORWARD_OPERANDS, PassDirection::Forward)?;
    super::forward(&attention, blocks, request.generation)
}

pub(crate) fn backward_for(request: &Request<'_>) -> Result<Kernel, Error> {
    let (attention, blocks) = read(request, BACKWARD_OPERANDS, PassDirection::Backward)?;
    super::backward(&attention, blocks, request.generation)
}

pub(crate) fn forward_plain(request: &Request<'_>, name: &str) -> Result<Func, Error> {
    decomposition(&read(request, FORWARD_OPERANDS, PassDirection::Forward)?.0, name)
}

pub(crate) fn backward_plain(request: &Request<'_>, name: &str) -> Result<Func, Error> {
    decomposition_of_gradient(&read(request, BACKWARD_OPERANDS, PassDirection::Backward)?.0, name)
}

fn read(
    request: &Request<'_>,
    operands: usize,
    pass: PassDirection,
) -> Result<(FlashAttention, FlashBlockSizes), Error> {
    let [batch, q_heads, q_len, depth] = request.dims(KERNEL, 0)?;
    let [_, kv_heads, kv_len, _] = request.dims(KERNEL, 1)?;
    let FlashAttributes { causal, window, scale, soft_cap, density } = FlashAttributes::of(request.attributes);
    // Segments are two arrays, a mask is one.
    let (has_segments, has_mask) = match request.operands.len().saturating_sub(operands) {
        0 => (false, false),
        1 => (false, true),
        2 => (true, false),
        3 => (true, true),
        more => return Err(Error::Shape { kernel: KERNEL, message: format!("{more} operands too many") }),
    };
    let mask = match request.operands.last().filter(|_| has_mask) {
        None => None,
        Some(spec) => {
            let [batch, heads, queries, keys] = request.dims(KERNEL, request.operands.len() - 1)?;
            if keys != kv_len {
                let message = format!("a mask of {keys} keys for {kv_len}");
                return Err(Error::Shape { kernel: KERNEL, message });
            }
            Some(FlashMask { dtype: spec.dtype, batch, heads, queries, density })
        }
    };
    let attention = FlashAttention {
        batch,
        q_heads,
        kv_heads,
        q_len,
        kv_len,
        depth,
        dtype: request.operands.first().map_or(DType::F32, |spec| spec.dtype),
        scale,
        soft_cap,
        causality: if causal { Causality::Causal } else { Causality::Full },
        window,
        segments: if has_segments { Segments::Packed } else { Segments::One },
        mask,
    };
    let blocks = FlashBlockSizes::preferred(&attention, request.generation, pass).ok_or_else(|| {
        let message = format!("{q_len} queries and {kv_len} keys are not whole blocks of 128");
        Error::Shape { kernel: KERNEL, message }
    })?;
    let blocks = FlashBlockSizes {
        q: request.size("block_q").unwrap_or(blocks.q),
        kv_major: request.size("block_kv_major").unwrap_or(blocks.kv_major),
        kv: request.size("block_kv").unwrap_or(blocks.kv),
    };
    Ok((attention, blocks))
}

/// What kernels take in place of a mask, a function of that name: where a table tells its blocks apart the table, and the mask, keys by
/// queries for the backward pass.
pub fn mask_for(
    attention: &FlashAttention,
    blocks: &FlashBlockSizes,
    pass: PassDirection,
    name: &str,
) -> Result<Func, Error> {
    let a = attention;
    attention.check(blocks)?;
    let refused = || Error::Shape { kernel: KERNEL, message: "no mask".into() };
    let FlashMask { dtype, batch, heads, queries, .. } = a.mask.ok_or_else(refused)?;
    let kind = a.mask.map(|mask| mask.kind());
    let given = tensor(dtype, [batch, heads, queries, a.kv_len]);
    let (mut results, mut types, mut lines) = (Vec::new(), Vec::new(), Vec::new());
    if let Some(count) = a.table(blocks) {
        let (rows, columns) = (a.q_len / blocks.q, a.kv_len / blocks.kv);
        let cut = [batch * heads, rows, blocks.q, columns, blocks.kv];
        let (cut_i8, cut_i1, cut_i32) = (tensor(dtype, cut), tensor(DType::Bool, cut), tensor(DType::I32, cut));
        let (of, truth) =
            (tensor(DType::I32, [batch * heads, rows, columns]), tensor(DType::Bool, [batch * heads, rows, columns]));
        let flat = tensor(DType::I32, [count]);
        let compared = format!("SIGNED : ({of}, {of}) -> {truth}");
        lines.push(format!(
            "  %cut = stablehlo.reshape %mask : ({given}) -> {cut_i8}
  %nothing = stablehlo.constant dense<0> : {cut_i8}
  %keeps = stablehlo.compare NE, %cut, %nothing, SIGNED : ({cut_i8}, {cut_i8}) -> {cut_i1}
  %ones = stablehlo.convert %keeps : ({cut_i1}) -> {cut_i32}
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %counts = stablehlo.reduce(%ones init: %zero) applies stablehlo.add across dimensions = [2, 4] : ({cut_i32}, tensor<i32>) -> {of}
  %none = stablehlo.constant dense<0> : {of}
  %all = stablehlo.constant dense<{all}> : {of}
  %is_none = stablehlo.compare EQ, %counts, %none, {compared}
  %is_all = stablehlo.compare EQ, %counts, %all, {compared}
  %partly = stablehlo.constant dense<{partly}> : {of}
  %unmasked = stablehlo.constant dense<{unmasked}> : {of}
  %masked = stablehlo.constant dense<{masked}> : {of}
  %some = stablehlo.select %is_all, %unmasked, %partly : {truth}, {of}
  %entries = stablehlo.select %is_none, %masked, %some : {truth}, {of}
  %table = stablehlo.reshape %entries : ({of}) -> {flat}",
            all = blocks.q * blocks.kv,
            partly = TableEntry::Partly as i32,
            unmasked = TableEntry::Unmasked as i32,
            masked = TableEntry::Masked as i32,
        ));
        results.push("%table");
        types.push(flat);
    }
    if pass == PassDirection::Backward && kind != Some(MaskKind::AddedByKey) {
        let turned = tensor(dtype, [batch, heads, a.kv_len, queries]);
        lines.push(format!("  %turned = stablehlo.transpose %mask, dims = [0, 1, 3, 2] : ({given}) -> {turned}"));
        results.push("%turned");
        types.push(turned);
    } else {
        results.push("%mask");
        types.push(given.clone());
    }
    let (lines, results, types) = (lines.join("\n"), results.join(", "), types.join(", "));
    function(format!(
        "func.func private @{name}(%mask: {given}) -> ({types}) {{\n{lines}\n  return {results} : {types}\n}}"
    ))
}

/// The forward pass in plain ops, a function of that name.
pub fn decomposition(attention: &FlashAttention, name: &str) -> Result<Func, Error> {
    let t = Types::of(attention);
    let Types { q, kv, row, scores, column, .. } = &t;
    let weights = weights(attention, &t);
    let args = Types::arguments(attention, &[("q", q), ("k", kv), ("v", kv)]);
    function(format!(
        "func.func private @{name}({args}) -> ({q}, {row}) {{
{weights}
  %sees = stablehlo.broadcast_in_dim %seeing, dims = [0, 1, 2, 3] : ({column_i1}) -> {scores_i1}
  %inverse = stablehlo.broadcast_in_dim %sum, dims = [0, 1, 2, 3] : ({column}) -> {scores}
  %normal = stablehlo.divide %exponentials, %inverse : {scores}
  %none = stablehlo.constant dense<0.0> : {scores}
  %weights = stablehlo.select %sees, %normal, %none : {scores_i1}, {scores}
  %narrow = stablehlo.convert %weights : ({scores}) -> {scores_e}
  %out32 = stablehlo.dot_general %narrow, %vs, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2] : ({scores_e}, {q_kv}) -> {q32}
  %out = stablehlo.convert %out32 : ({q32}) -> {q}
  %log = stablehlo.log %sum : {column}
  %high = stablehlo.add %most1, %log : {column}
  %blind = stablehlo.constant dense<{blind}> : {column}
  %all = stablehlo.select %seeing, %high, %blind : {column_i1}, {column}
  %row = stablehlo.reshape %all : ({column}) -> {row}
  return %out, %row : {q}, {row}
}}",
        column_i1 = tensor(DType::Bool, t.column_dims),
        scores_i1 = tensor(DType::Bool, t.scores_dims),
        scores_e = tensor(attention.dtype, t.scores_dims),
        q_kv = tensor(attention.dtype, t.wide_dims),
        q32 = tensor(DType::F32, t.q_dims),
        blind = bits(-super::MASK_VALUE),
    ))
}

/// The backward pass in plain ops, a function of that name.
pub fn decomposition_of_gradient(attention: &FlashAttention, name: &str) -> Result<Func, Error> {
    let t = Types::of(attention);
    let Types { q, kv, row, scores, column, .. } = &t;
    let head = weights(attention, &t);
    let args = [("q", q), ("k", kv), ("v", kv), ("out", q), ("lse", row), ("dout", q)];
    let args = Types::arguments(attention, &args);
    let group = attention.group();
    let [b, _, s, d] = t.kv_dims;
    let five = format!("tensor<{b}x{}x{group}x{s}x{d}xf32>", attention.kv_heads);
    let (through_cap, of_scores) = match attention.soft_cap {
        None => (String::new(), "%ds"),
        Some(_) => (
            format!(
                "
  %square = stablehlo.multiply %tanh, %tanh : {scores}
  %one = stablehlo.constant dense<1.0> : {scores}
  %slope = stablehlo.subtract %one, %square : {scores}
  %ds_uncapped = stablehlo.multiply %ds, %slope : {scores}"
            ),
            "%ds_uncapped",
        ),
    };
    function(format!(
        "func.func private @{name}({args}) -> ({q}, {kv}, {kv}) {{
{head}
  %lse1 = stablehlo.reshape %lse : ({row}) -> {column}
  %lses = stablehlo.broadcast_in_dim %lse1, dims = [0, 1, 2, 3] : ({column}) -> {scores}
  %apart = stablehlo.subtract %hidden, %lses : {scores}
  %weights = stablehlo.exponential %apart : {scores}
  %narrow = stablehlo.convert %weights : ({scores}) -> {scores_e}
  %dv = stablehlo.dot_general %narrow, %dout, batching_dims = [0, 1] x [0, 1], contracting_dims = [2] x [2] : ({scores_e}, {q}) -> {wide32}
  %dw = stablehlo.dot_general %dout, %vs, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [3] : ({q}, {wide}) -> {scores}
  %out32 = stablehlo.convert %out : ({q}) -> {q32}
  %dout32 = stablehlo.convert %dout : ({q}) -> {q32}
  %products = stablehlo.multiply %out32, %dout32 : {q32}
  %nothing = stablehlo.constant dense<0.0> : tensor<f32>
  %inner0 = stablehlo.reduce(%products init: %nothing) applies stablehlo.add across dimensions = [3] : ({q32}, tensor<f32>) -> {flat}
  %inner = stablehlo.broadcast_in_dim %inner0, dims = [0, 1, 2] : ({flat}) -> {scores}
  %less = stablehlo.subtract %dw, %inner : {scores}
  %ds = stablehlo.multiply %weights, %less : {scores}{through_cap}
  %scale = stablehlo.constant dense<{scale}> : {scores}
  %scaled = stablehlo.multiply {of_scores}, %scale : {scores}
  %ds_narrow = stablehlo.convert %scaled : ({scores}) -> {scores_e}
  %dq32 = stablehlo.dot_general %ds_narrow, %ks, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2] : ({scores_e}, {wide}) -> {q32}
  %dk = stablehlo.dot_general %ds_narrow, %q, batching_dims = [0, 1] x [0, 1], contracting_dims = [2] x [2] : ({scores_e}, {q}) -> {wide32}
  %dq = stablehlo.convert %dq32 : ({q32}) -> {q}
  %dk5 = stablehlo.reshape %dk : ({wide32}) -> {five}
  %dv5 = stablehlo.reshape %dv : ({wide32}) -> {five}
  %dk4 = stablehlo.reduce(%dk5 init: %nothing) applies stablehlo.add across dimensions = [2] : ({five}, tensor<f32>) -> {kv32}
  %dv4 = stablehlo.reduce(%dv5 init: %nothing) applies stablehlo.add across dimensions = [2] : ({five}, tensor<f32>) -> {kv32}
  %dk_out = stablehlo.convert %dk4 : ({kv32}) -> {kv}
  %dv_out = stablehlo.convert %dv4 : ({kv32}) -> {kv}
  return %dq, %dk_out, %dv_out : {q}, {kv}, {kv}
}}",
        scores_e = tensor(attention.dtype, t.scores_dims),
        wide = tensor(attention.dtype, t.wide_dims),
        wide32 = tensor(DType::F32, t.wide_dims),
        q32 = tensor(DType::F32, t.q_dims),
        kv32 = tensor(DType::F32, t.kv_dims),
        flat = format!("tensor<{b}x{}x{}xf32>", attention.q_heads, attention.q_len),
        scale = bits(attention.scale),
    ))
}

struct Types {
    q_dims: [usize; 4],
    kv_dims: [usize; 4],
    /// Keys with a head for each of the queries'.
    wide_dims: [usize; 4],
    scores_dims: [usize; 4],
    column_dims: [usize; 4],
    q: String,
    kv: String,
    row: String,
    scores: String,
    column: String,
}

impl Types {
    fn of(a: &FlashAttention) -> Types {
        let q_dims = [a.batch, a.q_heads, a.q_len, a.depth];
        let kv_dims = [a.batch, a.kv_heads, a.kv_len, a.depth];
        let scores_dims = [a.batch, a.q_heads, a.q_len, a.kv_len];
        let column_dims = [a.batch, a.q_heads, a.q_len, 1];
        Types {
            q_dims,
            kv_dims,
            wide_dims: [a.batch, a.q_heads, a.kv_len, a.depth],
            scores_dims,
            column_dims,
            q: tensor(a.dtype, q_dims),
            kv: tensor(a.dtype, kv_dims),
            row: tensor(DType::F32, [a.batch, a.q_heads, 1, a.q_len]),
            scores: tensor(DType::F32, scores_dims),
            column: tensor(DType::F32, column_dims),
        }
    }

    fn arguments(a: &FlashAttention, named: &[(&str, &String)]) -> String {
        let mut all: Vec<String> = named.iter().map(|(name, ty)| format!("%{name}: {ty}")).collect();
        if a.segments == Segments::Packed {
            all.push(format!("%q_segments: tensor<{}x1x{}xi32>", a.batch, a.q_len));
            all.push(format!("%kv_segments: tensor<{}x1x{}xi32>", a.batch, a.kv_len));
        }
        if let Some(mask) = a.mask {
            all.push(format!("%mask: {}", tensor(mask.dtype, [mask.batch, mask.heads, mask.queries, a.kv_len])));
        }
        all.join(", ")
    }
}

/// Scores scaled and masked (`%hidden`), their maxima and sums, which queries have any key, and keys and values repeated for the heads
/// of queries (`%ks`, `%vs`).
fn weights(a: &FlashAttention, t: &Types) -> String {
    let Types { q, kv, scores, column, .. } = t;
    let group = a.group();
    let [b, kv_heads, s, d] = t.kv_dims;
    let five = format!("tensor<{b}x{kv_heads}x{group}x{s}x{d}x{}>", a.dtype.name());
    let wide = tensor(a.dtype, t.wide_dims);
    let flat = format!("tensor<{b}x{}x{}xf32>", a.q_heads, a.q_len);
    let (scores_i1, scores_i32) = (tensor(DType::Bool, t.scores_dims), tensor(DType::I32, t.scores_dims));
    let mut lines = Vec::new();
    for (from, to) in [("k", "ks"), ("v", "vs")] {
        lines.push(format!("%{to}5 = stablehlo.broadcast_in_dim %{from}, dims = [0, 1, 3, 4] : ({kv}) -> {five}"));
        lines.push(format!("%{to} = stablehlo.reshape %{to}5 : ({five}) -> {wide}"));
    }
    lines.push(format!(
        "%plain = stablehlo.dot_general %q, %ks, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [3] : ({q}, {wide}) -> {scores}"
    ));
    lines.push(format!(
        "%factor = stablehlo.constant dense<{}> : {scores}",
        bits(a.soft_cap.map_or(a.scale, |cap| a.scale / cap))
    ));
    let added = a.mask.filter(|mask| mask.kind() != MaskKind::Keeps);
    let scaled = if added.is_some() { "%scaled_scores" } else { "%scores" };
    if let Some(cap) = a.soft_cap {
        lines.push(format!("%share = stablehlo.multiply %plain, %factor : {scores}"));
        lines.push(format!("%tanh = stablehlo.tanh %share : {scores}"));
        lines.push(format!("%cap = stablehlo.constant dense<{}> : {scores}", bits(cap)));
        lines.push(format!("{scaled} = stablehlo.multiply %tanh, %cap : {scores}"));
    } else {
        lines.push(format!("{scaled} = stablehlo.multiply %plain, %factor : {scores}"));
    }
    if let Some(mask) = added {
        let narrow = [mask.batch, mask.heads, mask.queries, a.kv_len];
        let (given, wide) = (tensor(mask.dtype, narrow), tensor(DType::F32, narrow));
        lines.push(format!("%mask32 = stablehlo.convert %mask : ({given}) -> {wide}"));
        lines.push(format!("%added = stablehlo.broadcast_in_dim %mask32, dims = [0, 1, 2, 3] : ({wide}) -> {scores}"));
        lines.push(format!("%scores = stablehlo.add {scaled}, %added : {scores}"));
    }
    lines.push(format!("%visible0 = stablehlo.constant dense<true> : {scores_i1}"));
    let mut visible = "%visible0".to_owned();
    let mut also = |lines: &mut Vec<String>, condition: &str| {
        lines.push(format!("{condition}_and = stablehlo.and {visible}, {condition} : {scores_i1}"));
        visible = format!("{condition}_and");
    };
    if a.causality == Causality::Causal {
        let offset = a.kv_len - a.q_len;
        lines.push(format!("%kv_at = stablehlo.iota dim = 3 : {scores_i32}"));
        lines.push(format!("%q_iota = stablehlo.iota dim = 2 : {scores_i32}"));
        lines.push(format!("%offset = stablehlo.constant dense<{offset}> : {scores_i32}"));
        lines.push(format!("%q_at = stablehlo.add %q_iota, %offset : {scores_i32}"));
        let compare = format!(", SIGNED : ({scores_i32}, {scores_i32}) -> {scores_i1}");
        lines.push(format!("%before = stablehlo.compare LE, %kv_at, %q_at{compare}"));
        also(&mut lines, "%before");
        if let Some(window) = a.window {
            let window = i32::try_from(window).unwrap_or(i32::MAX / 4);
            lines.push(format!("%window = stablehlo.constant dense<{window}> : {scores_i32}"));
            lines.push(format!("%edge = stablehlo.subtract %q_at, %window : {scores_i32}"));
            lines.push(format!("%near = stablehlo.compare GT, %kv_at, %edge{compare}"));
            also(&mut lines, "%near");
        }
    }
    if a.segments == Segments::Packed {
        for (name, length, dim) in [("q", a.q_len, 2), ("kv", a.kv_len, 3)] {
            lines.push(format!(
                "%{name}_flat = stablehlo.reshape %{name}_segments : (tensor<{b}x1x{length}xi32>) -> tensor<{b}x{length}xi32>"
            ));
            lines.push(format!(
                "%{name}_ids = stablehlo.broadcast_in_dim %{name}_flat, dims = [0, {dim}] : (tensor<{b}x{length}xi32>) -> {scores_i32}"
            ));
        }
        lines.push(format!(
            "%same = stablehlo.compare EQ, %q_ids, %kv_ids, SIGNED : ({scores_i32}, {scores_i32}) -> {scores_i1}"
        ));
        also(&mut lines, "%same");
    }
    if let Some(mask) = a.mask.filter(|mask| mask.kind() == MaskKind::Keeps) {
        let narrow = [mask.batch, mask.heads, mask.queries, a.kv_len];
        let (given, truth) = (tensor(mask.dtype, narrow), tensor(DType::Bool, narrow));
        lines.push(format!("%mask0 = stablehlo.constant dense<0> : {given}"));
        lines.push(format!("%keeps1 = stablehlo.compare NE, %mask, %mask0, SIGNED : ({given}, {given}) -> {truth}"));
        lines.push(format!(
            "%keeps = stablehlo.broadcast_in_dim %keeps1, dims = [0, 1, 2, 3] : ({truth}) -> {scores_i1}"
        ));
        also(&mut lines, "%keeps");
    }
    let column_i1 = tensor(DType::Bool, t.column_dims);
    let (_, _, blind_below) = a.scales();
    lines.push(format!("%low = stablehlo.constant dense<{}> : {scores}", bits(super::MASK_VALUE)));
    lines.push(format!("%hidden = stablehlo.select {visible}, %scores, %low : {scores_i1}, {scores}"));
    lines.push("%least = stablehlo.constant dense<0xFF800000> : tensor<f32>".to_owned());
    lines.push(format!(
        "%most = stablehlo.reduce(%hidden init: %least) applies stablehlo.maximum across dimensions = [3] : ({scores}, tensor<f32>) -> {flat}"
    ));
    lines.push(format!("%most1 = stablehlo.reshape %most : ({flat}) -> {column}"));
    lines.push(format!("%half = stablehlo.constant dense<{}> : {column}", bits(blind_below)));
    lines.push(format!("%seeing = stablehlo.compare GT, %most1, %half, FLOAT : ({column}, {column}) -> {column_i1}"));
    lines.push(format!("%mosts = stablehlo.broadcast_in_dim %most1, dims = [0, 1, 2, 3] : ({column}) -> {scores}"));
    lines.push(format!("%shifted = stablehlo.subtract %hidden, %mosts : {scores}"));
    lines.push(format!("%exponentials = stablehlo.exponential %shifted : {scores}"));
    lines.push("%empty = stablehlo.constant dense<0.0> : tensor<f32>".to_owned());
    lines.push(format!(
        "%sums = stablehlo.reduce(%exponentials init: %empty) applies stablehlo.add across dimensions = [3] : ({scores}, tensor<f32>) -> {flat}"
    ));
    lines.push(format!("%sum = stablehlo.reshape %sums : ({flat}) -> {column}"));
    lines.iter().map(|line| format!("  {line}")).collect::<Vec<_>>().join("\n")
}
