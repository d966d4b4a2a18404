//! The cache of generation: keys and values of all layers, written from a position on.

use tensor::DType;
use trace::{Tensor, Tree};

use crate::layers::{Heads, Places};

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

    /// With keys and values `[batch, positions, key heads, head]` of more positions, and all that the layer then sees, in their
    /// type. All else of the cache stays where it is.
    #[track_caller]
    pub(crate) fn extended(&self, key: Tensor, value: Tensor, slot: &Slot<'_>) -> (KeyValues, Tensor, Tensor) {
        let Slot { layer, start } = *slot;
        let zero = Tensor::zeros(DType::I32, &[]);
        let at = [layer.clone(), zero.clone(), zero.clone(), start.filled(), zero];
        let put = |room: &Tensor, new: &Tensor| {
            let by_head = new.cast(room.dtype()).transpose(&[0, 2, 1, 3]);
            // Caches come from outside and go there again.
            room.dynamic_update(&by_head.expand(0), &at).in_order()
        };
        let cache = KeyValues { keys: put(&self.keys, &key), values: put(&self.values, &value) };
        // All there is to see first are the positions themselves.
        let (keys, values) = match start {
            Start::First => (key, value),
            Start::After(_) => {
                let of_layer = |room: &Tensor, like: &Tensor| {
                    let by_head = room.dynamic_slice_in(0, layer, 1).squeeze(0);
                    by_head.transpose(&[0, 2, 1, 3]).cast(like.dtype())
                };
                (of_layer(&cache.keys, &key), of_layer(&cache.values, &value))
            }
        };
        (cache, keys, values)
    }

    /// Numbers of these layers, `i32`: a scan over layers carries the whole cache, so that what it does not write stays where it is.
    #[track_caller]
    pub(crate) fn numbers(layers: std::ops::Range<usize>) -> Tensor {
        Tensor::iota(DType::I32, &[layers.len()], 0) + Tensor::scalar(DType::I32, layers.start as f64)
    }
}

/// Where in a cache a layer writes.
#[derive(Clone, Copy, Debug)]
pub struct Slot<'a> {
    /// The layer's number, an `i32` scalar.
    pub layer: &'a Tensor,
    /// The first position.
    pub start: &'a Start,
}
