//! Boxes inside tensors: where a slice lies, whether slices tile a tensor, and copying between them.

use serde::{Deserialize, Serialize};
use tensor::{DType, Literal};

/// A box inside a tensor: where it starts and how far it reaches, per dimension.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TensorRegion {
    /// First index, per dimension.
    pub start: Vec<usize>,
    /// Number of indices, per dimension.
    pub size: Vec<usize>,
}

/// One contiguous run of bytes that two regions share.
pub(crate) struct Run {
    pub(crate) from_offset: usize,
    pub(crate) into_offset: usize,
    pub(crate) size_bytes: usize,
}

impl TensorRegion {
    /// All of a tensor.
    pub fn whole(dims: &[usize]) -> TensorRegion {
        TensorRegion { start: vec![0; dims.len()], size: dims.to_vec() }
    }

    /// Bytes of the region's elements; `None` if that overflows.
    pub fn size_bytes(&self, element_bytes: usize) -> Option<usize> {
        self.size.iter().try_fold(element_bytes, |bytes, &size| bytes.checked_mul(size))
    }

    /// Whether the region lies inside a tensor.
    pub(crate) fn lies_in(&self, dims: &[usize]) -> bool {
        let ends = self.start.iter().zip(&self.size).map(|(start, size)| start.checked_add(*size));
        self.start.len() == dims.len()
            && self.size.len() == dims.len()
            && ends.zip(dims).all(|(end, dim)| end.is_some_and(|end| end <= *dim))
    }

    fn is_empty(&self) -> bool {
        self.size.contains(&0)
    }

    /// What two regions of one tensor share.
    pub(crate) fn shared_with(&self, other: &TensorRegion) -> Option<TensorRegion> {
        let mut shared = TensorRegion { start: Vec::new(), size: Vec::new() };
        let sides = self.start.iter().zip(&self.size).zip(other.start.iter().zip(&other.size));
        for ((start, size), (other_start, other_size)) in sides {
            let from = *start.max(other_start);
            let to = start.saturating_add(*size).min(other_start.saturating_add(*other_size));
            if to <= from {
                return None;
            }
            shared.start.push(from);
            shared.size.push(to - from);
        }
        Some(shared)
    }

    /// Calls `act` for every run of `shared` that is contiguous in both regions. `shared` lies in both.
    pub(crate) fn for_each_run<E>(
        from: &TensorRegion,
        into: &TensorRegion,
        shared: &TensorRegion,
        element_bytes: usize,
        mut act: impl FnMut(Run) -> Result<(), E>,
    ) -> Result<(), E> {
        if shared.is_empty() {
            return Ok(());
        }
        let rank = shared.size.len();
        // Dimensions from `inner` on are contiguous in both; those after it are whole in both.
        let mut inner = rank.saturating_sub(1);
        while inner > 0 && from.size[inner] == shared.size[inner] && into.size[inner] == shared.size[inner] {
            inner -= 1;
        }
        let size_bytes = shared.size[inner.min(rank)..].iter().product::<usize>() * element_bytes;
        let (from_strides, into_strides) = (strides(&from.size), strides(&into.size));
        let offset = |region: &TensorRegion, strides: &[usize], counter: &[usize]| -> usize {
            let places = (0..rank).map(|d| {
                let within = counter.get(d).copied().unwrap_or(0);
                (shared.start[d] - region.start[d] + within) * strides[d]
            });
            places.sum::<usize>() * element_bytes
        };
        let mut counter = vec![0; inner];
        loop {
            let from_offset = offset(from, &from_strides, &counter);
            let into_offset = offset(into, &into_strides, &counter);
            act(Run { from_offset, into_offset, size_bytes })?;
            let Some(next) = (0..inner).rev().find(|&d| counter[d] + 1 < shared.size[d]) else { return Ok(()) };
            counter[next] += 1;
            counter[next + 1..].fill(0);
        }
    }

    /// The part of a tensor that lies in the region; `None` if the region reaches beyond it.
    pub fn cut(&self, tensor: &Literal) -> Option<Literal> {
        let whole = TensorRegion::whole(tensor.dims());
        if !self.lies_in(tensor.dims()) {
            return None;
        }
        let element_bytes = tensor.dtype().size_bytes();
        let mut bytes = vec![0; self.size_bytes(element_bytes)?];
        TensorRegion::copy(&whole, tensor.bytes(), self, &mut bytes, element_bytes);
        Literal::new(tensor.dtype(), self.size.clone(), bytes)
    }

    /// The tensor that parts in these regions make up; `None` if they do not fit it.
    pub fn joined(dtype: DType, dims: &[usize], parts: &[(TensorRegion, Literal)]) -> Option<Literal> {
        let whole = TensorRegion::whole(dims);
        let element_bytes = dtype.size_bytes();
        let mut bytes = vec![0; whole.size_bytes(element_bytes)?];
        for (region, part) in parts {
            if !region.lies_in(dims) || part.dtype() != dtype || part.dims() != region.size {
                return None;
            }
            TensorRegion::copy(region, part.bytes(), &whole, &mut bytes, element_bytes);
        }
        Literal::new(dtype, dims.to_vec(), bytes)
    }

    /// Copies what `from` and `into` share.
    pub(crate) fn copy(
        from: &TensorRegion,
        source: &[u8],
        into: &TensorRegion,
        target: &mut [u8],
        element_bytes: usize,
    ) {
        let Some(shared) = from.shared_with(into) else { return };
        let copied = TensorRegion::for_each_run(from, into, &shared, element_bytes, |run| {
            let source = &source[run.from_offset..run.from_offset + run.size_bytes];
            target[run.into_offset..run.into_offset + run.size_bytes].copy_from_slice(source);
            Ok::<(), std::convert::Infallible>(())
        });
        let Ok(()) = copied;
    }
}

fn strides(size: &[usize]) -> Vec<usize> {
    let mut strides = vec![1; size.len()];
    for d in (1..size.len()).rev() {
        strides[d - 1] = strides[d] * size[d];
    }
    strides
}

/// Why regions do not tile a tensor: every element in exactly one of them; `None` if they do.
pub(crate) fn why_no_tiling(regions: &[&TensorRegion], dims: &[usize]) -> Option<String> {
    if let Some(outside) = regions.iter().find(|region| !region.lies_in(dims)) {
        return Some(format!("the piece {outside:?} does not lie in {dims:?}"));
    }
    let total = dims.iter().try_fold(1usize, |n, &dim| n.checked_mul(dim));
    let Some(total) = total else { return Some(format!("the shape {dims:?} is too large")) };
    // Each volume is at most the total; the sum is kept wide so that many pieces cannot wrap around.
    let covered: u128 = regions.iter().map(|region| region.size.iter().product::<usize>() as u128).sum();
    if covered != total as u128 {
        return Some(format!("its pieces have {covered} of {total} elements"));
    }
    let mut boxes: Vec<&TensorRegion> = regions.iter().copied().filter(|region| !region.is_empty()).collect();
    // Sweeping along the dimension that was cut most often keeps the number of comparisons near the number of pieces.
    let cuts = |d: usize| boxes.iter().map(|region| region.start[d]).collect::<std::collections::BTreeSet<_>>().len();
    let Some(along) = (0..dims.len()).max_by_key(|&d| cuts(d)) else {
        return (boxes.len() > 1).then(|| "its pieces overlap".to_string());
    };
    boxes.sort_by_key(|region| region.start[along]);
    for (index, region) in boxes.iter().enumerate() {
        let end = region.start[along].saturating_add(region.size[along]);
        let near = boxes[index + 1..].iter().take_while(|other| other.start[along] < end);
        if near.into_iter().any(|other| region.shared_with(other).is_some()) {
            return Some("its pieces overlap".into());
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn region(start: &[usize], size: &[usize]) -> TensorRegion {
        TensorRegion { start: start.to_vec(), size: size.to_vec() }
    }

    #[test]
    fn tilings_are_told_from_overlaps_and_holes() {
        let check = |dims: &[usize], pieces: &[(&[usize], &[usize])], expected: &str| {
            let pieces: Vec<TensorRegion> = pieces.iter().map(|(start, size)| region(start, size)).collect();
            let found = why_no_tiling(&pieces.iter().collect::<Vec<_>>(), dims).unwrap_or_default();
            assert!(found.contains(expected) && found.is_empty() == expected.is_empty(), "{pieces:?}: {found}");
        };
        check(&[], &[(&[], &[])], "");
        check(&[], &[], "0 of 1");
        check(&[], &[(&[], &[]), (&[], &[])], "2 of 1");
        check(&[0, 3], &[], "");
        check(&[4, 4], &[(&[0, 0], &[4, 4])], "");
        check(&[4, 4], &[(&[0, 0], &[2, 4]), (&[2, 0], &[2, 1]), (&[2, 1], &[2, 3])], "");
        check(&[4, 4], &[(&[0, 0], &[2, 4]), (&[1, 0], &[2, 4])], "overlap");
        check(&[4, 4], &[(&[0, 0], &[2, 4])], "8 of 16");
        check(&[4], &[(&[2], &[3])], "does not lie in");
        check(&[4], &[(&[usize::MAX], &[2])], "does not lie in");
        check(&[4], &[(&[0, 0], &[4, 1])], "does not lie in");
        check(&[usize::MAX, 2], &[], "too large");
    }

    #[test]
    fn copies_meet_element_by_element() {
        let dims = [3, 4, 5];
        let whole = TensorRegion::whole(&dims);
        let values: Vec<u8> = (0..60).collect();
        for start in [[0, 0, 0], [1, 2, 3], [2, 0, 0], [0, 3, 1]] {
            for size in [[1, 1, 1], [1, 4, 5], [3, 1, 2], [2, 2, 5]] {
                let part = region(&start, &size);
                if !part.lies_in(&dims) {
                    continue;
                }
                let mut taken = vec![255; size.iter().product()];
                TensorRegion::copy(&whole, &values, &part, &mut taken, 1);
                let mut expected = Vec::new();
                for i in start[0]..start[0] + size[0] {
                    for j in start[1]..start[1] + size[1] {
                        for k in start[2]..start[2] + size[2] {
                            expected.push(values[(i * 4 + j) * 5 + k]);
                        }
                    }
                }
                assert_eq!(taken, expected, "{part:?}");
                let mut back = vec![255; 60];
                TensorRegion::copy(&part, &taken, &whole, &mut back, 1);
                assert_eq!(back.iter().filter(|byte| **byte != 255).count(), taken.len());
                assert!(back.iter().enumerate().all(|(n, byte)| *byte == 255 || *byte == n as u8));
            }
        }
        let scalar = region(&[], &[]);
        let mut out = [0; 4];
        TensorRegion::copy(&scalar, &[1, 2, 3, 4], &scalar, &mut out, 4);
        assert_eq!(out, [1, 2, 3, 4]);
    }
}
