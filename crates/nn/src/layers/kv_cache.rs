//! The KV cache of generation: keys and values of all layers, written from a position on.

use tensor::DType;
use trace::{Tensor, Tree};

use crate::layers::{Heads, Positions};

/// Keys and values of the positions so far, of all layers: `[layers, batch, kv heads, positions, head]` each, the order in which
/// matmuls read them.
#[derive(Clone, Debug, Tree)]
pub struct KvCache {
    /// Keys.
    pub keys: Tensor,
    /// Values.
    pub values: Tensor,
}

/// The position of the first token that goes into a cache.
#[derive(Clone, Debug)]
pub enum CacheStart {
    /// The first position: the cache is empty (prefill).
    First,
    /// After so many positions, an `i32` scalar.
    After(Tensor),
}

impl CacheStart {
    /// Positions filled in the cache.
    #[track_caller]
    fn filled(&self) -> Tensor {
        match self {
            CacheStart::First => Tensor::zeros(DType::I32, &[]),
            CacheStart::After(filled) => filled.clone(),
        }
    }

    /// Positions of so many new tokens and of their keys, in a cache of `room` positions.
    #[track_caller]
    pub(crate) fn positions(&self, count: usize, room: usize) -> Positions {
        match self {
            CacheStart::First => Positions::sequence(count),
            // A position not written yet is after every query, so a causal mask hides it.
            CacheStart::After(filled) => Positions {
                queries: Tensor::iota(DType::I32, &[count], 0) + filled,
                keys: Tensor::iota(DType::I32, &[room], 0),
                segments: None,
                is_sequence: false,
            },
        }
    }
}

impl KvCache {
    /// An empty cache of so many positions in each of `layers`.
    #[track_caller]
    pub fn zeros(dtype: DType, layers: usize, batch: usize, positions: usize, heads: Heads) -> KvCache {
        let room = Tensor::zeros(dtype, &[layers, batch, heads.num_kv_heads, positions, heads.head_dim]);
        KvCache { keys: room.clone(), values: room }
    }

    /// How many positions the cache can hold.
    pub fn capacity(&self) -> usize {
        self.keys.dims().get(3).copied().unwrap_or(0)
    }

    /// The cache with keys and values `[batch, positions, kv heads, head]` of more positions, and all keys and values of the layer,
    /// in their type. The rest of the cache is updated in place.
    #[track_caller]
    pub(crate) fn extended(&self, key: Tensor, value: Tensor, at: &CachePosition<'_>) -> (KvCache, Tensor, Tensor) {
        let CachePosition { layer, start } = *at;
        let zero = Tensor::zeros(DType::I32, &[]);
        let at = [layer.clone(), zero.clone(), zero.clone(), start.filled(), zero];
        let put = |room: &Tensor, new: &Tensor| {
            let by_head = new.cast(room.dtype()).transpose(&[0, 2, 1, 3]);
            // Caches are arguments and results of the program: in their default layout.
            room.dynamic_update(&by_head.expand(0), &at).in_order()
        };
        let cache = KvCache { keys: put(&self.keys, &key), values: put(&self.values, &value) };
        // Of an empty cache the new positions are all there are.
        let (keys, values) = match start {
            CacheStart::First => (key, value),
            CacheStart::After(_) => {
                let of_layer = |room: &Tensor, like: &Tensor| {
                    let by_head = room.dynamic_slice_in(0, layer, 1).squeeze(0);
                    by_head.transpose(&[0, 2, 1, 3]).cast(like.dtype())
                };
                (of_layer(&cache.keys, &key), of_layer(&cache.values, &value))
            }
        };
        (cache, keys, values)
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
