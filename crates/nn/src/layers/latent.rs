//! Latent attention: keys and values of all heads come from one narrow vector for each position, and so may queries.

use serde::{Deserialize, Serialize};
use trace::{Key, Tensor, Tree};

use crate::init::Init;
use crate::layers::{
    Bias, Context, Heads, KeyValues, Linear, RmsNorm, Rope, RopePairs, Slot, Weighing, attend_weighing,
};

/// Sizes of latent attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Latent {
    /// Width of the vector that queries come from; they come from the input if absent.
    pub query_rank: Option<usize>,
    /// Width of the vector that keys and values come from.
    pub rank: usize,
    /// Features of a head without positions.
    pub plain: usize,
    /// Features of a head that positions turn; all heads of keys share them.
    pub rotary: usize,
    /// Features of a head of values.
    pub value: usize,
    /// Which of the turned features belong together.
    #[serde(default)]
    pub pairs: RopePairs,
}

impl Latent {
    /// Features of a head of queries and keys.
    pub fn head(&self) -> usize {
        self.plain.saturating_add(self.rotary)
    }
}

/// Projections around [`attend`](crate::layers::attend).
#[derive(Clone, Debug, Tree)]
pub struct LatentAttention {
    /// `[width, query rank]`.
    pub query_down: Option<Linear>,
    /// Of the vector that queries come from.
    pub query_norm: Option<RmsNorm>,
    /// `[width or query rank, heads * (plain + rotary)]`.
    pub query: Linear,
    /// `[width, rank + rotary]`.
    pub latent: Linear,
    /// Of the vector that keys and values come from.
    pub latent_norm: RmsNorm,
    /// `[rank, heads * (plain + value)]`.
    pub key_value: Linear,
    /// `[heads * value, width]`.
    pub output: Linear,
    /// Sizes.
    #[tree(skip)]
    pub sizes: Latent,
    /// Heads.
    #[tree(skip)]
    pub heads: usize,
    /// What products of queries and keys are multiplied by; one over the root of a head's features if absent.
    #[tree(skip)]
    pub scale: Option<f64>,
}

impl LatentAttention {
    /// Drawn weights; `bias` is that of the projections from and to the width.
    #[track_caller]
    pub fn init(
        key: &Key,
        (width, heads): (usize, usize),
        sizes: Latent,
        bias: Bias,
        weight: Init,
        norm: impl Fn(usize) -> RmsNorm,
    ) -> LatentAttention {
        let keys = key.split(5);
        let of = |n: usize, from: usize, to: usize, bias: Bias| Linear::init(&keys[n], from, to, bias, weight);
        LatentAttention {
            query_down: sizes.query_rank.map(|rank| of(0, width, rank, bias)),
            query_norm: sizes.query_rank.map(&norm),
            query: of(1, sizes.query_rank.unwrap_or(width), heads * sizes.head(), Bias::None),
            latent: of(2, width, sizes.rank + sizes.rotary, bias),
            latent_norm: norm(sizes.rank),
            key_value: of(3, sizes.rank, heads * (sizes.plain + sizes.value), Bias::None),
            output: of(4, heads * sizes.value, width, bias),
            sizes,
            heads,
            scale: None,
        }
    }

    /// Heads as a cache has them.
    pub(crate) fn cached(sizes: Latent, heads: usize) -> Heads {
        Heads { queries: heads, keys: heads, size: sizes.head().max(sizes.value) }
    }

    /// Queries, keys and values of `[batch, positions, width]`, all with as many features: those that are narrower end in zeros,
    /// which add nothing to any product.
    #[track_caller]
    fn projected(&self, x: &Tensor, rope: Option<&Rope>) -> (Tensor, Tensor, Tensor) {
        let Latent { rank, plain, rotary, value, pairs, .. } = self.sizes;
        let turned = |x: Tensor| rope.map_or(x.clone(), |rope| rope.apply_to(&x, pairs));
        let from = match (&self.query_down, &self.query_norm) {
            (Some(down), Some(norm)) => norm.apply(&down.apply_as(x, ["width", ""])).named("query_latent"),
            _ => x.clone(),
        };
        let query = self.query.apply_to_heads(&from, plain + rotary);
        let query = query.laid_out(&["batch", "sequence", "heads", "head"]);
        let query = Tensor::concat(&[query.slice(-1, 0..plain), turned(query.slice(-1, plain..plain + rotary))], -1);
        let both = self.latent.apply_as(x, ["width", ""]);
        let latent = self.latent_norm.apply(&both.slice(-1, 0..rank)).named("latent");
        let shared = turned(both.slice(-1, rank..rank + rotary).expand(2));
        let each = self.key_value.apply_to_heads(&latent, plain + value);
        let each = each.laid_out(&["batch", "keys", "heads", "head"]);
        let shared = shared.broadcast_to(&[each.dim(0), each.dim(1), self.heads, rotary]);
        let key = Tensor::concat(&[each.slice(-1, 0..plain), shared], -1);
        let size = LatentAttention::cached(self.sizes, self.heads).size;
        let filled = |x: Tensor| if x.dim(-1) < size { x.pad(-1, 0, size - x.dim(-1)) } else { x };
        let values = filled(each.slice(-1, plain..plain + value));
        (filled(query).named("query"), filled(key).named("key"), values.named("value"))
    }

    #[track_caller]
    fn finished(&self, out: &Tensor) -> Tensor {
        self.output.apply_from_heads(&out.slice(-1, 0..self.sizes.value))
    }

    fn weighing(&self) -> Weighing<'static> {
        let scale = self.scale.unwrap_or((self.sizes.head() as f64).sqrt().recip());
        Weighing { scale: Some(scale), ..Weighing::default() }
    }

    /// Attention of `[batch, positions, width]` to itself.
    #[track_caller]
    pub fn apply(&self, x: &Tensor, context: &Context<'_>) -> Tensor {
        trace::scope("attention", || {
            let (query, key, value) = self.projected(x, context.rope);
            let Context { places, sight, form, .. } = *context;
            let out = attend_weighing(&query, &key, &value, places, sight, form, self.weighing());
            self.finished(&out).named("attention_output")
        })
    }

    /// Attention to what the cache holds and to itself, as [`crate::layers::MultiHeadAttention::extend`].
    #[track_caller]
    pub fn extend(&self, x: &Tensor, context: &Context<'_>, cache: &KeyValues, slot: &Slot<'_>) -> (Tensor, KeyValues) {
        trace::scope("attention", || {
            let (query, key, value) = self.projected(x, context.rope);
            let (cache, keys, values) = cache.extended(key, value, slot);
            let Context { places, sight, form, .. } = *context;
            let out = attend_weighing(&query, &keys, &values, places, sight, form, self.weighing());
            (self.finished(&out), cache)
        })
    }
}
