//! Attention to a paged KV cache: pages are read where they lie, by their numbers in a table.
//!
//! A task has the queries of one KV head of one sequence, or a block of them. It goes through the pages that they see, with an
//! online softmax: nothing is gathered, and no more than the scores of one page is in memory.
#![allow(unsafe_code)]

use std::cell::RefCell;
use std::ops::Range;

use tensor::DType;

use crate::footprint::{Footprint, Written, product};
use crate::kernels::Cores;
use crate::kernels::loops::math::{exp_f32, tanh_f32};
use crate::kernels::machine::Machine;
use crate::kernels::matmul::{MatMul, Operand, Plan, Target};
use crate::kernels::wide::wide;
use crate::memory::Packing;

/// Queries of one task: their scores of a page stay in the second-level cache.
const BLOCK: usize = 128;
/// Queries that matmuls take as vectors, so that they read a page as it lies.
const VECTORS: usize = 4;
/// Up to so many queries are taken as vectors; for more it pays to rearrange the page.
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
    /// Queries times the keys of a page.
    scores: Plan,
    /// Weights times the values of a page.
    values: Plan,
    /// Queries of one call of a plan.
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

/// What a task needs besides: scores of a page, weights in the type of the values, sums.
#[derive(Default)]
struct Block {
    scores: Vec<f32>,
    weights: Vec<u16>,
    part: Vec<f32>,
    sums: Vec<f32>,
    /// The largest score of each query so far, the sum of its weights, and what earlier sums are multiplied by.
    max: Vec<f32>,
    sum: Vec<f32>,
    factor: Vec<f32>,
}

thread_local! {
    static BLOCKS: RefCell<Block> = RefCell::new(Block::default());
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
        let rows = shape.queries.min(BLOCK);
        let operand = |row_stride: usize, col_stride: usize| Operand {
            dtype: shape.dtype,
            packing: Packing::Bytes,
            row_stride: row_stride as isize,
            col_stride: col_stride as isize,
            batch_stride: 0,
        };
        let target = |row: usize| Target { dtype: DType::F32, row_stride: row as isize, batch_stride: 0 };
        let (depth, page) = (shape.depth, shape.page_size);
        let problem = MatMul {
            batch: 1,
            m: rows,
            n: page,
            k: depth,
            lhs: operand(depth, 1),
            rhs: operand(1, depth),
            out: target(page),
        };
        let of_values = MatMul {
            n: depth,
            k: page,
            lhs: operand(page, 1),
            rhs: operand(depth, 1),
            out: target(depth),
            ..problem.clone()
        };
        Paged { scores: problem.plan(machine), values: of_values.plan(machine), rows, shape }
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
            BLOCKS.with_borrow_mut(|memory| unsafe { self.run_rows(arrays, head, rows, memory, &cores.machine) });
        });
    }

    /// # Safety
    /// As [`Paged::run`], for some queries of one KV head of one sequence.
    unsafe fn run_rows(
        &self,
        arrays: &PagedArrays,
        head: usize,
        rows: Range<usize>,
        memory: &mut Block,
        machine: &Machine,
    ) {
        let shape = &self.shape;
        let (width, depth, page_size) = (shape.dtype.size_bytes(), shape.depth, shape.page_size);
        let (sequence, kv_head) = (head / shape.kv_heads, head % shape.kv_heads);
        let clamped = |number: i32, most: usize| usize::try_from(number).unwrap_or(0).min(most);
        // SAFETY: one number for each sequence, and one layer.
        let (filled, tokens, layer) = unsafe {
            (
                clamped(*arrays.filled.add(sequence), shape.table * page_size),
                clamped(*arrays.tokens.add(sequence), shape.queries.div_ceil(shape.group)),
                clamped(*arrays.layer, shape.layers - 1),
            )
        };
        let row_bytes = depth * width;
        let place = (head * shape.queries + rows.start) * row_bytes;
        let count = rows.end.min(tokens * shape.group).saturating_sub(rows.start);
        let (query, out) = (arrays.query.wrapping_add(place), arrays.out.wrapping_add(place));
        // SAFETY: rows of the output that are this task's own.
        unsafe { std::ptr::write_bytes(out.wrapping_add(count * row_bytes), 0, (rows.len() - count) * row_bytes) };
        if count == 0 {
            return;
        }
        memory.fit(count, shape);
        let token = |row: usize| (rows.start + row) / shape.group;
        let (first, last) = (shape.seen(filled, token(0)).start, shape.seen(filled, token(count - 1)).end);
        // Positions that are written: what lies behind them in the last page is of nobody, and may be anything.
        let written = (filled + tokens).min(shape.table * page_size);
        for at in first / page_size..last.div_ceil(page_size) {
            // SAFETY: an entry of the table.
            let page = clamped(unsafe { *arrays.table.add(sequence * shape.table + at) }, shape.pages - 1);
            let of_page = ((layer * shape.pages + page) * shape.kv_heads + kv_head) * page_size * row_bytes;
            let (keys, values) = (arrays.keys.wrapping_add(of_page), arrays.values.wrapping_add(of_page));
            let base = at * page_size;
            // SAFETY: `count` queries and one page; the memory was made for them.
            unsafe {
                self.multiply(&self.scores, count, (query, row_bytes), keys, (&mut memory.scores[..], page_size));
            }
            let seen = |row: usize| {
                let seen = shape.seen(filled, token(row));
                let within = |key: usize| key.clamp(base, base + page_size) - base;
                within(seen.start)..within(seen.end)
            };
            wide(machine, || memory.weigh(count, shape, seen));
            if written < base + page_size {
                // SAFETY: the first positions of a page.
                let values = unsafe { Values::new(values, (written - base) * depth, shape.dtype) };
                wide(machine, || memory.add_values(count, shape, &values));
                continue;
            }
            let Block { scores, weights, part, .. } = memory;
            let left = match shape.dtype {
                DType::BF16 => weights.as_ptr().cast::<u8>(),
                _ => scores.as_ptr().cast::<u8>(),
            };
            // SAFETY: as above.
            unsafe { self.multiply(&self.values, count, (left, page_size * width), values, (&mut part[..], depth)) };
            wide(machine, || memory.add_part(count, depth));
        }
        if shape.sinks == Sinks::Present {
            for row in 0..count {
                // SAFETY: one number for each head.
                let sink = unsafe { *arrays.sinks.add(kv_head * shape.group + (rows.start + row) % shape.group) };
                memory.add_sink(row, depth, sink);
            }
        }
        let Block { sums, sum, .. } = memory;
        wide(machine, || {
            for (row, total) in sum.iter().enumerate().take(count) {
                let inverse = if *total == 0.0 { 0.0 } else { 1.0 / total };
                let results = &sums[row * depth..(row + 1) * depth];
                let out = out.wrapping_add(row * row_bytes);
                for (n, result) in results.iter().enumerate() {
                    // SAFETY: a row of the output that is this task's own.
                    unsafe {
                        match shape.dtype {
                            DType::BF16 => *out.cast::<u16>().add(n) = to_bf16(result * inverse),
                            _ => *out.cast::<f32>().add(n) = result * inverse,
                        }
                    }
                }
            }
        });
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
        let step = if count <= FEW { VECTORS } else { count };
        for begin in (0..count).step_by(step) {
            let rows = step.min(count - begin);
            let to = &mut out[begin * out_row..(begin + rows) * out_row];
            // SAFETY: the caller's promise.
            unsafe {
                let left = left.wrapping_add(begin * row_bytes);
                plan.run_rows(rows, left, page, to.as_mut_ptr().cast(), None);
            }
        }
    }
}

/// The values of a page, in their type.
enum Values<'a> {
    Float(&'a [f32]),
    Bf16(&'a [u16]),
}

impl Values<'_> {
    /// # Safety
    /// So many elements of this type are there.
    unsafe fn new(at: *const u8, elements: usize, dtype: DType) -> Self {
        // SAFETY: the caller's promise.
        unsafe {
            match dtype {
                DType::BF16 => Values::Bf16(std::slice::from_raw_parts(at.cast(), elements)),
                _ => Values::Float(std::slice::from_raw_parts(at.cast(), elements)),
            }
        }
    }
}

impl Block {
    /// Room for so many queries, of which nothing was seen yet.
    fn fit(&mut self, count: usize, shape: &PagedShape) {
        let grow = |vector: &mut Vec<f32>, size: usize| {
            if vector.len() < size {
                vector.resize(size, 0.0);
            }
        };
        grow(&mut self.scores, count * shape.page_size);
        grow(&mut self.part, count * shape.depth);
        grow(&mut self.sums, count * shape.depth);
        for vector in [&mut self.max, &mut self.sum, &mut self.factor] {
            grow(vector, count);
        }
        if shape.dtype == DType::BF16 && self.weights.len() < count * shape.page_size {
            self.weights.resize(count * shape.page_size, 0);
        }
        self.sums[..count * shape.depth].fill(0.0);
        self.sum[..count].fill(0.0);
        self.max[..count].fill(f32::MIN);
    }

    /// Makes the scores of a page to weights, 0 where a query does not see the key.
    #[inline(always)]
    fn weigh(&mut self, count: usize, shape: &PagedShape, seen: impl Fn(usize) -> Range<usize>) {
        let page_size = shape.page_size;
        for row in 0..count {
            let scores = &mut self.scores[row * page_size..(row + 1) * page_size];
            let seen = seen(row);
            scores[..seen.start].fill(0.0);
            scores[seen.end..].fill(0.0);
            let visible = &mut scores[seen];
            match shape.soft_cap {
                None => visible.iter_mut().for_each(|score| *score *= shape.scale),
                Some(cap) => {
                    visible.iter_mut().for_each(|score| *score = cap * tanh_f32::<true>(*score * shape.scale / cap));
                }
            }
            let most = largest(visible).max(self.max[row]);
            let factor = exp_f32::<true>(self.max[row] - most);
            for score in visible.iter_mut() {
                *score = exp_f32::<true>(*score - most);
            }
            (self.max[row], self.factor[row]) = (most, factor);
            self.sum[row] = self.sum[row] * factor + total(visible);
            if shape.dtype == DType::BF16 {
                let weights = &mut self.weights[row * page_size..(row + 1) * page_size];
                weights.iter_mut().zip(scores).for_each(|(weight, score)| *weight = to_bf16(*score));
            }
        }
    }

    /// A score without a value.
    fn add_sink(&mut self, row: usize, depth: usize, sink: f32) {
        let most = self.max[row].max(sink);
        let factor = (self.max[row] - most).exp();
        self.sum[row] = self.sum[row] * factor + (sink - most).exp();
        self.sums[row * depth..(row + 1) * depth].iter_mut().for_each(|sum| *sum *= factor);
    }

    /// Adds the weighted values of a page.
    #[inline(always)]
    fn add_part(&mut self, count: usize, depth: usize) {
        for row in 0..count {
            let factor = self.factor[row];
            let part = &self.part[row * depth..(row + 1) * depth];
            let sums = &mut self.sums[row * depth..(row + 1) * depth];
            sums.iter_mut().zip(part).for_each(|(sum, part)| *sum = sum.mul_add(factor, *part));
        }
    }

    /// Adds values of the first keys of a page, weighted.
    #[inline(always)]
    fn add_values(&mut self, count: usize, shape: &PagedShape, values: &Values<'_>) {
        let (depth, page_size) = (shape.depth, shape.page_size);
        for row in 0..count {
            let factor = self.factor[row];
            let sums = &mut self.sums[row * depth..(row + 1) * depth];
            sums.iter_mut().for_each(|sum| *sum *= factor);
            let weights = &self.scores[row * page_size..(row + 1) * page_size];
            match values {
                Values::Float(values) => add_weighted(sums, weights, values, |value| *value),
                Values::Bf16(values) => add_weighted(sums, weights, values, |value| from_bf16(*value)),
            }
        }
    }
}

/// Adds rows of values, each times its weight.
#[inline(always)]
fn add_weighted<T>(sums: &mut [f32], weights: &[f32], values: &[T], number: impl Fn(&T) -> f32) {
    for (values, weight) in values.chunks_exact(sums.len()).zip(weights) {
        if *weight != 0.0 {
            sums.iter_mut().zip(values).for_each(|(sum, value)| *sum = weight.mul_add(number(value), *sum));
        }
    }
}

/// The largest of some numbers, lane by lane so that vectors find it; NaN stays.
#[inline(always)]
fn largest(numbers: &[f32]) -> f32 {
    let mut most = [f32::MIN; 16];
    let chunks = numbers.chunks_exact(16);
    let rest = chunks.remainder().iter().copied().fold(f32::MIN, larger);
    for chunk in chunks {
        most.iter_mut().zip(chunk).for_each(|(most, number)| *most = larger(*most, *number));
    }
    most.iter().copied().fold(rest, larger)
}

#[inline(always)]
fn larger(most: f32, number: f32) -> f32 {
    if number <= most { most } else { number }
}

/// The sum of some numbers, lane by lane.
#[inline(always)]
fn total(numbers: &[f32]) -> f32 {
    let mut sums = [0.0; 16];
    let chunks = numbers.chunks_exact(16);
    let rest: f32 = chunks.remainder().iter().sum();
    for chunk in chunks {
        sums.iter_mut().zip(chunk).for_each(|(sum, number)| *sum += number);
    }
    sums.iter().sum::<f32>() + rest
}

#[inline(always)]
fn from_bf16(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits) << 16)
}

/// The nearest, to even where there are two; NaN stays.
#[inline(always)]
fn to_bf16(number: f32) -> u16 {
    let bits = number.to_bits();
    let rounded = (bits.wrapping_add(0x7fff + ((bits >> 16) & 1)) >> 16) as u16;
    if number.is_nan() { (bits >> 16) as u16 | 0x40 } else { rounded }
}
