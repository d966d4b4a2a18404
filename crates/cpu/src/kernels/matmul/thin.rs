//! Matmuls of up to four vectors with a matrix: the matrix is read once, as it lies in memory.
#![allow(unsafe_code)]
// Vectors, steps and lanes are indices into several arrays at once.
#![allow(clippy::needless_range_loop)]

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;
use std::ops::Range;

use tensor::DType;

use super::ahead::near_line;
use super::drive::{Job, Tasks};
use super::lanes::Lanes;
use super::pack::{self, Bf16, F16, Source, Strip};
use super::portable::Array;
use super::scratch::{Loan, Slot};
use crate::memory::Packing;

/// The most vectors.
const VECTORS: usize = 4;
/// Multiplications with each step below which there is nothing to gain.
const LEAST: usize = 32;
/// Sums that stay in L1 while the matrix goes by. Runs of the matrix that are this long are read at full speed.
const BLOCK: usize = 4096;
/// Steps of a task that has some of them only.
const FEWEST_STEPS: usize = 64;
/// Elements by which a row's lines are fetched before they are read.
const AHEAD: usize = 64;
/// Elements that are read between two fetches: f32 of a line.
const FETCHED: usize = 16;
/// Outputs of a task are a multiple of this.
const UNIT: usize = 64;
/// Rows of the matrix that are read side by side.
const ROWS: usize = 4;

/// How the matrix lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    /// Steps are rows of it: outputs side by side.
    Stream,
    /// Outputs are rows of it: steps side by side.
    Dot,
}

/// The vectors that a job is computed in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Vectors {
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "aarch64")]
    Neon,
    Portable,
}

/// Vectors of f32, and how they are made of other elements.
trait Wide: Lanes<Elem = f32> {
    /// # Safety
    /// A vector of elements is readable; compiled for the instruction set. So for the rest.
    unsafe fn of_bf16(from: *const Bf16) -> Self::Vector;
    /// # Safety
    /// As [`Wide::of_bf16`].
    unsafe fn of_f16(from: *const F16) -> Self::Vector;
    /// # Safety
    /// As [`Wide::of_bf16`].
    unsafe fn sum(vector: Self::Vector) -> f32;
}

#[cfg(target_arch = "x86_64")]
impl Wide for super::avx2::F32x8 {
    #[inline(always)]
    unsafe fn of_bf16(from: *const Bf16) -> __m256 {
        // SAFETY: the caller's promise.
        unsafe {
            let bits = _mm256_cvtepu16_epi32(_mm_loadu_si128(from.cast()));
            _mm256_castsi256_ps(_mm256_slli_epi32::<16>(bits))
        }
    }
    #[inline(always)]
    unsafe fn of_f16(from: *const F16) -> __m256 {
        // SAFETY: the caller's promise.
        unsafe { _mm256_cvtph_ps(_mm_loadu_si128(from.cast())) }
    }
    #[inline(always)]
    unsafe fn sum(lanes: __m256) -> f32 {
        // SAFETY: the caller's promise.
        unsafe {
            let half = _mm_add_ps(_mm256_castps256_ps128(lanes), _mm256_extractf128_ps::<1>(lanes));
            let quarter = _mm_add_ps(half, _mm_movehl_ps(half, half));
            _mm_cvtss_f32(_mm_add_ss(quarter, _mm_shuffle_ps::<1>(quarter, quarter)))
        }
    }
}

/// Implements [`Wide`] for vectors that arrays of f32 become.
macro_rules! wide_of_arrays {
    ($lanes:ty) => {
        impl Wide for $lanes {
            #[inline(always)]
            unsafe fn of_bf16(from: *const Bf16) -> Self::Vector {
                let mut lanes = [0.0; Self::LANES];
                for i in 0..Self::LANES {
                    // SAFETY: the caller's promise.
                    lanes[i] = unsafe { *from.add(i) }.packed();
                }
                // SAFETY: as many elements as a vector has.
                unsafe { Self::load(lanes.as_ptr()) }
            }
            #[inline(always)]
            unsafe fn of_f16(from: *const F16) -> Self::Vector {
                let mut lanes = [0.0; Self::LANES];
                for i in 0..Self::LANES {
                    // SAFETY: the caller's promise.
                    lanes[i] = unsafe { *from.add(i) }.packed();
                }
                // SAFETY: as many elements as a vector has.
                unsafe { Self::load(lanes.as_ptr()) }
            }
            #[inline(always)]
            unsafe fn sum(vector: Self::Vector) -> f32 {
                let mut lanes = [0.0; Self::LANES];
                // SAFETY: as many elements as a vector has.
                unsafe { Self::store(lanes.as_mut_ptr(), vector) };
                let mut width = lanes.len() / 2;
                while width > 0 {
                    for i in 0..width {
                        lanes[i] += lanes[i + width];
                    }
                    width /= 2;
                }
                lanes[0]
            }
        }
    };
}
wide_of_arrays!(Array<f32>);
#[cfg(target_arch = "aarch64")]
wide_of_arrays!(super::neon::F32x4);

/// Elements of a matrix as f32.
trait Element: Source<Packed = f32> {
    /// # Safety
    /// As [`Wide::of_bf16`].
    unsafe fn wide<W: Wide>(from: *const Self) -> W::Vector;
}

impl Element for f32 {
    #[inline(always)]
    unsafe fn wide<W: Wide>(from: *const f32) -> W::Vector {
        // SAFETY: the caller's promise.
        unsafe { W::load(from) }
    }
}

impl Element for Bf16 {
    #[inline(always)]
    unsafe fn wide<W: Wide>(from: *const Bf16) -> W::Vector {
        // SAFETY: the caller's promise.
        unsafe { W::of_bf16(from) }
    }
}

impl Element for F16 {
    #[inline(always)]
    unsafe fn wide<W: Wide>(from: *const F16) -> W::Vector {
        // SAFETY: the caller's promise.
        unsafe { W::of_f16(from) }
    }
}

/// Up to four vectors times a matrix of `steps × outputs`.
struct Thin {
    shape: Shape,
    lanes: Vectors,
    /// The vectors as f32, one after the other.
    vectors: *const f32,
    count: usize,
    matrix: *const u8,
    dtype: DType,
    /// Elements from one row of the matrix, as `shape` has it, to the next.
    matrix_row: isize,
    steps: usize,
    /// The result of vector `i` and output `j` is at `i·out_vector + j·out_output`.
    out: *mut u8,
    out_dtype: DType,
    out_vector: isize,
    out_output: isize,
}

// SAFETY: addresses of memory that outlives the job; tasks write disjoint outputs.
unsafe impl Sync for Thin {}

/// Computes a job if it is thin: false, and nothing done, if not.
///
/// # Safety
/// As [`super::drive::drive`], on a machine that has the vectors.
pub(super) unsafe fn drive(job: &Job<'_>, tasks: Tasks<'_>, vectors: Vectors) -> bool {
    let problem = job.problem;
    let (lhs, rhs) = (&problem.lhs, &problem.rhs);
    let is_known = |dtype: DType| matches!(dtype, DType::F32 | DType::BF16 | DType::F16);
    let is_plain = rhs.packing == Packing::Bytes && is_known(lhs.dtype) && is_known(rhs.dtype);
    if job.packed.is_some() || problem.k == 0 || job.rows * problem.n < LEAST || !is_plain {
        return false;
    }
    let swapped = problem.n <= VECTORS && lhs.col_stride == 1 && job.rows > VECTORS;
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
    let copied = loan.at::<f32>();
    // The vectors are the rows of the left matrix, or the columns of the right one.
    let (side, at, vector, step) = if swapped {
        (rhs, job.rhs, rhs.col_stride, rhs.row_stride)
    } else {
        (lhs, job.lhs, lhs.row_stride, lhs.col_stride)
    };
    for i in 0..count {
        let at = at.wrapping_offset(i as isize * vector * side.dtype.size_bytes() as isize);
        let packing = side.packing;
        let strip = Strip { dtype: side.dtype, packing, at, lane: vector, step, lanes: 1, steps: problem.k };
        // SAFETY: the vector is readable, and the loan has room for it.
        unsafe { pack::pack_f32(&strip, 1, copied.add(i * problem.k)) };
    }
    let (matrix, other) = if swapped { (job.lhs, lhs) } else { (job.rhs, rhs) };
    let outputs = if swapped { job.rows } else { problem.n };
    let thin = Thin {
        shape,
        lanes: vectors,
        vectors: copied,
        count,
        matrix,
        dtype: other.dtype,
        matrix_row: if swapped || shape == Shape::Stream { other.row_stride } else { other.col_stride },
        steps: problem.k,
        out: job.out,
        out_dtype: problem.out.dtype,
        out_vector: if swapped { 1 } else { problem.out.row_stride },
        out_output: if swapped { problem.out.row_stride } else { 1 },
    };
    let thin = &thin;
    let finish = |worker: usize, range: Range<usize>| {
        if let Some(finish) = job.finish {
            if swapped { finish(worker, range, 0..problem.n) } else { finish(worker, 0..job.rows, range) }
        }
    };
    let is_narrow = outputs < job.threads * BLOCK && thin.steps >= job.threads * FEWEST_STEPS;
    if job.threads > 1 && shape == Shape::Stream && is_narrow {
        // SAFETY: as this function.
        unsafe { thin.by_steps(outputs, job.threads, &finish, tasks) };
        return true;
    }
    let units = outputs.div_ceil(UNIT);
    let most = match (job.threads, shape) {
        (..=1, _) => 1,
        (threads, Shape::Stream) => (outputs / BLOCK).clamp(threads, 4 * threads),
        (threads, Shape::Dot) => 4 * threads,
    };
    let parts = most.min(units);
    tasks(parts, &|worker, part| {
        let range = units * part / parts * UNIT..(units * (part + 1) / parts * UNIT).min(outputs);
        // SAFETY: the outputs are this task's own.
        unsafe { thin.compute(range.clone()) };
        finish(worker, range);
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

impl Partial {
    /// Those of the outputs from this one on.
    fn from(&self, output: usize) -> Partial {
        Partial { at: self.at.wrapping_add(output), ..*self }
    }
}

impl Thin {
    /// Outputs of a block.
    fn block_outputs(&self) -> usize {
        BLOCK / self.count / UNIT * UNIT
    }

    /// Each thread takes some steps of all outputs, so that it reads the matrix in long runs; then the sums are added.
    ///
    /// # Safety
    /// As [`drive`], for [`Shape::Stream`].
    unsafe fn by_steps(
        &self,
        outputs: usize,
        parts: usize,
        finish: &(dyn Fn(usize, Range<usize>) + Sync),
        tasks: Tasks<'_>,
    ) {
        let all = self.count * outputs;
        let loan = Loan::take(Slot::Sums, parts * all * size_of::<f32>());
        let sums = Partial { at: loan.at(), row: outputs };
        let of_part = |part: usize| {
            let sums: &Partial = &sums;
            sums.from(part * all)
        };
        tasks(parts, &|_, part| {
            let steps = self.steps * part / parts..self.steps * (part + 1) / parts;
            for first in (0..outputs).step_by(self.block_outputs()) {
                let block = first..(first + self.block_outputs()).min(outputs);
                // SAFETY: the sums are this task's own.
                unsafe { self.block(&block, &steps, of_part(part).from(first)) };
            }
        });
        tasks(1, &|worker, _| {
            let total = of_part(0);
            for i in 0..all {
                for part in 1..parts {
                    // SAFETY: sums of the loan, which the tasks have written.
                    unsafe { *total.at.add(i) += *of_part(part).at.add(i) };
                }
            }
            // SAFETY: the sums are complete, and the result is this thread's.
            unsafe { self.store(&(0..outputs), total) };
            finish(worker, 0..outputs);
        });
    }

    /// # Safety
    /// As [`drive`], for some of the outputs.
    unsafe fn compute(&self, outputs: Range<usize>) {
        let row = self.block_outputs();
        let loan = Loan::take(Slot::Sums, self.count * row * size_of::<f32>());
        let sums = Partial { at: loan.at(), row };
        for first in outputs.clone().step_by(row) {
            let block = first..(first + row).min(outputs.end);
            // SAFETY: the caller's promise; there is room for a block of sums.
            unsafe {
                self.block(&block, &(0..self.steps), sums);
                self.store(&block, sums);
            }
        }
    }

    /// Sums of some outputs over some steps; all of them for [`Shape::Dot`].
    ///
    /// # Safety
    /// As [`Thin::compute`], for outputs and steps of the matrix that no other thread adds to these sums, which have room for them.
    unsafe fn block(&self, outputs: &Range<usize>, steps: &Range<usize>, sums: Partial) {
        // SAFETY: the caller's promise; the machine has the vectors.
        unsafe {
            match self.lanes {
                #[cfg(target_arch = "x86_64")]
                Vectors::Avx2 => self.block_avx2(outputs, steps, sums),
                #[cfg(target_arch = "aarch64")]
                Vectors::Neon => self.block_in::<super::neon::F32x4>(outputs, steps, sums),
                Vectors::Portable => self.block_in::<Array<f32>>(outputs, steps, sums),
            }
        }
    }

    /// # Safety
    /// As [`Thin::block`], on a machine with AVX2.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn block_avx2(&self, outputs: &Range<usize>, steps: &Range<usize>, sums: Partial) {
        // SAFETY: the caller's promise.
        unsafe { self.block_in::<super::avx2::F32x8>(outputs, steps, sums) }
    }

    /// # Safety
    /// As [`Thin::block`], on a machine with the vectors.
    #[inline(always)]
    unsafe fn block_in<W: Wide>(&self, outputs: &Range<usize>, steps: &Range<usize>, sums: Partial) {
        // SAFETY: the caller's promise; the type is the matrix's own.
        unsafe {
            match self.dtype {
                DType::BF16 => self.block_of::<W, Bf16>(outputs, steps, sums),
                DType::F16 => self.block_of::<W, F16>(outputs, steps, sums),
                _ => self.block_of::<W, f32>(outputs, steps, sums),
            }
        }
    }

    /// # Safety
    /// As [`Thin::block_in`], for a matrix of `T`.
    #[inline(always)]
    unsafe fn block_of<W: Wide, T: Element>(&self, outputs: &Range<usize>, steps: &Range<usize>, sums: Partial) {
        // SAFETY: the caller's promise.
        unsafe {
            match (self.shape, self.count) {
                (Shape::Stream, 1) => self.stream::<W, T, 1>(outputs, steps, sums),
                (Shape::Stream, 2) => self.stream::<W, T, 2>(outputs, steps, sums),
                (Shape::Stream, 3) => self.stream::<W, T, 3>(outputs, steps, sums),
                (Shape::Stream, _) => self.stream::<W, T, 4>(outputs, steps, sums),
                (Shape::Dot, 1) => self.dot::<W, T, 1, 8>(outputs, sums),
                (Shape::Dot, 2) => self.dot::<W, T, 2, 4>(outputs, sums),
                (Shape::Dot, 3) => self.dot::<W, T, 3, 2>(outputs, sums),
                (Shape::Dot, _) => self.dot::<W, T, 4, 2>(outputs, sums),
            }
        }
    }

    /// A few rows of the matrix at a time are added to the sums of all outputs of `N` vectors.
    ///
    /// # Safety
    /// As [`Thin::block_of`], for `N` vectors.
    #[inline(always)]
    unsafe fn stream<W: Wide, T: Element, const N: usize>(
        &self,
        outputs: &Range<usize>,
        steps: &Range<usize>,
        sums: Partial,
    ) {
        let count = outputs.len();
        let whole = count / FETCHED * FETCHED;
        for i in 0..N {
            // SAFETY: the sums of one vector.
            unsafe { std::ptr::write_bytes(sums.at.add(i * sums.row), 0, count) };
        }
        let row = |step: usize| {
            self.matrix.cast::<T>().wrapping_offset(step as isize * self.matrix_row).wrapping_add(outputs.start)
        };
        let mut step = steps.start;
        while step + ROWS <= steps.end {
            let mut factors = [[W::zero(); ROWS]; N];
            for i in 0..N {
                for r in 0..ROWS {
                    // SAFETY: a step of a vector.
                    factors[i][r] = W::splat(unsafe { *self.vectors.add(i * self.steps + step + r) });
                }
            }
            let mut rows = [std::ptr::null(); ROWS];
            for r in 0..ROWS {
                rows[r] = row(step + r);
            }
            let next = ROWS as isize * self.matrix_row;
            // SAFETY: rows, steps and outputs are those of the matrix and of the vectors.
            unsafe {
                for line in (0..whole).step_by(FETCHED) {
                    for r in 0..ROWS {
                        // Further on in these rows, or where the next ones begin.
                        near_line(if line + AHEAD < count {
                            rows[r].wrapping_add(line + AHEAD).cast()
                        } else {
                            rows[r].wrapping_offset(next).wrapping_add(line + AHEAD - count).cast()
                        });
                    }
                    let mut at = line;
                    while at < line + FETCHED {
                        let mut columns = [W::zero(); ROWS];
                        for r in 0..ROWS {
                            columns[r] = T::wide::<W>(rows[r].add(at));
                        }
                        for i in 0..N {
                            let place = sums.at.add(i * sums.row + at);
                            let mut sum = W::load(place);
                            for r in 0..ROWS {
                                sum = W::multiply_add(factors[i][r], columns[r], sum);
                            }
                            W::store(place, sum);
                        }
                        at += W::LANES;
                    }
                }
                for i in 0..N {
                    for at in whole..count {
                        for r in 0..ROWS {
                            let factor = *self.vectors.add(i * self.steps + step + r);
                            *sums.at.add(i * sums.row + at) += factor * (*rows[r].add(at)).packed();
                        }
                    }
                }
            }
            step += ROWS;
        }
        for step in step..steps.end {
            for i in 0..N {
                // SAFETY: as above.
                unsafe {
                    let factor = *self.vectors.add(i * self.steps + step);
                    for at in 0..count {
                        *sums.at.add(i * sums.row + at) += factor * (*row(step).add(at)).packed();
                    }
                }
            }
        }
    }

    /// `G` rows of the matrix at a time, each with all `N` vectors.
    ///
    /// # Safety
    /// As [`Thin::block_of`], for `N` vectors.
    #[inline(always)]
    unsafe fn dot<W: Wide, T: Element, const N: usize, const G: usize>(&self, outputs: &Range<usize>, sums: Partial) {
        let whole = self.steps / W::LANES * W::LANES;
        let row = |output: usize| self.matrix.cast::<T>().wrapping_offset(output as isize * self.matrix_row);
        for first in outputs.clone().step_by(G) {
            let mut totals = [[W::zero(); G]; N];
            // Rows beyond the last one are the last one again.
            let mut rows = [std::ptr::null(); G];
            for g in 0..G {
                rows[g] = row((first + g).min(outputs.end - 1));
            }
            for step in (0..whole).step_by(W::LANES) {
                // SAFETY: a vector of steps of rows of the matrix and of the vectors.
                unsafe {
                    let mut factors = [W::zero(); N];
                    for i in 0..N {
                        factors[i] = W::load(self.vectors.add(i * self.steps + step));
                    }
                    for g in 0..G {
                        let column = T::wide::<W>(rows[g].add(step));
                        for i in 0..N {
                            totals[i][g] = W::multiply_add(factors[i], column, totals[i][g]);
                        }
                    }
                }
            }
            for i in 0..N {
                for g in 0..G.min(outputs.end - first) {
                    // SAFETY: the steps that are left, and the place of one sum.
                    unsafe {
                        let mut total = W::sum(totals[i][g]);
                        for step in whole..self.steps {
                            total += *self.vectors.add(i * self.steps + step) * (*rows[g].add(step)).packed();
                        }
                        *sums.at.add(i * sums.row + first + g - outputs.start) = total;
                    }
                }
            }
        }
    }

    /// # Safety
    /// As [`Thin::compute`]; the sums are there.
    unsafe fn store(&self, outputs: &Range<usize>, sums: Partial) {
        for i in 0..self.count {
            for (n, output) in outputs.clone().enumerate() {
                let at = i as isize * self.out_vector + output as isize * self.out_output;
                // SAFETY: a sum of the block, and a place of the result that is this task's own.
                unsafe {
                    let sum = *sums.at.add(i * sums.row + n);
                    match self.out_dtype {
                        DType::BF16 => self.out.cast::<u16>().wrapping_offset(at).write(pack::bf16_bits(sum)),
                        DType::F16 => self.out.cast::<u16>().wrapping_offset(at).write(pack::f16_bits(sum)),
                        _ => self.out.cast::<f32>().wrapping_offset(at).write(sum),
                    }
                }
            }
        }
    }
}
