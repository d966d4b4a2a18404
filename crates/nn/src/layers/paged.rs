//! Attention to a paged KV cache as a composite, which TPUs, GPUs and the CPU device have a kernel for: pages are read where they lie.
//! Codes of a quantized cache and the shared keys of multi-head latent attention (MLA) only TPUs read so.

use kernel::composites::{PAGED_ATTENTION, PagedAttributes};
use tensor::DType;
use trace::{CompileTarget, PartitionSpec, Tensor, composite, shard_map};

use super::attend::{AttentionMask, AttentionOptions, MASK_VALUE};
use super::kv_cache::{CacheStart, KvCache};

/// Queries of one KV head are filled up to a multiple of this on TPUs: a tile of the kernel.
const TILE: usize = 16;

/// What attention to pages takes: the layer, the table of pages, positions filled, tokens; queries `[batch, tokens, heads, head]`, keys,
/// values; attention sinks, scales of keys and values.
type Inputs = ((Tensor, Tensor, Tensor, Tensor), (Tensor, Tensor, Tensor), (Option<Tensor>, Option<(Tensor, Tensor)>));

/// Attention of `query [batch, tokens, heads, head]` to the pages of a layer, in which its own keys and values are already. In multi-head
/// latent attention (MLA) queries have the features of values and of keys, and the result those of values. `None` where the cache is not
/// paged, or attention has what the device's kernel has not.
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
    let is_plain = cache.scales.is_none() && cache.values.dim(4) == query.dim(3);
    let is_of_query = cache.scales.is_some() || cache.keys.dtype() == query.dtype();
    if !is_of_query || (!is_plain && trace::current_target() != CompileTarget::Any) {
        return None;
    }
    let scale = options.scale.unwrap_or((query.dim(3) as f64).sqrt().recip()) as f32;
    let attributes =
        PagedAttributes { group: 1, scale, window, chunk, soft_cap: options.soft_cap.map(|cap| cap as f32) };
    let table = table.reshape(&[table.dim(0) * table.dim(1)]);
    let inputs: Inputs = (
        (layer.reshape(&[1]), table, filled.clone(), tokens.clone()),
        (query.clone(), cache.keys.clone(), cache.values.clone()),
        (options.sinks.map(|sinks| sinks.cast(DType::F32)), cache.scales.clone()),
    );
    Some(on_each_device(&inputs, |inputs| of_heads(inputs, attributes)).named("attention"))
}

/// Attention of the heads of a device.
#[track_caller]
fn of_heads(inputs: &Inputs, attributes: PagedAttributes) -> Tensor {
    let (places, (query, keys, values), (sinks, scales)) = inputs;
    let [batch, count, heads, head] = [0, 1, 2, 3].map(|axis| query.dims()[axis]);
    let kv_heads = keys.dim(2);
    let group = heads / kv_heads.max(1);
    // Of each KV head the queries of its group, token by token.
    let by_head = query.reshape(&[batch, count, kv_heads, group, head]).transpose(&[0, 2, 1, 3, 4]);
    let by_head = by_head.reshape(&[batch, kv_heads, count * group, head]);
    let tile = if trace::current_target() == CompileTarget::Any { TILE } else { 1 };
    let rows = (count * group).next_multiple_of(tile);
    let by_head = if rows > count * group { by_head.pad(2, 0, rows - count * group) } else { by_head };
    let sinks = sinks.as_ref().map(|sinks| sinks.reshape(&[kv_heads, group]));
    let inputs: Inputs = (places.clone(), (by_head, keys.clone(), values.clone()), (sinks, scales.clone()));
    let attributes = PagedAttributes { group, ..attributes };
    let out = composite(PAGED_ATTENTION, attributes.to_attrs(), &inputs, |inputs| gathered(inputs, &attributes));
    let size = values.dim(4);
    let out = out.slice(2, 0..count * group).reshape(&[batch, kv_heads, count, group, size]);
    out.transpose(&[0, 2, 1, 3, 4]).reshape(&[batch, count, heads, size])
}

/// What [`PAGED_ATTENTION`] means.
#[track_caller]
fn gathered(inputs: &Inputs, attributes: &PagedAttributes) -> Tensor {
    let ((layer, table, filled, tokens), (query, keys, values), (sinks, scales)) = inputs;
    let [batch, kv_heads, rows, _] = [0, 1, 2, 3].map(|axis| query.dims()[axis]);
    let (count, page) = (table.dim(0) / batch.max(1), keys.dim(3));
    // Pages of all layers are one list, so that no layer is copied to read some of its pages.
    let [layers, pages] = [0, 1].map(|axis| keys.dim(axis));
    let table = &(table + &(layer * &Tensor::scalar(DType::I32, pages as f64)));
    // [batch, kv heads, positions, ...]
    let of_layer = |room: &Tensor| {
        let last = &room.dims()[4..];
        let pages = room.reshape(&[&[layers * pages, kv_heads, page], last].concat()).take(0, table);
        let pages = pages.reshape(&[&[batch, count, kv_heads, page], last].concat()).swap_axes(1, 2);
        pages.reshape(&[&[batch, kv_heads, count * page], last].concat())
    };
    let of_queries = |room: &Tensor| of_layer(room).cast(query.dtype());
    let (keys, values) = (of_queries(keys), of_queries(values));
    // Beside scores.
    let scales = scales.as_ref().map(|(keys, values)| (of_layer(keys).expand(2), of_layer(values).expand(2)));
    let products = |first: usize, with: &Tensor, scales: Option<&Tensor>| {
        let part = query.slice(3, first..first + with.dim(3));
        let products = part.einsum_as("bhnd,bhsd->bhns", with, DType::F32);
        scales.map_or(products.clone(), |scales| &products * scales)
    };
    let (of_keys, of_values) = (scales.as_ref().map(|(keys, _)| keys), scales.as_ref().map(|(_, values)| values));
    let products = match query.dim(3) == keys.dim(3) {
        true => products(0, &keys, of_keys),
        // A value is a part of its key.
        false => products(0, &values, of_values) + products(values.dim(3), &keys, of_keys),
    };
    let scores = &products * f64::from(attributes.scale);
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
    let weights = of_values.map_or(weights.clone(), |scales| &weights * scales);
    let weights = (weights * any).cast(query.dtype());
    weights.einsum("bhns,bhsd->bhnd", &values)
}

/// A kernel knows one device only: each runs it on its own heads of queries and KV heads.
#[track_caller]
fn on_each_device(inputs: &Inputs, f: impl FnOnce(&Inputs) -> Tensor) -> Tensor {
    let Some(rules) = trace::current_rules() else { return f(inputs) };
    let (_, (query, keys, _), (sinks, scales)) = inputs;
    let of_cache = rules.sharding(&["", "", "heads", "", ""], keys.dims());
    // As the KV heads are split, which are fewer; heads that all share one are split without it.
    let heads = if keys.dim(2) == 1 { query.dim(2) } else { keys.dim(2) };
    let split = rules.sharding(&["heads"], &[heads]);
    let along = |rank: usize, axis: usize| {
        let mut spec = PartitionSpec::replicated(rank);
        if let (Some(dims), Some(axes)) = (spec.dims.get_mut(axis), split.dims.first()) {
            *dims = axes.clone();
        }
        spec
    };
    // Tables are of whole batches.
    let mut shardings = vec![PartitionSpec::replicated(1); 4];
    shardings.extend([along(4, 2), of_cache.clone(), of_cache.clone()]);
    shardings.extend(sinks.as_ref().map(|_| along(1, 0)));
    if scales.is_some() {
        let of_scales = PartitionSpec { dims: of_cache.dims[..4].to_vec() };
        shardings.extend([of_scales.clone(), of_scales]);
    }
    shard_map(inputs, &shardings, &[along(4, 2)], f)
}
