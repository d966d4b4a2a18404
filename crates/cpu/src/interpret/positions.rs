//! Row-major positions: strides, offsets of part of the dimensions, and walks over all indices.

use super::context::Context;
use crate::error::Error;

/// Elements one tensor may have where the options do not say.
const DEFAULT_MAX_ELEMENTS: u64 = 1 << 28;

/// Number of elements of a shape, if within the limit of the run.
pub(crate) fn count(context: &Context<'_, '_>, dims: &[i64]) -> Result<usize, Error> {
    let limit = context.run.options.max_elements.unwrap_or(DEFAULT_MAX_ELEMENTS);
    dims.iter()
        .try_fold(1u64, |n, &d| n.checked_mul(u64::try_from(d).ok()?))
        .filter(|&n| n <= limit)
        .and_then(|n| usize::try_from(n).ok())
        .ok_or_else(|| Error::Exhausted(format!("a tensor of sizes {dims:?} has more than {limit} elements")))
}

/// Distance in elements between neighbours along each dimension.
pub(crate) fn strides(dims: &[i64]) -> Vec<usize> {
    let mut strides = vec![1usize; dims.len()];
    for d in (1..dims.len()).rev() {
        strides[d - 1] = strides[d].saturating_mul(dims[d].max(0) as usize);
    }
    strides
}

/// Position of an index.
pub(crate) fn position(index: &[i64], strides: &[usize]) -> usize {
    index.iter().zip(strides).map(|(&i, &s)| i as usize * s).sum()
}

/// Offsets of every index over the named dimensions, those in row-major order of the names.
pub(crate) fn offsets(dims: &[i64], strides: &[usize], named: &[usize]) -> Vec<usize> {
    let mut offsets = vec![0usize];
    for &d in named {
        let (size, stride) = (dims[d].max(0) as usize, strides[d]);
        offsets = offsets.iter().flat_map(|&base| (0..size).map(move |i| base + i * stride)).collect();
    }
    offsets
}

/// Dimensions of `rank` that none of the lists names, in order.
pub(crate) fn others(rank: usize, named: &[&[i64]]) -> Vec<usize> {
    (0..rank).filter(|&d| !named.iter().any(|list| list.contains(&(d as i64)))).collect()
}

/// Dimension numbers as indices; the verifier has checked their range.
pub(crate) fn indices(dims: &[i64]) -> Vec<usize> {
    dims.iter().map(|&d| d as usize).collect()
}

/// A walk over every index of a shape in row-major order.
pub(crate) struct Walk<'d> {
    dims: &'d [i64],
    index: Vec<i64>,
    state: State,
}

#[derive(PartialEq, Eq)]
enum State {
    Fresh,
    Inside,
    Done,
}

impl<'d> Walk<'d> {
    /// A walk that has not begun.
    pub(crate) fn new(dims: &'d [i64]) -> Self {
        let state = if dims.iter().any(|&d| d <= 0) { State::Done } else { State::Fresh };
        Walk { dims, index: vec![0; dims.len()], state }
    }

    /// The next index.
    pub(crate) fn next(&mut self) -> Option<&[i64]> {
        match self.state {
            State::Done => return None,
            State::Fresh => {
                self.state = State::Inside;
                return Some(&self.index);
            }
            State::Inside => {}
        }
        for d in (0..self.dims.len()).rev() {
            self.index[d] += 1;
            if self.index[d] < self.dims[d] {
                return Some(&self.index);
            }
            self.index[d] = 0;
        }
        self.state = State::Done;
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_walk_visits_every_index_in_order() {
        let dims = [2, 3];
        let mut walk = Walk::new(&dims);
        let mut seen = Vec::new();
        while let Some(index) = walk.next() {
            seen.push(position(index, &strides(&dims)));
        }
        assert_eq!(seen, [0, 1, 2, 3, 4, 5]);
        assert!(Walk::new(&[2, 0]).next().is_none());
        assert_eq!(Walk::new(&[]).next(), Some(&[][..]));
    }

    #[test]
    fn offsets_follow_the_order_of_the_names() {
        let dims = [2, 3];
        assert_eq!(offsets(&dims, &strides(&dims), &[1, 0]), [0, 3, 1, 4, 2, 5]);
        assert_eq!(offsets(&dims, &strides(&dims), &[]), [0]);
    }
}
