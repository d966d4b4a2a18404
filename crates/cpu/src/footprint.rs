//! What a step touches of each of its arrays, in bytes: what the check of a program compares with its memory.

/// Bytes that a kernel touches, counted from the start of each array. They come from the numbers that drive its loops, with
/// checked arithmetic, never from the arrays it is given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Footprint {
    /// For each input, the bytes that may be read.
    pub(crate) reads: Vec<usize>,
    pub(crate) writes: Vec<Written>,
}

/// What is written of an output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Written {
    /// Each of so many bytes, and none behind them.
    Whole(usize),
    /// Some of so many bytes: the array was filled by an earlier step.
    Within(usize),
    /// So many bytes with gaps that nobody reads: an array for one kernel only.
    Packed(usize),
}

impl Written {
    /// Bytes up to the last one that may be written.
    pub(crate) fn bytes(self) -> usize {
        let (Written::Whole(bytes) | Written::Within(bytes) | Written::Packed(bytes)) = self;
        bytes
    }
}

/// A product of sizes; `None` if it is too large.
pub(crate) fn product(sizes: &[usize]) -> Option<usize> {
    if sizes.contains(&0) {
        return Some(0);
    }
    sizes.iter().try_fold(1usize, |n, &size| n.checked_mul(size))
}

/// Bytes from the start of an array to the end of the last element that a walk reaches: `dims` are sizes and strides,
/// `offset` is the first element's place, both in units of `width` bytes. `None` where the walk begins before the array or
/// a place is too far to count.
pub(crate) fn reach(offset: isize, dims: impl IntoIterator<Item = (usize, isize)>, width: usize) -> Option<usize> {
    let (mut first, mut last) = (offset, offset);
    let mut is_empty = false;
    for (size, stride) in dims {
        // What follows still has to be countable: nothing may wrap where a loop adds it up.
        let span = isize::try_from(size.saturating_sub(1)).ok()?.checked_mul(stride)?;
        is_empty |= size == 0;
        if span < 0 {
            first = first.checked_add(span)?;
        } else {
            last = last.checked_add(span)?;
        }
    }
    if is_empty {
        return Some(0);
    }
    usize::try_from(first).ok()?;
    usize::try_from(last).ok()?.checked_add(1)?.checked_mul(width).filter(|&bytes| isize::try_from(bytes).is_ok())
}

/// As [`reach`], with a first place that is given in bytes.
pub(crate) fn reach_from(
    offset_bytes: isize,
    dims: impl IntoIterator<Item = (usize, isize)>,
    width: usize,
) -> Option<usize> {
    let unit = isize::try_from(width).ok()?;
    let in_bytes: Option<Vec<(usize, isize)>> =
        dims.into_iter().map(|(size, stride)| Some((size, stride.checked_mul(unit)?))).collect();
    let mut in_bytes = in_bytes?;
    if in_bytes.iter().any(|&(size, _)| size == 0) {
        return Some(0);
    }
    in_bytes.push((width, 1));
    reach(offset_bytes, in_bytes, 1)
}

/// As [`reach_from`], over elements of so many bits that lie one after the other.
pub(crate) fn reach_bits(
    offset_bytes: isize,
    dims: impl IntoIterator<Item = (usize, isize)>,
    bits: usize,
) -> Option<usize> {
    let unit = isize::try_from(bits).ok()?;
    let in_bits: Option<Vec<(usize, isize)>> =
        dims.into_iter().map(|(size, stride)| Some((size, stride.checked_mul(unit)?))).collect();
    let mut in_bits = in_bits?;
    if in_bits.iter().any(|&(size, _)| size == 0) {
        return Some(0);
    }
    in_bits.push((bits, 1));
    Some(reach(offset_bytes.checked_mul(8)?, in_bits, 1)?.div_ceil(8))
}

/// Bytes of an array that a walk from its start fills without a gap; `None` where it leaves one or goes elsewhere.
/// Dimensions with stride 0 write the same places again.
pub(crate) fn cover(dims: impl IntoIterator<Item = (usize, isize)>, width: usize) -> Option<usize> {
    let mut dims: Vec<(usize, isize)> = dims.into_iter().collect();
    if dims.iter().any(|&(size, _)| size == 0) {
        return Some(0);
    }
    dims.retain(|&(size, stride)| size > 1 && stride != 0);
    dims.sort_by_key(|&(_, stride)| stride);
    let mut filled = 1isize;
    for (size, stride) in dims {
        if stride != filled {
            return None;
        }
        filled = filled.checked_mul(isize::try_from(size).ok()?)?;
    }
    usize::try_from(filled).ok()?.checked_mul(width).filter(|&bytes| isize::try_from(bytes).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_walk_reaches_its_last_element() {
        assert_eq!(reach(0, [(3, 4), (4, 1)], 4), Some(48));
        assert_eq!(reach(2, [(3, 4), (2, 1)], 4), Some(48));
        assert_eq!(reach(0, [(5, 0)], 8), Some(8));
        assert_eq!(reach(11, [(3, -4), (4, -1)], 2), Some(24));
        assert_eq!(reach(10, [(3, -4), (4, -1)], 2), None, "begins before the array");
        assert_eq!(reach(-1, [(0, 1)], 2), Some(0), "an empty walk goes nowhere");
        assert_eq!(reach(0, [(usize::MAX, 1)], 1), None);
        assert_eq!(reach(0, [(1 << 32, 1 << 32)], 1), None);
        assert_eq!(reach(isize::MAX, [(2, 1)], 1), None);
        assert_eq!(reach_from(8, [(3, 1)], 4), Some(20));
        assert_eq!(reach_from(-4, [(3, 1)], 4), None);
        assert_eq!(reach_from(0, [(2, isize::MAX)], 4), None);
        assert_eq!(reach_bits(8, [(3, 6), (5, 1)], 4), Some(17));
        assert_eq!(reach_bits(0, [(3, 4), (0, 1)], 2), Some(0));
        assert_eq!(reach_bits(-1, [(3, 1)], 4), None);
    }

    #[test]
    fn a_walk_without_gaps_covers_an_array() {
        assert_eq!(cover([(3, 4), (4, 1)], 4), Some(48));
        assert_eq!(cover([(4, 1), (3, 4)], 4), Some(48), "in any order");
        assert_eq!(cover([(7, 0), (4, 1)], 2), Some(8));
        assert_eq!(cover([(1, 9), (4, 1)], 2), Some(8));
        assert_eq!(cover([(3, 5), (4, 1)], 4), None, "a gap between rows");
        assert_eq!(cover([(3, 3), (4, 1)], 4), None, "rows overlap");
        assert_eq!(cover([(4, -1)], 4), None);
        assert_eq!(cover([(0, 1), (4, 1)], 4), Some(0));
        assert_eq!(cover([(1 << 32, 1), (1 << 32, 1 << 32)], 1), None);
    }

    #[test]
    fn products_do_not_wrap() {
        assert_eq!(product(&[1 << 32, 1 << 32]), None);
        assert_eq!(product(&[1 << 32, 1 << 32, 0]), Some(0));
        assert_eq!(product(&[]), Some(1));
    }
}
