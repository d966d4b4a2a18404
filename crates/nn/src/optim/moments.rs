//! Moments of optimizers in memory: `f32`, `bf16`, or 8-bit codes with a scale for each block.
//!
//! Codes of 8 bits are logarithmic: each is so many times the one below it, down to a millionth of the block's largest. A moment
//! is divided by the root of another, so a small one matters as much as a large one: with codes at equal distances, as `i8`
//! weights have them, second moments below 1/510 of the largest would be zero, and their steps without bound. bitsandbytes'
//! dynamic codes have the same aim by a table of 256 entries; these are computed, which TPUs do at the speed of memory, where
//! a look-up in a table is a gather for each element.

use serde::{Deserialize, Serialize};
use tensor::DType;
use trace::Tensor;

/// What moments are kept in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MomentDType {
    /// As they are computed.
    #[default]
    #[serde(alias = "mixed")]
    F32,
    /// Half the memory.
    Bf16,
    /// 8-bit codes with a scale for each block: a quarter of the memory.
    Int8,
}

/// Elements of the last axis that share a scale, where so many divide it; a whole row otherwise.
const BLOCK: usize = 256;

/// Tensors with fewer elements are kept in `f32`: norms and biases, whose memory is nothing.
const SMALLEST: usize = 4096;

/// Which numbers codes are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sign {
    /// Averages of gradients: a sign and 127 sizes.
    Signed,
    /// Averages of squares: 255 sizes.
    Positive,
}

impl Sign {
    const fn dtype(self) -> DType {
        match self {
            Sign::Signed => DType::I8,
            Sign::Positive => DType::U8,
        }
    }

    /// The largest code, which is the largest of a block.
    const fn largest(self) -> f64 {
        match self {
            Sign::Signed => 127.0,
            Sign::Positive => 255.0,
        }
    }

    /// Halvings from the largest code to the smallest: roots of squares span half as many.
    const fn octaves(self) -> f64 {
        match self {
            Sign::Signed => 14.0,
            Sign::Positive => 20.0,
        }
    }

    /// Codes of a halving.
    fn codes_per_octave(self) -> f64 {
        (self.largest() - 1.0) / self.octaves()
    }
}

/// A moment as it is kept.
#[derive(Clone, Debug)]
pub(crate) struct Stored {
    /// In the shape of the parameter.
    pub(crate) values: Tensor,
    /// `f32 [.., blocks]` of codes; an unused scalar otherwise.
    pub(crate) scales: Tensor,
}

/// Blocks of the last axis; `None` of a tensor that has no codes.
fn blocks_of(dtype: MomentDType, dims: &[usize]) -> Option<usize> {
    let last = *dims.last()?;
    let is_coded = dtype == MomentDType::Int8 && dims.iter().product::<usize>() >= SMALLEST;
    is_coded.then(|| if last.is_multiple_of(BLOCK) { last / BLOCK } else { 1 })
}

/// `[.., last]` as `[.., blocks, last / blocks]`.
fn in_blocks(tensor: &Tensor, blocks: usize) -> Tensor {
    let mut dims = tensor.dims().to_vec();
    let last = dims.pop().unwrap_or(1);
    dims.extend([blocks, last / blocks.max(1)]);
    tensor.reshape(&dims)
}

impl MomentDType {
    /// Whether scales are kept beside the values.
    pub(crate) fn has_scales(self) -> bool {
        self == MomentDType::Int8
    }

    /// Zeros in the shape of a parameter.
    pub(crate) fn zeros(self, dims: &[usize], sign: Sign) -> Stored {
        let none = Tensor::zeros(DType::F32, &[]);
        match (self, blocks_of(self, dims)) {
            (_, Some(blocks)) => {
                let mut scales = dims.to_vec();
                if let Some(last) = scales.last_mut() {
                    *last = blocks;
                }
                Stored { values: Tensor::zeros(sign.dtype(), dims), scales: Tensor::zeros(DType::F32, &scales) }
            }
            (MomentDType::Bf16, None) => Stored { values: Tensor::zeros(DType::BF16, dims), scales: none },
            (_, None) => Stored { values: Tensor::zeros(DType::F32, dims), scales: none },
        }
    }

    /// The moment in `f32`.
    #[track_caller]
    pub(crate) fn read(self, stored: &Stored, sign: Sign) -> Tensor {
        let Some(blocks) = blocks_of(self, stored.values.dims()) else { return stored.values.cast(DType::F32) };
        let codes = in_blocks(&stored.values.cast(DType::F32), blocks);
        let size = codes.abs();
        let octaves = &(&size - sign.largest()) * (std::f64::consts::LN_2 / sign.codes_per_octave());
        let none = Tensor::zeros(DType::F32, &[]);
        let magnitude = size.greater(&none.broadcast_to(size.dims())).select(&octaves.exp(), &size.zeros_like());
        let signed = if sign == Sign::Signed { magnitude * codes.sign() } else { magnitude };
        (signed * stored.scales.expand(-1)).reshape(stored.values.dims())
    }

    /// The moment as it is kept, each code the nearest.
    #[track_caller]
    pub(crate) fn write(self, moment: &Tensor, sign: Sign) -> Stored {
        let none = Tensor::zeros(DType::F32, &[]);
        let Some(blocks) = blocks_of(self, moment.dims()) else {
            let dtype = if self == MomentDType::Bf16 { DType::BF16 } else { DType::F32 };
            return Stored { values: moment.cast(dtype), scales: none };
        };
        let apart = in_blocks(moment, blocks);
        let size = apart.abs();
        let scales = size.max(&[size.rank() - 1]);
        let number = |value: f64| Tensor::scalar(DType::F32, value);
        let share = &size / &scales.expand(-1).maximum(&number(f64::from(f32::MIN_POSITIVE)));
        let is_there = share.greater(&none.broadcast_to(share.dims()));
        let log = is_there.select(&share, &share.full_like(1.0)).log();
        let code = (&(&log * (sign.codes_per_octave() / std::f64::consts::LN_2)) + sign.largest()).round();
        let code = match sign {
            // What is too small for a code is zero.
            Sign::Signed => &code.maximum(&number(0.0)) * &apart.sign(),
            // A square that is there stays: its root divides.
            Sign::Positive => code.maximum(&number(1.0)),
        };
        let code = is_there.select(&code, &code.zeros_like());
        Stored { values: code.cast(sign.dtype()).reshape(moment.dims()), scales }
    }
}
