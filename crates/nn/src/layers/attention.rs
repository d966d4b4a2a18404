//! Multi-head attention as a layer: projections, positions, groups of keys, and a cache for generation.

use trace::{Key, Tensor, Tree};

use crate::init::Init;
use crate::layers::{Bias, Form, KeyValues, Linear, Places, RmsNorm, Rope, Sight, Slot, Weighing, attend_weighing};

/// Numbers of heads and their size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Heads {
    /// Heads of queries.
    pub queries: usize,
    /// Heads of keys and values; divides the heads of queries.
    pub keys: usize,
    /// Features of a head.
    pub size: usize,
}

/// Projections around [`attend`](crate::layers::attend).
#[derive(Clone, Debug, Tree)]
pub struct MultiHeadAttention {
    /// `[width, heads * head]`.
    pub query: Linear,
    /// `[width, key heads * head]`.
    pub key: Linear,
    /// `[width, key heads * head]`.
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
    /// What products of queries and keys are multiplied by; one over the root of a head's features if absent.
    #[tree(skip)]
    pub scale: Option<f64>,
}

/// What attention depends on besides its input.
#[derive(Clone, Debug)]
pub struct Context<'a> {
    /// Where queries and keys stand.
    pub places: &'a Places,
    /// Which keys are seen.
    pub sight: Sight,
    /// How it is computed.
    pub form: Form,
    /// Rotary positions of the queries.
    pub rope: Option<&'a Rope>,
}

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
        let of = |n: usize, count: usize| Linear::init(&keys[n], width, count * heads.size, projections, weight);
        MultiHeadAttention {
            query: of(0, heads.queries),
            key: of(1, heads.keys),
            value: of(2, heads.keys),
            output: Linear::init(&keys[3], heads.queries * heads.size, width, output, output_weight),
            query_norm: None,
            key_norm: None,
            heads,
            scale: None,
        }
    }

    /// Queries, keys and values of `[batch, positions, width]`.
    #[track_caller]
    fn projected(&self, x: &Tensor, rope: Option<&Rope>) -> (Tensor, Tensor, Tensor) {
        let heads = |linear: &Linear| linear.apply_to_heads(x, self.heads.size);
        // Queries stay with their positions; keys and values of all positions are needed everywhere.
        let query = heads(&self.query).laid_out(&["batch", "sequence", "heads", "head"]);
        let key = heads(&self.key).laid_out(&["batch", "keys", "heads", "head"]);
        let value = heads(&self.value).laid_out(&["batch", "keys", "heads", "head"]);
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

    /// Attention of `[batch, positions, width]` to itself.
    #[track_caller]
    pub fn apply(&self, x: &Tensor, context: &Context<'_>) -> Tensor {
        self.apply_dropping(x, context, 0.0, None)
    }

    /// [`apply`](Self::apply) with so large a share of the attention weights dropped, if there is a key.
    #[track_caller]
    pub fn apply_dropping(&self, x: &Tensor, context: &Context<'_>, rate: f64, key: Option<&Key>) -> Tensor {
        trace::scope("attention", || {
            let weighing = Weighing { scale: self.scale, rate, key };
            let (query, key, value) = self.projected(x, context.rope);
            let Context { places, sight, form, .. } = *context;
            let out = attend_weighing(&query, &key, &value, places, sight, form, weighing);
            self.finished(&out).named("attention_output")
        })
    }

    /// Attention to what the cache holds of a layer and to itself: keys and values are written into the cache.
    #[track_caller]
    pub fn extend(&self, x: &Tensor, context: &Context<'_>, cache: &KeyValues, slot: &Slot<'_>) -> (Tensor, KeyValues) {
        trace::scope("attention", || {
            let (query, key, value) = self.projected(x, context.rope);
            let (cache, keys, values) = cache.extended(key, value, slot);
            let weighing = Weighing { scale: self.scale, ..Weighing::default() };
            let Context { places, sight, form, .. } = *context;
            let out = attend_weighing(&query, &keys, &values, places, sight, form, weighing);
            (self.finished(&out), cache)
        })
    }
}
