//! Many queries and a block of keys at a time: keys and values are gathered from their pages and packed for matmuls once for all
//! queries of a task. No more than one block of either is copied.
#![allow(unsafe_code)]

use std::ops::Range;

use super::sums::{AddPart, Sums, Weigh};
use super::{BLOCK, PagedShape, Task, problems};
use crate::kernels::machine::Machine;
use crate::kernels::matmul::Plan;
use crate::kernels::wide::wide_loop;

/// Keys that queries meet at once: as many as there are left, but for the last few.
const KEYS: [usize; 3] = [256, 128, 64];

/// Matmuls of many queries.
#[derive(Debug)]
pub(super) struct Many {
    /// For [`KEYS`], the most first.
    sizes: Vec<Size>,
}

/// Matmuls with so many keys.
#[derive(Debug)]
struct Size {
    keys: usize,
    scores: Plan,
    values: Plan,
}

/// One line of a cache: what the matrices of matmuls begin with.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Line([u8; 64]);

/// Memory for the keys and values of one block, as they are and packed.
#[derive(Default)]
pub(super) struct Room {
    lines: Vec<Line>,
}

impl Room {
    /// Places of so many bytes each.
    fn places<const N: usize>(&mut self, bytes: [usize; N]) -> [*mut u8; N] {
        let lines = bytes.map(|bytes| bytes.div_ceil(size_of::<Line>()));
        let all = lines.iter().sum();
        if self.lines.len() < all {
            self.lines.resize(all, Line([0; 64]));
        }
        let start = self.lines.as_mut_ptr();
        let mut next = 0;
        lines.map(|lines| {
            let place = start.wrapping_add(next).cast();
            next += lines;
            place
        })
    }
}

impl Many {
    pub(super) fn new(shape: &PagedShape, machine: &Machine) -> Many {
        let size = |keys: usize| {
            let [scores, values] = problems(shape, shape.queries.min(BLOCK), keys).map(|problem| problem.plan(machine));
            Size { keys, scores, values }
        };
        Many { sizes: KEYS.map(size).into() }
    }

    /// # Safety
    /// The arrays are as [`super::Paged::run`] says; `sums` and `room` are of the calling thread.
    pub(super) unsafe fn run(&self, task: &Task<'_>, sums: &mut Sums, room: &mut Room, machine: &Machine) {
        let &Task { shape, count, query, .. } = task;
        sums.fit(count, KEYS[0], shape);
        let seen = task.all_seen();
        let mut begin = seen.start;
        while begin < seen.end {
            let left = seen.end - begin;
            let Some(size) = self.sizes.iter().find(|size| size.keys <= left).or(self.sizes.last()) else { return };
            let Size { keys, scores, values } = size;
            let block = begin..begin + left.min(*keys);
            let bytes = keys * shape.depth * shape.dtype.size_bytes();
            let (Some(of_scores), Some(of_values)) = (scores.packed_bytes(), values.packed_bytes()) else { return };
            let [plain_keys, plain_values, packed_keys, packed_values] =
                room.places([bytes, bytes, of_scores, of_values]);
            // SAFETY: keys that are seen are within the table; the places have room for a block, and the sums for its scores.
            unsafe {
                gather(task, block.clone(), *keys, [plain_keys, plain_values]);
                let keys = scores.pack_rhs_at(plain_keys, packed_keys);
                let to = sums.scores.as_mut_ptr().cast();
                scores.run_rows(count, query, plain_keys, to, Some((&keys, 0)));
            }
            wide_loop(machine, Weigh { sums, task, keys: *keys, base: block.start });
            let (weights, part) = sums.weights(shape.dtype);
            // SAFETY: as above.
            unsafe {
                let packed = values.pack_rhs_at(plain_values, packed_values);
                values.run_rows(count, weights, plain_values, part.as_mut_ptr().cast(), Some((&packed, 0)));
            }
            wide_loop(machine, AddPart { sums, count, depth: shape.depth });
            begin = block.end;
        }
    }
}

/// Copies some keys and values from their pages, filled up with zeros to `keys` of them.
///
/// # Safety
/// The keys are within the table; each place takes `keys` rows.
unsafe fn gather(task: &Task<'_>, block: Range<usize>, keys: usize, to: [*mut u8; 2]) {
    let shape = task.shape;
    let row = shape.depth * shape.dtype.size_bytes();
    let mut at = block.start;
    while at < block.end {
        let first = at % shape.page_size;
        let rows = (shape.page_size - first).min(block.end - at);
        // SAFETY: rows of a page that is in the table, and of the block.
        unsafe {
            let (page_keys, page_values) = task.page(at / shape.page_size);
            for (from, to) in [page_keys, page_values].into_iter().zip(to) {
                let to = to.wrapping_add((at - block.start) * row);
                std::ptr::copy_nonoverlapping(from.wrapping_add(first * row), to, rows * row);
            }
        }
        at += rows;
    }
    for to in to {
        // SAFETY: what is left of the place.
        unsafe { std::ptr::write_bytes(to.wrapping_add(block.len() * row), 0, (keys - block.len()) * row) };
    }
}
