//! The product with AVX2 and FMA: six rows by two vectors in registers.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use tensor::DType;

use super::lanes::{Lanes, block_of, narrow_kernel};
use super::pack;

const ROWS: usize = 6;

/// Eight lanes of f32.
pub(super) struct F32x8;
/// Four lanes of f64.
pub(super) struct F64x4;

macro_rules! lanes {
    ($name:ident, $elem:ty, $vector:ty, $lanes:literal, $mask:ident, $zero:ident, $splat:ident, $fma:ident, $add:ident,
     $load:ident, $store:ident, $load_part:ident, $store_part:ident) => {
        // SAFETY: callers are compiled with AVX2 and FMA.
        unsafe impl Lanes for $name {
            type Elem = $elem;
            type Vector = $vector;
            const LANES: usize = $lanes;

            #[inline(always)]
            fn zero() -> $vector {
                // SAFETY: AVX2 and FMA, as the trait says; so for the rest.
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
                unsafe { $load_part(from, $mask(count)) }
            }
            #[inline(always)]
            unsafe fn store_part(to: *mut $elem, value: $vector, count: usize) {
                // SAFETY: the mask has the first `count` lanes.
                unsafe { $store_part(to, $mask(count), value) }
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
    F32x8,
    f32,
    __m256,
    8,
    mask_of_8,
    _mm256_setzero_ps,
    _mm256_set1_ps,
    _mm256_fmadd_ps,
    _mm256_add_ps,
    _mm256_loadu_ps,
    _mm256_storeu_ps,
    _mm256_maskload_ps,
    _mm256_maskstore_ps
);
lanes!(
    F64x4,
    f64,
    __m256d,
    4,
    mask_of_4,
    _mm256_setzero_pd,
    _mm256_set1_pd,
    _mm256_fmadd_pd,
    _mm256_add_pd,
    _mm256_loadu_pd,
    _mm256_storeu_pd,
    _mm256_maskload_pd,
    _mm256_maskstore_pd
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

narrow_kernel!(Avx2F32, F32x8, f32, DType::F32, ROWS, block, pack::pack_f32);
narrow_kernel!(Avx2F64, F64x4, f64, DType::F64, ROWS, block, pack::pack_f64);
