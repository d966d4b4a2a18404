//! Multi-head attention as a layer: projections, rotary positions, grouped-query attention (GQA), and a KV cache for generation.

use trace::{Key, Tensor, Tree};

use super::paged::attend_paged;
use crate::init::Init;
use crate::layers::{
    AttentionImpl, AttentionMask, AttentionOptions, Bias, CachePosition, KvCache, Linear, Positions, RmsNorm, Rope,
    RopePairs, attend_with,
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
    /// Of the features of each head of queries, or of all heads together, before rotary positions.
    pub query_norm: Option<RmsNorm>,
    /// Of the features of each head of keys, or of all heads together, before rotary positions.
    pub key_norm: Option<RmsNorm>,
    /// Attention sinks `[heads]`: a score of each head that takes part in the softmax and has no value.
    pub sinks: Option<Tensor>,
    /// Numbers of heads.
    #[tree(skip)]
    pub heads: Heads,
    /// Factor of the scores before the softmax; `1 / sqrt(head_dim)` if absent.
    #[tree(skip)]
    pub scale: Option<f64>,
    /// Soft cap of the scores.
    #[tree(skip)]
    pub soft_cap: Option<f64>,
    /// Which features rotary positions turn together.
    #[tree(skip)]
    pub pairs: RopePairs,
    /// Where queries and keys are divided by their root mean square after rotary positions: what is added to the mean square.
    #[tree(skip)]
    pub rotated_norm: Option<f64>,
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
    /// Rotary positions of the queries; without them positions count by the mask alone (NoPE).
    pub rope: Option<&'a Rope>,
    /// What queries are multiplied by, `f32`, `[queries]` or `[batch, queries]`.
    pub query_scale: Option<&'a Tensor>,
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
            sinks: None,
            heads,
            scale: None,
            soft_cap: None,
            pairs: RopePairs::Halves,
            rotated_norm: None,
        }
    }

    /// What the projections make of `[batch, positions, width]`.
    #[track_caller]
    fn in_heads(&self, x: &Tensor) -> [Tensor; 3] {
        Linear::all_to_heads([&self.query, &self.key, &self.value], x, self.heads.head_dim)
    }

    /// Queries, keys and values of `[batch, positions, width]`.
    #[track_caller]
    fn projected(&self, x: &Tensor, context: &Context<'_>) -> (Tensor, Tensor, Tensor) {
        let [query, key, value] = self.in_heads(x);
        // Queries stay with their positions; keys and values of all positions are needed everywhere.
        let query = query.with_logical_axes(&["batch", "sequence", "heads", "head"]);
        let key = key.with_logical_axes(&["batch", "keys", "heads", "head"]);
        let value = value.with_logical_axes(&["batch", "keys", "heads", "head"]);
        let normed = |norm: &Option<RmsNorm>, x: Tensor| match norm {
            Some(norm) if norm.weight.dim(0) == self.heads.head_dim => norm.apply(&x),
            Some(norm) => norm.apply(&x.reshape(&[x.dim(0), x.dim(1), x.dim(2) * x.dim(3)])).reshape(x.dims()),
            None => x,
        };
        let (query, key) = (normed(&self.query_norm, query), normed(&self.key_norm, key));
        let rotated = |x: Tensor| match (context.rope, self.rotated_norm) {
            (Some(rope), Some(epsilon)) => RmsNorm::unscaled(&rope.apply_to(&x, self.pairs), epsilon),
            (Some(rope), None) => rope.apply_to(&x, self.pairs),
            (None, _) => x,
        };
        let (query, key) = (rotated(query), rotated(key));
        let query = match context.query_scale {
            Some(scale) => &query * &scale.expand(-1).expand(-1).cast(query.dtype()),
            None => query,
        };
        (query.named("query"), key.named("key"), value.named("value"))
    }

    #[track_caller]
    fn finished(&self, out: &Tensor) -> Tensor {
        self.output.apply_from_heads(out)
    }

    fn options(&self) -> AttentionOptions<'_> {
        AttentionOptions {
            scale: self.scale,
            soft_cap: self.soft_cap,
            sinks: self.sinks.as_ref(),
            ..AttentionOptions::default()
        }
    }

    /// Keys and values `[batch, positions, kv heads, head]` of `[batch, positions, width]`, for cross-attention.
    #[track_caller]
    pub fn keys_values(&self, x: &Tensor) -> (Tensor, Tensor) {
        let [_, key, value] = self.in_heads(x);
        let on_mesh = |heads: Tensor| heads.with_logical_axes(&["batch", "keys", "heads", "head"]);
        (on_mesh(key), on_mesh(value))
    }

    /// Cross-attention of `[batch, positions, width]` to keys and values of something else.
    #[track_caller]
    pub fn attend_to(&self, x: &Tensor, key: &Tensor, value: &Tensor, context: &Context<'_>) -> Tensor {
        trace::scope("cross_attention", || {
            let [query, ..] = self.in_heads(x);
            let query = query.with_logical_axes(&["batch", "sequence", "heads", "head"]);
            let Context { positions, mask, implementation, .. } = *context;
            self.finished(&attend_with(&query, key, value, positions, mask, implementation, self.options()))
        })
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
            let options = AttentionOptions { dropout_rate: rate, dropout_key: key, ..self.options() };
            let (query, key, value) = self.projected(x, context);
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
            let (query, key, value) = self.projected(x, context);
            let (cache, cached) = cache.extended(key, value, at);
            let options = AttentionOptions { kv_scales: cached.scales.as_ref(), ..self.options() };
            let Context { positions, mask, implementation, .. } = *context;
            let out = attend_paged(&query, &cache, at.layer, at.start, mask, &options).unwrap_or_else(|| {
                attend_with(&query, &cached.keys, &cached.values, positions, mask, implementation, options)
            });
            (self.finished(&out), cache)
        })
    }
}
