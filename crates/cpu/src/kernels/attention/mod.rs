//! Two matmuls with a loop over rows between them: attention without its matrix of weights.
//!
//! In general the first matmul gives a block of rows of scores, the loop turns whole rows of them into weights while they
//! are in the cache, and the second matmul consumes them. Where the loop is a softmax, [`tiles`] do the same without whole
//! rows, and leave out what a mask hides; where the numbers make that a difference, rows are computed whole after all.
#![allow(unsafe_code)]

#[cfg(target_arch = "x86_64")]
mod avx512;
pub(crate) mod paged;
#[cfg(test)]
mod tests;
mod tiles;
mod weigh;

use std::cell::RefCell;
use std::ops::Range;
use std::sync::OnceLock;

use super::Cores;
use super::loops::Ready;
use super::machine::Machine;
use super::matmul::{MatMul, Plan};
use crate::footprint::{Footprint, Written, product};
use tiles::Outcome;
pub(crate) use tiles::{Hiding, Mask, Softmax, Tiled};

/// Bytes of scores one block may have: they stay in the second-level cache beside what is multiplied.
const BLOCK_BYTES: usize = 512 << 10;

/// The shapes and kernels of one attention.
#[derive(Debug)]
pub(crate) struct Attention {
    /// Of one matrix of the batch each.
    scores: (MatMul, Plan),
    values: (MatMul, Plan),
    /// Over `[batch, rows, columns]` of the scores.
    weights: Ready,
    /// For each array the loop reads: the position among the other arrays, or `None` for the scores.
    reads: Vec<Option<usize>>,
    batch: usize,
    /// Rows of one block.
    block: usize,
    /// Whether weights may lie where the scores are.
    in_place: bool,
    tiled: Option<Tiled>,
    /// Panels of one matrix for each task of `tiled`, found at the first run.
    parts: OnceLock<Vec<Range<usize>>>,
}

/// Where the arrays of one run are.
pub(crate) struct Arrays<'a> {
    /// Factors of the scores, and the right factor of the result.
    pub(crate) left: *const u8,
    pub(crate) right: *const u8,
    pub(crate) values: *const u8,
    /// What the loop reads beside the scores.
    pub(crate) others: &'a [*const u8],
    pub(crate) out: *mut u8,
}

// SAFETY: threads read the inputs and write disjoint rows of the output.
unsafe impl Sync for Arrays<'_> {}

thread_local! {
    /// Blocks of scores and weights, kept between runs.
    static BLOCKS: RefCell<[Vec<u64>; 2]> = const { RefCell::new([Vec::new(), Vec::new()]) };
}

impl Attention {
    /// `scores` and `values` are whole problems of one batch size; the loop reads the scores wherever `reads` has `None`
    /// and writes one array, the weights, both in order. `tiled` does the same where the loop is a softmax.
    pub(crate) fn new(
        scores: MatMul,
        values: MatMul,
        weights: Ready,
        reads: Vec<Option<usize>>,
        tiled: Option<Tiled>,
        machine: &Machine,
    ) -> Attention {
        let batch = scores.batch;
        let one = |problem: MatMul| {
            let single = MatMul { batch: 1, ..problem.clone() };
            (problem, single.plan(machine))
        };
        let row_bytes = scores.n * scores.out.dtype.size_bytes().max(values.lhs.dtype.size_bytes());
        let block = (BLOCK_BYTES / row_bytes.max(1)).clamp(14, 256).min(scores.m.max(1));
        let same_width = scores.out.dtype == values.lhs.dtype;
        let own = reads.iter().enumerate().filter(|(_, read)| read.is_none());
        let in_place = same_width && own.clone().all(|(n, _)| weights.in_place_ok(n, 0));
        Attention {
            scores: one(scores),
            values: one(values),
            weights,
            reads,
            batch,
            block,
            in_place,
            tiled,
            parts: OnceLock::new(),
        }
    }

    /// What it touches: both factors of the scores and the values, at these distances in bytes from the starts of their
    /// arrays, what the loop reads beside the scores, and the result.
    pub(crate) fn footprint(&self, offsets: [isize; 3]) -> Option<Footprint> {
        let (scores, values) = (&self.scores.0, &self.values.0);
        let dims = [self.batch, scores.m, scores.n];
        let is_chain = scores.batch == self.batch && [values.batch, values.m, values.k] == dims;
        let loops = self.weights.footprint()?;
        if !is_chain || !self.weights.spans(&dims) || loops.reads.len() != self.reads.len() {
            return None;
        }
        let mut reads =
            vec![scores.lhs_reads(offsets[0])?, scores.rhs_reads(offsets[1])?, values.rhs_reads(offsets[2])?];
        let elements = product(&dims)?;
        let fits = |bytes: usize, width: usize| elements.checked_mul(width).is_some_and(|room| bytes <= room);
        for (&read, &bytes) in self.reads.iter().zip(&loops.reads) {
            match read {
                Some(n) if 3 + n == reads.len() => reads.push(bytes),
                Some(_) => return None,
                None if fits(bytes, scores.out.dtype.size_bytes()) => {}
                None => return None,
            }
        }
        // The loop writes the weights, of which there are blocks only.
        let [Written::Whole(weights)] = loops.writes[..] else { return None };
        if !fits(weights, values.lhs.dtype.size_bytes()) {
            return None;
        }
        Some(Footprint { reads, writes: vec![Written::Whole(values.out_writes()?)] })
    }

    /// Computes the result.
    ///
    /// # Safety
    /// The arrays have the shapes of the problems and of the loop; `out` overlaps none of the others.
    pub(crate) unsafe fn run(&self, arrays: &Arrays<'_>, cores: &Cores) {
        let (rows, threads) = (self.scores.0.m, cores.pool.threads());
        if let Some(tiled) = &self.tiled {
            // One part packs the keys of its matrix once; more parts where matrices do not fill the threads evenly.
            let least = if self.batch.is_multiple_of(threads) { 1 } else { (4 * threads).div_ceil(self.batch.max(1)) };
            let parts = self.parts.get_or_init(|| tiled.parts(least));
            cores.pool.run(self.batch * parts.len(), &|_, task| {
                // The last queries of a mask often see most: the longest parts first.
                let (batch, part) = (task % self.batch, parts[parts.len() - 1 - task / self.batch].clone());
                let problem = (&self.scores.0, &self.values.0);
                let queries = tiled.queries(&part, rows);
                // SAFETY: the caller's promise; parts are disjoint rows of one matrix.
                unsafe {
                    if tiled.run(problem, arrays, batch, part) == Outcome::Unfit {
                        self.run_rows(arrays, batch, queries);
                    }
                }
            });
            return;
        }
        let blocks = rows.div_ceil(self.block);
        // Each task packs the right factors for itself: few tasks for each matrix, but enough for all threads.
        let parts = (2 * threads).div_ceil(self.batch.max(1)).min(blocks).max(1);
        cores.pool.run(self.batch * parts, &|_, task| {
            let (batch, part) = (task / parts, task % parts);
            let range = blocks * part / parts * self.block..(blocks * (part + 1) / parts * self.block).min(rows);
            // SAFETY: the caller's promise; parts are disjoint rows of one matrix.
            unsafe { self.run_rows(arrays, batch, range) };
        });
    }

    /// # Safety
    /// As [`Attention::run`], for some rows of one matrix.
    unsafe fn run_rows(&self, arrays: &Arrays<'_>, batch: usize, rows: Range<usize>) {
        let ((scores, scores_plan), (values, values_plan)) = (&self.scores, &self.values);
        let step = |base: *const u8, elements: isize, bytes: usize| base.wrapping_offset(elements * bytes as isize);
        let matrix = |base: *const u8, operand: &super::matmul::Operand| {
            step(base, batch as isize * operand.batch_stride, operand.dtype.size_bytes())
        };
        let left = matrix(arrays.left, &scores.lhs);
        let (right, third) = (matrix(arrays.right, &scores.rhs), matrix(arrays.values, &values.rhs));
        // SAFETY: the right factors of this matrix.
        let (packed_right, packed_third) = unsafe { (scores_plan.pack_rhs(right), values_plan.pack_rhs(third)) };
        let columns = scores.n;
        let (score_bytes, weight_bytes) = (scores.out.dtype.size_bytes(), values.lhs.dtype.size_bytes());
        let out_bytes = values.out.dtype.size_bytes();
        BLOCKS.with_borrow_mut(|memory| {
            let words = |bytes: usize| (self.block * columns * bytes).div_ceil(8) + 8;
            let sizes = [words(score_bytes), if self.in_place { 0 } else { words(weight_bytes) }];
            for (vector, size) in memory.iter_mut().zip(sizes) {
                if vector.len() < size {
                    vector.resize(size, 0);
                }
            }
            let [first, second] = memory.each_mut().map(|vector| {
                let start = vector.as_mut_ptr().cast::<u8>();
                start.wrapping_add(start.align_offset(64))
            });
            let second = if self.in_place { first } else { second };
            for start in rows.clone().step_by(self.block) {
                let count = self.block.min(rows.end - start);
                let left = step(left, start as isize * scores.lhs.row_stride, scores.lhs.dtype.size_bytes());
                // SAFETY: `count` rows of the left factor; the block has room for as many rows of scores.
                unsafe { scores_plan.run_rows(count, left, right, first, Some((&packed_right, 0))) };
                // The loop counts from the start of the whole arrays, of which only this block is there.
                let before = ((batch * scores.m + start) * columns) as isize;
                let whole = |base: *mut u8, bytes: usize| base.wrapping_offset(-before * bytes as isize);
                let mut reads = [std::ptr::null(); 32];
                for (to, read) in reads.iter_mut().zip(&self.reads) {
                    *to = read.map_or(whole(first, score_bytes).cast_const(), |n| arrays.others[n]);
                }
                let ranges = [batch..batch + 1, start..start + count, 0..columns];
                // SAFETY: within the ranges the loop touches rows of this block and what the caller promised.
                unsafe {
                    self.weights.run_box(&reads[..self.reads.len()], &[whole(second, weight_bytes)], &ranges);
                    let place = (batch as isize * values.out.batch_stride) + start as isize * values.out.row_stride;
                    let out = arrays.out.wrapping_offset(place * out_bytes as isize);
                    values_plan.run_rows(count, second, third, out, Some((&packed_third, 0)));
                }
            }
        });
    }

    /// Whether blocks are worth it: the scores are too large for the cache, and what every task packs for itself is not.
    pub(crate) fn pays(scores: &MatMul, values: &MatMul) -> bool {
        let packed = |problem: &MatMul| problem.k * problem.n * problem.rhs.dtype.size_bytes();
        let rows_bytes = scores.m * scores.n * scores.out.dtype.size_bytes();
        rows_bytes >= BLOCK_BYTES / 4 && packed(scores).max(packed(values)) <= 4 * BLOCK_BYTES
    }

    /// The sizes, for profiles and dumps.
    pub(crate) fn label(&self) -> String {
        let (scores, values) = (&self.scores.0, &self.values.0);
        let way = if self.tiled.is_some() { " by tiles" } else { "" };
        let sizes = [self.batch, scores.m, scores.n, scores.k, values.n].map(|n| n.to_string()).join("x");
        format!("attention {} {sizes}{way}", scores.lhs.dtype)
    }

    /// Arrays the loop may read: those beside the scores and the scores themselves.
    pub(crate) const MAX_READS: usize = 32;
}
