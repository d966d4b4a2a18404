//! The register blocks of a convolution of f32 with AVX-512: 14 outputs by two vectors of features.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::super::matmul::transpose;
use super::block::{Block, Kernel, Lines, Start};

const LANES: usize = 16;
const COLS: usize = 2 * LANES;
const ROWS: usize = 14;

pub(super) const KERNEL: Kernel<f32> = Kernel { rows: ROWS, cols: COLS, multiply, channels, exchange };

/// # Safety
/// As [`Kernel::multiply`]; the machine has AVX-512.
unsafe fn multiply(b: &Block<'_, f32>) {
    macro_rules! by_rows {
        ($($m:literal)*) => {
            match (b.rows, b.cols > LANES, b.left_row == 1) {
                $(($m, true, true) => block::<$m, 2, true>(b),
                  ($m, true, false) => block::<$m, 2, false>(b),
                  ($m, false, true) => block::<$m, 1, true>(b),
                  ($m, false, false) => block::<$m, 1, false>(b),)*
                _ => debug_assert!(false, "no block of {} rows", b.rows),
            }
        };
    }
    // SAFETY: the caller's promise.
    unsafe { by_rows!(1 2 3 4 5 6 7 8 9 10 11 12 13 14) }
}

/// A block of `M` rows and `V` vectors. `NEAR`: the inputs of the rows lie side by side.
///
/// # Safety
/// As [`multiply`].
// Iterators over arrays of vectors are left as calls by builds that optimise less.
#[allow(clippy::needless_range_loop)]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn block<const M: usize, const V: usize, const NEAR: bool>(b: &Block<'_, f32>) {
    const PREFETCH: usize = 12 * COLS;
    // Rows that are reached from one address.
    const GROUP: usize = 3;
    const GROUPS: usize = ROWS.div_ceil(GROUP);
    let mut sums = [[_mm512_setzero_ps(); V]; M];
    let row = if NEAR { 1 } else { b.left_row };
    for i in 0..M {
        let at = b.out.wrapping_offset(i as isize * b.out_row);
        for v in 0..V {
            _mm_prefetch::<_MM_HINT_T0>(at.wrapping_add(v * LANES).cast());
        }
    }
    for segment in b.segments {
        let left = b.left.wrapping_offset(segment.left);
        let mut lefts = [left; GROUPS];
        for g in 0..GROUPS {
            let at = left.wrapping_offset((g * GROUP) as isize * row);
            lefts[g] = if NEAR { at } else { unrelated(at) };
        }
        let mut right = b.right.wrapping_add(segment.right);
        for _ in 0..segment.steps {
            let mut columns = [_mm512_setzero_ps(); V];
            for v in 0..V {
                // SAFETY: panels are whole.
                columns[v] = unsafe { _mm512_loadu_ps(right.add(v * LANES)) };
                _mm_prefetch::<_MM_HINT_T0>(right.wrapping_add(PREFETCH + v * LANES).cast());
            }
            for g in 0..GROUPS {
                for j in 0..GROUP {
                    if g * GROUP + j < M {
                        // SAFETY: every row has this step.
                        let value = _mm512_set1_ps(unsafe { *lefts[g].offset(j as isize * row) });
                        for v in 0..V {
                            sums[g * GROUP + j][v] = _mm512_fmadd_ps(value, columns[v], sums[g * GROUP + j][v]);
                        }
                    }
                }
            }
            for g in 0..GROUPS {
                lefts[g] = lefts[g].wrapping_offset(b.left_step);
            }
            right = right.wrapping_add(COLS);
        }
    }
    // Through memory: sums that are only ever indexed by constants stay in registers.
    let mut results = [[[0f32; LANES]; V]; M];
    for i in 0..M {
        for v in 0..V {
            // SAFETY: room for one vector.
            unsafe { _mm512_storeu_ps(results[i][v].as_mut_ptr(), sums[i][v]) };
        }
    }
    for (i, row) in results.iter().enumerate() {
        for (v, result) in row.iter().enumerate() {
            let at = b.out.wrapping_offset(i as isize * b.out_row).wrapping_add(v * LANES);
            let mask = first((b.cols - v * LANES).min(LANES));
            // SAFETY: one vector, and the mask keeps to the block.
            unsafe {
                let sum = _mm512_loadu_ps(result.as_ptr());
                let sum = match b.start {
                    Start::Zero => sum,
                    Start::Result => _mm512_add_ps(sum, _mm512_maskz_loadu_ps(mask, at)),
                };
                _mm512_mask_storeu_ps(at, mask, sum);
            }
        }
    }
}

/// The same address, of which the compiler does not know how far it is from others: it would make each from the one before
/// in every step, and the core cannot start that many instructions beside the multiply-adds.
#[inline(always)]
#[allow(clippy::pointers_in_nomem_asm_block)] // What it points to is not read.
fn unrelated(mut at: *const f32) -> *const f32 {
    // SAFETY: no instruction at all.
    unsafe { std::arch::asm!("/* {0} */", inout(reg) at, options(pure, nomem, nostack, preserves_flags)) };
    at
}

/// The mask of the first `count` lanes.
#[inline(always)]
fn first(count: usize) -> u16 {
    ((1u32 << count) - 1) as u16
}

/// # Safety
/// As [`Kernel::channels`]; the machine has AVX-512.
unsafe fn channels(l: &Lines<'_, f32>) {
    // SAFETY: the caller's promise.
    unsafe { lines(l) }
}

/// # Safety
/// As [`channels`].
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn lines(l: &Lines<'_, f32>) {
    for channel in (0..l.cols).step_by(LANES) {
        let mask = first((l.cols - channel).min(LANES));
        let mut row = 0;
        // SAFETY: the caller's promise, for these rows and channels.
        unsafe {
            while row + 8 <= l.rows {
                line::<8>(l, row, channel, mask);
                row += 8;
            }
            while row + 4 <= l.rows {
                line::<4>(l, row, channel, mask);
                row += 4;
            }
            while row < l.rows {
                line::<1>(l, row, channel, mask);
                row += 1;
            }
        }
    }
}

/// `M` outputs of up to 16 channels.
///
/// # Safety
/// As [`channels`], for this part.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn line<const M: usize>(l: &Lines<'_, f32>, row: usize, channel: usize, mask: u16) {
    let mut sums = [_mm512_setzero_ps(); M];
    let left = l.left.wrapping_offset(row as isize * l.left_row).wrapping_add(channel);
    for tap in l.taps {
        // SAFETY: the mask keeps to the channels.
        let factor = unsafe { _mm512_maskz_loadu_ps(mask, l.right.wrapping_add(tap.right + channel)) };
        let left = left.wrapping_offset(tap.left);
        for (i, sum) in sums.iter_mut().enumerate() {
            // SAFETY: as above.
            let value = unsafe { _mm512_maskz_loadu_ps(mask, left.wrapping_offset(i as isize * l.left_row)) };
            *sum = _mm512_fmadd_ps(value, factor, *sum);
        }
    }
    for (i, &sum) in sums.iter().enumerate() {
        let at = l.out.wrapping_offset((row + i) as isize * l.out_row).wrapping_add(channel);
        // SAFETY: the mask keeps to the channels.
        unsafe { _mm512_mask_storeu_ps(at, mask, sum) };
    }
}

/// # Safety
/// As [`Kernel::exchange`]; the machine has AVX-512.
unsafe fn exchange(from: *const f32, from_row: isize, to: *mut f32, to_row: isize, sizes: [usize; 2]) {
    // SAFETY: the caller's promise.
    unsafe { exchange_tiles(from, from_row, to, to_row, sizes) }
}

/// # Safety
/// As [`exchange`].
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn exchange_tiles(from: *const f32, from_row: isize, to: *mut f32, to_row: isize, sizes: [usize; 2]) {
    for row in (0..sizes[0]).step_by(LANES) {
        let rows = LANES.min(sizes[0] - row);
        for col in (0..sizes[1]).step_by(LANES) {
            let cols = LANES.min(sizes[1] - col);
            let mut tile = [_mm512_setzero_ps(); LANES];
            for (i, line) in tile.iter_mut().enumerate().take(rows) {
                let at = from.wrapping_offset((row + i) as isize * from_row).wrapping_add(col);
                // SAFETY: the mask keeps to the matrix.
                *line = unsafe { _mm512_maskz_loadu_ps(first(cols), at) };
            }
            for (j, &line) in transpose(&tile).iter().enumerate().take(cols) {
                let at = to.wrapping_offset((col + j) as isize * to_row).wrapping_add(row);
                // SAFETY: the mask keeps to the matrix.
                unsafe { _mm512_mask_storeu_ps(at, first(rows), line) };
            }
        }
    }
}
