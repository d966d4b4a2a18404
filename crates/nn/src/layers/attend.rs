//! Attention itself: which keys a query sees, and the weighted sum of values, whole or block by block.

use tensor::DType;
use trace::{Key, Tensor, Tree, custom_vjp, scan};

use super::{dropout, flash};

/// A score no softmax sees; finite, so that a query that sees nothing gives no NaN.
const UNSEEN: f64 = -1e30;

/// Which keys a query sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Sight {
    /// All.
    Everything,
    /// Those at its own position and before.
    Causal,
    /// Those at its own position and before, that many in all.
    Window(usize),
}

/// How the sum is computed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Form {
    /// Block by block for long sequences, else all at once.
    #[default]
    Auto,
    /// All scores at once: memory grows with queries times keys.
    Plain,
    /// Keys in blocks of this size with a running softmax; the backward pass computes scores again, so that memory grows
    /// with queries plus keys.
    Chunked(usize),
    /// Block by block, by a kernel where the compiler has one. For a sequence that looks at itself.
    Flash,
}

/// Where queries and keys stand.
#[derive(Clone, Debug, Tree)]
pub struct Places {
    /// Positions of queries, `i32`, `[queries]` or `[batch, queries]`.
    pub queries: Tensor,
    /// Positions of keys; a negative position is not there.
    pub keys: Tensor,
    /// Sequences packed into one row, `i32 [batch, queries]` and `[batch, keys]`: nothing sees across them.
    pub segments: Option<(Tensor, Tensor)>,
    /// Whether queries and keys are the positions of one sequence, from its first on.
    #[tree(skip)]
    pub is_sequence: bool,
}

impl Places {
    /// A sequence that looks at itself.
    #[track_caller]
    pub fn sequence(length: usize) -> Places {
        let positions = Tensor::iota(DType::I32, &[length], 0);
        Places { queries: positions.clone(), keys: positions, segments: None, is_sequence: true }
    }

    /// Which keys are seen: broadcasts to `[batch, groups, repeats, queries, keys]`.
    fn visible(&self, sight: Sight) -> Tensor {
        // [batch or 1, 1, 1, queries, 1] and [batch or 1, 1, 1, 1, keys].
        let lift = |positions: &Tensor, axis: isize| {
            let rows = if positions.rank() == 1 { positions.expand(0) } else { positions.clone() };
            rows.expand(1).expand(1).expand(axis)
        };
        let (queries, keys) = (lift(&self.queries, -1), lift(&self.keys, -2));
        let mut visible = keys.greater_equal(&Tensor::scalar(DType::I32, 0.0));
        if sight != Sight::Everything {
            visible = visible.and(&keys.less_equal(&queries));
        }
        if let Sight::Window(size) = sight {
            visible = visible.and(&(&queries - &keys).less(&Tensor::scalar(DType::I32, size as f64)));
        }
        if let Some((of_queries, of_keys)) = &self.segments {
            visible = visible.and(&lift(of_queries, -1).equals(&lift(of_keys, -2)));
        }
        visible
    }
}

/// Attention of `query [batch, queries, heads, head]` to `key` and `value [batch, keys, groups, head]`; each group of keys
/// serves as many heads. Scores and softmax are `f32`; the result has the type and shape of `query`.
#[track_caller]
pub fn attend(query: &Tensor, key: &Tensor, value: &Tensor, places: &Places, sight: Sight, form: Form) -> Tensor {
    attend_weighing(query, key, value, places, sight, form, Weighing::default())
}

/// How products of queries and keys become the weights that values are summed with.
#[derive(Clone, Copy, Debug, Default)]
pub struct Weighing<'a> {
    /// What products are multiplied by before the softmax; one over the root of a head's features if absent.
    pub scale: Option<f64>,
    /// Share of weights that are zero.
    pub rate: f64,
    /// Without a key nothing is dropped.
    pub key: Option<&'a Key>,
}

impl Weighing<'_> {
    fn drops(&self) -> bool {
        self.rate > 0.0 && self.key.is_some()
    }
}

/// [`attend`] with a scale and dropout of its weights. Only the plain form can drop: the others never have all weights at once.
#[track_caller]
pub fn attend_weighing(
    query: &Tensor,
    key: &Tensor,
    value: &Tensor,
    places: &Places,
    sight: Sight,
    form: Form,
    weighing: Weighing<'_>,
) -> Tensor {
    let form = match form {
        Form::Auto if !weighing.drops() && flash::is_better(query.dim(1), key.dim(1), key.dim(2), places) => {
            Form::Flash
        }
        // Parts of a sequence on other devices, or a long prompt after what is in a cache.
        Form::Auto if !weighing.drops() && flash::is_long(query.dim(1), key.dim(1)) => Form::Chunked(flash::BLOCK),
        Form::Auto => Form::Plain,
        // A cache, or positions of the caller's.
        Form::Flash if !flash::is_possible(query.dim(1), key.dim(1), places) => Form::Plain,
        form => form,
    };
    if weighing.drops() && form != Form::Plain {
        let rate = weighing.rate;
        trace::refuse(format!(
            "attention weights are dropped at a rate of {rate}, which attention in blocks cannot do: use the plain form, or \
             a rate of 0 (attn_pdrop)"
        ));
    }
    trace::scope("attend", || {
        let (batch, queries, heads, head) = (query.dim(0), query.dim(1), query.dim(2), query.dim(3));
        let groups = key.dim(2);
        let scale = weighing.scale.unwrap_or((head as f64).sqrt().recip());
        let grouped = query.reshape(&[batch, queries, groups, heads / groups.max(1), head]);
        if form == Form::Flash {
            return flash::flash(query, key, value, places, sight, scale);
        }
        let out = match form {
            Form::Chunked(block) => chunked(&grouped, key, value, places, sight, scale, block.max(1)),
            _ => plain(&grouped, key, value, places, sight, scale, weighing),
        };
        out.reshape(query.dims()).named("attention")
    })
}

/// Masked scores in `f32`, `[batch, groups, repeats, queries, keys]`.
fn scores(query: &Tensor, key: &Tensor, places: &Places, sight: Sight, scale: f64) -> Tensor {
    let scores = &query.einsum_as("btgrd,bsgd->bgrts", key, DType::F32) * scale;
    places.visible(sight).select(&scores, &Tensor::scalar(DType::F32, UNSEEN))
}

fn plain(
    query: &Tensor,
    key: &Tensor,
    value: &Tensor,
    places: &Places,
    sight: Sight,
    scale: f64,
    weighing: Weighing<'_>,
) -> Tensor {
    let weights = scores(query, key, places, sight, scale).softmax(-1).cast(query.dtype());
    let weights = dropout(&weights, weighing.rate, weighing.key);
    weights.einsum("bgrts,bsgd->btgrd", value)
}

/// A tensor `[batch, keys, …]` as blocks `[blocks, batch, block, …]`, filled up with a number.
fn blocks(tensor: &Tensor, axis: usize, block: usize, fill: f64) -> Tensor {
    let size = tensor.dims()[axis];
    let count = size.div_ceil(block);
    let (low, mut high) = (vec![0; tensor.rank()], vec![0; tensor.rank()]);
    high[axis] = (count * block - size) as i64;
    let whole = if high[axis] == 0 {
        tensor.clone()
    } else {
        tensor.pad_all(&Tensor::scalar(tensor.dtype(), fill), &low, &high, &vec![0; tensor.rank()])
    };
    let mut dims = tensor.dims().to_vec();
    dims[axis] = block;
    dims.insert(axis, count);
    whole.reshape(&dims).move_axis(axis as isize, 0)
}

/// Undoes [`blocks`].
fn joined(blocks: &Tensor, axis: usize, size: usize) -> Tensor {
    let apart = blocks.move_axis(0, axis as isize);
    let mut dims = apart.dims().to_vec();
    let count = dims.remove(axis);
    dims[axis] *= count;
    apart.reshape(&dims).slice(axis as isize, 0..size)
}

/// Keys, values and places, block by block.
fn in_blocks(key: &Tensor, value: &Tensor, places: &Places, block: usize) -> (Tensor, Tensor, Tensor, Option<Tensor>) {
    let positions = blocks(&places.keys, places.keys.rank() - 1, block, -1.0);
    let segments = places.segments.as_ref().map(|(_, keys)| blocks(keys, 1, block, -1.0));
    (blocks(key, 1, block, 0.0), blocks(value, 1, block, 0.0), positions, segments)
}

fn places_of(places: &Places, positions: &Tensor, segments: &Option<Tensor>) -> Places {
    let segments =
        places.segments.as_ref().zip(segments.as_ref()).map(|((queries, _), keys)| (queries.clone(), keys.clone()));
    Places { queries: places.queries.clone(), keys: positions.clone(), segments, is_sequence: false }
}

fn chunked(
    query: &Tensor,
    key: &Tensor,
    value: &Tensor,
    places: &Places,
    sight: Sight,
    scale: f64,
    block: usize,
) -> Tensor {
    let inputs = (query.clone(), key.clone(), value.clone(), places.clone());
    let (out, _) = custom_vjp(
        &inputs,
        |(query, key, value, places)| running_softmax(query, key, value, places, sight, scale, block),
        move |(query, key, value, places), (out, total), (ct, _)| {
            let saved = Saved { out, total, ct };
            let (query, key, value) = running_backward(query, key, value, places, &saved, sight, scale, block);
            (query, key, value, places.map_leaves(Tensor::zeros_like))
        },
    );
    out
}

/// The weighted sum, and the logarithm of the sum of exponentials that the backward pass starts from.
pub(super) fn running_softmax(
    query: &Tensor,
    key: &Tensor,
    value: &Tensor,
    places: &Places,
    sight: Sight,
    scale: f64,
    block: usize,
) -> (Tensor, Tensor) {
    let [batch, queries, groups, repeats, head] = [0, 1, 2, 3, 4].map(|axis| query.dims()[axis]);
    let rows = [batch, groups, repeats, queries];
    let init = (
        Tensor::full(DType::F32, &rows, UNSEEN),
        Tensor::zeros(DType::F32, &rows),
        Tensor::zeros(DType::F32, &[batch, groups, repeats, queries, head]),
    );
    let xs = in_blocks(key, value, places, block);
    let ((top, sum, out), ()) = scan(&init, &xs, None, |(top, sum, out), (key, value, positions, segments)| {
        let scores = scores(query, key, &places_of(places, positions, segments), sight, scale);
        let next = top.maximum(&scores.max(&[4]));
        let shrink = (top - &next).exp();
        let weights = (&scores - &next.expand(-1)).exp();
        let sum = &(sum * &shrink) + &weights.sum(&[4]);
        let part = weights.cast(value.dtype()).einsum_as("bgrts,bsgd->bgrtd", value, DType::F32);
        ((next, sum, &(out * &shrink.expand(-1)) + &part), ())
    });
    let out = (&out / &sum.expand(-1)).cast(query.dtype()).transpose(&[0, 3, 1, 2, 4]);
    (out, &sum.log() + &top)
}

/// What the backward pass has: the result, its logarithms of sums, and its cotangent.
pub(super) struct Saved<'a> {
    pub(super) out: &'a Tensor,
    pub(super) total: &'a Tensor,
    pub(super) ct: &'a Tensor,
}

#[allow(clippy::too_many_arguments)]
pub(super) fn running_backward(
    query: &Tensor,
    key: &Tensor,
    value: &Tensor,
    places: &Places,
    saved: &Saved<'_>,
    sight: Sight,
    scale: f64,
    block: usize,
) -> (Tensor, Tensor, Tensor) {
    let product = &saved.out.cast(DType::F32) * &saved.ct.cast(DType::F32);
    let delta = product.sum(&[4]).transpose(&[0, 2, 3, 1]);
    let xs = in_blocks(key, value, places, block);
    let init = Tensor::zeros(DType::F32, query.dims());
    let (query_ct, (key_ct, value_ct)) = scan(&init, &xs, None, |query_ct, (key, value, positions, segments)| {
        let scores = scores(query, key, &places_of(places, positions, segments), sight, scale);
        let weights = (&scores - &saved.total.expand(-1)).exp();
        let value_ct = weights.cast(value.dtype()).einsum_as("bgrts,btgrd->bsgd", saved.ct, DType::F32);
        let weights_ct = saved.ct.einsum_as("btgrd,bsgd->bgrts", value, DType::F32);
        let scores_ct = (&(&weights * &(&weights_ct - &delta.expand(-1))) * scale).cast(query.dtype());
        let part = scores_ct.einsum_as("bgrts,bsgd->btgrd", key, DType::F32);
        let key_ct = scores_ct.einsum_as("bgrts,btgrd->bsgd", query, DType::F32);
        (query_ct + &part, (key_ct.cast(key.dtype()), value_ct.cast(value.dtype())))
    });
    let keys = key.dims()[1];
    (query_ct.cast(query.dtype()), joined(&key_ct, 1, keys), joined(&value_ct, 1, keys))
}
