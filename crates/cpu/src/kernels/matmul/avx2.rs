//! The matmul with AVX2 and FMA: six rows by two vectors in registers.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use tensor::DType;

use super::lanes::{block_of, kernel_of, lanes_of};
use super::pack::{self, Strip};

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
unsafe fn mask_of_8(count: usize) -> __m256i {
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

kernel_of!(Avx2F32, F32x8, DType::F32, ROWS, 256, block, pack_f32, pack::round_sums);
kernel_of!(Avx2F64, F64x4, DType::F64, ROWS, 256, block, pack::pack_f64, pack::round_sums);

/// # Safety
/// As [`pack::pack`]; the machine has AVX2.
#[target_feature(enable = "avx2,fma")]
unsafe fn pack_f32(strip: &Strip, width: usize, to: *mut f32) {
    // SAFETY: the caller's promise.
    unsafe { pack::pack_f32(strip, width, to) }
}
