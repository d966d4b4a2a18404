//! Arrays of the interpreter: floats as `f32` rounded to their type, integers and booleans as `i32`.

use tensor::{DType, Literal, Spec};

use super::is_float;
use crate::error::Error;

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Data {
    Float(Vec<f32>),
    Int(Vec<i32>),
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Array {
    pub(super) spec: Spec,
    pub(super) data: Data,
}

/// What nothing wrote, in integers.
const POISON: i32 = i32::MIN + 77;

/// A float rounded to its type.
pub(super) fn rounded(dtype: DType, value: f32) -> f32 {
    if dtype != DType::BF16 || !value.is_finite() {
        return value;
    }
    let bits = value.to_bits();
    // To nearest, ties to even; a carry out of the mantissa is the next exponent, or infinity.
    f32::from_bits((bits + 0x7fff + ((bits >> 16) & 1)) & 0xffff_0000)
}

/// An integer wrapped to its type.
pub(super) fn wrapped(dtype: DType, value: i32) -> i32 {
    match dtype {
        DType::I8 => i32::from(value as i8),
        DType::I4 => (value << 28) >> 28,
        DType::Bool => i32::from(value != 0),
        _ => value,
    }
}

impl Array {
    pub(super) fn poison(spec: &Spec) -> Array {
        let n = spec.num_elements();
        let data = if is_float(spec.dtype) { Data::Float(vec![f32::NAN; n]) } else { Data::Int(vec![POISON; n]) };
        Array { spec: spec.clone(), data }
    }

    pub(super) fn floats(dtype: DType, dims: &[usize], values: Vec<f32>) -> Array {
        let values = values.into_iter().map(|v| rounded(dtype, v)).collect();
        Array { spec: Spec::new(dtype, dims), data: Data::Float(values) }
    }

    pub(super) fn ints(dtype: DType, dims: &[usize], values: Vec<i32>) -> Array {
        let values = values.into_iter().map(|v| wrapped(dtype, v)).collect();
        Array { spec: Spec::new(dtype, dims), data: Data::Int(values) }
    }

    pub(super) fn read(literal: &Literal) -> Result<Array, Error> {
        let (dtype, bytes) = (literal.dtype(), literal.bytes());
        let word = |b: &[u8]| b.iter().rev().fold(0u32, |word, &byte| word << 8 | u32::from(byte));
        let words = bytes.chunks_exact(dtype.size_bytes().max(1)).map(word);
        Ok(match dtype {
            DType::F32 => Array::floats(dtype, literal.dims(), words.map(f32::from_bits).collect()),
            DType::BF16 => Array::floats(dtype, literal.dims(), words.map(|w| f32::from_bits(w << 16)).collect()),
            DType::I32 => Array::ints(dtype, literal.dims(), words.map(|w| w as i32).collect()),
            DType::I8 => Array::ints(dtype, literal.dims(), words.map(|w| i32::from(w as u8 as i8)).collect()),
            // One byte each in a literal.
            DType::I4 => Array::ints(dtype, literal.dims(), words.map(|w| w as i32).collect()),
            DType::F8E4M3FN | DType::F8E5M2 => {
                let decode = |word| tensor::decode_float(dtype, u64::from(word)).map_or(f32::NAN, |value| value as f32);
                Array::floats(dtype, literal.dims(), words.map(decode).collect())
            }
            _ => return Err(Error::Arguments(format!("kernels take no arrays of {dtype}"))),
        })
    }

    pub(super) fn write(&self) -> Result<Literal, Error> {
        let dtype = self.spec.dtype;
        let bytes: Vec<u8> = match (&self.data, dtype) {
            (Data::Float(values), DType::F32) => values.iter().flat_map(|v| v.to_le_bytes()).collect(),
            (Data::Float(_), DType::F8E4M3FN | DType::F8E5M2) => {
                (0..self.spec.num_elements()).map(|at| self.bits(at) as u8).collect()
            }
            (Data::Float(values), _) => {
                values.iter().flat_map(|v| ((v.to_bits() >> 16) as u16).to_le_bytes()).collect()
            }
            (Data::Int(values), DType::I8 | DType::I4) => values.iter().map(|&v| v as i8 as u8).collect(),
            (Data::Int(values), _) => values.iter().flat_map(|v| v.to_le_bytes()).collect(),
        };
        Literal::new(dtype, self.spec.dims.clone(), bytes)
            .ok_or_else(|| Error::Internal(format!("elements of {} were counted wrong", self.spec)))
    }

    /// An element's bits, in the lowest places of a word.
    pub(super) fn bits(&self, at: usize) -> u32 {
        let dtype = self.spec.dtype;
        let mask = u32::MAX >> (32 - dtype.bits().clamp(1, 32));
        match &self.data {
            Data::Int(values) => values.get(at).map_or(0, |&value| value as u32 & mask),
            Data::Float(values) => {
                let value = values.get(at).copied().unwrap_or(f32::NAN);
                tensor::encode_float(dtype, f64::from(value)).map_or(0, |bits| bits as u32)
            }
        }
    }

    /// Elements of a type from their bits.
    pub(super) fn of_bits(spec: &Spec, bits: impl Iterator<Item = u32>) -> Array {
        let dtype = spec.dtype;
        if is_float(dtype) {
            let decode = |word| tensor::decode_float(dtype, u64::from(word)).map_or(f32::NAN, |value| value as f32);
            Array::floats(dtype, &spec.dims, bits.map(decode).collect())
        } else {
            Array::ints(dtype, &spec.dims, bits.map(|word| word as i32).collect())
        }
    }

    /// The first element as an index.
    pub(super) fn as_index(&self) -> i64 {
        match &self.data {
            Data::Int(values) => values.first().map_or(-1, |&v| i64::from(v)),
            Data::Float(_) => -1,
        }
    }

    /// The block that begins there; `fresh` is what it has beyond the array.
    pub(super) fn block(&self, begins: &[usize], mut fresh: Array) -> Array {
        let ranges = overlaps(&self.spec.dims, &fresh.spec.dims, begins);
        let (whole, part) = (self.spec.dims.clone(), fresh.spec.dims.clone());
        rows(&whole, &part, begins, &ranges, |there, here, n| match (&self.data, &mut fresh.data) {
            (Data::Float(from), Data::Float(to)) => to[here..here + n].copy_from_slice(&from[there..there + n]),
            (Data::Int(from), Data::Int(to)) => to[here..here + n].copy_from_slice(&from[there..there + n]),
            _ => {}
        });
        fresh
    }

    /// Puts a block where it begins; what lies beyond the array is dropped.
    pub(super) fn set_block(&mut self, begins: &[usize], block: &Array) {
        let ranges = overlaps(&self.spec.dims, &block.spec.dims, begins);
        let whole = self.spec.dims.clone();
        rows(&whole, &block.spec.dims, begins, &ranges, |there, here, n| match (&mut self.data, &block.data) {
            (Data::Float(to), Data::Float(from)) => to[there..there + n].copy_from_slice(&from[here..here + n]),
            (Data::Int(to), Data::Int(from)) => to[there..there + n].copy_from_slice(&from[here..here + n]),
            _ => {}
        });
    }
}

/// How much of a block lies inside its array, by dimension.
fn overlaps(whole: &[usize], part: &[usize], begins: &[usize]) -> Vec<usize> {
    whole.iter().zip(part).zip(begins).map(|((&whole, &part), &begin)| part.min(whole.saturating_sub(begin))).collect()
}

/// Calls back for every row of the overlap: its offset in the array, in the block, and its length.
fn rows(whole: &[usize], part: &[usize], begins: &[usize], sizes: &[usize], mut each: impl FnMut(usize, usize, usize)) {
    let rank = whole.len();
    if rank == 0 {
        return each(0, 0, 1);
    }
    if sizes.contains(&0) {
        return;
    }
    let offset = |dims: &[usize], index: &dyn Fn(usize) -> usize| (0..rank).fold(0, |sum, n| sum * dims[n] + index(n));
    let mut at = vec![0usize; rank];
    loop {
        each(offset(whole, &|n| begins[n] + at[n]), offset(part, &|n| at[n]), sizes[rank - 1]);
        let Some(axis) = (0..rank - 1).rev().find(|&n| at[n] + 1 < sizes[n]) else { return };
        at[axis] += 1;
        at[axis + 1..].fill(0);
    }
}
