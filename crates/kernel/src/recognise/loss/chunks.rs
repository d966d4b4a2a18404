//! Cross-entropy chunk by chunk of rows in plain ops: a loop that has the logits of one chunk, and both gradients in the same pass.

use hlo::Func;
use tensor::DType;

use super::super::on_devices::Collective;
use super::write::Sizes;
use crate::error::Error;
use crate::kernels::{divisor, function, tensor};

/// Chunks at least. More of them add to the gradient of the weight more often.
const CHUNKS: usize = 4;
/// Rows of the smallest chunk.
const LEAST_ROWS: usize = 128;

/// Whether a loss has its gradients computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gradients {
    Both,
    Neither,
}

/// Rows of a chunk; `None` where there are too few for two.
pub(super) fn rows_of_chunk(sizes: &Sizes) -> Option<usize> {
    let rows = divisor(sizes.padded, LEAST_ROWS, (sizes.padded / CHUNKS).max(LEAST_ROWS))?;
    (rows < sizes.padded).then_some(rows)
}

/// A function of hidden states, weight and labels, and with gradients of labels, the factor of the probabilities and what is taken away at
/// the label. Results: losses, logsumexp, and both gradients. Where devices have parts of the vocabulary, the largest logit, the sum of
/// exponentials and the logit of the label are reduced among them.
pub(super) fn chunked(
    sizes: &Sizes,
    logits: DType,
    (gradients, among): (Gradients, Option<&[Collective; 3]>),
    name: &str,
) -> Result<Func, Error> {
    let refused = || Error::Internal("a loss of too few rows for chunks".into());
    let chunk = rows_of_chunk(sizes).ok_or_else(refused)?;
    let Sizes { padded: rows, depth, vocab, dtype, .. } = *sizes;
    let has_gradients = gradients == Gradients::Both;
    let (x, w) = (tensor(dtype, [rows, depth]), tensor(dtype, [vocab, depth]));
    let (ints, row) = (tensor(DType::I32, [1, rows]), tensor(DType::F32, [1, rows]));
    let (wide_x, wide_w) = (tensor(DType::F32, [chunk, depth]), tensor(DType::F32, [vocab, depth]));
    let (full, truths) = (tensor(DType::F32, [chunk, vocab]), tensor(DType::Bool, [chunk, vocab]));
    let counts = tensor(DType::I32, [chunk, vocab]);
    let (column, narrow, part) =
        (tensor(DType::F32, [chunk]), tensor(logits, [chunk, vocab]), tensor(DType::F32, [1, chunk]));
    let (some, rounded) = (tensor(dtype, [chunk, depth]), tensor(dtype, [chunk, vocab]));
    let some_ints = tensor(DType::I32, [1, chunk]);
    let repeated = |from: &str, to: &str, of: &str| {
        let (line, list, all) = match of {
            "i32" => (&ints, &some_ints, &counts),
            _ => (&row, &part, &full),
        };
        let flat = tensor(if of == "i32" { DType::I32 } else { DType::F32 }, [chunk]);
        format!(
            "    %{to}0 = stablehlo.dynamic_slice %{from}, %z, %i, sizes = [1, {chunk}] : ({line}, tensor<i32>, tensor<i32>) -> {list}
    %{to}1 = stablehlo.reshape %{to}0 : ({list}) -> {flat}
    %{to} = stablehlo.broadcast_in_dim %{to}1, dims = [0] : ({flat}) -> {all}
"
        )
    };
    let updated = |value: &str, to: &str, name: &str| {
        format!(
            "    %{name}0 = stablehlo.reshape %{value} : ({column}) -> {part}
    %{name} = stablehlo.dynamic_update_slice %{to}, %{name}0, %z, %i : ({row}, {part}, tensor<i32>, tensor<i32>) -> {row}
"
        )
    };
    // The value of that name, of all devices.
    let reduced = |n: usize, kind: &str, name: &str| {
        match among {
        None => String::new(),
        Some(among) => format!(
            "    %{name} = \"stablehlo.all_reduce\"(%{name}_own) <{{channel_handle = #stablehlo.channel_handle<handle = {}, type = 1>, \
             replica_groups = {}, use_global_device_ids}}> ({{
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %folded = stablehlo.{kind} %a, %b : tensor<f32>
      stablehlo.return %folded : tensor<f32>
    }}) : ({column}) -> {column}\n",
            among[n].channel,
            among[n].text()
        ),
    }
    };
    let own = if among.is_some() { "_own" } else { "" };
    let of_labels = |label: &str, name: &str| {
        format!(
            "    %{name} = stablehlo.compare EQ, %word, %{label}, SIGNED : ({counts}, {counts}) -> {truths}
"
        )
    };
    let mut body = [
        "    %z = stablehlo.constant dense<0> : tensor<i32>\n".to_owned(),
        format!("    %xc = stablehlo.dynamic_slice %x, %i, %z, sizes = [{chunk}, {depth}] : ({x}, tensor<i32>, tensor<i32>) -> {some}\n"),
        repeated("t", "label", "i32"),
        format!("    %narrow = stablehlo.dot_general %xc, %w, contracting_dims = [1] x [1] : ({some}, {w}) -> {narrow}\n"),
        format!("    %logits = stablehlo.convert %narrow : ({narrow}) -> {full}\n"),
        "    %zero = stablehlo.constant dense<0.0> : tensor<f32>\n    %least = stablehlo.constant dense<0xFF800000> : tensor<f32>\n".to_owned(),
        format!("    %nothing = stablehlo.constant dense<0.0> : {full}\n    %word = stablehlo.iota dim = 1 : {counts}\n"),
        format!("    %most{own} = stablehlo.reduce(%logits init: %least) applies stablehlo.maximum across dimensions = [1] : ({full}, tensor<f32>) -> {column}\n"),
        reduced(0, "maximum", "most"),
        format!("    %mosts = stablehlo.broadcast_in_dim %most, dims = [0] : ({column}) -> {full}\n"),
        format!("    %less = stablehlo.subtract %logits, %mosts : {full}\n    %e = stablehlo.exponential %less : {full}\n"),
        format!("    %sum{own} = stablehlo.reduce(%e init: %zero) applies stablehlo.add across dimensions = [1] : ({full}, tensor<f32>) -> {column}\n"),
        reduced(1, "add", "sum"),
        format!("    %log = stablehlo.log %sum : {column}\n    %all = stablehlo.add %most, %log : {column}\n"),
        of_labels("label", "is_label"),
        format!("    %chosen = stablehlo.select %is_label, %logits, %nothing : {truths}, {full}\n"),
        format!("    %picked{own} = stablehlo.reduce(%chosen init: %zero) applies stablehlo.add across dimensions = [1] : ({full}, tensor<f32>) -> {column}\n"),
        reduced(2, "add", "picked"),
        format!("    %loss = stablehlo.subtract %all, %picked : {column}\n"),
        updated("loss", "losses", "next_losses"),
        updated("all", "lse", "next_lse"),
    ]
    .concat();
    let mut arguments = vec![("x", &x), ("w", &w), ("t", &ints)];
    let mut carried = vec![("losses", &row), ("lse", &row)];
    if has_gradients {
        arguments.extend([("u", &ints), ("share", &row), ("taken", &row)]);
        carried.extend([("dx", &x), ("dw", &wide_w)]);
        body += &[
            repeated("u", "other", "i32"),
            repeated("share", "shares", "f32"),
            repeated("taken", "takens", "f32"),
            of_labels("other", "is_other"),
            format!("    %alls = stablehlo.broadcast_in_dim %all, dims = [0] : ({column}) -> {full}\n"),
            format!("    %below = stablehlo.subtract %logits, %alls : {full}\n    %p = stablehlo.exponential %below : {full}\n"),
            format!("    %shared = stablehlo.multiply %p, %shares : {full}\n"),
            format!("    %at_label = stablehlo.select %is_other, %takens, %nothing : {truths}, {full}\n"),
            format!("    %d32 = stablehlo.subtract %shared, %at_label : {full}\n    %d = stablehlo.convert %d32 : ({full}) -> {rounded}\n"),
            format!("    %dx32 = stablehlo.dot_general %d, %w, contracting_dims = [1] x [0] : ({rounded}, {w}) -> {wide_x}\n"),
            format!("    %dxc = stablehlo.convert %dx32 : ({wide_x}) -> {some}\n"),
            format!("    %next_dx = stablehlo.dynamic_update_slice %dx, %dxc, %i, %z : ({x}, {some}, tensor<i32>, tensor<i32>) -> {x}\n"),
            format!("    %more = stablehlo.dot_general %d, %xc, contracting_dims = [0] x [0] : ({rounded}, {some}) -> {wide_w}\n"),
            format!("    %next_dw = stablehlo.add %dw, %more : {wide_w}\n"),
        ]
        .concat();
    }
    let zeros = carried.iter().map(|(name, ty)| format!("  %{name}_0 = stablehlo.constant dense<0.0> : {ty}\n"));
    let zeros: String = zeros.collect();
    let joined = |list: Vec<String>| list.join(", ");
    let given = joined(arguments.iter().map(|(name, ty)| format!("%{name}_a: {ty}")).collect());
    let begin: Vec<String> = arguments.iter().map(|(name, _)| format!("%{name} = %{name}_a")).collect();
    let begin = joined([begin, carried.iter().map(|(name, _)| format!("%{name} = %{name}_0")).collect()].concat());
    let types = joined(arguments.iter().chain(&carried).map(|(_, ty)| (*ty).clone()).collect());
    let kept = arguments.iter().map(|(name, _)| format!("%{name}"));
    let next = joined(kept.chain(carried.iter().map(|(name, _)| format!("%next_{name}"))).collect());
    let first = arguments.len() + 1;
    let mut results: Vec<String> = (0..carried.len()).map(|n| format!("%r#{}", first + n)).collect();
    let mut of_results: Vec<String> = carried.iter().map(|(_, ty)| (*ty).clone()).collect();
    let mut last = String::new();
    if has_gradients {
        last = format!("  %dw_n = stablehlo.convert %r#{} : ({wide_w}) -> {w}\n", first + 3);
        results[3] = "%dw_n".into();
        of_results[3] = w.clone();
    }
    function(format!(
        "func.func private @{name}({given}) -> ({outputs}) {{
  %i_0 = stablehlo.constant dense<0> : tensor<i32>
{zeros}  %r:{count} = stablehlo.while(%i = %i_0, {begin}) : tensor<i32>, {types}
  cond {{
    %end = stablehlo.constant dense<{rows}> : tensor<i32>
    %goes_on = stablehlo.compare LT, %i, %end, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %goes_on : tensor<i1>
  }} do {{
{body}    %step = stablehlo.constant dense<{chunk}> : tensor<i32>
    %next_i = stablehlo.add %i, %step : tensor<i32>
    stablehlo.return %next_i, {next} : tensor<i32>, {types}
  }}
{last}  return {results} : {outputs}
}}",
        outputs = joined(of_results),
        results = joined(results),
        count = first + carried.len(),
    ))
}
