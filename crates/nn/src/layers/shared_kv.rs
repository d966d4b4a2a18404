//! Attention whose layers may share keys and values, or have keys as values, with heads of a size of their own, as in Gemma 4.

use trace::{Key, Tensor, Tree};

use super::kv_cache::LayerKeysValues;
use super::paged::attend_paged;
use crate::init::Init;
use crate::layers::{
    AttentionOptions, Bias, CachePosition, Context, Heads, KvCache, Linear, RmsNorm, RopePairs, attend_with,
};
use crate::quant::map_weights;

/// Projections around [`attend`](crate::layers::attend). Scores are not scaled: norms of queries and keys do that.
#[derive(Clone, Debug, Tree)]
pub struct SharedKvAttention {
    /// `[width, heads * head]`.
    pub query: Linear,
    /// `[width, kv heads * head]`; without it keys and values are those of an earlier layer.
    pub key: Option<Linear>,
    /// `[width, kv heads * head]`; without it values are the keys before their norm, or those of an earlier layer.
    pub value: Option<Linear>,
    /// `[heads * head, width]`.
    pub output: Linear,
    /// Of each head of queries.
    pub query_norm: RmsNorm,
    /// Of each head of keys.
    pub key_norm: Option<RmsNorm>,
    /// Numbers of heads.
    #[tree(skip)]
    pub heads: Heads,
    /// Added to the mean square of values, whose norm has no weight.
    #[tree(skip)]
    pub epsilon: f64,
}

/// Where keys and values of a layer come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KvSource {
    /// Projections of their own.
    Own,
    /// One projection: values are the keys before their norm.
    KeysAsValues,
    /// An earlier layer.
    Earlier,
}

map_weights!(SharedKvAttention: query, key, value, output);

impl SharedKvAttention {
    /// Drawn weights.
    #[track_caller]
    pub fn init(
        key: &Key,
        width: usize,
        heads: Heads,
        source: KvSource,
        bias: Bias,
        (weight, epsilon): (Init, f64),
    ) -> SharedKvAttention {
        let keys = key.split(4);
        let of = |n: usize, count: usize| Linear::init(&keys[n], width, count * heads.head_dim, bias, weight);
        let norm = || RmsNorm::init(heads.head_dim, epsilon);
        SharedKvAttention {
            query: of(0, heads.num_heads),
            key: (source != KvSource::Earlier).then(|| of(1, heads.num_kv_heads)),
            value: (source == KvSource::Own).then(|| of(2, heads.num_kv_heads)),
            output: Linear::init(&keys[3], heads.num_heads * heads.head_dim, width, bias, weight),
            query_norm: norm(),
            key_norm: (source != KvSource::Earlier).then(norm),
            heads,
            epsilon,
        }
    }

    /// What the projections that are there make of `[batch, positions, width]`; what is asked for twice is computed once.
    #[track_caller]
    fn in_heads(&self, x: &Tensor) -> (Tensor, Option<Tensor>, Option<Tensor>) {
        let size = self.heads.head_dim;
        match (&self.key, &self.value) {
            (Some(key), Some(value)) => {
                let [query, key, value] = Linear::all_to_heads([&self.query, key, value], x, size);
                (query, Some(key), Some(value))
            }
            (key, value) => {
                let of = |linear: &Linear| linear.apply_to_heads(x, size);
                (of(&self.query), key.as_ref().map(of), value.as_ref().map(of))
            }
        }
    }

    #[track_caller]
    fn queries(&self, x: &Tensor, context: &Context<'_>) -> Tensor {
        let (query, ..) = self.in_heads(x);
        let query = query.with_logical_axes(&["batch", "sequence", "heads", "head"]);
        rotated(self.query_norm.apply(&query), context).named("query")
    }

    /// Keys and values of `[batch, positions, width]`; `None` where they are those of an earlier layer.
    #[track_caller]
    fn keys_values(&self, x: &Tensor, context: &Context<'_>) -> Option<(Tensor, Tensor)> {
        let (_, key, value) = self.in_heads(x);
        let on_mesh = |heads: Tensor| heads.with_logical_axes(&["batch", "keys", "heads", "head"]);
        let key = on_mesh(key?);
        let value = value.map_or(key.clone(), on_mesh);
        let key = self.key_norm.as_ref().map_or(key.clone(), |norm| norm.apply(&key));
        Some((rotated(key, context).named("key"), RmsNorm::unscaled(&value, self.epsilon).named("value")))
    }

    fn options(&self) -> AttentionOptions<'_> {
        AttentionOptions { scale: Some(1.0), ..AttentionOptions::default() }
    }

    /// Self-attention of `[batch, positions, width]`, and the keys and values it attended to: its own, or those given.
    #[track_caller]
    pub fn apply(
        &self,
        x: &Tensor,
        context: &Context<'_>,
        earlier: Option<&(Tensor, Tensor)>,
    ) -> (Tensor, (Tensor, Tensor)) {
        trace::scope("attention", || {
            let query = self.queries(x, context);
            let Some((key, value)) = self.keys_values(x, context).or_else(|| earlier.cloned()) else {
                trace::refuse("a layer without keys has no layer before it to take them from")
            };
            let Context { positions, mask, implementation, .. } = *context;
            let out = attend_with(&query, &key, &value, positions, mask, implementation, self.options());
            (self.output.apply_from_heads(&out).named("attention_output"), (key, value))
        })
    }

    /// Attention to what the KV cache holds of a layer: its own, into which new keys and values are written, or an earlier one. Heads
    /// of the cache are as large and as many as any layer needs; those of other layers are filled up with zeros.
    #[track_caller]
    pub fn extend(
        &self,
        x: &Tensor,
        context: &Context<'_>,
        cache: &KvCache,
        at: &CachePosition<'_>,
    ) -> (Tensor, KvCache) {
        trace::scope("attention", || {
            let query = self.queries(x, context);
            let Heads { num_kv_heads, head_dim, .. } = self.heads;
            let (room_heads, room_head) = (cache.keys.dim(2), cache.keys.dim(4));
            let padded = |x: Tensor, axis: isize, size: usize| match size.saturating_sub(x.dim(axis)) {
                0 => x,
                more => x.pad(axis, 0, more),
            };
            let (cache, cached) = match self.keys_values(x, context) {
                Some((key, value)) => {
                    let filled = |x: Tensor| padded(padded(x, 2, room_heads), 3, room_head);
                    cache.extended(filled(key), filled(value), at)
                }
                None => (cache.clone(), cache.of_layer(at, &query)),
            };
            let Context { positions, mask, implementation, .. } = *context;
            let wide = (room_heads == num_kv_heads).then(|| padded(query.clone(), 3, room_head));
            let paged = wide.and_then(|wide| attend_paged(&wide, &cache, at.layer, at.start, mask, &self.options()));
            let out = match paged {
                Some(out) => out.slice(3, 0..head_dim),
                None => {
                    let LayerKeysValues { keys, values, scales } = cached;
                    let own = |x: &Tensor| x.slice(2, 0..num_kv_heads).slice(3, 0..head_dim);
                    let scales =
                        scales.map(|(keys, values)| (keys.slice(2, 0..num_kv_heads), values.slice(2, 0..num_kv_heads)));
                    let options = AttentionOptions { kv_scales: scales.as_ref(), ..self.options() };
                    attend_with(&query, &own(&keys), &own(&values), positions, mask, implementation, options)
                }
            };
            (self.output.apply_from_heads(&out), cache)
        })
    }
}

#[track_caller]
fn rotated(x: Tensor, context: &Context<'_>) -> Tensor {
    context.rope.map_or(x.clone(), |rope| rope.apply_to(&x, RopePairs::Halves))
}
