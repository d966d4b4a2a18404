//! The matmul with AVX2 and FMA: six rows by two vectors in registers.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use tensor::DType;

use super::lanes::{block_of, kernel_of, lanes_of};
use super::pack::{self, Rounded, Strip, Sums};

const ROWS: usize = 6;

/// Eight lanes of f32.
pub(super) struct F32x8;
/// Four lanes of f64.
pub(super) struct F64x4;

lanes_of!(
    F32x8: [f32; 8] in __m256, splat: _mm256_set1_ps, add: _mm256_add_ps, load: _mm256_loadu_ps, store: _mm256_storeu_ps,
    multiply_add: |a, b, c| _mm256_fmadd_ps(a, b, c),
    load_part: |from, count| _mm256_maskload_ps(from, mask_of_8(count)),
    store_part: |to, value, count| _mm256_maskstore_ps(to, mask_of_8(count), value)
);
lanes_of!(
    F64x4: [f64; 4] in __m256d, splat: _mm256_set1_pd, add: _mm256_add_pd, load: _mm256_loadu_pd, store: _mm256_storeu_pd,
    multiply_add: |a, b, c| _mm256_fmadd_pd(a, b, c),
    load_part: |from, count| _mm256_maskload_pd(from, mask_of_4(count)),
    store_part: |to, value, count| _mm256_maskstore_pd(to, mask_of_4(count), value)
);

/// # Safety
/// AVX2; `count` is at most 8.
#[inline(always)]
pub(in super::super) unsafe fn mask_of_8(count: usize) -> __m256i {
    const ONES_THEN_ZEROS: [i32; 16] = [-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0];
    // SAFETY: 8 elements from `8 - count` on.
    unsafe { _mm256_loadu_si256(ONES_THEN_ZEROS.as_ptr().add(8 - count).cast()) }
}

/// # Safety
/// AVX2; `count` is at most 4.
#[inline(always)]
unsafe fn mask_of_4(count: usize) -> __m256i {
    const ONES_THEN_ZEROS: [i64; 8] = [-1, -1, -1, -1, 0, 0, 0, 0];
    // SAFETY: 4 elements from `4 - count` on.
    unsafe { _mm256_loadu_si256(ONES_THEN_ZEROS.as_ptr().add(4 - count).cast()) }
}

block_of!(block, [#[target_feature(enable = "avx2,fma")]], rows: 1 2 3 4 5 6);

/// f32, and bf16 and f16 widened while packing.
pub(super) struct Avx2F32;
/// f64.
pub(super) struct Avx2F64;

kernel_of!(Avx2F32, F32x8, DType::F32, ROWS, 256, block, pack_f32, round_sums);
kernel_of!(Avx2F64, F64x4, DType::F64, ROWS, 256, block, pack::pack_f64, pack::round_sums);

/// Lanes of a vector of f32, and steps of a lane that are read at a time.
const LANES: usize = 8;

/// # Safety
/// As [`pack::pack`]; the machine has AVX2.
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn pack_f32(strip: &Strip, width: usize, to: *mut f32) {
    // SAFETY: the caller's promise; the type is the strip's own.
    unsafe {
        match strip.dtype {
            _ if strip.step != 1 || strip.lanes < 2 => pack::pack_f32(strip, width, to),
            DType::F32 => pack_rows(strip, width, to, |at: *const f32| _mm256_loadu_ps(at)),
            DType::BF16 => pack_rows(strip, width, to, |at: *const u16| {
                let bits = _mm256_cvtepu16_epi32(_mm_loadu_si128(at.cast()));
                _mm256_castsi256_ps(_mm256_slli_epi32::<16>(bits))
            }),
            DType::F16 => pack_rows(strip, width, to, |at: *const u16| _mm256_cvtph_ps(_mm_loadu_si128(at.cast()))),
            _ => pack::pack_f32(strip, width, to),
        }
    }
}

/// Packs lanes whose steps lie side by side: eight steps of eight lanes are transposed in registers.
///
/// # Safety
/// As [`pack_f32`], for a strip of `T` with a step of 1; `load` reads eight elements.
#[inline(always)]
unsafe fn pack_rows<T>(strip: &Strip, width: usize, to: *mut f32, load: impl Fn(*const T) -> __m256) {
    let whole = strip.steps / LANES * LANES;
    for step in (0..whole).step_by(LANES) {
        for first in (0..width).step_by(LANES) {
            // SAFETY: eight steps of the lanes that the strip has; a store of eight lanes goes beyond its step only where
            // that place is written later.
            unsafe {
                let mut rows = [_mm256_setzero_ps(); LANES];
                for (n, row) in rows.iter_mut().enumerate() {
                    if first + n < strip.lanes.min(width) {
                        let at = (first + n) as isize * strip.lane + step as isize;
                        *row = load(strip.at.cast::<T>().wrapping_offset(at));
                    }
                }
                for (n, column) in transposed(rows).into_iter().enumerate() {
                    let lanes = LANES.min(width - first);
                    let place = to.add((step + n) * width + first);
                    if lanes == LANES || width < LANES && step + n + 2 < strip.steps {
                        _mm256_storeu_ps(place, column);
                    } else {
                        _mm256_maskstore_ps(place, mask_of_8(lanes), column);
                    }
                }
            }
        }
    }
    if whole < strip.steps {
        let at = strip.at.cast::<T>().wrapping_add(whole).cast();
        let rest = Strip { at, steps: strip.steps - whole, ..*strip };
        // SAFETY: the rest of the strip and of the panel.
        unsafe { pack::pack_f32(&rest, width, to.add(whole * width)) }
    }
}

/// Eight vectors, rows made columns.
///
/// # Safety
/// The machine has AVX2.
#[inline(always)]
pub(in super::super) unsafe fn transposed(rows: [__m256; LANES]) -> [__m256; LANES] {
    let [a, b, c, d, e, f, g, h] = rows;
    // SAFETY: the caller's promise.
    unsafe {
        let pair = |x: __m256, y: __m256| (_mm256_unpacklo_ps(x, y), _mm256_unpackhi_ps(x, y));
        let four = |x: __m256, y: __m256| (_mm256_shuffle_ps::<0x44>(x, y), _mm256_shuffle_ps::<0xee>(x, y));
        let ((ab0, ab1), (cd0, cd1), (ef0, ef1), (gh0, gh1)) = (pair(a, b), pair(c, d), pair(e, f), pair(g, h));
        let ((l0, l1), (l2, l3)) = (four(ab0, cd0), four(ab1, cd1));
        let ((u0, u1), (u2, u3)) = (four(ef0, gh0), four(ef1, gh1));
        let low = |x: __m256, y: __m256| _mm256_permute2f128_ps::<0x20>(x, y);
        let high = |x: __m256, y: __m256| _mm256_permute2f128_ps::<0x31>(x, y);
        [low(l0, u0), low(l1, u1), low(l2, u2), low(l3, u3), high(l0, u0), high(l1, u1), high(l2, u2), high(l3, u3)]
    }
}

/// Rounds a block of sums to bf16 or f16.
///
/// # Safety
/// As [`pack::round_sums`]; the machine has AVX2.
#[target_feature(enable = "avx2,fma,f16c")]
unsafe fn round_sums(sums: Sums, out: Rounded, rows: usize, cols: usize) {
    let whole = cols / LANES * LANES;
    for row in 0..rows {
        let to = out.at.cast::<u16>().wrapping_offset(row as isize * out.row);
        for col in (0..whole).step_by(LANES) {
            // SAFETY: eight sums of the block and their places.
            unsafe {
                let value = _mm256_loadu_ps(sums.at.add(row * sums.row + col));
                let bits = if out.dtype == DType::BF16 { bf16_bits(value) } else { _mm256_cvtps_ph::<0>(value) };
                _mm_storeu_si128(to.add(col).cast(), bits);
            }
        }
    }
    if whole < cols {
        let rest = Rounded { at: out.at.cast::<u16>().wrapping_add(whole).cast(), ..out };
        // SAFETY: the columns that are left.
        unsafe { pack::round_sums(Sums { at: sums.at.add(whole), ..sums }, rest, rows, cols - whole) }
    }
}

/// To nearest, ties to even; NaN stays NaN.
#[inline]
#[target_feature(enable = "avx2")]
fn bf16_bits(value: __m256) -> __m128i {
    let bits = _mm256_castps_si256(value);
    let odd = _mm256_and_si256(_mm256_srli_epi32::<16>(bits), _mm256_set1_epi32(1));
    let rounded = _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
    let quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x40_0000));
    let nan = _mm256_castps_si256(_mm256_cmp_ps::<_CMP_UNORD_Q>(value, value));
    let upper = _mm256_srli_epi32::<16>(_mm256_blendv_epi8(rounded, quiet, nan));
    let words = _mm256_permute4x64_epi64::<0x08>(_mm256_packus_epi32(upper, upper));
    _mm256_castsi256_si128(words)
}
