//! Matmuls of a few rows with a large matrix on AMX tiles: the matrix is read once, in long runs, and is never packed whole.
//!
//! Where the matrix has outputs side by side, 64 steps of 32 outputs at a time become tiles in L1, and the sums of all outputs
//! of a task wait in L2. Where it has steps side by side, its rows are tiles as they lie in memory.
#![allow(unsafe_code)]
// Tiles, rows and halves are indices into several arrays at once.
#![allow(clippy::needless_range_loop)]

use std::arch::asm;
use std::arch::x86_64::*;
use std::ops::Range;

use tensor::DType;

use super::amx::{Amx, Bf16, pack, turn};
use super::avx512::round_sums;
use super::drive::{Job, Kernel, Tasks};
use super::pack::{Rounded, Strip, Sums};
use super::scratch::{Loan, Slot};
use crate::memory::Packing;

/// Rows of a tile, bytes of a row, bytes of a tile.
const TILE: usize = 16;
const ROW: usize = 64;
const BYTES: usize = TILE * ROW;
/// Steps of a tile of the left matrix.
const STEPS: usize = ROW / 2;
/// Pairs of tiles along the steps that are packed at a time.
const DEEP: usize = 2;
/// Outputs of a group: two tiles.
const GROUP: usize = 2 * TILE;
/// The most rows.
const ROWS: usize = 2 * TILE;
/// Outputs whose sums wait in L2 while the steps go by.
const WAITING: usize = 2048;
/// Bytes of a matrix that is worth reading so: smaller ones are near.
const FAR: usize = 256 << 10;
/// Outputs that a task has at least.
const LEAST: usize = 256;
/// Bytes by which a row of the matrix is fetched before it is read: into the second cache, for rows of a matrix that begin a power of
/// two apart share a few lines of the first.
const AHEAD: usize = 512;

macro_rules! load {
    ($tile:literal, $at:expr, $row:expr) => {
        asm!(concat!("tileloadd tmm", $tile, ", [{p} + {s}]"), p = in(reg) $at, s = in(reg) $row, options(nostack, preserves_flags, readonly))
    };
}

macro_rules! zero {
    ($tile:literal) => {
        asm!(concat!("tilezero tmm", $tile), options(nostack, preserves_flags, nomem))
    };
}

macro_rules! store {
    ($tile:literal, $at:expr) => {
        asm!(concat!("tilestored [{p} + {s}], tmm", $tile), p = in(reg) $at, s = in(reg) ROW, options(nostack, preserves_flags))
    };
}

macro_rules! multiply {
    ($sum:literal, $left:literal, $right:literal) => {
        asm!(concat!("tdpbf16ps tmm", $sum, ", tmm", $left, ", tmm", $right), options(nostack, preserves_flags, nomem))
    };
}

pub(super) use {load, multiply, store, zero};

/// A few rows times a matrix.
struct Few<'a> {
    job: &'a Job<'a>,
    /// The rows in pairs of tiles, one for each [`STEPS`]: as left factors, or as right ones where the matrix is the left.
    rows: *const u8,
    /// Whether there are more than one tile of them.
    is_tall: bool,
}

// SAFETY: addresses of memory that outlives the job; tasks write disjoint outputs.
unsafe impl Sync for Few<'_> {}

/// Computes a job if it has a few rows and a large matrix: false, and nothing done, if not.
///
/// # Safety
/// As [`super::drive::drive`], for a job of the AMX kernel of bf16.
pub(super) unsafe fn drive(job: &Job<'_>, tasks: Tasks<'_>) -> bool {
    let problem = job.problem;
    let (lhs, rhs) = (&problem.lhs, &problem.rhs);
    let bytes = problem.n.saturating_mul(problem.k).saturating_mul(rhs.dtype.bits() as usize) / 8;
    let threads = job.threads.max(1);
    if job.packed.is_some() || job.rows > ROWS || bytes < FAR || problem.n < LEAST * threads || problem.k < STEPS {
        return false;
    }
    let is_natural = rhs.row_stride == 1
        && rhs.col_stride != 1
        && rhs.dtype == DType::BF16
        && rhs.packing == Packing::Bytes
        && problem.k.is_multiple_of(STEPS);
    if rhs.col_stride != 1 && !is_natural || rhs.dtype != DType::BF16 && rhs.dtype.size_bytes() != 1 {
        return false;
    }
    let loan = Loan::take(Slot::Shared, problem.k.div_ceil(STEPS) * 2 * BYTES);
    let strip = Strip {
        dtype: lhs.dtype,
        packing: lhs.packing,
        at: job.lhs,
        lane: lhs.row_stride,
        step: lhs.col_stride,
        lanes: job.rows,
        steps: problem.k,
    };
    // SAFETY: the rows are readable, and the loan has room for their tiles.
    unsafe { if is_natural { pack::<false>(&strip, loan.at()) } else { pack::<true>(&strip, loan.at()) } };
    let few = &Few { job, rows: loan.at(), is_tall: job.rows > TILE };
    // Long runs, and some parts more than threads, which do not end at the same time.
    let parts = threads * (problem.n / threads / WAITING).clamp(1, 4);
    let units = problem.n / GROUP;
    tasks(parts, &|worker, part| {
        let end = if part + 1 == parts { problem.n } else { units * (part + 1) / parts * GROUP };
        let outputs = units * part / parts * GROUP..end;
        // SAFETY: the outputs are this task's own, and at least a group; tiles are configured between.
        unsafe {
            Amx::<Bf16>::begin();
            if is_natural {
                few.natural(outputs.clone())
            } else {
                few.stream(outputs.clone())
            };
            Amx::<Bf16>::end();
        }
        if let Some(finish) = job.finish {
            finish(worker, 0..job.rows, outputs);
        }
    });
    true
}

impl Few<'_> {
    /// Outputs lie side by side.
    ///
    /// # Safety
    /// As [`drive`]; no other thread writes these outputs; tiles are configured.
    unsafe fn stream(&self, outputs: Range<usize>) {
        let k = self.job.problem.k;
        let tiles = if self.is_tall { 4 } else { 2 };
        let sums = Loan::take(Slot::Sums, WAITING / GROUP * tiles * BYTES);
        let room = Loan::take(Slot::Right, 2 * 2 * DEEP * BYTES);
        for first in outputs.clone().step_by(WAITING) {
            let block = first..(first + WAITING).min(outputs.end);
            let groups = block.len().div_ceil(GROUP);
            // Tiles are multiplied one group after they were written: what was just stored cannot be read at once.
            let mut waiting = None;
            let mut turn = 0;
            for step in (0..k).step_by(DEEP * STEPS) {
                for group in 0..groups {
                    let col = block.start + group * GROUP;
                    let right = room.at::<u8>().wrapping_add(turn % 2 * 2 * DEEP * BYTES);
                    turn += 1;
                    // SAFETY: the group is a part of the matrix, and the room holds its tiles; sums are this task's.
                    unsafe {
                        self.pack_group(step, col..(col + GROUP).min(block.end), right);
                        if let Some((step, right, sum)) = waiting {
                            self.multiply(step, right, sum);
                        }
                    }
                    waiting = Some((step, right.cast_const(), sums.at::<u8>().wrapping_add(group * tiles * BYTES)));
                }
            }
            // SAFETY: as above; then all sums of the block are complete.
            unsafe {
                if let Some((step, right, sum)) = waiting {
                    self.multiply(step, right, sum);
                }
                for group in 0..groups {
                    let col = block.start + group * GROUP;
                    let from = sums.at::<u8>().wrapping_add(group * tiles * BYTES).cast();
                    self.store_group(from, col..(col + GROUP).min(block.end));
                }
            }
        }
    }

    /// Makes some steps of a group of outputs tiles.
    ///
    /// # Safety
    /// The outputs are the matrix's; `to` takes two tiles for each [`STEPS`].
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    unsafe fn pack_group(&self, step: usize, outputs: Range<usize>, to: *mut u8) {
        let problem = self.job.problem;
        let rhs = &problem.rhs;
        let steps = (problem.k - step).min(DEEP * STEPS);
        let at = step as isize * rhs.row_stride + outputs.start as isize;
        let from = self.job.rhs.wrapping_offset(rhs.bytes(at));
        if !self.is_shuffled() {
            let strip = Strip {
                dtype: rhs.dtype,
                packing: rhs.packing,
                at: from,
                lane: 1,
                step: rhs.row_stride,
                lanes: outputs.len(),
                steps,
            };
            // SAFETY: the caller's promise.
            return unsafe { Amx::<Bf16>::pack_right(&strip, to.cast()) };
        }
        let mask = if outputs.len() == GROUP { u32::MAX } else { (1 << outputs.len()) - 1 };
        let row = 2 * rhs.row_stride;
        for pair in 0..steps.div_ceil(STEPS) * TILE {
            let mut both = [_mm512_setzero_si512(); 2];
            for i in 0..2 {
                let p = 2 * pair + i;
                if p < steps {
                    let at = from.wrapping_offset(p as isize * row);
                    _mm_prefetch::<_MM_HINT_T1>(at.wrapping_add(AHEAD).cast());
                    // SAFETY: the mask keeps to the outputs, and the step is the matrix's.
                    both[i] = unsafe { _mm512_maskz_loadu_epi16(mask, at.cast()) };
                }
            }
            let [low, high] = both;
            let place = to.wrapping_add(pair / TILE * 2 * BYTES + pair % TILE * ROW);
            // SAFETY: a row of each tile of the pair.
            unsafe {
                _mm512_store_si512(place.cast(), _mm512_unpacklo_epi16(low, high));
                _mm512_store_si512(place.wrapping_add(BYTES).cast(), _mm512_unpackhi_epi16(low, high));
            }
        }
    }

    /// Whether the tiles of a group have its outputs by turns of four instead of one half each.
    fn is_shuffled(&self) -> bool {
        let rhs = &self.job.problem.rhs;
        rhs.dtype == DType::BF16 && rhs.packing == Packing::Bytes
    }

    /// Adds the products of the rows with the tiles of some steps to the sums of a group.
    ///
    /// # Safety
    /// The tiles and the rows are packed; `sum` has two tiles, or four for tall rows.
    unsafe fn multiply(&self, step: usize, right: *const u8, sum: *mut u8) {
        let blocks = (self.job.problem.k - step).min(DEEP * STEPS).div_ceil(STEPS);
        let left = self.rows.wrapping_add(step / STEPS * 2 * BYTES);
        // SAFETY: the caller's promise; tiles are configured.
        unsafe {
            if step == 0 {
                zero!("0");
                zero!("1");
                zero!("2");
                zero!("3");
            } else {
                load!("0", sum, ROW);
                load!("1", sum.wrapping_add(BYTES), ROW);
                if self.is_tall {
                    load!("2", sum.wrapping_add(2 * BYTES), ROW);
                    load!("3", sum.wrapping_add(3 * BYTES), ROW);
                }
            }
            for block in 0..blocks {
                let (left, right) = (left.wrapping_add(block * 2 * BYTES), right.wrapping_add(block * 2 * BYTES));
                load!("4", left, ROW);
                load!("6", right, ROW);
                load!("7", right.wrapping_add(BYTES), ROW);
                multiply!("0", "4", "6");
                multiply!("1", "4", "7");
                if self.is_tall {
                    load!("5", left.wrapping_add(BYTES), ROW);
                    multiply!("2", "5", "6");
                    multiply!("3", "5", "7");
                }
            }
            store!("0", sum);
            store!("1", sum.wrapping_add(BYTES));
            if self.is_tall {
                store!("2", sum.wrapping_add(2 * BYTES));
                store!("3", sum.wrapping_add(3 * BYTES));
            }
        }
    }

    /// Stores the sums of a group, tile by tile, in the result.
    ///
    /// # Safety
    /// The sums are complete, and the outputs this thread's.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    unsafe fn store_group(&self, sums: *const f32, outputs: Range<usize>) {
        let mut block = [0.0f32; ROWS * GROUP];
        for row in 0..self.job.rows {
            let from = sums.wrapping_add((row / TILE * 2 * TILE + row % TILE) * TILE);
            // SAFETY: a row of both tiles, and a row of the block.
            unsafe {
                let (low, high) = (_mm512_loadu_ps(from), _mm512_loadu_ps(from.wrapping_add(TILE * TILE)));
                let (first, second) = if self.is_shuffled() {
                    // Quarters by turns.
                    let halves = (_mm512_shuffle_f32x4::<0x44>(low, high), _mm512_shuffle_f32x4::<0xEE>(low, high));
                    (_mm512_shuffle_f32x4::<0xD8>(halves.0, halves.0), _mm512_shuffle_f32x4::<0xD8>(halves.1, halves.1))
                } else {
                    (low, high)
                };
                let to = block.as_mut_ptr().add(row * GROUP);
                _mm512_storeu_ps(to, first);
                _mm512_storeu_ps(to.add(TILE), second);
            }
        }
        // SAFETY: the caller's promise.
        unsafe { self.store_block(&block, GROUP, outputs) };
    }

    /// Stores rows of sums in the result.
    ///
    /// # Safety
    /// The block has all rows of the outputs, `row` elements apart; the outputs are this thread's.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    unsafe fn store_block(&self, block: &[f32], row: usize, outputs: Range<usize>) {
        let out = &self.job.problem.out;
        let at = self.job.out.wrapping_add(outputs.start * out.dtype.size_bytes());
        // SAFETY: the caller's promise.
        unsafe {
            if out.dtype == DType::F32 {
                for i in 0..self.job.rows {
                    let to = at.cast::<f32>().wrapping_offset(i as isize * out.row_stride);
                    std::ptr::copy_nonoverlapping(block.as_ptr().add(i * row), to, outputs.len());
                }
            } else {
                let rounded = Rounded { at, dtype: out.dtype, row: out.row_stride };
                round_sums(Sums { at: block.as_ptr(), row }, rounded, self.job.rows, outputs.len());
            }
        }
    }

    /// Steps lie side by side: the matrix is the left factor, and the result is turned.
    ///
    /// # Safety
    /// As [`Few::stream`]; the steps fill whole tiles.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    unsafe fn natural(&self, outputs: Range<usize>) {
        let problem = self.job.problem;
        let row = 2 * problem.rhs.col_stride;
        // Four tiles of sums: of as many tiles of outputs, or of half as many.
        let together = if self.is_tall { 2 } else { 4 };
        let mut sums = Turned([0.0; 4 * TILE * TILE]);
        for output in outputs.clone().step_by(together * TILE) {
            // The last tile of a task begins earlier where it would not be whole.
            let starts: [usize; 4] = std::array::from_fn(|i| (output + i * TILE).min(outputs.end - TILE));
            let at: [*const u8; 4] = starts.map(|start| self.job.rhs.wrapping_offset(start as isize * row));
            // SAFETY: 16 rows of the matrix at each address, whole tiles of steps; tiles are configured.
            unsafe {
                zero!("0");
                zero!("1");
                zero!("2");
                zero!("3");
                for block in 0..problem.k / STEPS {
                    let rows = self.rows.wrapping_add(block * 2 * BYTES);
                    let at = at.map(|at| at.wrapping_add(block * ROW));
                    for from in at.iter().take(together) {
                        for i in 0..TILE {
                            let line = from.wrapping_offset(i as isize * row).wrapping_add(AHEAD);
                            _mm_prefetch::<_MM_HINT_T1>(line.cast());
                        }
                    }
                    load!("4", rows, ROW);
                    load!("6", at[0], row);
                    multiply!("0", "6", "4");
                    load!("7", at[1], row);
                    if self.is_tall {
                        load!("5", rows.wrapping_add(BYTES), ROW);
                        multiply!("1", "6", "5");
                        multiply!("2", "7", "4");
                        multiply!("3", "7", "5");
                    } else {
                        multiply!("1", "7", "4");
                        load!("6", at[2], row);
                        multiply!("2", "6", "4");
                        load!("7", at[3], row);
                        multiply!("3", "7", "4");
                    }
                }
                let to = sums.0.as_mut_ptr().cast::<u8>();
                store!("0", to);
                store!("1", to.wrapping_add(BYTES));
                store!("2", to.wrapping_add(2 * BYTES));
                store!("3", to.wrapping_add(3 * BYTES));
            }
            for i in 0..together {
                // SAFETY: the sums are complete, and these outputs are this task's.
                unsafe { self.store_turned(&sums, i, starts[i]) };
            }
        }
    }

    /// Stores the sums of a tile of outputs, which are its rows, in the result.
    ///
    /// # Safety
    /// The sums are complete; the outputs are this thread's.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    unsafe fn store_turned(&self, sums: &Turned, index: usize, start: usize) {
        let halves = if self.is_tall { 2 } else { 1 };
        let mut block = [0.0f32; ROWS * TILE];
        for half in 0..halves {
            let tile = &sums.0[(index * halves + half) * TILE * TILE..][..TILE * TILE];
            let mut rows = [_mm512_setzero_si512(); TILE];
            for (i, row) in rows.iter_mut().enumerate() {
                // SAFETY: a row of the tile.
                *row = unsafe { _mm512_loadu_si512(tile.as_ptr().add(i * TILE).cast()) };
            }
            for (i, row) in turn(rows).into_iter().enumerate() {
                // SAFETY: a row of the block.
                unsafe { _mm512_storeu_si512(block.as_mut_ptr().add((half * TILE + i) * TILE).cast(), row) };
            }
        }
        // SAFETY: the caller's promise.
        unsafe { self.store_block(&block, TILE, start..start + TILE) };
    }
}

/// Four tiles of sums.
#[repr(C, align(64))]
struct Turned([f32; 4 * TILE * TILE]);
