//! The matmul with NEON: eight rows by two vectors in registers.
#![allow(unsafe_code)]

use std::arch::aarch64::*;

use tensor::DType;

use super::lanes::{block_of, kernel_of, lanes_of};
use super::pack;

const ROWS: usize = 8;

/// Four lanes of f32.
pub(super) struct F32x4;
/// Two lanes of f64.
pub(super) struct F64x2;

lanes_of!(
    F32x4: [f32; 4] in float32x4_t, splat: vdupq_n_f32, add: vaddq_f32, load: vld1q_f32, store: vst1q_f32,
    multiply_add: |a, b, c| vfmaq_f32(c, a, b),
    load_part: |from, count| vld1q_f32(first::<f32, 4>(from, count).as_ptr()),
    store_part: |to, value, count| {
        let mut lanes = [0.0; 4];
        vst1q_f32(lanes.as_mut_ptr(), value);
        std::ptr::copy_nonoverlapping(lanes.as_ptr(), to, count);
    }
);
lanes_of!(
    F64x2: [f64; 2] in float64x2_t, splat: vdupq_n_f64, add: vaddq_f64, load: vld1q_f64, store: vst1q_f64,
    multiply_add: |a, b, c| vfmaq_f64(c, a, b),
    load_part: |from, count| vld1q_f64(first::<f64, 2>(from, count).as_ptr()),
    store_part: |to, value, count| {
        let mut lanes = [0.0; 2];
        vst1q_f64(lanes.as_mut_ptr(), value);
        std::ptr::copy_nonoverlapping(lanes.as_ptr(), to, count);
    }
);

/// The first `count` elements, zeros after them.
///
/// # Safety
/// `count <= N` elements are readable.
#[inline(always)]
unsafe fn first<T: Copy + Default, const N: usize>(from: *const T, count: usize) -> [T; N] {
    let mut lanes = [T::default(); N];
    // SAFETY: the caller's promise.
    unsafe { std::ptr::copy_nonoverlapping(from, lanes.as_mut_ptr(), count) };
    lanes
}

block_of!(block, [#[target_feature(enable = "neon")]], rows: 1 2 3 4 5 6 7 8);

/// f32, and bf16 and f16 widened while packing.
pub(super) struct NeonF32;
/// f64.
pub(super) struct NeonF64;

kernel_of!(NeonF32, F32x4, DType::F32, ROWS, 256, block, pack::pack_f32, pack::round_sums);
kernel_of!(NeonF64, F64x2, DType::F64, ROWS, 256, block, pack::pack_f64, pack::round_sums);
