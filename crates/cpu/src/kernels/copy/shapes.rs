//! The StableHLO ops that only move elements, as copies planned from their shapes.
#![allow(unsafe_code)]

use tensor::DType;

use super::index::Start;
use super::{Plan, Side, dense_strides};
use crate::footprint::{self, Footprint, Written};
use crate::kernels::Cores;

/// `transpose`: result dimension `d` is operand dimension `permutation[d]`.
#[cfg(test)]
pub(crate) fn transpose(operand: &[usize], permutation: &[usize], width: usize) -> Plan {
    let strides = dense_strides(operand);
    let dims: Vec<usize> = permutation.iter().map(|&p| operand[p]).collect();
    let from = Side { offset: 0, strides: permutation.iter().map(|&p| strides[p]).collect() };
    Plan::new(&dims, &from, &Side::dense(&dims), width)
}

/// `slice`: every `steps[d]`-th element from `starts[d]` up to `limits[d]`. Steps are positive.
#[cfg(test)]
pub(crate) fn slice(operand: &[usize], starts: &[usize], limits: &[usize], steps: &[usize], width: usize) -> Plan {
    let own = dense_strides(operand);
    let rank = operand.len();
    let dims: Vec<usize> = (0..rank).map(|d| limits[d].saturating_sub(starts[d]).div_ceil(steps[d].max(1))).collect();
    let offset = (0..rank).fold(0, |at: isize, d| at.wrapping_add(own[d].wrapping_mul(starts[d] as isize)));
    let from = Side { offset, strides: (0..rank).map(|d| own[d].wrapping_mul(steps[d] as isize)).collect() };
    Plan::new(&dims, &from, &Side::dense(&dims), width)
}

/// `reverse` along some dimensions.
#[cfg(test)]
pub(crate) fn reverse(operand: &[usize], reversed: &[usize], width: usize) -> Plan {
    let mut from = Side::dense(operand);
    for &d in reversed {
        let last = operand[d].saturating_sub(1) as isize;
        from.offset = from.offset.wrapping_add(from.strides[d].wrapping_mul(last));
        from.strides[d] = from.strides[d].wrapping_neg();
    }
    Plan::new(operand, &from, &Side::dense(operand), width)
}

/// `broadcast_in_dim`: operand dimension `d` is result dimension `along[d]`; the others repeat.
pub(crate) fn broadcast_in_dim(operand: &[usize], along: &[usize], result: &[usize], width: usize) -> Plan {
    let own = dense_strides(operand);
    let mut from = Side { offset: 0, strides: vec![0; result.len()] };
    for (d, &at) in along.iter().enumerate().filter(|&(d, _)| operand[d] != 1) {
        from.strides[at] = own[d];
    }
    Plan::new(result, &from, &Side::dense(result), width)
}

/// `pad`: edges (negative ones cut) and elements in between get one value.
#[derive(Clone, Debug)]
pub(crate) struct Pad {
    /// Parts of the result that hold the padding value.
    fills: Vec<Plan>,
    copy: Plan,
    /// Bytes of the result, which the parts fill together.
    bytes: usize,
}

impl Pad {
    /// `None` when sizes overflow or interior padding is negative.
    pub(crate) fn new(operand: &[usize], low: &[i64], high: &[i64], interior: &[i64], width: usize) -> Option<Pad> {
        let rank = operand.len();
        let (mut result, mut dims) = (vec![0usize; rank], vec![0usize; rank]);
        // Range of the result along each dimension that holds operand elements, first and last included.
        let mut range = vec![0..0usize; rank];
        let (mut from, mut step) = (Side::dense(operand), vec![1i64; rank]);
        for d in 0..rank {
            let size = i64::try_from(operand[d]).ok()?;
            step[d] = interior[d].checked_add(1).filter(|&step| step > 0)?;
            let between = interior[d].checked_mul((size - 1).max(0))?;
            let padded = size.checked_add(between)?.checked_add(low[d])?.checked_add(high[d])?;
            result[d] = usize::try_from(padded).ok()?;
            // The first operand element not cut, and how many follow until the result ends.
            let first = if low[d] < 0 { (low[d].checked_neg()? as u64).div_ceil(step[d] as u64) as i64 } else { 0 };
            let at = first.checked_mul(step[d])?.checked_add(low[d])?;
            let fit = if padded > at { (padded - at - 1) / step[d] + 1 } else { 0 };
            dims[d] = fit.min(size - first).max(0) as usize;
            range[d] = match dims[d] {
                0 => 0..0,
                n => at as usize..at as usize + (n - 1) * step[d] as usize + 1,
            };
            from.offset = from.offset.wrapping_add(from.strides[d].wrapping_mul(first as isize));
        }
        let own = dense_strides(&result);
        let offset = |starts: &[usize]| {
            starts.iter().zip(&own).fold(0isize, |at, (&s, &o)| at.wrapping_add(o.wrapping_mul(s as isize)))
        };
        let fill = |starts: &[usize], dims: &[usize]| {
            let to = Side { offset: offset(starts), strides: own.clone() };
            Plan::new(dims, &Side { offset: 0, strides: vec![0; rank] }, &to, width)
        };
        let mut fills = Vec::new();
        let empty = dims.contains(&0);
        if empty || (0..rank).any(|d| step[d] > 1 && dims[d] > 1) {
            fills.push(fill(&vec![0; rank], &result));
        } else {
            // Slabs before and after the operand along each dimension, within it along the dimensions before.
            let (mut starts, mut sizes) = (vec![0; rank], result.clone());
            for d in 0..rank {
                for (start, end) in [(0, range[d].start), (range[d].end, result[d])] {
                    (starts[d], sizes[d]) = (start, end - start);
                    fills.push(fill(&starts, &sizes));
                }
                (starts[d], sizes[d]) = (range[d].start, range[d].len());
            }
        }
        fills.retain(|plan| plan.items > 0);
        let starts: Vec<usize> = range.iter().map(|range| range.start).collect();
        let strides = (0..rank).map(|d| own[d].wrapping_mul(step[d] as isize)).collect();
        let copy = Plan::new(&dims, &from, &Side { offset: offset(&starts), strides }, width);
        Some(Pad { fills, copy, bytes: footprint::product(&result)?.checked_mul(width)? })
    }

    /// What it touches: operand, padding value, and the result, which the parts cover.
    pub(crate) fn footprint(&self) -> Option<Footprint> {
        let mut value = 0;
        for fill in &self.fills {
            value = value.max(fill.reads()?);
            fill.writes().filter(|&end| end <= self.bytes)?;
        }
        self.copy.writes().filter(|&end| end <= self.bytes)?;
        Some(Footprint { reads: vec![self.copy.reads()?, value], writes: vec![Written::Whole(self.bytes)] })
    }

    /// # Safety
    /// `from` holds the operand, `value` one element, `to` is writable for the result, and they do not overlap.
    pub(crate) unsafe fn run(&self, from: *const u8, value: *const u8, to: *mut u8, cores: &Cores) {
        for fill in &self.fills {
            // SAFETY: the caller's promise.
            unsafe { fill.run(value, to, cores) };
        }
        // SAFETY: the caller's promise.
        unsafe { self.copy.run(from, to, cores) };
    }
}

/// `dynamic_slice`: a slice of fixed size from a place known only when it runs.
#[derive(Clone, Debug)]
pub(crate) struct DynamicSlice {
    start: Start,
    plan: Plan,
    width: usize,
}

/// The end of a part of an array that ends at `end` where it starts first, and is moved to the last place where it may start.
fn moved(start: &Start, width: usize, end: usize) -> Option<usize> {
    if end == 0 {
        return Some(0);
    }
    usize::try_from(start.last_element()?).ok()?.checked_mul(width)?.checked_add(end)
}

impl DynamicSlice {
    /// `None` when the slice is larger than the operand or `index` is not an integer type.
    pub(crate) fn new(operand: &[usize], sizes: &[usize], index: DType, width: usize) -> Option<DynamicSlice> {
        let plan = Plan::new(sizes, &Side::dense(operand), &Side::dense(sizes), width);
        Some(DynamicSlice { start: Start::new(operand, sizes, index)?, plan, width })
    }

    /// What it touches: operand, one scalar per dimension, result. A start is clamped, whatever the scalars say.
    pub(crate) fn footprint(&self) -> Option<Footprint> {
        let mut reads = vec![moved(&self.start, self.width, self.plan.reads()?)?];
        reads.extend(self.start.index_bytes());
        Some(Footprint { reads, writes: vec![Written::Whole(self.plan.covers(&[])?)] })
    }

    /// Bytes from the start of the operand to that of the slice.
    ///
    /// # Safety
    /// `indices` are one scalar per dimension.
    pub(crate) unsafe fn start(&self, indices: &[*const u8]) -> isize {
        // SAFETY: the caller's promise.
        unsafe { self.start.element(indices) }.wrapping_mul(self.width as isize)
    }

    /// # Safety
    /// `from` holds the operand, `indices` one scalar per dimension, and `to` is writable for the slice.
    pub(crate) unsafe fn run(&self, from: *const u8, indices: &[*const u8], to: *mut u8, cores: &Cores) {
        // SAFETY: the caller's promise; a clamped start keeps the slice within the operand.
        unsafe { self.plan.run_at(from, self.start.element(indices), to, 0, cores) }
    }
}

/// `dynamic_update_slice` in place: the caller has copied the operand to the result, or may overwrite it.
#[derive(Clone, Debug)]
pub(crate) struct DynamicUpdateSlice {
    start: Start,
    plan: Plan,
    width: usize,
}

impl DynamicUpdateSlice {
    /// `None` when the update is larger than the operand or `index` is not an integer type.
    pub(crate) fn new(operand: &[usize], update: &[usize], index: DType, width: usize) -> Option<DynamicUpdateSlice> {
        let plan = Plan::new(update, &Side::dense(update), &Side::dense(operand), width);
        Some(DynamicUpdateSlice { start: Start::new(operand, update, index)?, plan, width })
    }

    /// What it touches: the update and one scalar per dimension, and the operand within its bytes. A start is clamped,
    /// whatever the scalars say.
    pub(crate) fn footprint(&self) -> Option<Footprint> {
        let mut reads = vec![self.plan.reads()?];
        reads.extend(self.start.index_bytes());
        Some(Footprint { reads, writes: vec![Written::Within(moved(&self.start, self.width, self.plan.writes()?)?)] })
    }

    /// # Safety
    /// `update` holds the update, `indices` one scalar per dimension, and `operand` is writable for the whole operand.
    pub(crate) unsafe fn run(&self, update: *const u8, indices: &[*const u8], operand: *mut u8, cores: &Cores) {
        // SAFETY: the caller's promise; a clamped start keeps the update within the operand.
        unsafe { self.plan.run_at(update, 0, operand, self.start.element(indices), cores) }
    }
}
