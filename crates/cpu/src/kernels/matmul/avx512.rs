//! The product with AVX-512: 14 rows by two vectors in registers, panels packed through in-register transposes.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use tensor::DType;

use super::ahead::Ahead;
use super::drive::{Block, Kernel};
use super::lanes::{Factors, Lanes, Place, block_of};
use super::pack::{self, Rounded, Strip, Sums};

const ROWS: usize = 14;
const VECTORS: usize = 2;

/// 16 lanes of f32.
pub(super) struct F32x16;
/// 8 lanes of f64.
pub(super) struct F64x8;

macro_rules! lanes {
    ($name:ident, $elem:ty, $vector:ty, $lanes:literal, $mask:ty, $zero:ident, $splat:ident, $fma:ident, $add:ident,
     $load:ident, $store:ident, $load_part:ident, $store_part:ident) => {
        // SAFETY: callers are compiled with avx512f.
        unsafe impl Lanes for $name {
            type Elem = $elem;
            type Vector = $vector;
            const LANES: usize = $lanes;

            #[inline(always)]
            fn zero() -> $vector {
                // SAFETY: AVX-512, as the trait says; so for the rest.
                unsafe { $zero() }
            }
            #[inline(always)]
            fn splat(value: $elem) -> $vector {
                // SAFETY: as above.
                unsafe { $splat(value) }
            }
            #[inline(always)]
            fn multiply_add(a: $vector, b: $vector, c: $vector) -> $vector {
                // SAFETY: as above.
                unsafe { $fma(a, b, c) }
            }
            #[inline(always)]
            fn add(a: $vector, b: $vector) -> $vector {
                // SAFETY: as above.
                unsafe { $add(a, b) }
            }
            #[inline(always)]
            unsafe fn load(from: *const $elem) -> $vector {
                // SAFETY: the caller's promise.
                unsafe { $load(from) }
            }
            #[inline(always)]
            unsafe fn store(to: *mut $elem, value: $vector) {
                // SAFETY: the caller's promise.
                unsafe { $store(to, value) }
            }
            #[inline(always)]
            unsafe fn load_part(from: *const $elem, count: usize) -> $vector {
                // SAFETY: the mask has the first `count` lanes.
                unsafe { $load_part(first(count) as $mask, from) }
            }
            #[inline(always)]
            unsafe fn store_part(to: *mut $elem, value: $vector, count: usize) {
                // SAFETY: the mask has the first `count` lanes.
                unsafe { $store_part(to, first(count) as $mask, value) }
            }
            #[inline(always)]
            fn prefetch(at: *const $elem) {
                // SAFETY: a prefetch reads nothing.
                unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) }
            }
        }
    };
}

lanes!(
    F32x16,
    f32,
    __m512,
    16,
    u16,
    _mm512_setzero_ps,
    _mm512_set1_ps,
    _mm512_fmadd_ps,
    _mm512_add_ps,
    _mm512_loadu_ps,
    _mm512_storeu_ps,
    _mm512_maskz_loadu_ps,
    _mm512_mask_storeu_ps
);
lanes!(
    F64x8,
    f64,
    __m512d,
    8,
    u8,
    _mm512_setzero_pd,
    _mm512_set1_pd,
    _mm512_fmadd_pd,
    _mm512_add_pd,
    _mm512_loadu_pd,
    _mm512_storeu_pd,
    _mm512_maskz_loadu_pd,
    _mm512_mask_storeu_pd
);

/// The mask of the first `count` lanes.
#[inline(always)]
pub(super) fn first(count: usize) -> u32 {
    (1u32 << count) - 1
}

block_of!(block, [#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]], rows: 1 2 3 4 5 6 7 8 9 10 11 12 13 14);

macro_rules! kernel {
    ($name:ident, $elem:ty, $lanes:ty, $dtype:expr, $piece:literal, $pack:ident) => {
        impl Kernel for $name {
            type Left = $elem;
            type Right = $elem;
            type Sum = $elem;
            const ROWS: usize = ROWS;
            const COLS: usize = VECTORS * <$lanes>::LANES;
            const STEP: usize = 1;
            const PIECE: usize = $piece;
            const SUM: DType = $dtype;

            unsafe fn pack_left(strip: &Strip, to: *mut $elem) {
                // SAFETY: the caller's promise.
                unsafe { $pack::<ROWS>(strip, to) }
            }
            unsafe fn pack_right(strip: &Strip, to: *mut $elem) {
                // SAFETY: the caller's promise.
                unsafe { $pack::<{ VECTORS * <$lanes>::LANES }>(strip, to) }
            }
            #[inline(always)]
            unsafe fn multiply(b: Block<Self>, ahead: &mut Ahead) {
                let vectors = b.cols.div_ceil(<$lanes>::LANES);
                let last = b.cols - (vectors - 1) * <$lanes>::LANES;
                let factors = Factors {
                    steps: b.steps,
                    left: b.left,
                    left_row: 1,
                    left_step: ROWS as isize,
                    right: b.right,
                    right_step: Self::COLS as isize,
                };
                // SAFETY: the caller's promise.
                unsafe {
                    block::<$lanes, ROWS>(
                        b.rows,
                        vectors,
                        factors,
                        Place { at: b.sum, row: b.sum_row, start: b.start, last },
                        ahead,
                    )
                }
            }
            #[inline(always)]
            unsafe fn multiply_direct(rows: usize, cols: usize, factors: Factors<$elem>, place: Place<$elem>) {
                let vectors = cols.div_ceil(<$lanes>::LANES);
                let last = cols - (vectors - 1) * <$lanes>::LANES;
                let mut ahead = Ahead::NOTHING;
                // SAFETY: the caller's promise.
                unsafe { block::<$lanes, 0>(rows, vectors, factors, Place { last, ..place }, &mut ahead) }
            }
            unsafe fn round_sums(sums: Sums, out: Rounded, rows: usize, cols: usize) {
                // SAFETY: the caller's promise.
                unsafe { round_sums(sums, out, rows, cols) }
            }
        }
    };
}

/// f32, and bf16 and f16 widened while packing.
pub(super) struct Avx512F32;
/// f64.
pub(super) struct Avx512F64;

kernel!(Avx512F32, f32, F32x16, DType::F32, 512, pack_f32);
kernel!(Avx512F64, f64, F64x8, DType::F64, 256, pack_f64);

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

/// # Safety
/// As [`pack::pack`] with a width of `W`; the machine has AVX-512.
unsafe fn pack_f32<const W: usize>(strip: &Strip, to: *mut f32) {
    // SAFETY: the caller's promise; the type is the strip's own.
    unsafe {
        match strip.dtype {
            DType::BF16 => pack_wide::<FromBf16, W>(strip, to),
            DType::F16 => pack_wide::<FromF16, W>(strip, to),
            _ => pack_wide::<FromF32, W>(strip, to),
        }
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
/// As [`pack::pack`] with a width of `W`; the machine has AVX-512.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn pack_f64<const W: usize>(strip: &Strip, to: *mut f64) {
    const LANES: usize = 8;
    if strip.lane != 1 {
        // SAFETY: the caller's promise.
        return unsafe { pack::pack::<f64>(strip, W, 0.0, to) };
    }
    let at = strip.at.cast::<f64>();
    for step in 0..strip.steps {
        let from = at.wrapping_offset(step as isize * strip.step);
        for v in 0..W.div_ceil(LANES) {
            let held = first(strip.lanes.saturating_sub(v * LANES).min(LANES)) as u8;
            let room = first((W - v * LANES).min(LANES)) as u8;
            // SAFETY: the masks keep to the strip's lanes and to the panel.
            unsafe {
                let value = _mm512_maskz_loadu_pd(held, from.wrapping_add(v * LANES));
                _mm512_mask_storeu_pd(to.add(step * W + v * LANES), room, value);
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
