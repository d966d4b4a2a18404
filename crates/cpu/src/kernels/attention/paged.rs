//! Attention to a paged KV cache: pages are read where they lie, by their numbers in a table.
//!
//! A task has the queries of one KV head of one sequence, or a block of them, and an online softmax. A few queries go through the pages
//! that they see one by one, and nothing is gathered. Many queries, of a chunk of a prompt, meet [`many`] keys at once.
#![allow(unsafe_code)]

mod many;
mod sums;

use std::cell::RefCell;
use std::ops::Range;

use tensor::DType;

use crate::footprint::{Footprint, Written, product};
use crate::kernels::Cores;
use crate::kernels::machine::Machine;
use crate::kernels::matmul::{MatMul, Operand, Plan, Target};
use crate::kernels::wide::wide_loop;
use crate::memory::Packing;
use many::{Many, Room};
use sums::{AddPart, AddValues, Store, Sums, Values, Weigh};

/// Queries of one task where there are many: their scores of a block of keys stay in the second-level cache.
const BLOCK: usize = 256;
/// Queries that matmuls take as vectors, so that they read a page as it lies.
const VECTORS: usize = 4;
/// Up to so many queries are taken as vectors; for more it pays to rearrange keys and values.
const FEW: usize = 16;

/// Shapes and meaning. Queries are `[sequences, kv_heads, queries, depth]`, keys and values
/// `[layers, pages, kv_heads, page_size, depth]`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PagedShape {
    pub(crate) sequences: usize,
    pub(crate) kv_heads: usize,
    /// Queries of a KV head that are of one token.
    pub(crate) group: usize,
    pub(crate) queries: usize,
    pub(crate) depth: usize,
    pub(crate) layers: usize,
    pub(crate) pages: usize,
    pub(crate) page_size: usize,
    /// Pages of each sequence in the table.
    pub(crate) table: usize,
    pub(crate) dtype: DType,
    pub(crate) scale: f32,
    pub(crate) window: Option<usize>,
    /// A query sees keys of its own chunk of so many positions.
    pub(crate) chunk: Option<usize>,
    pub(crate) soft_cap: Option<f32>,
    /// Whether there are attention sinks.
    pub(crate) sinks: Sinks,
}

/// Attention sinks: a score of each head that takes part in the softmax and has no value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sinks {
    Absent,
    /// `f32 [kv_heads * group]`.
    Present,
}

/// The kernels of one shape.
#[derive(Debug)]
pub(crate) struct Paged {
    shape: PagedShape,
    /// A few queries times the keys of a page.
    scores: Plan,
    /// Their weights times the values of a page.
    values: Plan,
    /// For more queries than a few.
    many: Option<Many>,
    /// Queries of one task.
    rows: usize,
}

/// Where the arrays of one run are.
#[derive(Clone, Copy)]
pub(crate) struct PagedArrays {
    pub(crate) layer: *const i32,
    pub(crate) table: *const i32,
    pub(crate) filled: *const i32,
    pub(crate) tokens: *const i32,
    pub(crate) query: *const u8,
    pub(crate) keys: *const u8,
    pub(crate) values: *const u8,
    /// Null where there are none.
    pub(crate) sinks: *const f32,
    pub(crate) out: *mut u8,
}

// SAFETY: threads read the inputs and write disjoint rows of the output.
unsafe impl Sync for PagedArrays {}

/// Some queries of one KV head of one sequence.
struct Task<'a> {
    shape: &'a PagedShape,
    arrays: &'a PagedArrays,
    sequence: usize,
    kv_head: usize,
    layer: usize,
    /// Positions of the sequence before its tokens, and with them. What lies behind in the last page is of nobody, and may be anything.
    filled: usize,
    written: usize,
    /// The first of the queries, and how many.
    first: usize,
    count: usize,
    query: *const u8,
}

impl Task<'_> {
    /// Keys that one of the queries sees.
    fn seen(&self, row: usize) -> Range<usize> {
        self.shape.seen(self.filled, (self.first + row) / self.shape.group)
    }

    /// Keys that any of them sees.
    fn all_seen(&self) -> Range<usize> {
        self.seen(0).start..self.seen(self.count - 1).end
    }

    /// Keys and values of the page at a place of the sequence's table.
    ///
    /// # Safety
    /// The place is within the table.
    unsafe fn page(&self, at: usize) -> (*const u8, *const u8) {
        let shape = self.shape;
        // SAFETY: the caller's promise.
        let page = clamped(unsafe { *self.arrays.table.add(self.sequence * shape.table + at) }, shape.pages - 1);
        let place = ((self.layer * shape.pages + page) * shape.kv_heads + self.kv_head) * shape.page_size;
        let bytes = place * shape.depth * shape.dtype.size_bytes();
        (self.arrays.keys.wrapping_add(bytes), self.arrays.values.wrapping_add(bytes))
    }
}

/// A number of an operand, of which nothing is known.
fn clamped(number: i32, most: usize) -> usize {
    usize::try_from(number).unwrap_or(0).min(most)
}

thread_local! {
    /// What a task needs besides.
    static MEMORY: RefCell<(Sums, Room)> = RefCell::default();
}

impl PagedShape {
    /// Whether there is a kernel for it.
    pub(crate) fn is_supported(&self) -> bool {
        let sizes = [self.sequences, self.kv_heads, self.group, self.queries, self.depth];
        let of_cache = [self.layers, self.pages, self.page_size, self.table];
        let longest = self.table.checked_mul(self.page_size).and_then(|n| n.checked_add(self.queries));
        matches!(self.dtype, DType::F32 | DType::BF16)
            && !sizes.iter().chain(&of_cache).any(|&size| size == 0)
            && longest.is_some_and(|n| i32::try_from(n).is_ok())
            && self.soft_cap.is_none_or(|cap| cap.is_finite() && cap != 0.0)
    }

    fn query_bytes(&self) -> Option<usize> {
        product(&[self.sequences, self.kv_heads, self.queries, self.depth, self.dtype.size_bytes()])
    }

    fn cache_bytes(&self) -> Option<usize> {
        let page = [self.kv_heads, self.page_size, self.depth, self.dtype.size_bytes()];
        product(&[self.layers, self.pages, product(&page)?])
    }

    /// Keys that a token of a sequence sees.
    fn seen(&self, filled: usize, token: usize) -> Range<usize> {
        let end = filled + token + 1;
        let of_window = self.window.map_or(0, |window| end.saturating_sub(window));
        let of_chunk = self.chunk.map_or(0, |chunk| (end - 1) / chunk.max(1) * chunk.max(1));
        let begin = of_window.max(of_chunk);
        let most = self.table * self.page_size;
        begin.min(most)..end.min(most)
    }
}

impl Paged {
    /// For a shape that [`PagedShape::is_supported`].
    pub(crate) fn new(shape: PagedShape, machine: &Machine) -> Paged {
        let (rows, page) = (shape.queries.min(FEW), shape.page_size);
        let [scores, values] = problems(&shape, rows, page).map(|problem| problem.plan(machine));
        let many = (shape.queries > FEW).then(|| Many::new(&shape, machine));
        Paged { scores, values, many, rows: shape.queries.min(BLOCK), shape }
    }

    /// What it touches, in the order of the operands.
    pub(crate) fn footprint(&self) -> Option<Footprint> {
        let shape = &self.shape;
        let (query, cache) = (shape.query_bytes()?, shape.cache_bytes()?);
        let numbers = |count: usize| count.checked_mul(4);
        let of_sequences = numbers(shape.sequences)?;
        let table = numbers(shape.sequences.checked_mul(shape.table)?)?;
        let mut reads = vec![4, table, of_sequences, of_sequences, query, cache, cache];
        if shape.sinks == Sinks::Present {
            reads.push(numbers(shape.kv_heads.checked_mul(shape.group)?)?);
        }
        Some(Footprint { reads, writes: vec![Written::Whole(query)] })
    }

    /// The sizes, for profiles and dumps.
    pub(crate) fn label(&self) -> String {
        let PagedShape { sequences, kv_heads, queries, depth, table, page_size, dtype, .. } = &self.shape;
        format!("paged attention {dtype} {sequences}x{kv_heads}x{queries}x{depth} to {table}x{page_size}")
    }

    /// Computes the result. Queries of no token give zeros.
    ///
    /// # Safety
    /// The arrays have the sizes of the footprint; `out` overlaps none of the others.
    pub(crate) unsafe fn run(&self, arrays: &PagedArrays, cores: &Cores) {
        let shape = &self.shape;
        let blocks = shape.queries.div_ceil(self.rows);
        cores.pool.run(shape.sequences * shape.kv_heads * blocks, &|_, task| {
            // The last queries see most: they go first.
            let (head, block) = (task % (shape.sequences * shape.kv_heads), task / (shape.sequences * shape.kv_heads));
            let begin = (blocks - 1 - block) * self.rows;
            let rows = begin..(begin + self.rows).min(shape.queries);
            // SAFETY: the caller's promise; tasks have rows of their own.
            MEMORY.with_borrow_mut(|memory| unsafe { self.run_rows(arrays, head, rows, memory, &cores.machine) });
        });
    }

    /// # Safety
    /// As [`Paged::run`], for some queries of one KV head of one sequence.
    unsafe fn run_rows(
        &self,
        arrays: &PagedArrays,
        head: usize,
        rows: Range<usize>,
        (sums, room): &mut (Sums, Room),
        machine: &Machine,
    ) {
        let shape = &self.shape;
        let (sequence, kv_head) = (head / shape.kv_heads, head % shape.kv_heads);
        let positions = shape.table * shape.page_size;
        // SAFETY: one number for each sequence, and one layer.
        let (filled, tokens, layer) = unsafe {
            (
                clamped(*arrays.filled.add(sequence), positions),
                clamped(*arrays.tokens.add(sequence), shape.queries.div_ceil(shape.group)),
                clamped(*arrays.layer, shape.layers - 1),
            )
        };
        let row_bytes = shape.depth * shape.dtype.size_bytes();
        let place = (head * shape.queries + rows.start) * row_bytes;
        let count = rows.end.min(tokens * shape.group).saturating_sub(rows.start);
        let (query, out) = (arrays.query.wrapping_add(place), arrays.out.wrapping_add(place));
        // SAFETY: rows of the output that are this task's own.
        unsafe { std::ptr::write_bytes(out.wrapping_add(count * row_bytes), 0, (rows.len() - count) * row_bytes) };
        if count == 0 {
            return;
        }
        let written = (filled + tokens).min(positions);
        let task = Task { shape, arrays, sequence, kv_head, layer, filled, written, first: rows.start, count, query };
        // SAFETY: the caller's promise.
        unsafe {
            match &self.many {
                Some(many) if count > FEW => many.run(&task, sums, room, machine),
                _ => self.run_pages(&task, sums, machine),
            }
        }
        if shape.sinks == Sinks::Present {
            for row in 0..count {
                // SAFETY: one number for each head.
                let sink = unsafe { *arrays.sinks.add(kv_head * shape.group + (rows.start + row) % shape.group) };
                sums.add_sink(row, shape.depth, sink);
            }
        }
        wide_loop(machine, Store { sums, count, shape, out });
    }

    /// A few queries meet page after page.
    ///
    /// # Safety
    /// As [`Paged::run_rows`].
    unsafe fn run_pages(&self, task: &Task<'_>, sums: &mut Sums, machine: &Machine) {
        let &Task { shape, count, query, written, .. } = task;
        let (depth, keys, width) = (shape.depth, shape.page_size, shape.dtype.size_bytes());
        sums.fit(count, keys, shape);
        let seen = task.all_seen();
        for at in seen.start / keys..seen.end.div_ceil(keys) {
            let base = at * keys;
            // SAFETY: keys that are seen are within the table; `count` queries and one page, and the memory was made for them.
            let values = unsafe {
                let (page, values) = task.page(at);
                self.multiply(&self.scores, count, (query, depth * width), page, (&mut sums.scores[..], keys));
                values
            };
            wide_loop(machine, Weigh { sums, task, keys, base });
            if written < base + keys {
                // SAFETY: the first positions of a page.
                let values = unsafe { Values::new(values, (written - base) * depth, shape.dtype) };
                wide_loop(machine, AddValues { sums, count, depth, keys, values });
                continue;
            }
            let (left, part) = sums.weights(shape.dtype);
            // SAFETY: as above.
            unsafe { self.multiply(&self.values, count, (left, keys * width), values, (part, depth)) };
            wide_loop(machine, AddPart { sums, count, depth });
        }
    }

    /// Rows of `left`, so many bytes apart, times a page.
    ///
    /// # Safety
    /// As [`Plan::run_rows`]; `out` has `count` rows of so many elements.
    unsafe fn multiply(
        &self,
        plan: &Plan,
        count: usize,
        (left, row_bytes): (*const u8, usize),
        page: *const u8,
        (out, out_row): (&mut [f32], usize),
    ) {
        for begin in (0..count).step_by(VECTORS) {
            let rows = VECTORS.min(count - begin);
            let to = &mut out[begin * out_row..(begin + rows) * out_row];
            // SAFETY: the caller's promise.
            unsafe {
                let left = left.wrapping_add(begin * row_bytes);
                plan.run_rows(rows, left, page, to.as_mut_ptr().cast(), None);
            }
        }
    }
}

/// Queries times keys, and their weights times values, with a key or a value in each row.
fn problems(shape: &PagedShape, queries: usize, keys: usize) -> [MatMul; 2] {
    let operand = |row_stride: usize, col_stride: usize| Operand {
        dtype: shape.dtype,
        packing: Packing::Bytes,
        row_stride: row_stride as isize,
        col_stride: col_stride as isize,
        batch_stride: 0,
    };
    let target = |row: usize| Target { dtype: DType::F32, row_stride: row as isize, batch_stride: 0 };
    let depth = shape.depth;
    let scores = MatMul {
        batch: 1,
        m: queries,
        n: keys,
        k: depth,
        lhs: operand(depth, 1),
        rhs: operand(1, depth),
        out: target(keys),
    };
    let values = MatMul {
        n: depth,
        k: keys,
        lhs: operand(keys, 1),
        rhs: operand(depth, 1),
        out: target(depth),
        ..scores.clone()
    };
    [scores, values]
}
