//! Matmuls of up to four vectors with a matrix, with AVX-512: the matrix is read once, as it lies in memory.
#![allow(unsafe_code)]
// Vectors, steps and lanes are indices into several arrays at once.
#![allow(clippy::needless_range_loop)]

use std::arch::x86_64::*;
use std::ops::Range;

use tensor::DType;

use super::avx512::{
    FromBf16, FromE4M3, FromE5M2, FromF16, FromF32, FromSigned, FromUnsigned, Wide, first, round_sums, with_wide,
};
use super::bits::{self, Bits};
use super::digits::{self, Digits, Precision, Quad};
use super::drive::{Job, Tasks};
use super::lanes::Start;
use super::narrow::{is_byte, small_levels};
use super::pack::{self, Rounded, Strip, Sums};
use super::scratch::{Loan, Slot};
use crate::memory::Packing;

/// The most vectors.
const VECTORS: usize = 4;
const LANES: usize = 16;
/// Outputs whose sums stay in L1 while the matrix goes by; also runs of it that are long enough to be read at full speed.
const BLOCK: usize = 4096;
/// Steps of a task that has some of them only.
const FEWEST_STEPS: usize = 64;
/// Elements by which a row's lines are fetched before they are read.
const AHEAD: usize = 64;

/// Steps of a row that is long enough to be fetched within itself.
const LONG: usize = 8 * AHEAD;

/// The most steps whose sums of digits fit 32 bits.
const DIGIT_STEPS: usize = 1 << 16;

/// How the matrix lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    /// Steps are rows of it: outputs side by side.
    Stream,
    /// Outputs are rows of it: steps side by side.
    Dot,
}

/// Up to four vectors times a matrix of `steps × outputs`.
struct Skinny<'a> {
    job: &'a Job<'a>,
    shape: Shape,
    /// The vectors as f32: step by step for [`Shape::Stream`], one after the other for [`Shape::Dot`].
    vectors: *const f32,
    /// The digits of the one vector, their unit and how many there are, where it is multiplied so.
    digits: Option<(*const Quad, f32, Precision)>,
    count: usize,
    matrix: *const u8,
    dtype: DType,
    packing: Packing,
    /// Elements from one row of the matrix, as `shape` has it, to the next.
    matrix_row: isize,
    outputs: usize,
    steps: usize,
    /// The result of vector `i` and output `j` is at `i·out_vector + j·out_output`.
    out_vector: isize,
    out_output: isize,
}

// SAFETY: addresses of memory that outlives the job; tasks write disjoint outputs.
unsafe impl Sync for Skinny<'_> {}

/// Computes a job if it is skinny: false, and nothing done, if not.
///
/// # Safety
/// As [`super::drive::drive`], for a job of f32, bf16 or f16 that is computed in f32, on a machine with AVX-512.
pub(super) unsafe fn drive(job: &Job<'_>, tasks: Tasks<'_>) -> bool {
    let problem = job.problem;
    let (lhs, rhs) = (&problem.lhs, &problem.rhs);
    if job.packed.is_some() || problem.k == 0 || job.rows * problem.n < 2 * LANES {
        return false;
    }
    let is_packed = rhs.packing == Packing::Bits;
    let swapped = problem.n <= VECTORS && lhs.col_stride == 1 && job.rows > VECTORS && !is_packed;
    let shape = if swapped {
        Shape::Dot
    } else if job.rows > VECTORS {
        return false;
    } else if rhs.col_stride == 1 {
        Shape::Stream
    } else if rhs.row_stride == 1 {
        Shape::Dot
    } else {
        return false;
    };
    let count = if swapped { problem.n } else { job.rows };
    let loan = Loan::take(Slot::Shared, count * problem.k * size_of::<f32>());
    let vectors = loan.at::<f32>();
    // The vectors are the rows of the left matrix, or the columns of the right one.
    let (side, at, vector, step) = if swapped {
        (rhs, job.rhs, rhs.col_stride, rhs.row_stride)
    } else {
        (lhs, job.lhs, lhs.row_stride, lhs.col_stride)
    };
    let strip =
        Strip { dtype: side.dtype, packing: side.packing, at, lane: vector, step, lanes: count, steps: problem.k };
    // SAFETY: the vectors are readable, and the loan has room for them.
    unsafe {
        if shape == Shape::Stream {
            pack::pack_f32(&strip, count, vectors);
        } else {
            for i in 0..count {
                let at = at.wrapping_offset(i as isize * vector * side.dtype.size_bytes() as isize);
                pack::pack_f32(&Strip { at, lanes: 1, ..strip }, 1, vectors.add(i * problem.k));
            }
        }
    }
    let has_digits = job.vnni
        && count == 1
        && shape == Shape::Stream
        && is_byte(rhs.dtype)
        && (!is_packed || rhs.dtype.bits() == 4)
        && problem.k <= DIGIT_STEPS;
    let digit_loan = has_digits.then(|| Loan::take(Slot::Left, digits::room(problem.k)));
    let digits = digit_loan.as_ref().and_then(|loan| {
        let precision = if side.dtype == DType::F32 { Precision::Three } else { Precision::Two };
        // SAFETY: the one vector was just packed, and the loan has room for its digits.
        let unit = unsafe { digits::split(vectors, problem.k, precision, loan.at()) }?;
        Some((loan.at::<Quad>().cast_const(), unit, precision))
    });
    let (matrix, other) = if swapped { (job.lhs, lhs) } else { (job.rhs, rhs) };
    let skinny = Skinny {
        job,
        shape,
        vectors,
        digits,
        count,
        matrix,
        dtype: other.dtype,
        packing: other.packing,
        matrix_row: if swapped || shape == Shape::Stream { other.row_stride } else { other.col_stride },
        outputs: if swapped { job.rows } else { problem.n },
        steps: problem.k,
        out_vector: if swapped { 1 } else { problem.out.row_stride },
        out_output: if swapped { problem.out.row_stride } else { 1 },
    };
    let finish = |worker: usize, outputs: Range<usize>| {
        if let Some(finish) = job.finish {
            if swapped { finish(worker, outputs, 0..problem.n) } else { finish(worker, 0..job.rows, outputs) }
        }
    };
    let skinny = &skinny;
    let is_narrow = skinny.outputs < job.threads * BLOCK && skinny.steps >= job.threads * FEWEST_STEPS;
    if job.threads > 1 && shape == Shape::Stream && is_narrow {
        // SAFETY: as this function.
        unsafe { skinny.by_steps(&finish, tasks) };
        return true;
    }
    let unit = if is_packed { bits::CHUNK } else { 4 * LANES };
    let units = skinny.outputs.div_ceil(unit);
    let most = match (job.threads, shape) {
        (..=1, _) => 1,
        (threads, Shape::Stream) => (skinny.outputs / BLOCK).clamp(threads, 4 * threads),
        (threads, Shape::Dot) => 4 * threads,
    };
    let parts = most.min(units);
    tasks(parts, &|worker, part| {
        let outputs = units * part / parts * unit..(units * (part + 1) / parts * unit).min(skinny.outputs);
        // SAFETY: the outputs are this task's own.
        unsafe { skinny.compute(outputs.clone(), 0..skinny.steps, None) };
        finish(worker, outputs);
    });
    true
}

/// Sums of f32 that are not the result yet: those of vector `i` begin at `at + i·row`.
#[derive(Clone, Copy)]
struct Partial {
    at: *mut f32,
    row: usize,
}

// SAFETY: an address; tasks write disjoint sums.
unsafe impl Sync for Partial {}

impl Skinny<'_> {
    /// Each thread takes some steps of all outputs, so that it reads the matrix in long runs; then the sums are added.
    ///
    /// # Safety
    /// As [`drive`], for [`Shape::Stream`].
    unsafe fn by_steps(&self, finish: &(dyn Fn(usize, Range<usize>) + Sync), tasks: Tasks<'_>) {
        let parts = self.job.threads;
        let row = self.outputs.next_multiple_of(bits::CHUNK);
        let loan = Loan::take(Slot::Sums, parts * self.count * row * size_of::<f32>());
        let sums = Partial { at: loan.at(), row };
        let of_part = |part: usize| {
            let sums: &Partial = &sums;
            Partial { at: sums.at.wrapping_add(part * self.count * row), row }
        };
        tasks(parts, &|_, part| {
            let steps = digits::part_of_steps(self.steps, part, parts);
            // SAFETY: the sums are this task's own.
            unsafe { self.compute(0..self.outputs, steps, Some(of_part(part))) };
        });
        tasks(1, &|worker, _| {
            let total = of_part(0);
            for i in 0..self.count * row {
                for part in 1..parts {
                    // SAFETY: sums of the loan, all written but those that pad a row, which are not used.
                    unsafe { *total.at.add(i) += *of_part(part).at.add(i) };
                }
            }
            // SAFETY: the sums are complete, and the result is this thread's.
            unsafe { self.store_block(total, 0..self.outputs) };
            finish(worker, 0..self.outputs);
        });
    }

    /// # Safety
    /// As [`drive`]; no other thread writes these outputs, or the sums where they are given.
    unsafe fn compute(&self, outputs: Range<usize>, steps: Range<usize>, sums: Option<Partial>) {
        // SAFETY: the caller's promise; the type is the matrix's own.
        unsafe {
            if let Some((quads, unit, precision)) = self.digits {
                let digits = (quads, unit);
                return match (self.packing, precision) {
                    (Packing::Bits, Precision::Two) => self.stream_digits::<true, 2>(digits, outputs, steps, sums),
                    (Packing::Bits, Precision::Three) => self.stream_digits::<true, 3>(digits, outputs, steps, sums),
                    (Packing::Bytes, Precision::Two) => self.stream_digits::<false, 2>(digits, outputs, steps, sums),
                    (Packing::Bytes, Precision::Three) => self.stream_digits::<false, 3>(digits, outputs, steps, sums),
                };
            }
            if self.packing == Packing::Bits {
                return match (self.dtype.bits(), self.count) {
                    (4, 1) => self.stream_bits::<4, 1>(outputs, steps, sums),
                    (4, 2) => self.stream_bits::<4, 2>(outputs, steps, sums),
                    (4, 3) => self.stream_bits::<4, 3>(outputs, steps, sums),
                    (4, _) => self.stream_bits::<4, 4>(outputs, steps, sums),
                    (_, 1) => self.stream_bits::<2, 1>(outputs, steps, sums),
                    (_, 2) => self.stream_bits::<2, 2>(outputs, steps, sums),
                    (_, 3) => self.stream_bits::<2, 3>(outputs, steps, sums),
                    (_, _) => self.stream_bits::<2, 4>(outputs, steps, sums),
                };
            }
            with_wide!(self.dtype, S => self.compute_as::<S>(outputs, steps, sums))
        }
    }

    /// # Safety
    /// As [`Skinny::compute`], with `S` of the matrix's type.
    unsafe fn compute_as<S: Wide>(&self, outputs: Range<usize>, steps: Range<usize>, sums: Option<Partial>) {
        // SAFETY: the caller's promise.
        unsafe {
            match (self.shape, self.count) {
                (Shape::Stream, 1) => self.stream::<S, 1, 8>(outputs, steps, sums),
                (Shape::Stream, 2) => self.stream::<S, 2, 8>(outputs, steps, sums),
                (Shape::Stream, 3) => self.stream::<S, 3, 4>(outputs, steps, sums),
                (Shape::Stream, _) => self.stream::<S, 4, 4>(outputs, steps, sums),
                (Shape::Dot, 1) => self.dot::<S, 1, 8>(outputs),
                (Shape::Dot, 2) => self.dot::<S, 2, 8>(outputs),
                (Shape::Dot, 3) => self.dot::<S, 3, 4>(outputs),
                (Shape::Dot, _) => self.dot::<S, 4, 4>(outputs),
            }
        }
    }

    /// Adds `M` vectors' products with `U` rows of the matrix at a time to sums that stay in L1.
    ///
    /// # Safety
    /// As [`Skinny::compute_as`]; there are `M` vectors.
    unsafe fn stream<S: Wide, const M: usize, const U: usize>(
        &self,
        outputs: Range<usize>,
        steps: Range<usize>,
        partial: Option<Partial>,
    ) {
        let in_result = partial.is_none() && self.job.problem.out.dtype == DType::F32;
        let own = (partial.is_none() && !in_result).then(|| Loan::take(Slot::Sums, M * BLOCK * size_of::<f32>()));
        for first in outputs.clone().step_by(BLOCK) {
            let block = first..(first + BLOCK).min(outputs.end);
            let (sums, row) = match (partial, &own) {
                (Some(partial), _) => (partial.at.wrapping_add(block.start), partial.row as isize),
                (None, Some(own)) => (own.at::<f32>(), BLOCK as isize),
                (None, None) => (self.job.out.cast::<f32>().wrapping_add(block.start), self.out_vector),
            };
            let whole = steps.start + steps.len() / U * U;
            // SAFETY: the sums are of this block; all steps are the matrix's.
            unsafe {
                for step in (steps.start..whole).step_by(U) {
                    let start = if step == steps.start { Start::Zero } else { Start::Result };
                    self.stream_steps::<S, M, U>(step, block.clone(), sums, row, start);
                }
                for step in whole..steps.end {
                    let start = if step == steps.start { Start::Zero } else { Start::Result };
                    self.stream_steps::<S, M, 1>(step, block.clone(), sums, row, start);
                }
                if own.is_some() {
                    self.store_block(Partial { at: sums, row: BLOCK }, block);
                }
            }
        }
    }

    /// As [`Skinny::stream`], for one vector of digits and a matrix of bytes, or of packed elements of 4 bits.
    ///
    /// # Safety
    /// As [`Skinny::compute`].
    unsafe fn stream_digits<const NIBBLES: bool, const D: usize>(
        &self,
        (quads, unit): (*const Quad, f32),
        outputs: Range<usize>,
        steps: Range<usize>,
        partial: Option<Partial>,
    ) {
        const COLUMNS: usize = digits::BLOCK;
        if steps.is_empty() {
            if let Some(partial) = partial {
                // SAFETY: sums of this task.
                unsafe { std::ptr::write_bytes(partial.at.wrapping_add(outputs.start), 0, outputs.len()) };
            }
            return;
        }
        let loan = Loan::take(Slot::Sums, 4 * COLUMNS * size_of::<f32>());
        let own = loan.at::<f32>();
        let rhs = &self.job.problem.rhs;
        for first in outputs.clone().step_by(COLUMNS) {
            let block = first..(first + COLUMNS).min(outputs.end);
            let at = steps.start as isize * self.matrix_row + block.start as isize;
            let part = Digits {
                quads: quads.wrapping_add(steps.start / digits::QUAD),
                unit,
                from: self.matrix.wrapping_offset(rhs.bytes(at)),
                row: rhs.bytes(self.matrix_row),
                steps: steps.len(),
                columns: block.len(),
                is_signed: self.dtype.is_signed_integer(),
                sums: own.wrapping_add(COLUMNS).cast(),
            };
            let to = partial.map_or(own, |partial| partial.at.wrapping_add(block.start));
            // SAFETY: the steps and the block are the matrix's, and begin at a byte; the sums are of this block, with room
            // for whole vectors.
            unsafe {
                part.multiply::<NIBBLES, D>(to);
                if partial.is_none() {
                    self.store_block(Partial { at: own, row: COLUMNS }, block);
                }
            }
        }
    }

    /// As [`Skinny::stream`], for a matrix of packed elements of `BITS` bits.
    ///
    /// # Safety
    /// As [`Skinny::compute`]; there are `M` vectors.
    unsafe fn stream_bits<const BITS: usize, const M: usize>(
        &self,
        outputs: Range<usize>,
        steps: Range<usize>,
        partial: Option<Partial>,
    ) {
        let own = partial.is_none().then(|| Loan::take(Slot::Sums, M * BLOCK * size_of::<f32>()));
        let rhs = &self.job.problem.rhs;
        for first in outputs.clone().step_by(BLOCK) {
            let block = first..(first + BLOCK).min(outputs.end);
            let sums = match (partial, &own) {
                (Some(partial), _) => Partial { at: partial.at.wrapping_add(block.start), ..partial },
                (None, own) => Partial { at: own.as_ref().map_or(std::ptr::null_mut(), Loan::at), row: BLOCK },
            };
            let part = Bits {
                levels: small_levels(self.dtype),
                from: self
                    .matrix
                    .wrapping_offset(rhs.bytes(steps.start as isize * self.matrix_row))
                    .wrapping_add(block.start * BITS / 8),
                row: rhs.bytes(self.matrix_row),
                columns: block.len(),
                vectors: self.vectors.wrapping_add(steps.start * M),
                sums: sums.at,
                sums_row: sums.row,
            };
            // SAFETY: the sums are of this block, which begins at a byte; all steps are the matrix's.
            unsafe {
                part.add::<BITS, M>(steps.len(), Start::Zero);
                part.order::<BITS>(0..M);
                if own.is_some() {
                    self.store_block(sums, block);
                }
            }
        }
    }

    /// Stores complete sums, of which the first is that of the first of the outputs, in the result.
    ///
    /// # Safety
    /// The sums are readable for the outputs, which no other thread writes.
    unsafe fn store_block(&self, sums: Partial, outputs: Range<usize>) {
        let dtype = self.job.problem.out.dtype;
        let at = self.job.out.wrapping_add(outputs.start * dtype.size_bytes());
        // SAFETY: the caller's promise; rows of the result do not overlap the sums.
        unsafe {
            if dtype == DType::F32 {
                for i in 0..self.count {
                    let to = at.cast::<f32>().wrapping_offset(i as isize * self.out_vector);
                    std::ptr::copy_nonoverlapping(sums.at.add(i * sums.row), to, outputs.len());
                }
            } else {
                let out = Rounded { at, dtype, row: self.out_vector };
                round_sums(Sums { at: sums.at, row: sums.row }, out, self.count, outputs.len());
            }
        }
    }

    /// # Safety
    /// As [`Skinny::stream`]; `sums` has `M` rows of the block's length.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    unsafe fn stream_steps<S: Wide, const M: usize, const U: usize>(
        &self,
        step: usize,
        block: Range<usize>,
        sums: *mut f32,
        sums_row: isize,
        start: Start,
    ) {
        let mut factors = [[_mm512_setzero_ps(); M]; U];
        for u in 0..U {
            for i in 0..M {
                // SAFETY: `M` vectors, step by step.
                factors[u][i] = _mm512_set1_ps(unsafe { *self.vectors.add((step + u) * M + i) });
            }
        }
        let from =
            self.matrix.cast::<S::Elem>().wrapping_offset(step as isize * self.matrix_row).wrapping_add(block.start);
        for j in (0..block.len()).step_by(LANES) {
            let mask = first((block.len() - j).min(LANES)) as u16;
            let mut totals = [_mm512_setzero_ps(); M];
            // Further on in these rows, or where the next ones begin.
            let next = if j + AHEAD < block.len() {
                from.wrapping_add(j + AHEAD)
            } else {
                from.wrapping_offset(U as isize * self.matrix_row).wrapping_add(j + AHEAD - block.len())
            };
            for u in 0..U {
                let line = next.wrapping_offset(u as isize * self.matrix_row);
                _mm_prefetch::<_MM_HINT_T0>(line.cast());
            }
            // SAFETY: the mask keeps to the block.
            unsafe {
                if start == Start::Result {
                    for i in 0..M {
                        totals[i] = _mm512_maskz_loadu_ps(mask, sums.offset(i as isize * sums_row).add(j));
                    }
                }
                for u in 0..U {
                    let row = S::wide(from.wrapping_offset(u as isize * self.matrix_row).wrapping_add(j), mask);
                    for i in 0..M {
                        totals[i] = _mm512_fmadd_ps(factors[u][i], row, totals[i]);
                    }
                }
                for i in 0..M {
                    _mm512_mask_storeu_ps(sums.offset(i as isize * sums_row).add(j), mask, totals[i]);
                }
            }
        }
    }

    /// Products of `M` vectors with rows of the matrix, `TOGETHER` rows at a time.
    ///
    /// # Safety
    /// As [`Skinny::compute_as`]; there are `M` vectors.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    unsafe fn dot<S: Wide, const M: usize, const TOGETHER: usize>(&self, outputs: Range<usize>) {
        let matrix = self.matrix.cast::<S::Elem>();
        // Further on in long rows; in short ones, the rows after these.
        let ahead = if self.steps >= LONG { AHEAD as isize } else { TOGETHER as isize * self.matrix_row };
        let whole = self.steps / LANES * LANES;
        let rest = first(self.steps - whole) as u16;
        for output in outputs.clone().step_by(TOGETHER) {
            let here = TOGETHER.min(outputs.end - output);
            // Past the last output the row before is read again.
            let rows: [*const S::Elem; TOGETHER] =
                std::array::from_fn(|j| matrix.wrapping_offset((output + j.min(here - 1)) as isize * self.matrix_row));
            let mut totals = [[_mm512_setzero_ps(); TOGETHER]; M];
            for step in (0..whole).step_by(LANES) {
                for row in rows {
                    _mm_prefetch::<_MM_HINT_T0>(row.wrapping_offset(ahead).wrapping_add(step).cast());
                }
                // SAFETY: whole vectors of steps that the rows and the vectors have.
                totals = unsafe { self.dot_lanes::<S, M, TOGETHER>(rows, step, u16::MAX, totals) };
            }
            if rest != 0 {
                // SAFETY: the mask keeps to the steps that are left.
                totals = unsafe { self.dot_lanes::<S, M, TOGETHER>(rows, whole, rest, totals) };
            }
            let mut all = [_mm512_setzero_ps(); LANES];
            // One by one: what is copied as memory is kept there all the time.
            for i in 0..M {
                for j in 0..TOGETHER {
                    all[i * TOGETHER + j] = totals[i][j];
                }
            }
            let mut sums = [0.0f32; LANES];
            // SAFETY: an array of one vector's length.
            unsafe { _mm512_storeu_ps(sums.as_mut_ptr(), sums_of_lanes(&all)) };
            for i in 0..M {
                for j in 0..here {
                    let at = i as isize * self.out_vector + (output + j) as isize * self.out_output;
                    // SAFETY: an output of this thread.
                    unsafe { self.store(at, sums[i * TOGETHER + j]) };
                }
            }
        }
    }

    /// The totals and the products of some steps.
    ///
    /// # Safety
    /// As [`Skinny::dot`]; the steps of the mask are readable in the rows and the vectors.
    #[inline(always)]
    unsafe fn dot_lanes<S: Wide, const M: usize, const TOGETHER: usize>(
        &self,
        rows: [*const S::Elem; TOGETHER],
        step: usize,
        mask: u16,
        mut totals: [[__m512; TOGETHER]; M],
    ) -> [[__m512; TOGETHER]; M] {
        // SAFETY: the caller's promise.
        unsafe {
            // No closures here: they are compiled without the instructions of this function where they are not inlined.
            let mut vectors = [_mm512_setzero_ps(); M];
            for i in 0..M {
                vectors[i] = _mm512_maskz_loadu_ps(mask, self.vectors.add(i * self.steps + step));
            }
            for j in 0..TOGETHER {
                let row = S::wide(rows[j].wrapping_add(step), mask);
                for i in 0..M {
                    totals[i][j] = _mm512_fmadd_ps(vectors[i], row, totals[i][j]);
                }
            }
        }
        totals
    }

    /// # Safety
    /// `at` is an element of the result that no other thread writes.
    unsafe fn store(&self, at: isize, value: f32) {
        // SAFETY: the caller's promise; the type is the result's own.
        unsafe {
            match self.job.problem.out.dtype {
                DType::BF16 => self.job.out.cast::<u16>().offset(at).write(pack::bf16_bits(value)),
                DType::F16 => self.job.out.cast::<u16>().offset(at).write(pack::f16_bits(value)),
                _ => self.job.out.cast::<f32>().offset(at).write(value),
            }
        }
    }
}

/// The sum of all lanes of each vector, in the vectors' order.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
pub(super) fn sums_of_lanes(vectors: &[__m512; LANES]) -> __m512 {
    // Each quarter of a register has sums of four vectors.
    let mut fours = [_mm512_setzero_ps(); 4];
    for i in 0..4 {
        let (a, b) = (vectors[4 * i], vectors[4 * i + 1]);
        let (c, d) = (vectors[4 * i + 2], vectors[4 * i + 3]);
        let ab = _mm512_castps_pd(_mm512_add_ps(_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b)));
        let cd = _mm512_castps_pd(_mm512_add_ps(_mm512_unpacklo_ps(c, d), _mm512_unpackhi_ps(c, d)));
        let (low, high) = (_mm512_unpacklo_pd(ab, cd), _mm512_unpackhi_pd(ab, cd));
        fours[i] = _mm512_add_ps(_mm512_castpd_ps(low), _mm512_castpd_ps(high));
    }
    let [a, b, c, d] = fours;
    let low = _mm512_add_ps(_mm512_shuffle_f32x4::<0x44>(a, b), _mm512_shuffle_f32x4::<0xEE>(a, b));
    let high = _mm512_add_ps(_mm512_shuffle_f32x4::<0x44>(c, d), _mm512_shuffle_f32x4::<0xEE>(c, d));
    _mm512_add_ps(_mm512_shuffle_f32x4::<0x88>(low, high), _mm512_shuffle_f32x4::<0xDD>(low, high))
}
