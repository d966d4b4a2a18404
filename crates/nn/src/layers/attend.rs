//! Dot-product attention: masks, positions, and the weighted sum of values, plain or chunked with an online softmax.

use tensor::DType;
use trace::{Key, Tensor, Tree, custom_vjp, scan};

use super::{dropout, flash};

/// The score of masked keys; finite, so that a query without any key gives no NaN.
pub(super) const MASK_VALUE: f64 = -1e30;

/// The attention mask: which keys a query attends to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AttentionMask {
    /// All keys: bidirectional attention.
    Full,
    /// Keys at its own position and before.
    Causal,
    /// Keys at its own position and before, so many in all.
    SlidingWindow(usize),
}

/// The attention implementation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AttentionImpl {
    /// Flash or chunked for long sequences, else plain.
    #[default]
    Auto,
    /// All scores at once: memory grows with queries times keys.
    Plain,
    /// Keys in blocks of this size with an online softmax; the backward pass recomputes scores, so that memory grows with
    /// queries plus keys.
    Chunked(usize),
    /// Flash attention, by a kernel where the compiler has one. For self-attention over whole sequences.
    Flash,
}

/// Positions and segment ids of queries and keys.
#[derive(Clone, Debug, Tree)]
pub struct Positions {
    /// Positions of queries, `i32`, `[queries]` or `[batch, queries]`.
    pub queries: Tensor,
    /// Positions of keys; a key with a negative position is masked.
    pub keys: Tensor,
    /// Segment ids of packed sequences, `i32 [batch, queries]` and `[batch, keys]`: attention does not cross segments.
    pub segments: Option<(Tensor, Tensor)>,
    /// Whether queries and keys are the positions of one sequence, from its first on.
    #[tree(skip)]
    pub is_sequence: bool,
}

impl Positions {
    /// Self-attention over one sequence.
    #[track_caller]
    pub fn sequence(length: usize) -> Positions {
        let positions = Tensor::iota(DType::I32, &[length], 0);
        Positions { queries: positions.clone(), keys: positions, segments: None, is_sequence: true }
    }

    /// The mask as booleans; broadcasts to `[batch, kv heads, repeats, queries, keys]`.
    fn mask(&self, kind: AttentionMask) -> Tensor {
        // [batch or 1, 1, 1, queries, 1] and [batch or 1, 1, 1, 1, keys].
        let lift = |numbers: &Tensor, axis: isize| {
            let rows = if numbers.rank() == 1 { numbers.expand(0) } else { numbers.clone() };
            rows.expand(1).expand(1).expand(axis)
        };
        let (queries, keys) = (lift(&self.queries, -1), lift(&self.keys, -2));
        let mut mask = keys.greater_equal(&Tensor::scalar(DType::I32, 0.0));
        if kind != AttentionMask::Full {
            mask = mask.and(&keys.less_equal(&queries));
        }
        if let AttentionMask::SlidingWindow(size) = kind {
            mask = mask.and(&(&queries - &keys).less(&Tensor::scalar(DType::I32, size as f64)));
        }
        if let Some((of_queries, of_keys)) = &self.segments {
            mask = mask.and(&lift(of_queries, -1).equals(&lift(of_keys, -2)));
        }
        mask
    }
}

/// Attention of `query [batch, queries, heads, head]` to `key` and `value [batch, keys, kv heads, head]`. With fewer KV heads
/// than heads it is grouped-query attention (GQA); with one, multi-query attention. Scores and softmax are `f32`; the result has the type and shape of `query`.
#[track_caller]
pub fn attend(
    query: &Tensor,
    key: &Tensor,
    value: &Tensor,
    positions: &Positions,
    mask: AttentionMask,
    implementation: AttentionImpl,
) -> Tensor {
    attend_with(query, key, value, positions, mask, implementation, AttentionOptions::default())
}

/// Scale and dropout of attention.
#[derive(Clone, Copy, Debug, Default)]
pub struct AttentionOptions<'a> {
    /// Factor of the scores before the softmax; `1 / sqrt(head_dim)` if absent.
    pub scale: Option<f64>,
    /// Dropout rate of the attention weights.
    pub dropout_rate: f64,
    /// Without a key there is no dropout.
    pub dropout_key: Option<&'a Key>,
    /// Scales `f32 [batch, keys, kv heads]` of keys and of values that are codes of a quantized KV cache.
    pub kv_scales: Option<&'a (Tensor, Tensor)>,
}

impl AttentionOptions<'_> {
    fn has_dropout(&self) -> bool {
        self.dropout_rate > 0.0 && self.dropout_key.is_some()
    }
}

/// [`attend`] with a scale and dropout. Only the plain implementation has dropout: the others never have all weights at once.
#[track_caller]
pub fn attend_with(
    query: &Tensor,
    key: &Tensor,
    value: &Tensor,
    positions: &Positions,
    mask: AttentionMask,
    implementation: AttentionImpl,
    options: AttentionOptions<'_>,
) -> Tensor {
    let implementation = match implementation {
        AttentionImpl::Auto
            if !options.has_dropout()
                && flash::is_better(query.dim(1), key.dim(1), key.dim(2), query.dtype(), positions) =>
        {
            AttentionImpl::Flash
        }
        // Parts of a sequence on other devices, or a long prompt after a filled KV cache.
        AttentionImpl::Auto if !options.has_dropout() && flash::is_long(query.dim(1), key.dim(1)) => {
            AttentionImpl::Chunked(flash::BLOCK)
        }
        AttentionImpl::Auto => AttentionImpl::Plain,
        // A KV cache, or positions of the caller's.
        AttentionImpl::Flash if !flash::is_possible(query.dim(1), key.dim(1), positions) => AttentionImpl::Plain,
        implementation => implementation,
    };
    if options.has_dropout() && implementation != AttentionImpl::Plain {
        let rate = options.dropout_rate;
        trace::refuse(format!(
            "attention dropout of {rate} needs the plain implementation: set run.attention = \"plain\", or a dropout rate of 0 \
             (attn_pdrop)"
        ));
    }
    // Only the plain implementation folds scales into scores and weights; long sequences read keys and values block by block.
    if let Some((of_keys, of_values)) = options.kv_scales.filter(|_| implementation != AttentionImpl::Plain) {
        let scaled = |codes: &Tensor, scales: &Tensor| codes * &scales.expand(-1).cast(codes.dtype());
        let options = AttentionOptions { kv_scales: None, ..options };
        let (key, value) = (scaled(key, of_keys), scaled(value, of_values));
        return attend_with(query, &key, &value, positions, mask, implementation, options);
    }
    trace::scope("attend", || {
        let (batch, queries, heads, head) = (query.dim(0), query.dim(1), query.dim(2), query.dim(3));
        let groups = key.dim(2);
        let scale = options.scale.unwrap_or((head as f64).sqrt().recip());
        let grouped = query.reshape(&[batch, queries, groups, heads / groups.max(1), head]);
        if implementation == AttentionImpl::Flash {
            return flash::flash(query, key, value, positions, mask, scale);
        }
        let out = match implementation {
            AttentionImpl::Chunked(block) => chunked(&grouped, key, value, positions, mask, scale, block.max(1)),
            _ => plain(&grouped, key, value, positions, mask, scale, options),
        };
        out.reshape(query.dims()).named("attention")
    })
}

/// Masked scores in `f32`, `[batch, kv heads, repeats, queries, keys]`.
fn scores(
    query: &Tensor,
    key: &Tensor,
    positions: &Positions,
    mask: AttentionMask,
    scale: f64,
    key_scales: Option<&Tensor>,
) -> Tensor {
    let scores = &query.einsum_as("btgrd,bsgd->bgrts", key, DType::F32) * scale;
    let scores = match key_scales {
        Some(scales) => scores * by_key(scales),
        None => scores,
    };
    positions.mask(mask).select(&scores, &Tensor::scalar(DType::F32, MASK_VALUE))
}

/// Scales `[batch, keys, kv heads]` beside scores `[batch, kv heads, repeats, queries, keys]`.
fn by_key(scales: &Tensor) -> Tensor {
    scales.swap_axes(1, 2).expand(2).expand(2)
}

fn plain(
    query: &Tensor,
    key: &Tensor,
    value: &Tensor,
    positions: &Positions,
    mask: AttentionMask,
    scale: f64,
    options: AttentionOptions<'_>,
) -> Tensor {
    let of_keys = options.kv_scales.map(|(keys, _)| keys);
    let weights = scores(query, key, positions, mask, scale, of_keys).softmax(-1);
    // Scales of values are folded into the weights: values stay codes.
    let weights = match options.kv_scales {
        Some((_, of_values)) => weights * by_key(of_values),
        None => weights,
    };
    let weights = weights.cast(query.dtype());
    let weights = dropout(&weights, options.dropout_rate, options.dropout_key);
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

/// Keys, values, positions and segment ids, block by block.
fn in_blocks(
    key: &Tensor,
    value: &Tensor,
    positions: &Positions,
    block: usize,
) -> (Tensor, Tensor, Tensor, Option<Tensor>) {
    let key_positions = blocks(&positions.keys, positions.keys.rank() - 1, block, -1.0);
    let segments = positions.segments.as_ref().map(|(_, keys)| blocks(keys, 1, block, -1.0));
    (blocks(key, 1, block, 0.0), blocks(value, 1, block, 0.0), key_positions, segments)
}

fn positions_of(positions: &Positions, key_positions: &Tensor, segments: &Option<Tensor>) -> Positions {
    let segments =
        positions.segments.as_ref().zip(segments.as_ref()).map(|((queries, _), keys)| (queries.clone(), keys.clone()));
    Positions { queries: positions.queries.clone(), keys: key_positions.clone(), segments, is_sequence: false }
}

fn chunked(
    query: &Tensor,
    key: &Tensor,
    value: &Tensor,
    positions: &Positions,
    mask: AttentionMask,
    scale: f64,
    block: usize,
) -> Tensor {
    let inputs = (query.clone(), key.clone(), value.clone(), positions.clone());
    let (out, _) = custom_vjp(
        &inputs,
        |(query, key, value, positions)| online_softmax(query, key, value, positions, mask, scale, block),
        move |(query, key, value, positions), (out, total), (ct, _)| {
            let saved = Saved { out, total, ct };
            let (query, key, value) = online_softmax_backward(query, key, value, positions, &saved, mask, scale, block);
            (query, key, value, positions.map_leaves(Tensor::zeros_like))
        },
    );
    out
}

/// Attention by an online softmax over blocks of keys; also the log-sum-exp of the scores, which the backward pass needs.
pub(super) fn online_softmax(
    query: &Tensor,
    key: &Tensor,
    value: &Tensor,
    positions: &Positions,
    mask: AttentionMask,
    scale: f64,
    block: usize,
) -> (Tensor, Tensor) {
    let [batch, queries, groups, repeats, head] = [0, 1, 2, 3, 4].map(|axis| query.dims()[axis]);
    let rows = [batch, groups, repeats, queries];
    let init = (
        Tensor::full(DType::F32, &rows, MASK_VALUE),
        Tensor::zeros(DType::F32, &rows),
        Tensor::zeros(DType::F32, &[batch, groups, repeats, queries, head]),
    );
    let xs = in_blocks(key, value, positions, block);
    let ((top, sum, out), ()) = scan(&init, &xs, None, |(top, sum, out), (key, value, key_positions, segments)| {
        let scores = scores(query, key, &positions_of(positions, key_positions, segments), mask, scale, None);
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

/// Residuals of the backward pass: the result, the log-sum-exp of its scores, and the cotangent.
pub(super) struct Saved<'a> {
    pub(super) out: &'a Tensor,
    pub(super) total: &'a Tensor,
    pub(super) ct: &'a Tensor,
}

#[allow(clippy::too_many_arguments)]
pub(super) fn online_softmax_backward(
    query: &Tensor,
    key: &Tensor,
    value: &Tensor,
    positions: &Positions,
    saved: &Saved<'_>,
    mask: AttentionMask,
    scale: f64,
    block: usize,
) -> (Tensor, Tensor, Tensor) {
    let product = &saved.out.cast(DType::F32) * &saved.ct.cast(DType::F32);
    let delta = product.sum(&[4]).transpose(&[0, 2, 3, 1]);
    let xs = in_blocks(key, value, positions, block);
    let init = Tensor::zeros(DType::F32, query.dims());
    let (query_ct, (key_ct, value_ct)) = scan(&init, &xs, None, |query_ct, (key, value, key_positions, segments)| {
        let scores = scores(query, key, &positions_of(positions, key_positions, segments), mask, scale, None);
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
