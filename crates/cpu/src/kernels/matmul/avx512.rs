//! The matmul with AVX-512: 14 rows by two vectors in registers, panels packed through in-register transposes.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use tensor::DType;

use super::drive::Kernel;
use super::lanes::{block_of, kernel_of, lanes_of};
use super::narrow::{Room, is_byte};
use super::pack::{self, Rounded, Strip, Sums};

const ROWS: usize = 14;

/// 16 lanes of f32.
pub(super) struct F32x16;
/// 8 lanes of f64.
pub(super) struct F64x8;

lanes_of!(
    F32x16: [f32; 16] in __m512, splat: _mm512_set1_ps, add: _mm512_add_ps, load: _mm512_loadu_ps,
    store: _mm512_storeu_ps,
    multiply_add: |a, b, c| _mm512_fmadd_ps(a, b, c),
    load_part: |from, count| _mm512_maskz_loadu_ps(first(count) as u16, from),
    store_part: |to, value, count| _mm512_mask_storeu_ps(to, first(count) as u16, value)
);
lanes_of!(
    F64x8: [f64; 8] in __m512d, splat: _mm512_set1_pd, add: _mm512_add_pd, load: _mm512_loadu_pd,
    store: _mm512_storeu_pd,
    multiply_add: |a, b, c| _mm512_fmadd_pd(a, b, c),
    load_part: |from, count| _mm512_maskz_loadu_pd(first(count) as u8, from),
    store_part: |to, value, count| _mm512_mask_storeu_pd(to, first(count) as u8, value)
);

/// The mask of the first `count` lanes.
#[inline(always)]
pub(super) fn first(count: usize) -> u32 {
    (1u32 << count) - 1
}

block_of!(block, [#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]], rows: 1 2 3 4 5 6 7 8 9 10 11 12 13 14);

/// f32, and bf16 and f16 widened while packing.
pub(super) struct Avx512F32;
/// f64.
pub(super) struct Avx512F64;

kernel_of!(Avx512F32, F32x16, DType::F32, ROWS, 512, block, pack_f32, round_sums);
kernel_of!(Avx512F64, F64x8, DType::F64, ROWS, 256, block, pack_f64, round_sums);

/// 16 elements of a matrix as f32.
pub(super) trait Wide {
    type Elem;
    /// # Safety
    /// The lanes of the mask are readable; compiled for AVX-512.
    unsafe fn wide(from: *const Self::Elem, mask: u16) -> __m512;
}

pub(super) struct FromF32;
pub(super) struct FromBf16;
pub(super) struct FromF16;

impl Wide for FromF32 {
    type Elem = f32;
    #[inline(always)]
    unsafe fn wide(from: *const f32, mask: u16) -> __m512 {
        // SAFETY: the caller's promise.
        unsafe { _mm512_maskz_loadu_ps(mask, from) }
    }
}

impl Wide for FromBf16 {
    type Elem = u16;
    #[inline(always)]
    unsafe fn wide(from: *const u16, mask: u16) -> __m512 {
        // SAFETY: the caller's promise.
        unsafe {
            let bits = _mm256_maskz_loadu_epi16(mask, from.cast());
            _mm512_castsi512_ps(_mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(bits)))
        }
    }
}

impl Wide for FromF16 {
    type Elem = u16;
    #[inline(always)]
    unsafe fn wide(from: *const u16, mask: u16) -> __m512 {
        // SAFETY: the caller's promise.
        unsafe { _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(mask, from.cast())) }
    }
}

/// Bytes as signed and as unsigned integers, and as 8-bit floats.
pub(super) struct FromSigned;
pub(super) struct FromUnsigned;
pub(super) struct FromE4M3;
pub(super) struct FromE5M2;

impl Wide for FromSigned {
    type Elem = u8;
    #[inline(always)]
    unsafe fn wide(from: *const u8, mask: u16) -> __m512 {
        // SAFETY: the caller's promise.
        unsafe { _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_maskz_loadu_epi8(mask, from.cast()))) }
    }
}

impl Wide for FromUnsigned {
    type Elem = u8;
    #[inline(always)]
    unsafe fn wide(from: *const u8, mask: u16) -> __m512 {
        // SAFETY: the caller's promise.
        unsafe { _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_maskz_loadu_epi8(mask, from.cast()))) }
    }
}

impl Wide for FromE4M3 {
    type Elem = u8;
    #[inline(always)]
    unsafe fn wide(from: *const u8, mask: u16) -> __m512 {
        // The bits of an f16 that is 2⁻⁸ of the value, denormals too; the largest magnitude is NaN.
        // SAFETY: the caller's promise.
        unsafe {
            let bytes = _mm_maskz_loadu_epi8(mask, from.cast());
            let magnitude = _mm_set1_epi8(0x7f);
            let nan = _mm_cmpeq_epi8_mask(_mm_and_si128(bytes, magnitude), magnitude);
            let words = _mm256_slli_epi16::<7>(_mm256_cvtepi8_epi16(bytes));
            let words = _mm256_and_si256(words, _mm256_set1_epi16(0xbfff_u16 as i16));
            let value = _mm512_mul_ps(_mm512_cvtph_ps(words), _mm512_set1_ps(256.0));
            _mm512_mask_mov_ps(value, nan, _mm512_set1_ps(f32::NAN))
        }
    }
}

impl Wide for FromE5M2 {
    type Elem = u8;
    #[inline(always)]
    unsafe fn wide(from: *const u8, mask: u16) -> __m512 {
        // The upper half of an f16.
        // SAFETY: the caller's promise.
        unsafe {
            let bytes = _mm_maskz_loadu_epi8(mask, from.cast());
            _mm512_cvtph_ps(_mm256_slli_epi16::<8>(_mm256_cvtepu8_epi16(bytes)))
        }
    }
}

/// Evaluates an expression with `$S` as what widens elements of a type.
macro_rules! with_wide {
    ($dtype:expr, $S:ident => $body:expr) => {
        match $dtype {
            DType::BF16 => {
                type $S = FromBf16;
                $body
            }
            DType::F16 => {
                type $S = FromF16;
                $body
            }
            DType::F8E4M3FN => {
                type $S = FromE4M3;
                $body
            }
            DType::F8E5M2 => {
                type $S = FromE5M2;
                $body
            }
            dtype if is_byte(dtype) && dtype.is_signed_integer() => {
                type $S = FromSigned;
                $body
            }
            dtype if is_byte(dtype) => {
                type $S = FromUnsigned;
                $body
            }
            _ => {
                type $S = FromF32;
                $body
            }
        }
    };
}
pub(super) use with_wide;

/// # Safety
/// As [`pack::pack`], for a panel of the kernel; the machine has AVX-512.
unsafe fn pack_f32(strip: &Strip, width: usize, to: *mut f32) {
    // SAFETY: the caller's promise.
    unsafe {
        if width == ROWS { pack_f32_wide::<ROWS>(strip, to) } else { pack_f32_wide::<{ Avx512F32::COLS }>(strip, to) }
    }
}

/// # Safety
/// As [`pack_f32`] with a width of `W`.
unsafe fn pack_f32_wide<const W: usize>(strip: &Strip, to: *mut f32) {
    let mut room = Room::new();
    // SAFETY: the caller's promise; the type is the strip's own.
    unsafe {
        let strip = &room.in_bytes(strip);
        with_wide!(strip.dtype, S => pack_wide::<S, W>(strip, to))
    }
}

/// # Safety
/// As [`pack_f32`].
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn pack_wide<S: Wide, const W: usize>(strip: &Strip, to: *mut f32) {
    const LANES: usize = 16;
    let at = strip.at.cast::<S::Elem>();
    let vectors = W.div_ceil(LANES);
    if strip.lane == 1 && strip.lanes == W && W.is_multiple_of(LANES) {
        let mut from = at;
        let mut to = to;
        for _ in 0..strip.steps {
            for v in 0..vectors {
                // SAFETY: whole vectors of the strip and of the panel.
                unsafe { _mm512_storeu_ps(to.add(v * LANES), S::wide(from.wrapping_add(v * LANES), u16::MAX)) };
            }
            from = from.wrapping_offset(strip.step);
            to = to.wrapping_add(W);
        }
    } else if strip.lane == 1 {
        for step in 0..strip.steps {
            let from = at.wrapping_offset(step as isize * strip.step);
            for v in 0..vectors {
                let held = first(strip.lanes.saturating_sub(v * LANES).min(LANES)) as u16;
                let room = first((W - v * LANES).min(LANES)) as u16;
                // SAFETY: the masks keep to the strip's lanes and to the panel.
                unsafe {
                    let value = S::wide(from.wrapping_add(v * LANES), held);
                    _mm512_mask_storeu_ps(to.add(step * W + v * LANES), room, value);
                }
            }
        }
    } else if strip.step == 1 {
        for v in 0..vectors {
            let room = first((W - v * LANES).min(LANES)) as u16;
            let lanes = strip.lanes.saturating_sub(v * LANES).min(LANES);
            let from = at.wrapping_offset((v * LANES) as isize * strip.lane);
            for step in (0..strip.steps).step_by(LANES) {
                let steps = LANES.min(strip.steps - step);
                let held = first(steps) as u16;
                let width = (W - v * LANES).min(LANES);
                if lanes == width && steps == LANES {
                    let mut rows = [_mm512_setzero_ps(); LANES];
                    for (i, row) in rows.iter_mut().enumerate().take(width) {
                        let lane = from.wrapping_offset(i as isize * strip.lane);
                        // SAFETY: the tile is full.
                        *row = unsafe { S::wide(lane.wrapping_add(step), u16::MAX) };
                    }
                    for (p, &column) in transpose(&rows).iter().enumerate() {
                        // SAFETY: a vector of the panel, as far as the panel is wide.
                        unsafe {
                            _mm512_mask_storeu_ps(to.wrapping_add((step + p) * W + v * LANES), room, column);
                        }
                    }
                    continue;
                }
                let mut rows = [_mm512_setzero_ps(); LANES];
                for (i, row) in rows.iter_mut().enumerate() {
                    let lane = from.wrapping_offset(i as isize * strip.lane);
                    let mask = if i < lanes { held } else { 0 };
                    // SAFETY: the mask keeps to the strip's lanes and steps.
                    *row = unsafe { S::wide(lane.wrapping_add(step), mask) };
                }
                let columns = transpose(&rows);
                for (p, &column) in columns.iter().enumerate() {
                    let mask = if p < steps { room } else { 0 };
                    // SAFETY: the mask keeps to the panel.
                    unsafe { _mm512_mask_storeu_ps(to.wrapping_add((step + p) * W + v * LANES), mask, column) };
                }
            }
        }
    } else {
        // SAFETY: the caller's promise.
        unsafe { pack::pack_f32(strip, W, to) }
    }
}

/// Rows become columns.
#[inline]
#[target_feature(enable = "avx512f")]
pub(crate) fn transpose(rows: &[__m512; 16]) -> [__m512; 16] {
    // Pairs of rows, then fours, then the 128-bit quarters.
    let mut pairs = [_mm512_setzero_pd(); 16];
    for i in 0..8 {
        pairs[2 * i] = _mm512_castps_pd(_mm512_unpacklo_ps(rows[2 * i], rows[2 * i + 1]));
        pairs[2 * i + 1] = _mm512_castps_pd(_mm512_unpackhi_ps(rows[2 * i], rows[2 * i + 1]));
    }
    let mut fours = [_mm512_setzero_ps(); 16];
    for i in 0..4 {
        fours[4 * i] = _mm512_castpd_ps(_mm512_unpacklo_pd(pairs[4 * i], pairs[4 * i + 2]));
        fours[4 * i + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(pairs[4 * i], pairs[4 * i + 2]));
        fours[4 * i + 2] = _mm512_castpd_ps(_mm512_unpacklo_pd(pairs[4 * i + 1], pairs[4 * i + 3]));
        fours[4 * i + 3] = _mm512_castpd_ps(_mm512_unpackhi_pd(pairs[4 * i + 1], pairs[4 * i + 3]));
    }
    let mut columns = [_mm512_setzero_ps(); 16];
    for i in 0..4 {
        let low02 = _mm512_shuffle_f32x4::<0x88>(fours[i], fours[4 + i]);
        let low13 = _mm512_shuffle_f32x4::<0xdd>(fours[i], fours[4 + i]);
        let high02 = _mm512_shuffle_f32x4::<0x88>(fours[8 + i], fours[12 + i]);
        let high13 = _mm512_shuffle_f32x4::<0xdd>(fours[8 + i], fours[12 + i]);
        columns[i] = _mm512_shuffle_f32x4::<0x88>(low02, high02);
        columns[8 + i] = _mm512_shuffle_f32x4::<0xdd>(low02, high02);
        columns[4 + i] = _mm512_shuffle_f32x4::<0x88>(low13, high13);
        columns[12 + i] = _mm512_shuffle_f32x4::<0xdd>(low13, high13);
    }
    columns
}

/// # Safety
/// As [`pack::pack`]; the machine has AVX-512.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn pack_f64(strip: &Strip, width: usize, to: *mut f64) {
    const LANES: usize = 8;
    if strip.lane != 1 {
        // SAFETY: the caller's promise.
        return unsafe { pack::pack::<f64>(strip, width, 0.0, to) };
    }
    let at = strip.at.cast::<f64>();
    for step in 0..strip.steps {
        let from = at.wrapping_offset(step as isize * strip.step);
        for v in 0..width.div_ceil(LANES) {
            let held = first(strip.lanes.saturating_sub(v * LANES).min(LANES)) as u8;
            let room = first((width - v * LANES).min(LANES)) as u8;
            // SAFETY: the masks keep to the strip's lanes and to the panel.
            unsafe {
                let value = _mm512_maskz_loadu_pd(held, from.wrapping_add(v * LANES));
                _mm512_mask_storeu_pd(to.add(step * width + v * LANES), room, value);
            }
        }
    }
}

/// Rounds a block of f32 sums to bf16 or f16.
///
/// # Safety
/// As [`pack::round_sums`]; the machine has AVX-512.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
pub(super) unsafe fn round_sums(sums: Sums, out: Rounded, rows: usize, cols: usize) {
    for row in 0..rows {
        let to = out.at.cast::<i16>().wrapping_offset(row as isize * out.row);
        for col in (0..cols).step_by(16) {
            let mask = first((cols - col).min(16)) as u16;
            // SAFETY: the mask keeps to the block.
            unsafe {
                let value = _mm512_maskz_loadu_ps(mask, sums.at.add(row * sums.row + col));
                let bits = if out.dtype == DType::BF16 {
                    to_bf16(value)
                } else {
                    _mm512_cvtps_ph::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(value)
                };
                _mm256_mask_storeu_epi16(to.add(col), mask, bits);
            }
        }
    }
}

/// To nearest, ties to even; NaN stays NaN.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
fn to_bf16(value: __m512) -> __m256i {
    let bits = _mm512_castps_si512(value);
    let odd = _mm512_and_si512(_mm512_srli_epi32::<16>(bits), _mm512_set1_epi32(1));
    let rounded = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
    let nan = _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(value, value);
    let rounded = _mm512_mask_or_epi32(rounded, nan, bits, _mm512_set1_epi32(0x40_0000));
    _mm512_cvtepi32_epi16(_mm512_srli_epi32::<16>(rounded))
}
