//! What our composites become on the CPU device: its compiler runs plain attention as one step, which never holds all weights.

use hlo::Func;
use tensor::DType;

use crate::composites::{self, FlashAttributes};
use crate::error::Error;
use crate::kernels::{MakeFunction, Request, bits, flash, function, tensor};

const KERNEL: &str = "attention on the CPU device";

/// What takes the place of a composite of which only the first result is used; `None` where its decomposition is what should be
/// compiled.
pub(crate) fn by_name(name: &str) -> Option<MakeFunction> {
    (name == composites::FLASH).then_some(attention)
}

/// [`FLASH`](composites::FLASH): two dots and a softmax.
fn attention(request: &Request<'_>, name: &str) -> Result<Func, Error> {
    let [batch, heads, queries, depth] = request.dims(KERNEL, 0)?;
    let [_, kv_heads, keys, _] = request.dims(KERNEL, 1)?;
    let FlashAttributes { causal, window, scale, soft_cap, .. } = FlashAttributes::of(request.attributes);
    let refused = |message: &str| Err(Error::Shape { kernel: KERNEL, message: message.to_owned() });
    if request.operands.len() != 3 {
        return refused("packed sequences or a mask");
    }
    if soft_cap.is_some() {
        return refused("a soft cap");
    }
    if kv_heads == 0 || heads % kv_heads != 0 || keys < queries {
        return refused("sizes that do not go together");
    }
    let dtype = request.operands.first().map_or(DType::F32, |spec| spec.dtype);
    let repeats = heads / kv_heads;
    let q = tensor(dtype, [batch, heads, queries, depth]);
    let kv = tensor(dtype, [batch, kv_heads, keys, depth]);
    let grouped = tensor(dtype, [batch, kv_heads, repeats, queries, depth]);
    let scores = tensor(DType::F32, [batch, kv_heads, repeats, queries, keys]);
    let flat = tensor(DType::F32, [batch, kv_heads, repeats, queries]);
    let row = tensor(DType::F32, [batch, heads, 1, queries]);
    let narrow = tensor(dtype, [batch, kv_heads, repeats, queries, keys]);
    let (places, seen) = (tensor(DType::I32, [queries, keys]), tensor(DType::Bool, [queries, keys]));
    let scores_seen = tensor(DType::Bool, [batch, kv_heads, repeats, queries, keys]);
    // What the softmax is taken of.
    let (mut mask, mut masked) = (String::new(), "%scaled");
    if causal {
        masked = "%masked";
        let compare = format!("SIGNED : ({places}, {places}) -> {seen}");
        let near = match window.and_then(|window| i32::try_from(window).ok()) {
            Some(window) => format!(
                "%window = stablehlo.constant dense<{window}> : {places}
  %edge = stablehlo.subtract %query_at, %window : {places}
  %near = stablehlo.compare GT, %key_at, %edge, {compare}
  %seen = stablehlo.and %before, %near : {seen}"
            ),
            None => String::new(),
        };
        let sees = if near.is_empty() { "%before" } else { "%seen" };
        mask = format!(
            "%key_at = stablehlo.iota dim = 1 : {places}
  %query = stablehlo.iota dim = 0 : {places}
  %offset = stablehlo.constant dense<{offset}> : {places}
  %query_at = stablehlo.add %query, %offset : {places}
  %before = stablehlo.compare LE, %key_at, %query_at, {compare}
  {near}
  %sees = stablehlo.broadcast_in_dim {sees}, dims = [3, 4] : ({seen}) -> {scores_seen}
  %low = stablehlo.constant dense<{low}> : {scores}
  %masked = stablehlo.select %sees, %scaled, %low : {scores_seen}, {scores}",
            offset = keys - queries,
            low = bits(flash::MASK_VALUE),
        );
    }
    function(format!(
        "func.func private @{name}(%q: {q}, %k: {kv}, %v: {kv}) -> ({q}, {row}) {{
  %grouped = stablehlo.reshape %q : ({q}) -> {grouped}
  %plain = stablehlo.dot_general %grouped, %k, batching_dims = [0, 1] x [0, 1], contracting_dims = [4] x [3] : ({grouped}, {kv}) -> {scores}
  %factor = stablehlo.constant dense<{scale}> : {scores}
  %scaled = stablehlo.multiply %plain, %factor : {scores}
  {mask}
  %least = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %most = stablehlo.reduce({masked} init: %least) applies stablehlo.maximum across dimensions = [4] : ({scores}, tensor<f32>) -> {flat}
  %mosts = stablehlo.broadcast_in_dim %most, dims = [0, 1, 2, 3] : ({flat}) -> {scores}
  %shifted = stablehlo.subtract {masked}, %mosts : {scores}
  %exponentials = stablehlo.exponential %shifted : {scores}
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %sum = stablehlo.reduce(%exponentials init: %zero) applies stablehlo.add across dimensions = [4] : ({scores}, tensor<f32>) -> {flat}
  %sums = stablehlo.broadcast_in_dim %sum, dims = [0, 1, 2, 3] : ({flat}) -> {scores}
  %normal = stablehlo.divide %exponentials, %sums : {scores}
  %weights = stablehlo.convert %normal : ({scores}) -> {narrow}
  %mixed = stablehlo.dot_general %weights, %v, batching_dims = [0, 1] x [0, 1], contracting_dims = [4] x [2] : ({narrow}, {kv}) -> {grouped}
  %out = stablehlo.reshape %mixed : ({grouped}) -> {q}
  %log = stablehlo.log %sum : {flat}
  %total = stablehlo.add %most, %log : {flat}
  %totals = stablehlo.reshape %total : ({flat}) -> {row}
  return %out, %totals : {q}, {row}
}}",
        scale = bits(scale),
    ))
}
