//! How tensors of files lie in ours, and bytes put into another order or type.

pub(crate) use tensor::transpose_matrices as transposed;
use tensor::{DType, Literal};

/// How one of their tensors lies in ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layout {
    /// As it is.
    Same,
    /// A matrix with its axes exchanged: theirs is `[out, in]`.
    Transposed,
    /// This third of the last axis: queries, keys and values in one.
    Third(usize),
    /// A kernel of a convolution: theirs is `[out, in, spatial…]`, ours `[spatial…, in, out]`.
    Kernel,
    /// As it is; theirs has an axis of one element before.
    AloneInBatch,
    /// A part of the last axis.
    Columns(Fused),
    /// A part of the rows of a matrix `[out, in]`, whose axes are then exchanged; or a part of a vector.
    Rows(Fused),
}

/// Which part of a tensor that has several of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fused {
    /// The first or the second half.
    Half(usize),
    /// Every second element, from the first or the second on.
    InTurns(usize),
    /// Queries of queries, keys and values.
    Query,
    /// Keys.
    Key,
    /// Values.
    Value,
}

/// Elements of an axis: of every `group` of them, `count` from `start` on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AxisPart {
    pub(crate) group: usize,
    pub(crate) start: usize,
    pub(crate) count: usize,
}

impl AxisPart {
    /// The size of their axis, of which `ours` are these elements.
    pub(crate) fn whole(&self, ours: usize) -> usize {
        ours / self.count.max(1) * self.group
    }
}

/// A kernel `[out, in, spatial]` as `[spatial, in, out]`, of elements of `width` bytes; its own way back, with the sizes turned.
pub(crate) fn turned_kernel(bytes: &[u8], [out, input, spatial]: [usize; 3], width: usize) -> Vec<u8> {
    let mut turned = Vec::with_capacity(bytes.len());
    for place in 0..spatial {
        for feature in 0..input {
            for result in 0..out {
                let at = ((result * input + feature) * spatial + place) * width;
                turned.extend_from_slice(bytes.get(at..at + width).unwrap_or_default());
            }
        }
    }
    turned
}

/// A part of an axis of `whole` elements of `unit` bytes, of as many such axes as there are bytes.
pub(crate) fn part_of_axis(bytes: &[u8], whole: usize, unit: usize, part: AxisPart) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len() / part.group.max(1) * part.count);
    for axis in bytes.chunks_exact((whole * unit).max(1)) {
        for group in axis.chunks_exact((part.group * unit).max(1)) {
            out.extend_from_slice(group.get(part.start * unit..(part.start + part.count) * unit).unwrap_or_default());
        }
    }
    out
}

/// Puts a part of an axis of `whole` elements of `unit` bytes where it belongs; `None` where it has another size.
pub(crate) fn put_part_of_axis(out: &mut [u8], own: &[u8], whole: usize, unit: usize, part: AxisPart) -> Option<()> {
    let mut pieces = own.chunks_exact((part.count * unit).max(1));
    for axis in out.chunks_exact_mut((whole * unit).max(1)) {
        for group in axis.chunks_exact_mut((part.group * unit).max(1)) {
            let place = group.get_mut(part.start * unit..(part.start + part.count) * unit)?;
            place.copy_from_slice(pieces.next()?);
        }
    }
    pieces.next().is_none().then_some(())
}

/// Elements as another type of floats; `None` where one is no float.
pub(crate) fn converted(bytes: Vec<u8>, from: DType, to: DType) -> Option<Vec<u8>> {
    if from == to {
        return Some(bytes);
    }
    if !from.is_float() || !to.is_float() {
        return None;
    }
    let count = bytes.len() / from.size_bytes().max(1);
    Some(Literal::new(from, [count], bytes)?.cast(to).ok()?.into_bytes())
}
