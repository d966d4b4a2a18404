//! The product with NEON: eight rows by two vectors in registers.
#![allow(unsafe_code)]

use std::arch::aarch64::*;

use tensor::DType;

use super::lanes::{Lanes, block_of, narrow_kernel};
use super::pack;

const ROWS: usize = 8;

/// Four lanes of f32.
pub(super) struct F32x4;
/// Two lanes of f64.
pub(super) struct F64x2;

macro_rules! lanes {
    ($name:ident, $elem:ty, $vector:ty, $lanes:literal, $splat:ident, $fma:ident, $add:ident, $load:ident, $store:ident) => {
        // SAFETY: callers are compiled with NEON.
        unsafe impl Lanes for $name {
            type Elem = $elem;
            type Vector = $vector;
            const LANES: usize = $lanes;

            #[inline(always)]
            fn zero() -> $vector {
                // SAFETY: NEON, as the trait says; so for the rest.
                unsafe { $splat(0.0) }
            }
            #[inline(always)]
            fn splat(value: $elem) -> $vector {
                // SAFETY: as above.
                unsafe { $splat(value) }
            }
            #[inline(always)]
            fn multiply_add(a: $vector, b: $vector, c: $vector) -> $vector {
                // SAFETY: as above.
                unsafe { $fma(c, a, b) }
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
                let mut lanes = [0.0; $lanes];
                // SAFETY: `count` elements are readable and fit the array, which is one vector.
                unsafe {
                    std::ptr::copy_nonoverlapping(from, lanes.as_mut_ptr(), count);
                    $load(lanes.as_ptr())
                }
            }
            #[inline(always)]
            unsafe fn store_part(to: *mut $elem, value: $vector, count: usize) {
                let mut lanes = [0.0; $lanes];
                // SAFETY: the array is one vector; `count` elements are writable.
                unsafe {
                    $store(lanes.as_mut_ptr(), value);
                    std::ptr::copy_nonoverlapping(lanes.as_ptr(), to, count);
                }
            }
            #[inline(always)]
            fn prefetch(_at: *const $elem) {}
        }
    };
}

lanes!(F32x4, f32, float32x4_t, 4, vdupq_n_f32, vfmaq_f32, vaddq_f32, vld1q_f32, vst1q_f32);
lanes!(F64x2, f64, float64x2_t, 2, vdupq_n_f64, vfmaq_f64, vaddq_f64, vld1q_f64, vst1q_f64);

block_of!(block, [#[target_feature(enable = "neon")]], rows: 1 2 3 4 5 6 7 8);

/// f32, and bf16 and f16 widened while packing.
pub(super) struct NeonF32;
/// f64.
pub(super) struct NeonF64;

narrow_kernel!(NeonF32, F32x4, f32, DType::F32, ROWS, block, pack::pack_f32);
narrow_kernel!(NeonF64, F64x2, f64, DType::F64, ROWS, block, pack::pack_f64);
