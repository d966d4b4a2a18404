//! Dot-product attention: masks, positions, and the weighted sum of values, plain or chunked with an online softmax.

use tensor::DType;
use trace::{CompileTarget, Key, Tensor, Tree, custom_vjp, scan};

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
    /// Keys at its own position and before, in the same chunk of so many positions.
    Chunk(usize),
    /// Keys at most so many positions before or after its own.
    Around(usize),
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

    /// Attention of texts `[batch, positions]` to themselves, of which the first `lengths`, `i32 [batch]`, are there: what is behind
    /// the end of a text is a key for nobody.
    #[track_caller]
    pub fn of_lengths(dims: &[usize], lengths: &Tensor) -> Positions {
        let places = Tensor::iota(DType::I32, dims, 1);
        let nowhere = Tensor::full(DType::I32, dims, -1.0);
        let keys = places.less(&lengths.expand(1).broadcast_to(dims)).select(&places, &nowhere);
        Positions { queries: places, keys, segments: None, is_sequence: false }
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
        if !matches!(kind, AttentionMask::Full | AttentionMask::Around(_)) {
            mask = mask.and(&keys.less_equal(&queries));
        }
        if let AttentionMask::SlidingWindow(size) = kind {
            mask = mask.and(&(&queries - &keys).less(&Tensor::scalar(DType::I32, size as f64)));
        }
        if let AttentionMask::Around(size) = kind {
            let size = Tensor::scalar(DType::I32, size as f64);
            mask = mask.and(&(&queries - &keys).abs().less_equal(&size));
        }
        if let AttentionMask::Chunk(size) = kind {
            let size = Tensor::scalar(DType::I32, size.max(1) as f64);
            mask = mask.and(&(&queries / &size).equals(&(&keys / &size)));
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

/// What attention does with scores and weights.
#[derive(Clone, Copy, Debug, Default)]
pub struct AttentionOptions<'a> {
    /// Factor of the scores before the softmax; `1 / sqrt(head_dim)` if absent.
    pub scale: Option<f64>,
    /// Soft cap: scores become `cap * tanh(score / cap)`.
    pub soft_cap: Option<f64>,
    /// Attention sinks `[heads]`: a score of each head that takes part in the softmax and has no value.
    pub sinks: Option<&'a Tensor>,
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

    /// Whether a flash kernel computes it: those know neither soft caps, sinks, chunks nor windows to both sides.
    fn is_for_flash(&self, mask: AttentionMask) -> bool {
        self.soft_cap.is_none()
            && self.sinks.is_none()
            && !matches!(mask, AttentionMask::Chunk(_) | AttentionMask::Around(_))
    }
}

/// How scores come from the matmul of queries and keys.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scoring {
    pub(super) scale: f64,
    pub(super) soft_cap: Option<f64>,
}

impl Scoring {
    /// A factor alone.
    pub(super) fn scaled(scale: f64) -> Scoring {
        Scoring { scale, soft_cap: None }
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
                && options.is_for_flash(mask)
                && flash::is_better(query.dim(1), key.dim(1), key.dim(2), query.dtype(), positions) =>
        {
            AttentionImpl::Flash
        }
        // Parts of a sequence on other devices, or a long prompt after a filled KV cache.
        AttentionImpl::Auto if !options.has_dropout() && flash::is_long(query.dim(1), key.dim(1)) => {
            AttentionImpl::Chunked(flash::BLOCK)
        }
        AttentionImpl::Auto => AttentionImpl::Plain,
        AttentionImpl::Flash if !options.is_for_flash(mask) => AttentionImpl::Chunked(flash::BLOCK),
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
        let scoring = Scoring { scale, soft_cap: options.soft_cap };
        let grouped = query.reshape(&[batch, queries, groups, heads / groups.max(1), head]);
        if implementation == AttentionImpl::Flash {
            return flash::flash(query, key, value, positions, mask, scale);
        }
        let out = match implementation {
            AttentionImpl::Chunked(block) => {
                let inputs = (grouped, key.clone(), value.clone(), positions.clone(), grouped_sinks(&options, groups));
                chunked(&inputs, mask, scoring, block.max(1))
            }
            _ => plain(&grouped, key, value, positions, mask, scoring, options),
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
    scoring: Scoring,
    key_scales: Option<&Tensor>,
) -> Tensor {
    let products = match is_one_query(query) {
        // [kv heads, repeats, keys, head]
        true => {
            let (query, key) = (query.squeeze(0).squeeze(0).cast(DType::F32), key.squeeze(0).cast(DType::F32));
            let sums = (query.expand(2) * key.swap_axes(0, 1).expand(1)).sum(&[3]);
            sums.expand(2).expand(0)
        }
        false => query.einsum_as("btgrd,bsgd->bgrts", key, DType::F32),
    };
    let scores = &products * scoring.scale;
    let scores = match key_scales {
        Some(scales) => scores * by_key(scales),
        None => scores,
    };
    let scores = match scoring.soft_cap {
        Some(cap) => &(&scores * cap.recip()).tanh() * cap,
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
    scoring: Scoring,
    options: AttentionOptions<'_>,
) -> Tensor {
    let of_keys = options.kv_scales.map(|(keys, _)| keys);
    let scores = scores(query, key, positions, mask, scoring, of_keys);
    let weights = match grouped_sinks(&options, key.dim(2)) {
        Some(sinks) => {
            let mut dims = scores.dims().to_vec();
            let keys = std::mem::replace(&mut dims[4], 1);
            let sinks = sinks.expand(0).expand(-1).expand(-1).broadcast_to(&dims);
            Tensor::concat(&[scores, sinks], -1).softmax(-1).slice(-1, 0..keys)
        }
        None => scores.softmax(-1),
    };
    // Scales of values are folded into the weights: values stay codes.
    let weights = match options.kv_scales {
        Some((_, of_values)) => weights * by_key(of_values),
        None => weights,
    };
    let weights = weights.cast(query.dtype());
    let weights = dropout(&weights, options.dropout_rate, options.dropout_key);
    match is_one_query(query) {
        true => {
            let (weights, value) = (weights.squeeze(3).squeeze(0).cast(DType::F32), value.squeeze(0).cast(DType::F32));
            let sums = (weights.expand(3) * value.swap_axes(0, 1).expand(1)).sum(&[2]);
            sums.cast(query.dtype()).expand(0).expand(0)
        }
        false => weights.einsum("bgrts,bsgd->btgrd", value),
    }
}

/// Whether there is one query `[1, 1, kv heads, repeats, head]` on a GPU: its few products are sums that read the KV cache where it lies;
/// matmuls would need copies of its parts, and two more programs of the device.
fn is_one_query(query: &Tensor) -> bool {
    trace::current_target() == CompileTarget::Cuda && query.dims()[..2] == [1, 1]
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

/// Sinks `f32 [kv heads, repeats]`.
fn grouped_sinks(options: &AttentionOptions<'_>, groups: usize) -> Option<Tensor> {
    let sinks = options.sinks?;
    Some(sinks.cast(DType::F32).reshape(&[groups, sinks.dim(0) / groups.max(1)]))
}

/// Queries by KV head, keys, values, their positions, and sinks `f32 [kv heads, repeats]`.
type ChunkedInputs = (Tensor, Tensor, Tensor, Positions, Option<Tensor>);

fn chunked(inputs: &ChunkedInputs, mask: AttentionMask, scoring: Scoring, block: usize) -> Tensor {
    let (out, _) = custom_vjp(
        inputs,
        |(query, key, value, positions, sinks)| {
            online_softmax(query, key, value, positions, sinks.as_ref(), mask, scoring, block)
        },
        move |(query, key, value, positions, sinks), (out, total), (ct, _)| {
            let saved = Saved { out, total, ct };
            let sinks = sinks.as_ref().map(|sinks| saved.sinks_ct(sinks));
            let (query, key, value) =
                online_softmax_backward(query, key, value, positions, &saved, mask, scoring, block);
            (query, key, value, positions.map_leaves(Tensor::zeros_like), sinks)
        },
    );
    out
}

/// Attention by an online softmax over blocks of keys; also the log-sum-exp of the scores, which the backward pass needs.
#[allow(clippy::too_many_arguments)]
pub(super) fn online_softmax(
    query: &Tensor,
    key: &Tensor,
    value: &Tensor,
    positions: &Positions,
    sinks: Option<&Tensor>,
    mask: AttentionMask,
    scoring: Scoring,
    block: usize,
) -> (Tensor, Tensor) {
    let [batch, queries, groups, repeats, head] = [0, 1, 2, 3, 4].map(|axis| query.dims()[axis]);
    let rows = [batch, groups, repeats, queries];
    // A sink is a score that was there before all keys.
    let (top, sum) = match sinks {
        Some(sinks) => (sinks.expand(0).expand(-1).broadcast_to(&rows), Tensor::ones(DType::F32, &rows)),
        None => (Tensor::full(DType::F32, &rows, MASK_VALUE), Tensor::zeros(DType::F32, &rows)),
    };
    let init = (top, sum, Tensor::zeros(DType::F32, &[batch, groups, repeats, queries, head]));
    let xs = in_blocks(key, value, positions, block);
    let ((top, sum, out), ()) = scan(&init, &xs, None, |(top, sum, out), (key, value, key_positions, segments)| {
        let scores = scores(query, key, &positions_of(positions, key_positions, segments), mask, scoring, None);
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

impl Saved<'_> {
    /// The product of the result and its cotangent, summed by head and query: `f32 [batch, kv heads, repeats, queries]`.
    fn delta(&self) -> Tensor {
        let product = &self.out.cast(DType::F32) * &self.ct.cast(DType::F32);
        product.sum(&[4]).transpose(&[0, 2, 3, 1])
    }

    /// The cotangent of sinks: their weight is taken from all values.
    fn sinks_ct(&self, sinks: &Tensor) -> Tensor {
        let weights = (&sinks.expand(0).expand(-1) - self.total).exp();
        (&weights * &self.delta()).sum(&[0, 3]).negate()
    }
}

#[allow(clippy::too_many_arguments)]
pub(super) fn online_softmax_backward(
    query: &Tensor,
    key: &Tensor,
    value: &Tensor,
    positions: &Positions,
    saved: &Saved<'_>,
    mask: AttentionMask,
    scoring: Scoring,
    block: usize,
) -> (Tensor, Tensor, Tensor) {
    let delta = saved.delta();
    let xs = in_blocks(key, value, positions, block);
    let init = Tensor::zeros(DType::F32, query.dims());
    let (query_ct, (key_ct, value_ct)) = scan(&init, &xs, None, |query_ct, (key, value, key_positions, segments)| {
        let scores = scores(query, key, &positions_of(positions, key_positions, segments), mask, scoring, None);
        let weights = (&scores - &saved.total.expand(-1)).exp();
        let value_ct = weights.cast(value.dtype()).einsum_as("bgrts,btgrd->bsgd", saved.ct, DType::F32);
        let weights_ct = saved.ct.einsum_as("btgrd,bsgd->bgrts", value, DType::F32);
        let capped_ct = &weights * &(&weights_ct - &delta.expand(-1));
        // The slope of a soft cap at a score; masked ones have no weight.
        let scores_ct = match scoring.soft_cap {
            Some(cap) => {
                let least = Tensor::scalar(DType::F32, -1.0);
                capped_ct * (1.0 - &(&scores * cap.recip()).maximum(&least).square())
            }
            None => capped_ct,
        };
        let scores_ct = (&scores_ct * scoring.scale).cast(query.dtype());
        let part = scores_ct.einsum_as("bgrts,bsgd->btgrd", key, DType::F32);
        let key_ct = scores_ct.einsum_as("bgrts,btgrd->bsgd", query, DType::F32);
        (query_ct + &part, (key_ct.cast(key.dtype()), value_ct.cast(value.dtype())))
    });
    let keys = key.dims()[1];
    (query_ct.cast(query.dtype()), joined(&key_ct, 1, keys), joined(&value_ct, 1, keys))
}
