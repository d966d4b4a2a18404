//! The register blocks of a convolution of f32 with AVX2: six outputs by two vectors of features.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::super::matmul::avx2::{mask_of_8, transposed};
use super::block::{Block, Kernel, Lines, Start};

const LANES: usize = 8;
const COLS: usize = 2 * LANES;
const ROWS: usize = 6;

pub(super) const KERNEL: Kernel<f32> = Kernel { rows: ROWS, cols: COLS, multiply, channels, exchange };

/// # Safety
/// As [`Kernel::multiply`]; the machine has AVX2.
unsafe fn multiply(b: &Block<'_, f32>) {
    macro_rules! by_rows {
        ($($m:literal)*) => {
            match (b.rows, b.cols > LANES) {
                $(($m, true) => block::<$m, 2>(b),
                  ($m, false) => block::<$m, 1>(b),)*
                _ => debug_assert!(false, "no block of {} rows", b.rows),
            }
        };
    }
    // SAFETY: the caller's promise.
    unsafe { by_rows!(1 2 3 4 5 6) }
}

/// A block of `M` rows and `V` vectors.
///
/// # Safety
/// As [`multiply`].
// Iterators over arrays of vectors are left as calls by builds that optimise less.
#[allow(clippy::needless_range_loop)]
#[target_feature(enable = "avx2,fma")]
unsafe fn block<const M: usize, const V: usize>(b: &Block<'_, f32>) {
    const PREFETCH: usize = 12 * COLS;
    let mut sums = [[_mm256_setzero_ps(); V]; M];
    for i in 0..M {
        _mm_prefetch::<_MM_HINT_T0>(b.out.wrapping_offset(i as isize * b.out_row).cast());
    }
    for segment in b.segments {
        let mut left = b.left.wrapping_offset(segment.left);
        let mut right = b.right.wrapping_add(segment.right);
        for _ in 0..segment.steps {
            let mut columns = [_mm256_setzero_ps(); V];
            for v in 0..V {
                // SAFETY: panels are whole.
                columns[v] = unsafe { _mm256_loadu_ps(right.add(v * LANES)) };
            }
            _mm_prefetch::<_MM_HINT_T0>(right.wrapping_add(PREFETCH).cast());
            for i in 0..M {
                // SAFETY: every row has this step.
                let value = _mm256_set1_ps(unsafe { *left.offset(i as isize * b.left_row) });
                for v in 0..V {
                    sums[i][v] = _mm256_fmadd_ps(value, columns[v], sums[i][v]);
                }
            }
            left = left.wrapping_offset(b.left_step);
            right = right.wrapping_add(COLS);
        }
    }
    for i in 0..M {
        for v in 0..V {
            let at = b.out.wrapping_offset(i as isize * b.out_row).wrapping_add(v * LANES);
            // SAFETY: the mask keeps to the block.
            unsafe {
                let mask = mask_of_8((b.cols - v * LANES).min(LANES));
                let sum = match b.start {
                    Start::Zero => sums[i][v],
                    Start::Result => _mm256_add_ps(sums[i][v], _mm256_maskload_ps(at, mask)),
                };
                if (v + 1) * LANES <= b.cols {
                    _mm256_storeu_ps(at, sum);
                } else {
                    _mm256_maskstore_ps(at, mask, sum);
                }
            }
        }
    }
}

/// # Safety
/// As [`Kernel::channels`]; the machine has AVX2.
unsafe fn channels(l: &Lines<'_, f32>) {
    // SAFETY: the caller's promise.
    unsafe { lines(l) }
}

/// # Safety
/// As [`channels`].
#[target_feature(enable = "avx2,fma")]
unsafe fn lines(l: &Lines<'_, f32>) {
    for channel in (0..l.cols).step_by(LANES) {
        // SAFETY: the caller's promise, for these rows and channels.
        unsafe {
            let mask = mask_of_8((l.cols - channel).min(LANES));
            let mut row = 0;
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

/// `M` outputs of up to 8 channels.
///
/// # Safety
/// As [`channels`], for this part.
#[allow(clippy::needless_range_loop)]
#[target_feature(enable = "avx2,fma")]
unsafe fn line<const M: usize>(l: &Lines<'_, f32>, row: usize, channel: usize, mask: __m256i) {
    let mut sums = [_mm256_setzero_ps(); M];
    let left = l.left.wrapping_offset(row as isize * l.left_row).wrapping_add(channel);
    for tap in l.taps {
        // SAFETY: the mask keeps to the channels.
        let factor = unsafe { _mm256_maskload_ps(l.right.wrapping_add(tap.right + channel), mask) };
        let left = left.wrapping_offset(tap.left);
        for i in 0..M {
            // SAFETY: as above.
            let value = unsafe { _mm256_maskload_ps(left.wrapping_offset(i as isize * l.left_row), mask) };
            sums[i] = _mm256_fmadd_ps(value, factor, sums[i]);
        }
    }
    for i in 0..M {
        let at = l.out.wrapping_offset((row + i) as isize * l.out_row).wrapping_add(channel);
        // SAFETY: the mask keeps to the channels.
        unsafe { _mm256_maskstore_ps(at, mask, sums[i]) };
    }
}

/// # Safety
/// As [`Kernel::exchange`]; the machine has AVX2.
unsafe fn exchange(from: *const f32, from_row: isize, to: *mut f32, to_row: isize, sizes: [usize; 2]) {
    // SAFETY: the caller's promise.
    unsafe { exchange_tiles(from, from_row, to, to_row, sizes) }
}

/// # Safety
/// As [`exchange`].
#[target_feature(enable = "avx2")]
unsafe fn exchange_tiles(from: *const f32, from_row: isize, to: *mut f32, to_row: isize, sizes: [usize; 2]) {
    for row in (0..sizes[0]).step_by(LANES) {
        let rows = LANES.min(sizes[0] - row);
        for col in (0..sizes[1]).step_by(LANES) {
            let cols = LANES.min(sizes[1] - col);
            // SAFETY: the masks keep to the matrix.
            unsafe {
                let mut tile = [_mm256_setzero_ps(); LANES];
                for (i, line) in tile.iter_mut().enumerate().take(rows) {
                    let at = from.wrapping_offset((row + i) as isize * from_row).wrapping_add(col);
                    *line = _mm256_maskload_ps(at, mask_of_8(cols));
                }
                for (j, line) in transposed(tile).into_iter().enumerate().take(cols) {
                    let at = to.wrapping_offset((col + j) as isize * to_row).wrapping_add(row);
                    _mm256_maskstore_ps(at, mask_of_8(rows), line);
                }
            }
        }
    }
}
