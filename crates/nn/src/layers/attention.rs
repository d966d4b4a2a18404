//! Multi-head attention as a layer: projections, rotary positions, grouped-query attention (GQA), and a KV cache for generation.

use trace::{Key, Tensor, Tree};

use super::paged::attend_paged;
use crate::init::Init;
use crate::layers::{
    AttentionImpl, AttentionMask, AttentionOptions, Bias, CachePosition, KvCache, Linear, Positions, RmsNorm, Rope,
    attend_with,
};
use crate::quant::map_weights;

/// Numbers of heads and their size; fewer KV heads than heads are grouped-query attention (GQA).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Heads {
    /// Heads of queries.
    pub num_heads: usize,
    /// Heads of keys and values; divides the heads of queries.
    pub num_kv_heads: usize,
    /// Features of a head.
    pub head_dim: usize,
}

/// Projections around [`attend`](crate::layers::attend).
#[derive(Clone, Debug, Tree)]
pub struct MultiHeadAttention {
    /// `[width, heads * head]`.
    pub query: Linear,
    /// `[width, kv heads * head]`.
    pub key: Linear,
    /// `[width, kv heads * head]`.
    pub value: Linear,
    /// `[heads * head, width]`.
    pub output: Linear,
    /// Of the features of each head of queries, before rotary positions.
    pub query_norm: Option<RmsNorm>,
    /// Of the features of each head of keys, before rotary positions.
    pub key_norm: Option<RmsNorm>,
    /// Numbers of heads.
    #[tree(skip)]
    pub heads: Heads,
    /// Factor of the scores before the softmax; `1 / sqrt(head_dim)` if absent.
    #[tree(skip)]
    pub scale: Option<f64>,
}

/// What attention depends on besides its input.
#[derive(Clone, Debug)]
pub struct Context<'a> {
    /// Positions and segment ids of queries and keys.
    pub positions: &'a Positions,
    /// The attention mask.
    pub mask: AttentionMask,
    /// The attention implementation.
    pub implementation: AttentionImpl,
    /// Rotary positions of the queries.
    pub rope: Option<&'a Rope>,
}

map_weights!(MultiHeadAttention: query, key, value, output);

impl MultiHeadAttention {
    /// Drawn weights; `projections` says whether queries, keys and values have a bias, `output` whether the output has.
    #[track_caller]
    pub fn init(
        key: &Key,
        width: usize,
        heads: Heads,
        (projections, output): (Bias, Bias),
        (weight, output_weight): (Init, Init),
    ) -> MultiHeadAttention {
        let keys = key.split(4);
        let of = |n: usize, count: usize| Linear::init(&keys[n], width, count * heads.head_dim, projections, weight);
        MultiHeadAttention {
            query: of(0, heads.num_heads),
            key: of(1, heads.num_kv_heads),
            value: of(2, heads.num_kv_heads),
            output: Linear::init(&keys[3], heads.num_heads * heads.head_dim, width, output, output_weight),
            query_norm: None,
            key_norm: None,
            heads,
            scale: None,
        }
    }

    /// Queries, keys and values of `[batch, positions, width]`.
    #[track_caller]
    fn projected(&self, x: &Tensor, rope: Option<&Rope>) -> (Tensor, Tensor, Tensor) {
        let heads = |linear: &Linear| linear.apply_to_heads(x, self.heads.head_dim);
        // Queries stay with their positions; keys and values of all positions are needed everywhere.
        let query = heads(&self.query).with_logical_axes(&["batch", "sequence", "heads", "head"]);
        let key = heads(&self.key).with_logical_axes(&["batch", "keys", "heads", "head"]);
        let value = heads(&self.value).with_logical_axes(&["batch", "keys", "heads", "head"]);
        let normed = |norm: &Option<RmsNorm>, x: Tensor| match norm {
            Some(norm) => norm.apply(&x),
            None => x,
        };
        let (query, key) = (normed(&self.query_norm, query), normed(&self.key_norm, key));
        let (query, key) = match rope {
            Some(rope) => (rope.apply(&query), rope.apply(&key)),
            None => (query, key),
        };
        (query.named("query"), key.named("key"), value.named("value"))
    }

    #[track_caller]
    fn finished(&self, out: &Tensor) -> Tensor {
        self.output.apply_from_heads(out)
    }

    /// Self-attention of `[batch, positions, width]`.
    #[track_caller]
    pub fn apply(&self, x: &Tensor, context: &Context<'_>) -> Tensor {
        self.apply_with_dropout(x, context, 0.0, None)
    }

    /// [`apply`](Self::apply) with dropout of the attention weights, if there is a key.
    #[track_caller]
    pub fn apply_with_dropout(&self, x: &Tensor, context: &Context<'_>, rate: f64, key: Option<&Key>) -> Tensor {
        trace::scope("attention", || {
            let options = AttentionOptions {
                scale: self.scale,
                dropout_rate: rate,
                dropout_key: key,
                ..AttentionOptions::default()
            };
            let (query, key, value) = self.projected(x, context.rope);
            let Context { positions, mask, implementation, .. } = *context;
            let out = attend_with(&query, &key, &value, positions, mask, implementation, options);
            self.finished(&out).named("attention_output")
        })
    }

    /// Attention to what the KV cache holds of the layer and to the new positions, whose keys and values are written into it.
    #[track_caller]
    pub fn extend(
        &self,
        x: &Tensor,
        context: &Context<'_>,
        cache: &KvCache,
        at: &CachePosition<'_>,
    ) -> (Tensor, KvCache) {
        trace::scope("attention", || {
            let (query, key, value) = self.projected(x, context.rope);
            let (cache, cached) = cache.extended(key, value, at);
            let scales = cached.scales.as_ref();
            let options = AttentionOptions { scale: self.scale, kv_scales: scales, ..AttentionOptions::default() };
            let Context { positions, mask, implementation, .. } = *context;
            let scale = self.scale.unwrap_or((self.heads.head_dim as f64).sqrt().recip());
            let out = attend_paged(&query, &cache, at.layer, at.start, mask, scale).unwrap_or_else(|| {
                attend_with(&query, &cached.keys, &cached.values, positions, mask, implementation, options)
            });
            (self.finished(&out), cache)
        })
    }
}
