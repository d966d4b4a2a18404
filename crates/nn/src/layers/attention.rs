//! Multi-head attention as a layer: projections, positions, groups of keys, and a cache for generation.

use tensor::DType;
use trace::{Key, Tensor, Tree};

use crate::init::Init;
use crate::layers::{Bias, Form, Linear, Places, RmsNorm, Rope, Sight, Weighing, attend_weighing};

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

/// Keys and values of the positions so far, of all layers: `[layers, batch, key heads, positions, head]` each, which products
/// read as it lies.
#[derive(Clone, Debug, Tree)]
pub struct KeyValues {
    /// Keys.
    pub keys: Tensor,
    /// Values.
    pub values: Tensor,
}

/// Where tokens that go into a cache stand.
#[derive(Clone, Debug)]
pub enum Start {
    /// At the first position: nothing is in the cache yet.
    First,
    /// After so many positions, an `i32` scalar.
    After(Tensor),
}

impl Start {
    /// Positions in the cache.
    #[track_caller]
    fn filled(&self) -> Tensor {
        match self {
            Start::First => Tensor::zeros(DType::I32, &[]),
            Start::After(filled) => filled.clone(),
        }
    }

    /// Where so many tokens and what they see stand, in a cache of `room` positions.
    #[track_caller]
    pub(crate) fn places(&self, count: usize, room: usize) -> Places {
        match self {
            Start::First => Places::sequence(count),
            // A position not written yet lies after every query, so causal sight hides it.
            Start::After(filled) => Places {
                queries: Tensor::iota(DType::I32, &[count], 0) + filled,
                keys: Tensor::iota(DType::I32, &[room], 0),
                segments: None,
                is_sequence: false,
            },
        }
    }
}

impl KeyValues {
    /// Room for so many positions in each of `layers`.
    #[track_caller]
    pub fn zeros(dtype: DType, layers: usize, batch: usize, positions: usize, heads: Heads) -> KeyValues {
        let room = Tensor::zeros(dtype, &[layers, batch, heads.keys, positions, heads.size]);
        KeyValues { keys: room.clone(), values: room }
    }

    /// Positions there is room for.
    pub fn room(&self) -> usize {
        self.keys.dims().get(3).copied().unwrap_or(0)
    }
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

    /// Attention to what the cache holds of a layer, an `i32` scalar, and to itself: keys and values are written into the cache
    /// from `start` on. All else of the cache stays where it is.
    #[track_caller]
    pub fn extend(
        &self,
        x: &Tensor,
        context: &Context<'_>,
        cache: &KeyValues,
        layer: &Tensor,
        start: &Start,
    ) -> (Tensor, KeyValues) {
        trace::scope("attention", || {
            let (query, key, value) = self.projected(x, context.rope);
            let zero = Tensor::zeros(DType::I32, &[]);
            let at = [layer.clone(), zero.clone(), zero.clone(), start.filled(), zero];
            let put = |room: &Tensor, new: &Tensor| {
                let by_head = new.cast(room.dtype()).transpose(&[0, 2, 1, 3]);
                // Caches come from outside and go there again.
                room.dynamic_update(&by_head.expand(0), &at).in_order()
            };
            let cache = KeyValues { keys: put(&cache.keys, &key), values: put(&cache.values, &value) };
            let of_layer = |room: &Tensor| {
                let by_head = room.dynamic_slice_in(0, layer, 1).squeeze(0);
                by_head.transpose(&[0, 2, 1, 3]).cast(x.dtype())
            };
            let (keys, values) = match start {
                // All there is to see are the tokens themselves.
                Start::First => (key, value),
                Start::After(_) => (of_layer(&cache.keys), of_layer(&cache.values)),
            };
            let weighing = Weighing { scale: self.scale, ..Weighing::default() };
            let Context { places, sight, form, .. } = *context;
            let out = attend_weighing(&query, &keys, &values, places, sight, form, weighing);
            (self.finished(&out), cache)
        })
    }
}
