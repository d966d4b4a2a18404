//! Up to four vectors times a matrix of packed bits, with AVX-512: the matrix is read once, as it lies in memory.
//!
//! A vector of 32-bit words holds 8 columns of 4 bits, or 16 of 2 bits, in each word. A shift brings one column of every
//! word to the lowest bits, which choose its value in a table of 16. So sums are of columns that lie a word apart; they are
//! put in order once, at the end.
#![allow(unsafe_code)]
// Vectors, steps and lanes are indices into several arrays at once.
#![allow(clippy::needless_range_loop)]

use std::arch::x86_64::*;
use std::ops::Range;

use super::avx512::transpose;
use super::lanes::Start;

const LANES: usize = 16;
/// Bits of a word.
const WORD: usize = 32;
/// Columns of a vector of the smallest elements: blocks of columns begin at a multiple.
pub(super) const CHUNK: usize = LANES * WORD / 2;
/// Bytes by which a row's lines are fetched before they are read.
const AHEAD: usize = 512;

/// A part of a matrix of packed bits and the vectors that meet it.
#[derive(Clone, Copy)]
pub(super) struct Bits {
    /// The values of bit patterns.
    pub(super) levels: [f32; 16],
    /// The first row of the steps, at the first column of the block.
    pub(super) from: *const u8,
    /// Bytes from one row to the next.
    pub(super) row: isize,
    /// Columns of the block.
    pub(super) columns: usize,
    /// The first step of the vectors, the `M` elements of each step side by side.
    pub(super) vectors: *const f32,
    /// `M` rows of sums, with room for whole vectors of columns.
    pub(super) sums: *mut f32,
    pub(super) sums_row: usize,
}

impl Bits {
    /// Adds the products of some steps to the sums, or sets them.
    ///
    /// # Safety
    /// Everything is readable and writable as the fields say; elements have `BITS` bits, there are `M` vectors, and the
    /// machine has AVX-512.
    pub(super) unsafe fn add<const BITS: usize, const M: usize>(&self, steps: usize, start: Start) {
        const TOGETHER: usize = 8;
        let whole = steps / TOGETHER * TOGETHER;
        let from = |step: usize| Bits {
            from: self.from.wrapping_offset(step as isize * self.row),
            vectors: self.vectors.wrapping_add(step * M),
            ..*self
        };
        let start = |step: usize| if step == 0 { start } else { Start::Result };
        // SAFETY: the caller's promise, step by step.
        unsafe {
            for step in (0..whole).step_by(TOGETHER) {
                from(step).add_steps::<BITS, M, TOGETHER>(start(step));
            }
            for step in whole..steps {
                from(step).add_steps::<BITS, M, 1>(start(step));
            }
        }
    }

    /// # Safety
    /// As [`Bits::add`], for `U` steps.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    unsafe fn add_steps<const BITS: usize, const M: usize, const U: usize>(&self, start: Start) {
        let columns_of_vector = LANES * WORD / BITS;
        // SAFETY: 16 levels; `M` elements of each of the steps.
        let (levels, factors) = unsafe {
            let mut factors = [[_mm512_setzero_ps(); M]; U];
            for u in 0..U {
                for i in 0..M {
                    factors[u][i] = _mm512_set1_ps(*self.vectors.add(u * M + i));
                }
            }
            (_mm512_loadu_ps(self.levels.as_ptr()), factors)
        };
        for first in (0..self.columns).step_by(columns_of_vector) {
            let bytes = ((self.columns - first).min(columns_of_vector) * BITS).div_ceil(8);
            let mask = if bytes >= 64 { u64::MAX } else { (1u64 << bytes) - 1 };
            let at = self.from.wrapping_add(first * BITS / 8);
            let mut rows = [_mm512_setzero_si512(); U];
            for u in 0..U {
                let row = at.wrapping_offset(u as isize * self.row);
                _mm_prefetch::<_MM_HINT_T0>(row.wrapping_add(AHEAD).cast());
                // SAFETY: the mask keeps to the columns of the block.
                rows[u] = unsafe { _mm512_maskz_loadu_epi8(mask, row.cast()) };
            }
            for j in 0..WORD / BITS {
                let sum = self.sums.wrapping_add(first + j * LANES);
                let mut totals = [_mm512_setzero_ps(); M];
                // SAFETY: a vector of each row of sums.
                unsafe {
                    if start == Start::Result {
                        for i in 0..M {
                            totals[i] = _mm512_loadu_ps(sum.add(i * self.sums_row));
                        }
                    }
                    for u in 0..U {
                        let values = _mm512_permutexvar_ps(rows[u], levels);
                        for i in 0..M {
                            totals[i] = _mm512_fmadd_ps(factors[u][i], values, totals[i]);
                        }
                        rows[u] =
                            if BITS == 4 { _mm512_srli_epi32::<4>(rows[u]) } else { _mm512_srli_epi32::<2>(rows[u]) };
                    }
                    for i in 0..M {
                        _mm512_storeu_ps(sum.add(i * self.sums_row), totals[i]);
                    }
                }
            }
        }
    }

    /// Puts the sums of some of the vectors in the order of the columns.
    ///
    /// # Safety
    /// As [`Bits::add`].
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    pub(super) unsafe fn order<const BITS: usize>(&self, vectors: Range<usize>) {
        for i in vectors {
            for first in (0..self.columns).step_by(LANES * WORD / BITS) {
                let at = self.sums.wrapping_add(i * self.sums_row + first);
                // SAFETY: the sums of whole vectors of columns.
                unsafe {
                    if BITS == 4 {
                        let mut sums = [_mm512_setzero_ps(); 8];
                        for j in 0..8 {
                            sums[j] = _mm512_loadu_ps(at.add(j * LANES));
                        }
                        for (j, sum) in eight_apart(&sums).into_iter().enumerate() {
                            _mm512_storeu_ps(at.add(j * LANES), sum);
                        }
                    } else {
                        let mut sums = [_mm512_setzero_ps(); 16];
                        for j in 0..16 {
                            sums[j] = _mm512_loadu_ps(at.add(j * LANES));
                        }
                        for (j, sum) in transpose(&sums).into_iter().enumerate() {
                            _mm512_storeu_ps(at.add(j * LANES), sum);
                        }
                    }
                }
            }
        }
    }
}

/// Lane `i` of vector `j` becomes element `8·i + j`.
#[inline]
#[target_feature(enable = "avx512f")]
fn eight_apart(v: &[__m512; 8]) -> [__m512; 8] {
    // Four elements of one lane, side by side: those of the first four vectors, then those of the others.
    let mut fours = [[_mm512_setzero_ps(); 4]; 2];
    for half in 0..2 {
        let v = &v[4 * half..];
        let low = [0, 2].map(|j| _mm512_castps_pd(_mm512_unpacklo_ps(v[j], v[j + 1])));
        let high = [0, 2].map(|j| _mm512_castps_pd(_mm512_unpackhi_ps(v[j], v[j + 1])));
        fours[half] = [
            _mm512_castpd_ps(_mm512_unpacklo_pd(low[0], low[1])),
            _mm512_castpd_ps(_mm512_unpackhi_pd(low[0], low[1])),
            _mm512_castpd_ps(_mm512_unpacklo_pd(high[0], high[1])),
            _mm512_castpd_ps(_mm512_unpackhi_pd(high[0], high[1])),
        ];
    }
    let front = _mm512_setr_epi32(0, 1, 2, 3, 16, 17, 18, 19, 4, 5, 6, 7, 20, 21, 22, 23);
    let back = _mm512_setr_epi32(8, 9, 10, 11, 24, 25, 26, 27, 12, 13, 14, 15, 28, 29, 30, 31);
    let mut ordered = [_mm512_setzero_ps(); 8];
    for pair in 0..2 {
        let r = 2 * pair;
        for (part, index) in [front, back].into_iter().enumerate() {
            let one = _mm512_permutex2var_ps(fours[0][r], index, fours[1][r]);
            let next = _mm512_permutex2var_ps(fours[0][r + 1], index, fours[1][r + 1]);
            ordered[4 * part + pair] = _mm512_shuffle_f32x4::<0x44>(one, next);
            ordered[4 * part + 2 + pair] = _mm512_shuffle_f32x4::<0xee>(one, next);
        }
    }
    ordered
}
