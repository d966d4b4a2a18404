//! Sorting rows along a dimension: by keys that are integers in disguise, or by any comparator.
#![allow(unsafe_code)]

use tensor::DType;

use super::Cores;
use super::scalar::Program;
use crate::footprint::{Footprint, Written, product};

mod keys;
mod merge;
mod permute;
mod radix;
mod rows;
mod top_k;

pub(crate) use top_k::TopK;

/// Which way a key runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Direction {
    Ascending,
    Descending,
}

/// What is compared of an element.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Transform {
    /// The element.
    None,
    /// The element, -0 as +0 and every NaN as the positive quiet one.
    Canonical,
    /// A function of the element.
    Program(Program),
}

/// How real keys compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Nans {
    /// By `totalOrder`, or the key is no real number.
    Ordered,
    /// By value: zeros are equal, and NaN neither precedes nor follows anything, so that rows with NaN have no order and
    /// are merged by the comparator.
    Unordered,
}

/// One key of an order.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    /// The operand it comes from.
    pub(crate) operand: usize,
    pub(crate) transform: Transform,
    pub(crate) direction: Direction,
    pub(crate) nans: Nans,
}

/// Where elements with equal keys go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Ties {
    /// In the order they had.
    Kept,
    /// In the opposite order: the comparator says that equals precede each other.
    Reversed,
}

/// An order of rows: the first key decides, later ones among equals.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SortOrder {
    pub(crate) keys: Vec<Key>,
    pub(crate) ties: Ties,
}

/// A sort of several operands of one shape by one comparator, always stable.
#[derive(Clone, Debug)]
pub(crate) struct Sort {
    /// Rows are `outer · inner`; element `i` of a row is `inner` elements after element `i - 1`.
    outer: usize,
    length: usize,
    inner: usize,
    dtypes: Vec<DType>,
    order: Option<keys::Order>,
    /// The comparator: sides of operand `k` are arguments `2k` and `2k + 1`.
    comparator: Option<Program>,
}

impl Sort {
    /// A sort along a dimension. `None` where neither an order nor a comparator is known for all rows.
    pub(crate) fn new(
        dims: &[usize],
        dimension: usize,
        dtypes: &[DType],
        order: Option<SortOrder>,
        comparator: Option<Program>,
    ) -> Option<Sort> {
        let length = *dims.get(dimension)?;
        let outer = dims[..dimension].iter().try_fold(1usize, |n, &d| n.checked_mul(d))?;
        let inner = dims[dimension + 1..].iter().try_fold(1usize, |n, &d| n.checked_mul(d))?;
        outer.checked_mul(inner)?.checked_mul(length)?;
        // Places within a row are 32 bits.
        u32::try_from(length).ok()?;
        let order = order.and_then(|order| keys::Order::new(order, dtypes));
        let fits = |program: &Program| {
            let sides = dtypes.iter().flat_map(|&d| [d, d]);
            program.arguments.iter().copied().eq(sides) && matches!(program.results[..], [(DType::Bool, _)])
        };
        let comparator = comparator.filter(fits);
        match &order {
            None if comparator.is_none() => return None,
            Some(order) if order.may_fail() && comparator.is_none() => return None,
            _ => {}
        }
        Some(Sort { outer, length, inner, dtypes: dtypes.to_vec(), order, comparator })
    }

    /// What it touches: operands and results, all of one size.
    pub(crate) fn footprint(&self) -> Option<Footprint> {
        let count = product(&[self.outer, self.length, self.inner])?;
        let bytes = self.dtypes.iter().map(|dtype| count.checked_mul(dtype.size_bytes()));
        let reads = bytes.collect::<Option<Vec<usize>>>()?;
        Some(Footprint { writes: reads.iter().copied().map(Written::Whole).collect(), reads })
    }

    /// Sorts.
    ///
    /// # Safety
    /// Each of `reads` and `writes` points to a dense array of the sort's sizes and its type, aligned to its elements;
    /// what is written overlaps nothing else.
    pub(crate) unsafe fn run(&self, reads: &[*const u8], writes: &[*mut u8], cores: &Cores) {
        // SAFETY: the caller's promise is the one that is asked for.
        unsafe { rows::run(self, reads, writes, cores) }
    }
}

#[cfg(test)]
mod tests;
