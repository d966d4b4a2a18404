//! Attention to a paged KV cache as a composite, which TPUs, GPUs and the CPU device have a kernel for: pages are read where they lie.
//! Other devices gather them.

use kernel::composites::{PAGED_ATTENTION, PagedAttributes};
use tensor::DType;
use trace::{CompileTarget, PartitionSpec, Tensor, composite, shard_map};

use super::attend::{AttentionMask, AttentionOptions, MASK_VALUE};
use super::kv_cache::{CacheStart, KvCache};

/// Queries of one KV head are filled up to a multiple of this on TPUs: a tile of the kernel.
const TILE: usize = 16;

/// What the composite takes: the layer, the table of pages, positions filled, tokens, queries, keys, values, and attention sinks.
type Inputs = (Tensor, Tensor, Tensor, Tensor, (Tensor, Tensor, Tensor, Option<Tensor>));

/// Attention of `query [batch, tokens, heads, head]` to the pages of a layer, in which its own keys and values are already; `None` where
/// the cache is not paged or in codes, or attention has what the kernel has not.
#[track_caller]
pub(super) fn attend_paged(
    query: &Tensor,
    cache: &KvCache,
    layer: &Tensor,
    start: &CacheStart,
    mask: AttentionMask,
    options: &AttentionOptions<'_>,
) -> Option<Tensor> {
    let CacheStart::Pages { filled, tokens, table } = start else { return None };
    let (window, chunk) = match mask {
        AttentionMask::Full | AttentionMask::Around(_) => return None,
        AttentionMask::Causal => (None, None),
        AttentionMask::SlidingWindow(size) => (Some(size), None),
        AttentionMask::Chunk(size) => (None, Some(size.max(1))),
    };
    if cache.scales.is_some() || cache.keys.dtype() != query.dtype() {
        return None;
    }
    let [batch, count, heads, head] = [0, 1, 2, 3].map(|axis| query.dims()[axis]);
    let kv_heads = cache.keys.dim(2);
    let group = heads / kv_heads.max(1);
    // Of each KV head the queries of its group, token by token.
    let by_head = query.reshape(&[batch, count, kv_heads, group, head]).transpose(&[0, 2, 1, 3, 4]);
    let by_head = by_head.reshape(&[batch, kv_heads, count * group, head]);
    let tile = if trace::current_target() == CompileTarget::Any { TILE } else { 1 };
    let rows = (count * group).next_multiple_of(tile);
    let by_head = if rows > count * group { by_head.pad(2, 0, rows - count * group) } else { by_head };
    let table = table.reshape(&[table.dim(0) * table.dim(1)]);
    let inputs: Inputs = (
        layer.reshape(&[1]),
        table,
        filled.clone(),
        tokens.clone(),
        (by_head, cache.keys.clone(), cache.values.clone(), options.sinks.map(|sinks| sinks.cast(DType::F32))),
    );
    let scale = options.scale.unwrap_or((head as f64).sqrt().recip()) as f32;
    let soft_cap = options.soft_cap.map(|cap| cap as f32);
    let attributes = PagedAttributes { group, scale, window, chunk, soft_cap };
    let out = on_each_device(&inputs, |inputs| {
        composite(PAGED_ATTENTION, attributes.to_attrs(), inputs, |inputs| gathered(inputs, &attributes))
    });
    let out = out.slice(2, 0..count * group).reshape(&[batch, kv_heads, count, group, head]);
    Some(out.transpose(&[0, 2, 1, 3, 4]).reshape(query.dims()).named("attention"))
}

/// What [`PAGED_ATTENTION`] means.
#[track_caller]
fn gathered(inputs: &Inputs, attributes: &PagedAttributes) -> Tensor {
    let (layer, table, filled, tokens, (query, keys, values, sinks)) = inputs;
    let [batch, kv_heads, rows, head] = [0, 1, 2, 3].map(|axis| query.dims()[axis]);
    let (count, page) = (table.dim(0) / batch.max(1), keys.dim(3));
    // Pages of all layers are one list, so that no layer is copied to read some of its pages.
    let [layers, pages] = [0, 1].map(|axis| keys.dim(axis));
    let table = &(table + &(layer * &Tensor::scalar(DType::I32, pages as f64)));
    let of_layer = |room: &Tensor| {
        let pages = room.reshape(&[layers * pages, kv_heads, page, head]).take(0, table);
        let pages = pages.reshape(&[batch, count, kv_heads, page, head]).transpose(&[0, 2, 1, 3, 4]);
        pages.reshape(&[batch, kv_heads, count * page, head])
    };
    let (keys, values) = (of_layer(keys), of_layer(values));
    let scores = &query.einsum_as("bhnd,bhsd->bhns", &keys, DType::F32) * f64::from(attributes.scale);
    let scores = match attributes.soft_cap.map(f64::from) {
        Some(cap) => &(&scores * (1.0 / cap)).tanh() * cap,
        None => scores,
    };
    let lifted = |per_sequence: &Tensor| per_sequence.reshape(&[batch, 1, 1, 1]);
    let token = Tensor::iota(DType::I32, &[1, 1, rows, 1], 2);
    let number = |number: usize| Tensor::scalar(DType::I32, number as f64);
    let token = &token / &number(attributes.group);
    let stands = lifted(filled) + token;
    let key = Tensor::iota(DType::I32, &[1, 1, 1, count * page], 3);
    let mut visible = key.less_equal(&stands);
    if let Some(window) = attributes.window {
        visible = visible.and(&(&stands - &key).less(&number(window)));
    }
    if let Some(chunk) = attributes.chunk {
        visible = visible.and(&(&stands / &number(chunk)).equals(&(&key / &number(chunk))));
    }
    let hidden = visible.select(&scores, &Tensor::scalar(DType::F32, MASK_VALUE));
    // A sequence without tokens sees nothing.
    let any = lifted(tokens).greater(&Tensor::scalar(DType::I32, 0.0)).cast(DType::F32);
    let weights = match sinks {
        None => hidden.softmax(-1),
        Some(sinks) => {
            // A score of each head of the group, token by token, that has no value.
            let group = attributes.group;
            let places = rows.div_ceil(group);
            let sinks = sinks.reshape(&[1, kv_heads, 1, group]).broadcast_to(&[batch, kv_heads, places, group]);
            let sinks = sinks.reshape(&[batch, kv_heads, places * group, 1]).slice(2, 0..rows);
            Tensor::concat(&[hidden, sinks], -1).softmax(-1).slice(-1, 0..count * page)
        }
    };
    let weights = (weights * any).cast(query.dtype());
    weights.einsum("bhns,bhsd->bhnd", &values)
}

/// A kernel knows one device only: each runs it on its own KV heads.
#[track_caller]
fn on_each_device(inputs: &Inputs, f: impl FnOnce(&Inputs) -> Tensor) -> Tensor {
    let Some(rules) = trace::current_rules() else { return f(inputs) };
    // Tables are of whole batches.
    let (query, keys, _, sinks) = &inputs.4;
    let by_heads = rules.sharding(&["", "heads", "", ""], query.dims());
    let of_cache = rules.sharding(&["", "", "heads", "", ""], keys.dims());
    let vector = PartitionSpec::replicated(1);
    let mut shardings =
        vec![vector.clone(), vector.clone(), vector.clone(), vector, by_heads.clone(), of_cache.clone(), of_cache];
    // As the KV heads are split, which are fewer.
    shardings.extend(sinks.as_ref().map(|_| rules.sharding(&["heads"], &[query.dim(1)])));
    shard_map(inputs, &shardings, &[by_heads], f)
}
