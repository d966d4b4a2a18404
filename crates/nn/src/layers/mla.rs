//! Multi-head latent attention (MLA): keys and values of all heads come from one compressed vector (compressed KV) for each
//! position, and so may queries.

use serde::{Deserialize, Serialize};
use tensor::DType;
use trace::{Key, Tensor, Tree};

use super::kv_cache::LayerKeysValues;
use super::paged::attend_paged;
use crate::init::Init;
use crate::layers::{
    AttentionOptions, Bias, CachePosition, CacheStart, Context, KvCache, Linear, RmsNorm, Rope, RopePairs, attend_with,
};
use crate::quant::{Weight, map_weights};

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

    /// Queries of `[batch, positions, width]`: features without and with rotary positions.
    #[track_caller]
    fn queries(&self, x: &Tensor, rope: Option<&Rope>) -> [Tensor; 2] {
        let MlaSizes { qk_nope_head_dim: nope, qk_rope_head_dim: rope_dim, pairs, .. } = self.sizes;
        let from = match (&self.query_down, &self.query_norm) {
            (Some(down), Some(norm)) => norm.apply(&down.apply_as(x, ["embed", ""])).named("mla_q"),
            _ => x.clone(),
        };
        let query = self.query.apply_to_heads(&from, nope + rope_dim);
        let query = query.with_logical_axes(&["batch", "sequence", "heads", "head"]);
        let rotary = query.slice(-1, nope..nope + rope_dim);
        [query.slice(-1, 0..nope), rope.map_or(rotary.clone(), |rope| rope.apply_to(&rotary, pairs))]
    }

    /// The compressed KV `[batch, positions, rank]` of `[batch, positions, width]`, and the rotary features that all heads share,
    /// `[batch, positions, 1, features]`.
    #[track_caller]
    fn compressed(&self, x: &Tensor, rope: Option<&Rope>) -> [Tensor; 2] {
        let MlaSizes { kv_lora_rank, qk_rope_head_dim: rope_dim, pairs, .. } = self.sizes;
        let both = self.kv_down.apply_as(x, ["embed", ""]);
        let compressed_kv = self.kv_norm.apply(&both.slice(-1, 0..kv_lora_rank)).named("mla_kv");
        let shared = both.slice(-1, kv_lora_rank..kv_lora_rank + rope_dim).expand(2);
        [compressed_kv, rope.map_or(shared.clone(), |rope| rope.apply_to(&shared, pairs))]
    }

    /// Queries, keys and values of all heads, with as many features each: narrower ones are padded with zeros, which add nothing to any
    /// matmul.
    #[track_caller]
    fn in_heads(&self, queries: &[Tensor; 2], [compressed_kv, shared]: &[Tensor; 2]) -> [Tensor; 3] {
        let MlaSizes { qk_nope_head_dim: nope, qk_rope_head_dim: rope_dim, v_head_dim, .. } = self.sizes;
        let each = self.kv_up.apply_to_heads(compressed_kv, nope + v_head_dim);
        let each = each.with_logical_axes(&["batch", "keys", "heads", "head"]);
        let shared = shared.broadcast_to(&[each.dim(0), each.dim(1), self.heads, rope_dim]);
        let key = Tensor::concat(&[each.slice(-1, 0..nope), shared], -1);
        let size = self.sizes.head_dim().max(v_head_dim);
        let padded = |x: Tensor| if x.dim(-1) < size { x.pad(-1, 0, size - x.dim(-1)) } else { x };
        let values = padded(each.slice(-1, nope..nope + v_head_dim));
        [padded(Tensor::concat(queries, -1)).named("query"), padded(key).named("key"), values.named("value")]
    }

    /// The matmuls from the compressed KV to the keys and to the values of heads, `[rank, heads, features]` each, and what their results
    /// are multiplied by, `[heads, features]`.
    #[track_caller]
    fn up(&self, dtype: DType) -> [(Tensor, Option<Tensor>); 2] {
        let MlaSizes { kv_lora_rank, qk_nope_head_dim: nope, v_head_dim, .. } = self.sizes;
        let weight = self.kv_up.weight.at_use(dtype, &["embed", "heads"]);
        let (codes, scales) = match &weight {
            Weight::Quantized(quantized) if quantized.channel_scales().is_some() => {
                (quantized.values.cast(dtype), quantized.channel_scales())
            }
            weight => (weight.dense(dtype), None),
        };
        let codes = codes.reshape(&[kv_lora_rank, self.heads, nope + v_head_dim]);
        let scales = scales.map(|scales| scales.reshape(&[self.heads, nope + v_head_dim]).cast(dtype));
        [0..nope, nope..nope + v_head_dim]
            .map(|features| (codes.slice(2, features.clone()), scales.as_ref().map(|scales| scales.slice(1, features))))
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
            self.of_all_heads(&self.queries(x, context.rope), &self.compressed(x, context.rope), context)
                .named("attention_output")
        })
    }

    /// Attention of positions to themselves.
    #[track_caller]
    fn of_all_heads(&self, queries: &[Tensor; 2], compressed: &[Tensor; 2], context: &Context<'_>) -> Tensor {
        let [query, key, value] = self.in_heads(queries, compressed);
        let Context { positions, mask, implementation, .. } = *context;
        self.finished(&attend_with(&query, &key, &value, positions, mask, implementation, self.options()))
    }

    /// Attention to what the KV cache holds and to the new positions, as [`crate::layers::MultiHeadAttention::extend`]. Keys and values of
    /// heads are never made of what is in the cache: queries are brought to it, and its weighted sums to the heads.
    #[track_caller]
    pub fn extend(
        &self,
        x: &Tensor,
        context: &Context<'_>,
        cache: &KvCache,
        at: &CachePosition<'_>,
    ) -> (Tensor, KvCache) {
        trace::scope("attention", || {
            let queries = self.queries(x, context.rope);
            let compressed = self.compressed(x, context.rope);
            let [compressed_kv, shared] = &compressed;
            let (cache, cached) = cache.extended(shared.clone(), compressed_kv.expand(2), at);
            // Of an empty cache the new positions are all there are.
            if matches!(at.start, CacheStart::First) {
                return (self.of_all_heads(&queries, &compressed, context), cache);
            }
            let [(to_keys, key_scales), (to_values, value_scales)] = self.up(x.dtype());
            let scaled = |x: &Tensor, scales: &Option<Tensor>| scales.as_ref().map_or(x.clone(), |scales| x * scales);
            let [query, rotary] = queries;
            let query = scaled(&query, &key_scales).einsum("bthn,rhn->bthr", &to_keys);
            let query = Tensor::concat(&[query, rotary], -1).with_logical_axes(&["batch", "sequence", "heads", "head"]);
            let Context { positions, mask, implementation, .. } = *context;
            let options = self.options();
            let out = attend_paged(&query, &cache, at.layer, at.start, mask, &options).unwrap_or_else(|| {
                let LayerKeysValues { keys, values, scales } = cached;
                let (keys, values) = match &scales {
                    Some((of_keys, of_values)) => {
                        let dense = |codes: &Tensor, scales: &Tensor| codes * &scales.expand(-1).cast(codes.dtype());
                        (dense(&keys, of_keys), dense(&values, of_values))
                    }
                    None => (keys, values),
                };
                let key = Tensor::concat(&[values, keys], -1);
                attend_with(&query, &key, &key, positions, mask, implementation, options)
                    .slice(-1, 0..self.sizes.kv_lora_rank)
            });
            let out = scaled(&out.einsum("bthr,rhv->bthv", &to_values), &value_scales);
            (self.finished(&out), cache)
        })
    }
}
