//! Multi-head latent attention (MLA): keys and values of all heads come from one compressed vector (compressed KV) for each
//! position, and so may queries.

use serde::{Deserialize, Serialize};
use trace::{Key, Tensor, Tree};

use super::paged::attend_paged;
use crate::init::Init;
use crate::layers::{
    AttentionOptions, Bias, CachePosition, Context, Heads, KvCache, Linear, RmsNorm, Rope, RopePairs, attend_with,
};
use crate::quant::map_weights;

/// Sizes of multi-head latent attention (MLA), by the names of DeepSeek's configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MlaSizes {
    /// Width of the compressed query; queries come from the input if absent.
    pub q_lora_rank: Option<usize>,
    /// Width of the compressed KV.
    pub kv_lora_rank: usize,
    /// Features of a head of queries and keys without rotary positions.
    pub qk_nope_head_dim: usize,
    /// Features of a head with rotary positions; all heads of keys share them.
    pub qk_rope_head_dim: usize,
    /// Features of a head of values.
    pub v_head_dim: usize,
    /// Which of the rotary features form pairs.
    #[serde(default)]
    pub pairs: RopePairs,
}

impl MlaSizes {
    /// Features of a head of queries and keys.
    pub fn head_dim(&self) -> usize {
        self.qk_nope_head_dim.saturating_add(self.qk_rope_head_dim)
    }
}

/// Projections around [`attend`](crate::layers::attend).
#[derive(Clone, Debug, Tree)]
pub struct MultiHeadLatentAttention {
    /// `[width, q_lora_rank]`.
    pub query_down: Option<Linear>,
    /// Of the compressed query.
    pub query_norm: Option<RmsNorm>,
    /// `[width or q_lora_rank, heads * (qk_nope_head_dim + qk_rope_head_dim)]`.
    pub query: Linear,
    /// `[width, kv_lora_rank + qk_rope_head_dim]`.
    pub kv_down: Linear,
    /// Of the compressed KV.
    pub kv_norm: RmsNorm,
    /// `[kv_lora_rank, heads * (qk_nope_head_dim + v_head_dim)]`.
    pub kv_up: Linear,
    /// `[heads * v_head_dim, width]`.
    pub output: Linear,
    /// Sizes.
    #[tree(skip)]
    pub sizes: MlaSizes,
    /// Heads.
    #[tree(skip)]
    pub heads: usize,
    /// Factor of the scores before the softmax; `1 / sqrt(head_dim)` if absent.
    #[tree(skip)]
    pub scale: Option<f64>,
}

map_weights!(MultiHeadLatentAttention: query_down, query, kv_down, kv_up, output);

impl MultiHeadLatentAttention {
    /// Drawn weights; `bias` is that of the projections from and to the width.
    #[track_caller]
    pub fn init(
        key: &Key,
        (width, heads): (usize, usize),
        sizes: MlaSizes,
        bias: Bias,
        weight: Init,
        norm: impl Fn(usize) -> RmsNorm,
    ) -> MultiHeadLatentAttention {
        let keys = key.split(5);
        let of = |n: usize, from: usize, to: usize, bias: Bias| Linear::init(&keys[n], from, to, bias, weight);
        MultiHeadLatentAttention {
            query_down: sizes.q_lora_rank.map(|rank| of(0, width, rank, bias)),
            query_norm: sizes.q_lora_rank.map(&norm),
            query: of(1, sizes.q_lora_rank.unwrap_or(width), heads * sizes.head_dim(), Bias::None),
            kv_down: of(2, width, sizes.kv_lora_rank + sizes.qk_rope_head_dim, bias),
            kv_norm: norm(sizes.kv_lora_rank),
            kv_up: of(3, sizes.kv_lora_rank, heads * (sizes.qk_nope_head_dim + sizes.v_head_dim), Bias::None),
            output: of(4, heads * sizes.v_head_dim, width, bias),
            sizes,
            heads,
            scale: None,
        }
    }

    /// Heads as a KV cache has them.
    pub(crate) fn cached(sizes: MlaSizes, heads: usize) -> Heads {
        Heads { num_heads: heads, num_kv_heads: heads, head_dim: sizes.head_dim().max(sizes.v_head_dim) }
    }

    /// Queries, keys and values of `[batch, positions, width]`, all with as many features: narrower ones are padded with zeros, which
    /// add nothing to any matmul.
    #[track_caller]
    fn projected(&self, x: &Tensor, rope: Option<&Rope>) -> (Tensor, Tensor, Tensor) {
        let MlaSizes { kv_lora_rank, qk_nope_head_dim: nope, qk_rope_head_dim: rope_dim, v_head_dim, pairs, .. } =
            self.sizes;
        let rotated = |x: Tensor| rope.map_or(x.clone(), |rope| rope.apply_to(&x, pairs));
        let from = match (&self.query_down, &self.query_norm) {
            (Some(down), Some(norm)) => norm.apply(&down.apply_as(x, ["embed", ""])).named("mla_q"),
            _ => x.clone(),
        };
        let query = self.query.apply_to_heads(&from, nope + rope_dim);
        let query = query.with_logical_axes(&["batch", "sequence", "heads", "head"]);
        let query = Tensor::concat(&[query.slice(-1, 0..nope), rotated(query.slice(-1, nope..nope + rope_dim))], -1);
        let both = self.kv_down.apply_as(x, ["embed", ""]);
        let compressed_kv = self.kv_norm.apply(&both.slice(-1, 0..kv_lora_rank)).named("mla_kv");
        let shared = rotated(both.slice(-1, kv_lora_rank..kv_lora_rank + rope_dim).expand(2));
        let each = self.kv_up.apply_to_heads(&compressed_kv, nope + v_head_dim);
        let each = each.with_logical_axes(&["batch", "keys", "heads", "head"]);
        let shared = shared.broadcast_to(&[each.dim(0), each.dim(1), self.heads, rope_dim]);
        let key = Tensor::concat(&[each.slice(-1, 0..nope), shared], -1);
        let size = MultiHeadLatentAttention::cached(self.sizes, self.heads).head_dim;
        let padded = |x: Tensor| if x.dim(-1) < size { x.pad(-1, 0, size - x.dim(-1)) } else { x };
        let values = padded(each.slice(-1, nope..nope + v_head_dim));
        (padded(query).named("query"), padded(key).named("key"), values.named("value"))
    }

    #[track_caller]
    fn finished(&self, out: &Tensor) -> Tensor {
        self.output.apply_from_heads(&out.slice(-1, 0..self.sizes.v_head_dim))
    }

    fn options(&self) -> AttentionOptions<'static> {
        let scale = self.scale.unwrap_or((self.sizes.head_dim() as f64).sqrt().recip());
        AttentionOptions { scale: Some(scale), ..AttentionOptions::default() }
    }

    /// Self-attention of `[batch, positions, width]`.
    #[track_caller]
    pub fn apply(&self, x: &Tensor, context: &Context<'_>) -> Tensor {
        trace::scope("attention", || {
            let (query, key, value) = self.projected(x, context.rope);
            let Context { positions, mask, implementation, .. } = *context;
            let out = attend_with(&query, &key, &value, positions, mask, implementation, self.options());
            self.finished(&out).named("attention_output")
        })
    }

    /// Attention to what the KV cache holds and to the new positions, as [`crate::layers::MultiHeadAttention::extend`].
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
            let options = AttentionOptions { kv_scales: cached.scales.as_ref(), ..self.options() };
            let Context { positions, mask, implementation, .. } = *context;
            let out = attend_paged(&query, &cache, at.layer, at.start, mask, &options).unwrap_or_else(|| {
                attend_with(&query, &cached.keys, &cached.values, positions, mask, implementation, options)
            });
            (self.finished(&out), cache)
        })
    }
}
