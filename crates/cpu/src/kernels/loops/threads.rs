//! How a loop is shared among threads, and how a part of it is walked.
#![allow(unsafe_code)]

use std::cell::RefCell;
use std::ops::Range;

use super::ir::{Loop, Mode};
use super::long_row::LongRow;
use super::nest::Nest;
use super::schedule::{Schedule, lane_bytes};
use super::{Body, Rows};
use crate::kernels::Cores;
use crate::kernels::machine::Machine;

/// Work below this is done before another thread has woken up, in bytes moved or operations.
const SHARED_COST: usize = 1 << 20;
/// The least work of a task.
const TASK_COST: usize = 128 << 10;
/// Tasks for each thread: more than one, so that a late thread is made up for.
const TASKS_PER_THREAD: usize = 4;
/// Elements of a row part start at multiples of this, so that parts do not share cache lines.
const PART_ELEMENTS: usize = 64;

/// Which way a loop is shared.
#[derive(Debug)]
pub(super) struct Split {
    /// The dimension that is cut; `None` where the loop runs on the caller alone.
    dim: Option<usize>,
    /// Parts are multiples of this.
    grain: usize,
    /// What the whole loop costs.
    cost: usize,
    empty: bool,
    long_row: Option<LongRow>,
}

impl Split {
    pub(super) fn new(
        source: &Loop,
        schedule: &Schedule,
        machine: &Machine,
        body: fn(&Loop, &Machine) -> Body,
    ) -> Split {
        let points = source.dims.iter().fold(1usize, |n, &d| n.saturating_mul(d));
        let bytes: usize = schedule.reads.iter().map(|r| r.dtype.size_bytes()).sum::<usize>()
            + schedule.writes.iter().map(|w| w.dtype.size_bytes()).sum::<usize>();
        let cost = points.saturating_mul(bytes.max(schedule.element_cost() as usize));
        let last = source.dims.len() - 1;
        // A dimension may be cut if no two parts write the same element.
        let apart = |dim: usize| {
            (dim != last || !schedule.reduces())
                && source.writes.iter().all(|w| w.access.strides[dim] != 0 || w.mode == Mode::Store && dim != last)
        };
        let grain = |dim: usize| if dim == last { PART_ELEMENTS } else { 1 };
        let parts = |dim: usize| source.dims[dim].div_ceil(grain(dim));
        // The outermost dimension with enough parts for many threads, or else the one with the most parts.
        let candidates: Vec<usize> = (0..=last).filter(|&d| apart(d) && source.dims[d] > 1).collect();
        let dim = candidates
            .iter()
            .copied()
            .find(|&d| parts(d) >= 64)
            .or_else(|| candidates.iter().copied().max_by_key(|&d| (parts(d), std::cmp::Reverse(d))));
        Split {
            dim: dim.filter(|&d| parts(d) > 1 && cost >= SHARED_COST),
            grain: dim.map_or(1, grain),
            cost,
            empty: source.dims.contains(&0),
            long_row: LongRow::new(source, schedule, machine, body),
        }
    }

    /// # Safety
    /// As for `Ready::run`.
    pub(super) unsafe fn run(&self, body: &Body, nest: &Nest, reads: &[*const u8], writes: &[*mut u8], cores: &Cores) {
        if self.empty {
            return;
        }
        if let Some(long_row) = &self.long_row {
            // SAFETY: the caller's promise.
            return unsafe { long_row.run(reads, writes, cores) };
        }
        let threads = cores.pool.threads();
        let Some(dim) = self.dim.filter(|_| threads > 1) else {
            // SAFETY: the caller's promise.
            return unsafe { run_space(body, nest, &|d| 0..nest.dims[d], reads, writes) };
        };
        let units = nest.dims[dim].div_ceil(self.grain);
        let tasks = (self.cost / TASK_COST).min(threads * TASKS_PER_THREAD).min(units).max(1);
        let arrays = Arrays { reads, writes };
        cores.pool.run(tasks, &|_, task| {
            let arrays = &arrays;
            let cut =
                |t: usize| ((units as u128 * t as u128 / tasks as u128) as usize * self.grain).min(nest.dims[dim]);
            let part = cut(task)..cut(task + 1);
            let range = |d: usize| if d == dim { part.clone() } else { 0..nest.dims[d] };
            // SAFETY: the caller's promise; parts write different elements.
            unsafe { run_space(body, nest, &range, arrays.reads, arrays.writes) }
        });
    }
}

/// Array addresses that every task uses.
struct Arrays<'a> {
    reads: &'a [*const u8],
    writes: &'a [*mut u8],
}

// SAFETY: the tasks write different elements, and the caller of the loop lends the arrays for its duration.
unsafe impl Sync for Arrays<'_> {}

thread_local! {
    static SCRATCH: RefCell<Vec<[u64; 8]>> = const { RefCell::new(Vec::new()) };
}

/// Addresses and positions of this many arrays and dimensions need no allocation.
pub(super) const FEW: usize = 24;

/// Walks a box of a nest: every row of it, in runs along the dimension before the last.
///
/// # Safety
/// As for `Ready::run_box`; `range` gives a range within the nest for each of its dimensions, none of them empty.
pub(super) unsafe fn run_space(
    body: &Body,
    nest: &Nest,
    range: &dyn Fn(usize) -> Range<usize>,
    reads: &[*const u8],
    writes: &[*mut u8],
) {
    let rank = nest.dims.len();
    let (last, row_dim) = (rank - 1, rank.wrapping_sub(2));
    let (mut few_reads, mut few_writes) = ([std::ptr::null::<u8>(); FEW], [std::ptr::null_mut::<u8>(); FEW]);
    let (mut few_read_starts, mut few_write_starts) = (few_reads, few_writes);
    let (mut few_index, mut few_first, mut few_sizes) = ([0i64; FEW], [0usize; FEW], [0usize; FEW]);
    let mut few_outer = [0usize; FEW];
    let mut few_slots = [std::ptr::null_mut::<u8>(); FEW];
    let slots = body.schedule.slots.len();
    if reads.len().max(writes.len()).max(rank).max(slots) > FEW {
        // Rare: the arrays below come from the heap instead.
        let (r, w) = (reads.len().max(1), writes.len().max(1));
        let mut many_slots = vec![std::ptr::null_mut(); slots];
        let mut space = Space {
            reads: &mut vec![std::ptr::null(); r],
            writes: &mut vec![std::ptr::null_mut(); w],
            read_starts: &mut vec![std::ptr::null(); r],
            write_starts: &mut vec![std::ptr::null_mut(); w],
            index: &mut vec![0; rank],
            first: &mut vec![0; rank],
            sizes: &mut vec![0; rank],
            outer: &mut vec![0; rank],
            slots: &mut many_slots,
        };
        // SAFETY: the caller's promise.
        return unsafe { space.walk(body, nest, range, reads, writes, last, row_dim) };
    }
    let mut space = Space {
        reads: &mut few_reads,
        writes: &mut few_writes,
        read_starts: &mut few_read_starts,
        write_starts: &mut few_write_starts,
        index: &mut few_index,
        first: &mut few_first,
        sizes: &mut few_sizes,
        outer: &mut few_outer,
        slots: &mut few_slots[..slots],
    };
    // SAFETY: the caller's promise.
    unsafe { space.walk(body, nest, range, reads, writes, last, row_dim) }
}

/// What a walk writes to: one entry for each array, dimension or slot, and possibly more.
struct Space<'a> {
    /// Handed to the backend, which changes them.
    reads: &'a mut [*const u8],
    writes: &'a mut [*mut u8],
    read_starts: &'a mut [*const u8],
    write_starts: &'a mut [*mut u8],
    index: &'a mut [i64],
    first: &'a mut [usize],
    sizes: &'a mut [usize],
    /// The position in the outer dimensions, from the start of the box.
    outer: &'a mut [usize],
    slots: &'a mut [*mut u8],
}

impl Space<'_> {
    /// # Safety
    /// As for [`run_space`].
    #[allow(clippy::too_many_arguments)]
    unsafe fn walk(
        &mut self,
        body: &Body,
        nest: &Nest,
        range: &dyn Fn(usize) -> Range<usize>,
        reads: &[*const u8],
        writes: &[*mut u8],
        last: usize,
        row_dim: usize,
    ) {
        let rank = last + 1;
        for dim in 0..rank {
            let range = range(dim);
            self.first[dim] = range.start;
            self.sizes[dim] = range.end - range.start;
        }
        let start = |strides: &[isize], offset: isize, first: &[usize]| {
            strides
                .iter()
                .zip(first)
                .fold(offset, |at, (stride, &first)| at.wrapping_add(stride.wrapping_mul(first as isize)))
        };
        for (at, placed) in nest.reads.iter().enumerate() {
            self.read_starts[at] = reads[at].wrapping_offset(start(&placed.strides, placed.offset, self.first));
        }
        for (at, placed) in nest.writes.iter().enumerate() {
            self.write_starts[at] = writes[at].wrapping_offset(start(&placed.strides, placed.offset, self.first));
        }
        if body.schedule.slots.is_empty() {
            // SAFETY: the caller's promise.
            return unsafe { self.rows(body, nest, last, row_dim) };
        }
        SCRATCH.with_borrow_mut(|scratch| {
            let padded = self.sizes[last].next_multiple_of(64);
            let bytes: usize = body.schedule.slots.iter().map(|&lane| lane_bytes(lane) * padded).sum();
            let words = bytes / 64 + 1;
            if scratch.len() < words {
                scratch.resize(words, [0; 8]);
            }
            let memory = scratch.as_mut_ptr().cast::<u8>();
            let mut at = memory.wrapping_add(memory.align_offset(64));
            for (slot, &lane) in self.slots.iter_mut().zip(&body.schedule.slots) {
                *slot = at;
                at = at.wrapping_add(lane_bytes(lane) * padded);
            }
            // SAFETY: the caller's promise; the slots have room for a row.
            unsafe { self.rows(body, nest, last, row_dim) }
        });
    }

    /// # Safety
    /// As for [`run_space`].
    unsafe fn rows(&mut self, body: &Body, nest: &Nest, last: usize, row_dim: usize) {
        let outer_dims = last.saturating_sub(1);
        loop {
            self.reads.copy_from_slice(self.read_starts);
            self.writes.copy_from_slice(self.write_starts);
            for dim in 0..=last {
                self.index[dim] = (self.first[dim] + self.outer[dim]) as i64;
            }
            let mut rows = Rows {
                reads: self.reads.as_mut_ptr(),
                writes: self.writes.as_mut_ptr(),
                read_steps: nest.read_steps.as_ptr(),
                write_steps: nest.write_steps.as_ptr(),
                slots: self.slots.as_ptr(),
                index: self.index.as_mut_ptr(),
                rows: if last > 0 { self.sizes[row_dim] } else { 1 },
                count: self.sizes[last],
            };
            // SAFETY: the addresses are those of the rows of the box.
            unsafe { body.run(&mut rows) };
            // The next position of the outer dimensions, the innermost first.
            let mut dim = outer_dims;
            loop {
                if dim == 0 {
                    return;
                }
                dim -= 1;
                self.outer[dim] += 1;
                let wrapped = self.outer[dim] == self.sizes[dim];
                let back = if wrapped { self.sizes[dim] as isize - 1 } else { 0 };
                for (start, placed) in self.read_starts.iter_mut().zip(&nest.reads) {
                    let stride = placed.strides[dim];
                    *start = start.wrapping_offset(if wrapped { stride.wrapping_mul(-back) } else { stride });
                }
                for (start, placed) in self.write_starts.iter_mut().zip(&nest.writes) {
                    let stride = placed.strides[dim];
                    *start = start.wrapping_offset(if wrapped { stride.wrapping_mul(-back) } else { stride });
                }
                if !wrapped {
                    break;
                }
                self.outer[dim] = 0;
            }
        }
    }
}
