//! The KV cache of generation: keys and values of all layers, written from a position on.

use hlo::dims::{GatherDims, ScatterDims};
use serde::{Deserialize, Serialize};
use tensor::DType;
use trace::{CompileTarget, PartitionSpec, Tensor, Tree, Update, shard_map};

use crate::layers::{Heads, MlaSizes, Positions};
use crate::quant::{QuantizedRows, quantized_rows};

/// Keys and values of the positions so far, of all layers: `[layers, batch, kv heads, positions, head]` each, the order in which
/// matmuls read them. Of multi-head latent attention see [`KvCache::latent`].
#[derive(Clone, Debug, Tree)]
pub struct KvCache {
    /// Keys.
    pub keys: Tensor,
    /// Values.
    pub values: Tensor,
    /// Scales of keys and of values, `f32 [layers, batch, kv heads, positions]` each, where they are quantized.
    pub scales: Option<(Tensor, Tensor)>,
}

/// Element type of a KV cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum KvCacheDType {
    /// `bf16`.
    Bf16,
    /// `f32`.
    F32,
    /// `i8`, with a scale for each head and position.
    Int8,
    /// `i4`, with a scale for each head and position.
    Int4,
    /// `f8E4M3FN`, with a scale for each head and position.
    Fp8,
}

impl KvCacheDType {
    /// The type of its elements.
    pub const fn dtype(self) -> DType {
        match self {
            KvCacheDType::Bf16 => DType::BF16,
            KvCacheDType::F32 => DType::F32,
            KvCacheDType::Int8 => DType::I8,
            KvCacheDType::Int4 => DType::I4,
            KvCacheDType::Fp8 => DType::F8E4M3FN,
        }
    }
}

/// What a layer reads of a KV cache.
pub(crate) struct LayerKeysValues {
    pub(crate) keys: Tensor,
    pub(crate) values: Tensor,
    /// Scales `f32 [batch, positions, kv heads]` of keys and values, where they are codes.
    pub(crate) scales: Option<(Tensor, Tensor)>,
}

/// The position of the first token that goes into a cache.
#[derive(Clone, Debug)]
pub enum CacheStart {
    /// The first position: the cache is empty (prefill).
    First,
    /// After so many positions, an `i32` scalar.
    After(Tensor),
    /// Sequences of their own lengths in the first rows of the cache: each after so many positions, `i32 [batch]`.
    Rows {
        /// Positions filled of each sequence.
        filled: Tensor,
        /// Positions that are read, from the first on; at least as many as any sequence then has.
        context: usize,
    },
    /// One sequence in one row of the cache.
    Row {
        /// The row, an `i32` scalar.
        row: Tensor,
        /// Positions filled, an `i32` scalar.
        filled: Tensor,
        /// Positions that are read, from the first on; at least as many as the sequence then has.
        context: usize,
    },
    /// Sequences whose positions lie in pages of the cache, wherever these are: a row of the cache is a page.
    Pages {
        /// Positions filled of each sequence, `i32 [batch]`.
        filled: Tensor,
        /// New tokens of each sequence, `i32 [batch]`; what is beyond them is not written.
        tokens: Tensor,
        /// The pages of each sequence in their order, `i32 [batch, pages]`; those that have no position are any.
        table: Tensor,
    },
}

impl CacheStart {
    /// Positions of so many new tokens and of their keys, in a cache of `room` positions.
    #[track_caller]
    pub(crate) fn positions(&self, count: usize, room: usize) -> Positions {
        let (filled, context) = match self {
            CacheStart::First => return Positions::sequence(count),
            CacheStart::After(filled) => (filled.clone(), room),
            CacheStart::Rows { filled, context } => (filled.expand(1), *context),
            CacheStart::Row { filled, context, .. } => (filled.clone(), *context),
            CacheStart::Pages { filled, table, .. } => (filled.expand(1), table.dim(1) * room),
        };
        // A position not written yet is after every query, so a causal mask hides it.
        Positions {
            queries: Tensor::iota(DType::I32, &[count], 0) + filled,
            keys: Tensor::iota(DType::I32, &[context], 0),
            segments: None,
            is_sequence: false,
        }
    }
}

/// What is written and read of a room `[layers, batch, kv heads, positions, ...]`.
impl CacheStart {
    /// The room with `[batch, positions, kv heads, ...]` in a layer, from the start on.
    #[track_caller]
    fn written(&self, room: &Tensor, new: &Tensor, layer: &Tensor) -> Tensor {
        let zero = Tensor::zeros(DType::I32, &[]);
        let (row, filled) = match self {
            CacheStart::First => (zero.clone(), zero.clone()),
            CacheStart::After(filled) => (zero.clone(), filled.clone()),
            CacheStart::Row { row, filled, .. } => (row.clone(), filled.clone()),
            CacheStart::Rows { filled, .. } => {
                let position = positions_of(new, filled);
                let row = Tensor::iota(DType::I32, position.dims(), 0);
                return written_at(room, new, layer, &row, &position);
            }
            CacheStart::Pages { filled, tokens, table } => {
                if room.rank() == 4 && trace::current_target() == CompileTarget::Any {
                    return in_pages(room, new, layer, [filled, tokens, table]);
                }
                let position = positions_of(new, filled);
                let size = Tensor::scalar(DType::I32, room.dim(3) as f64);
                let page = table.take_along(1, &(&position / &size));
                // A page beyond the last is not written.
                let is_new = Tensor::iota(DType::I32, position.dims(), 1).less(&tokens.expand(1));
                let page = is_new.select(&page, &page.full_like(room.dim(1) as f64));
                return written_at(room, new, layer, &page, &position.remainder(&size));
            }
        };
        let at = [layer.clone(), row, zero.clone(), filled, zero];
        room.dynamic_update(&new.swap_axes(1, 2).expand(0), at.get(..room.rank()).unwrap_or(&at))
    }

    /// What so many rows of a layer have, `[batch, kv heads, positions, ...]`.
    #[track_caller]
    fn read(&self, room: &Tensor, layer: &Tensor, rows: usize) -> Tensor {
        match self {
            CacheStart::First | CacheStart::After(_) => room.dynamic_slice_in(0, layer, 1).squeeze(0),
            CacheStart::Rows { context, .. } => {
                room.slice(1, 0..rows).slice(3, 0..*context).dynamic_slice_in(0, layer, 1).squeeze(0)
            }
            CacheStart::Row { row, context, .. } => {
                let zero = Tensor::zeros(DType::I32, &[]);
                let at = [layer.clone(), row.clone(), zero.clone(), zero.clone(), zero];
                let mut sizes = room.dims().to_vec();
                (sizes[0], sizes[1], sizes[3]) = (1, 1, *context);
                room.dynamic_slice(at.get(..room.rank()).unwrap_or(&at), &sizes).squeeze(0)
            }
            CacheStart::Pages { table, .. } => {
                // [batch, pages, kv heads, positions, ...]
                let pages = room.dynamic_slice_in(0, layer, 1).squeeze(0).take(0, table).swap_axes(1, 2);
                let mut dims = pages.dims().to_vec();
                let count = dims.remove(2);
                dims[2] *= count;
                pages.reshape(&dims)
            }
        }
    }
}

/// Positions `[batch, tokens]` of new tokens of sequences that begin at positions of their own.
#[track_caller]
fn positions_of(new: &Tensor, filled: &Tensor) -> Tensor {
    Tensor::iota(DType::I32, &[new.dim(0), new.dim(1)], 1) + filled.expand(1)
}

/// The room with `[batch, tokens, kv heads, ...]` in a layer, each token in a row and at a position `[batch, tokens]`.
#[track_caller]
fn written_at(room: &Tensor, new: &Tensor, layer: &Tensor, row: &Tensor, position: &Tensor) -> Tensor {
    let rooms: Option<usize> = room.dims()[..4].iter().try_fold(1usize, |all, &size| all.checked_mul(size));
    if trace::current_target() == CompileTarget::Cuda
        && trace::current_rules().is_none()
        && let Some(count) = rooms.filter(|&count| i32::try_from(count).is_ok())
    {
        return written_flat(room, new, layer, row, position, count);
    }
    let at = vec![layer.clone(), row.clone(), position.clone()];
    on_each_device(&(room.clone(), new.clone(), at), written_by_head)
}

/// A room, what is written into it (`[batch, tokens, kv heads, ...]`), and where.
type Written = (Tensor, Tensor, Vec<Tensor>);

/// The partitioner does not know that heads stay where they are: each device writes its own.
#[track_caller]
fn on_each_device(inputs: &Written, write: impl Fn(&Written) -> Tensor) -> Tensor {
    let Some(rules) = trace::current_rules() else { return write(inputs) };
    let (room, new, places) = inputs;
    let heads = rules.sharding(&["", "", "heads"], &room.dims()[..3]);
    let along = |rank: usize| {
        let mut spec = PartitionSpec::replicated(rank);
        spec.dims.iter_mut().zip(&heads.dims).for_each(|(own, axes)| own.clone_from(axes));
        spec
    };
    let mut shardings = vec![along(room.rank()), along(new.rank())];
    shardings.extend(places.iter().map(|place| PartitionSpec::replicated(place.rank())));
    shard_map(inputs, &shardings, &[along(room.rank())], write)
}

/// [`written_at`] by a scatter that names every axis before the head. One that named all but that of heads would be given a room with
/// another order of axes by the TPU compiler, which copies all of it for the kernel that reads it.
#[track_caller]
fn written_by_head((room, new, at): &Written) -> Tensor {
    let [layer, row, position] = [&at[0], &at[1], &at[2]];
    let places = [new.dim(0), new.dim(1), new.dim(2), 1];
    let of_tokens = |numbers: &Tensor| numbers.expand(-1).expand(-1).broadcast_to(&places);
    let head = Tensor::iota(DType::I32, &places, 2);
    let at = [layer.broadcast_to(&places), of_tokens(row), head, of_tokens(position)];
    let dims = ScatterDims {
        update_window_dims: (3..new.rank()).map(|axis| axis as i64).collect(),
        inserted_window_dims: vec![0, 1, 2, 3],
        scatter_dims_to_operand_dims: vec![0, 1, 2, 3],
        index_vector_dim: 3,
        ..ScatterDims::default()
    };
    room.scatter(&Tensor::concat(&at, -1), new, dims, Update::Set)
}

/// The room of scales `[layers, pages, kv heads, positions]` with those of new tokens, `[batch, tokens, kv heads]`. All positions of the
/// pages they go into are written, the others as they were: for numbers that are written alone the TPU compiler chooses another order
/// of the room's axes, and copies all of it before and after. No two sequences write into one page.
#[track_caller]
fn in_pages(room: &Tensor, new: &Tensor, layer: &Tensor, [filled, tokens, table]: [&Tensor; 3]) -> Tensor {
    let (batch, page) = (new.dim(0), room.dim(3));
    // New tokens begin anywhere in their first page.
    let touched = (new.dim(1) + page - 2) / page + 1;
    let size = Tensor::scalar(DType::I32, page as f64);
    let (first, shift) = (filled / &size, filled.remainder(&size));
    // [batch, pages]
    let number = Tensor::iota(DType::I32, &[batch, touched], 1);
    let pages = table.take_along(1, &(&number + &first.expand(1)));
    let is_touched = (&number * &size).less(&(&shift + tokens).expand(1));
    let is_touched = is_touched.and(&tokens.greater(&tokens.zeros_like()).expand(1));
    // A page beyond the last is not written.
    let pages = is_touched.select(&pages, &pages.full_like(room.dim(1) as f64));
    let at = vec![layer.clone(), pages, shift, tokens.clone()];
    on_each_device(&(room.clone(), new.clone(), at), pages_with)
}

#[track_caller]
fn pages_with((room, new, at): &Written) -> Tensor {
    let [layer, pages, shift, tokens] = [&at[0], &at[1], &at[2], &at[3]];
    let ([batch, count, heads], page) = ([new.dim(0), new.dim(1), new.dim(2)], room.dim(3));
    // Pages of all sequences are one axis: with two the TPU compiler copies the room all the same.
    let (touched, rows) = (pages.dim(1), batch * pages.dim(1));
    let places = [rows, heads, 1];
    let head = Tensor::iota(DType::I32, &places, 1);
    let of_rows = |numbers: &Tensor| numbers.reshape(&[rows, 1, 1]).broadcast_to(&places);
    let at = Tensor::concat(&[layer.broadcast_to(&places), of_rows(pages), head], -1);
    let read = GatherDims {
        offset_dims: vec![2],
        collapsed_slice_dims: vec![0, 1, 2],
        start_index_map: vec![0, 1, 2],
        index_vector_dim: 2,
        ..GatherDims::default()
    };
    // [rows, kv heads, positions]
    let dims = [rows, heads, page];
    let given = if count == 1 {
        new.swap_axes(1, 2).broadcast_to(&dims)
    } else {
        // Of each sequence as its tokens lie in the pages.
        let span = touched * page;
        let window = GatherDims {
            offset_dims: vec![1, 2],
            operand_batching_dims: vec![0],
            start_indices_batching_dims: vec![0],
            start_index_map: vec![1],
            index_vector_dim: 1,
            ..GatherDims::default()
        };
        let begin = &Tensor::scalar(DType::I32, page as f64) - shift;
        let given = new.pad(1, page, span - count).gather(&begin.expand(-1), window, &[1, span, heads]);
        given.reshape(&[rows, page, heads]).swap_axes(1, 2)
    };
    // Of each position of each row which of the new tokens it would have.
    let first = Tensor::iota(DType::I32, &[batch, touched], 1) * Tensor::scalar(DType::I32, page as f64);
    let first = (&first - &shift.expand(1)).reshape(&[rows, 1, 1]);
    let token = &Tensor::iota(DType::I32, &dims, 2) + &first;
    let tokens = tokens.expand(1).broadcast_to(&[batch, touched]).reshape(&[rows, 1, 1]);
    let is_new = token.greater_equal(&token.zeros_like()).and(&token.less(&tokens));
    let write = ScatterDims {
        update_window_dims: vec![2],
        inserted_window_dims: vec![0, 1, 2],
        scatter_dims_to_operand_dims: vec![0, 1, 2],
        index_vector_dim: 2,
        ..ScatterDims::default()
    };
    let most = (MOST_WRITTEN / heads.max(1)).max(1);
    (0..rows).step_by(most).fold(room.clone(), |room, from| {
        let part = |tensor: &Tensor| tensor.slice(0, from..(from + most).min(rows));
        let at = part(&at);
        let old = room.gather(&at, read.clone(), &[1, 1, 1, page]);
        room.scatter(&at, &part(&is_new).select(&part(&given), &old), write.clone(), Update::Set)
    })
}

/// Rows of positions written at once: for more of them the TPU compiler lays the room out anew.
const MOST_WRITTEN: usize = 512;

/// [`written_at`] for XLA's GPU compiler, which would transpose the whole room to bring the axes that are written at to the front:
/// all axes before the head are one.
#[track_caller]
fn written_flat(room: &Tensor, new: &Tensor, layer: &Tensor, row: &Tensor, position: &Tensor, count: usize) -> Tensor {
    let [rows, heads, positions] = [1, 2, 3].map(|axis| room.dim(axis));
    let number = |size: usize| Tensor::scalar(DType::I32, size as f64);
    // [batch, tokens, kv heads]
    let places = [new.dim(0), new.dim(1), heads];
    let head = Tensor::iota(DType::I32, &places, 2);
    let first = &(&(layer * &number(rows)) + row) * &number(heads);
    let at = &(&(&first.expand(-1) + &head) * &number(positions)) + &position.expand(-1);
    // What lies beyond the rows is not written.
    let at = row.less(&number(rows)).expand(-1).broadcast_to(&places).select(&at, &at.full_like(count as f64));
    let inner: Vec<usize> = room.dims()[4..].to_vec();
    let flat = |count: usize| -> Vec<usize> { std::iter::once(count).chain(inner.iter().copied()).collect() };
    let written = places.iter().product();
    let dims = ScatterDims {
        update_window_dims: (1..=inner.len()).map(|axis| axis as i64).collect(),
        inserted_window_dims: vec![0],
        scatter_dims_to_operand_dims: vec![0],
        index_vector_dim: 1,
        ..ScatterDims::default()
    };
    let flat_room = room.reshape(&flat(count));
    let updated = flat_room.scatter(&at.reshape(&[written, 1]), &new.reshape(&flat(written)), dims, Update::Set);
    updated.reshape(room.dims())
}

impl KvCache {
    /// An empty cache of so many positions in each of `layers`. Types of 8 bits and less have scales.
    #[track_caller]
    pub fn zeros(dtype: DType, layers: usize, batch: usize, positions: usize, heads: Heads) -> KvCache {
        let room = Tensor::zeros(dtype, &[layers, batch, heads.num_kv_heads, positions, heads.head_dim]);
        let scales = Tensor::zeros(DType::F32, &[layers, batch, heads.num_kv_heads, positions]);
        let scales = (dtype.bits() <= 8).then(|| (scales.clone(), scales));
        KvCache { keys: room.clone(), values: room, scales }
    }

    /// An empty cache of multi-head latent attention (MLA), of so many positions in each of `layers`: as values the compressed KV, as keys
    /// the rotary features that all heads share. A key is both.
    #[track_caller]
    pub fn latent(dtype: DType, layers: usize, batch: usize, positions: usize, sizes: &MlaSizes) -> KvCache {
        let of = |size: usize| {
            KvCache::zeros(dtype, layers, batch, positions, Heads { num_heads: 1, num_kv_heads: 1, head_dim: size })
        };
        KvCache { values: of(sizes.kv_lora_rank).values, ..of(sizes.qk_rope_head_dim) }
    }

    /// How many positions the cache can hold.
    pub fn capacity(&self) -> usize {
        self.keys.dims().get(3).copied().unwrap_or(0)
    }

    /// The cache with what is in a row, up to so many positions, copied into another; rows are `i32` scalars.
    #[track_caller]
    #[must_use]
    pub fn with_copied_row(&self, from: &Tensor, to: &Tensor, positions: usize) -> KvCache {
        self.map_leaves(|room| {
            let part = room.slice(3, 0..positions).dynamic_slice_in(1, from, 1);
            room.dynamic_update_in(1, to, &part)
        })
    }

    /// What is in a row, or a page; `at` is an `i32` scalar.
    #[track_caller]
    #[must_use]
    pub fn row(&self, at: &Tensor) -> KvCache {
        self.map_leaves(|room| room.dynamic_slice_in(1, at, 1))
    }

    /// The cache with a row, or a page, that has what [`KvCache::row`] gave.
    #[track_caller]
    #[must_use]
    pub fn with_row(&self, at: &Tensor, row: &KvCache) -> KvCache {
        let with = |room: &Tensor, row: &Tensor| room.dynamic_update_in(1, at, row);
        let scales = self.scales.as_ref().zip(row.scales.as_ref());
        KvCache {
            keys: with(&self.keys, &row.keys),
            values: with(&self.values, &row.values),
            scales: scales.map(|((keys, values), (k, v))| (with(keys, k), with(values, v))),
        }
    }

    /// The cache with keys and values `[batch, positions, kv heads, head]` of more positions, and all keys and values of the layer,
    /// in their type; codes of a quantized cache are cast to it, and their scales are apart. The rest of the cache is updated in
    /// place.
    #[track_caller]
    pub(crate) fn extended(&self, key: Tensor, value: Tensor, at: &CachePosition<'_>) -> (KvCache, LayerKeysValues) {
        let CachePosition { layer, start } = *at;
        // Caches are arguments and results of the program: in their default layout.
        let put = |room: &Tensor, new: &Tensor| start.written(room, &new.cast(room.dtype()), layer).in_order();
        let (new_key, new_value, new_scales) = match &self.scales {
            None => (key.clone(), value.clone(), None),
            Some(_) => {
                let of = |new: &Tensor| quantized_rows(new, self.keys.dtype());
                let (QuantizedRows { values: k, scales: ks }, QuantizedRows { values: v, scales: vs }) =
                    (of(&key), of(&value));
                (k, v, Some((ks.squeeze(-1), vs.squeeze(-1))))
            }
        };
        let cache = KvCache {
            keys: put(&self.keys, &new_key),
            values: put(&self.values, &new_value),
            scales: self
                .scales
                .as_ref()
                .zip(new_scales)
                .map(|((keys, values), (k, v))| (put(keys, &k), put(values, &v))),
        };
        // Of an empty cache the new positions are all there are.
        let layer_keys_values = match start {
            CacheStart::First => LayerKeysValues { keys: key, values: value, scales: None },
            CacheStart::After(_) | CacheStart::Rows { .. } | CacheStart::Row { .. } | CacheStart::Pages { .. } => {
                let rows = key.dim(0);
                let of_layer = |room: &Tensor| start.read(room, layer, rows).swap_axes(1, 2);
                LayerKeysValues {
                    keys: of_layer(&cache.keys).cast(key.dtype()),
                    values: of_layer(&cache.values).cast(value.dtype()),
                    scales: cache.scales.as_ref().map(|(keys, values)| (of_layer(keys), of_layer(values))),
                }
            }
        };
        (cache, layer_keys_values)
    }

    /// What a layer that writes nothing reads of another: all keys and values of that layer, for queries `[batch, positions, heads, head]`
    /// and in their type.
    #[track_caller]
    pub(crate) fn of_layer(&self, at: &CachePosition<'_>, query: &Tensor) -> LayerKeysValues {
        let CachePosition { layer, start } = *at;
        let (rows, count, dtype) = (query.dim(0), query.dim(1), query.dtype());
        let read = |room: &Tensor| {
            let all = start.read(room, layer, rows);
            // Of an empty cache the new positions are all there are.
            let seen = if matches!(start, CacheStart::First) { all.slice(2, 0..count) } else { all };
            seen.swap_axes(1, 2)
        };
        LayerKeysValues {
            keys: read(&self.keys).cast(dtype),
            values: read(&self.values).cast(dtype),
            scales: self.scales.as_ref().map(|(keys, values)| (read(keys), read(values))),
        }
    }

    /// Numbers of these layers, `i32`: a scan over layers carries the whole cache, so that it is updated in place.
    #[track_caller]
    pub(crate) fn numbers(layers: std::ops::Range<usize>) -> Tensor {
        Tensor::iota(DType::I32, &[layers.len()], 0) + Tensor::scalar(DType::I32, layers.start as f64)
    }
}

/// Where in a KV cache a layer writes.
#[derive(Clone, Copy, Debug)]
pub struct CachePosition<'a> {
    /// The layer's number, an `i32` scalar.
    pub layer: &'a Tensor,
    /// The first position.
    pub start: &'a CacheStart,
}
