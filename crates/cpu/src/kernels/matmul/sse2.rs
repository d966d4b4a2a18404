//! The matmul of f32 with SSE2, which every x86-64 machine has: three rows by four vectors in registers.
//!
//! Twelve of sixteen registers hold sums. A compiler keeps the vectors of the right factor in registers too and moves sums to
//! memory for that, so the steps of a whole block are written out.
#![allow(unsafe_code)]

use std::arch::asm;
use std::arch::x86_64::*;

use tensor::DType;

use super::ahead::{Ahead, near_line};
use super::lanes::{Factors, Lanes, Place, Start, block_of, kernel_of};
use super::pack;

const ROWS: usize = 3;
/// Steps between which lines are fetched.
const RUN_STEPS: usize = 32;
/// Lines fetched with each run of steps.
const FETCHED: usize = 8;

/// Eight lanes of f32 in two registers.
pub(super) struct F32x8;

// SAFETY: SSE2 is there on every x86-64 machine.
unsafe impl Lanes for F32x8 {
    type Elem = f32;
    type Vector = [__m128; 2];
    const LANES: usize = 8;

    #[inline(always)]
    fn zero() -> Self::Vector {
        Self::splat(0.0)
    }
    #[inline(always)]
    fn splat(value: f32) -> Self::Vector {
        // SAFETY: as above; so for the rest.
        unsafe { [_mm_set1_ps(value); 2] }
    }
    #[inline(always)]
    fn multiply_add(a: Self::Vector, b: Self::Vector, c: Self::Vector) -> Self::Vector {
        // SAFETY: as above.
        unsafe { [_mm_add_ps(c[0], _mm_mul_ps(a[0], b[0])), _mm_add_ps(c[1], _mm_mul_ps(a[1], b[1]))] }
    }
    #[inline(always)]
    fn add(a: Self::Vector, b: Self::Vector) -> Self::Vector {
        // SAFETY: as above.
        unsafe { [_mm_add_ps(a[0], b[0]), _mm_add_ps(a[1], b[1])] }
    }
    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self::Vector {
        // SAFETY: the caller's promise.
        unsafe { [_mm_loadu_ps(from), _mm_loadu_ps(from.add(4))] }
    }
    #[inline(always)]
    unsafe fn store(to: *mut f32, value: Self::Vector) {
        // SAFETY: the caller's promise.
        unsafe {
            _mm_storeu_ps(to, value[0]);
            _mm_storeu_ps(to.add(4), value[1]);
        }
    }
    #[inline(always)]
    unsafe fn load_part(from: *const f32, count: usize) -> Self::Vector {
        let mut lanes = [0.0; 8];
        // SAFETY: only the first `count` elements are read.
        unsafe {
            std::ptr::copy_nonoverlapping(from, lanes.as_mut_ptr(), count.min(8));
            Self::load(lanes.as_ptr())
        }
    }
    #[inline(always)]
    unsafe fn store_part(to: *mut f32, value: Self::Vector, count: usize) {
        let mut lanes = [0.0; 8];
        // SAFETY: only the first `count` elements are written.
        unsafe {
            Self::store(lanes.as_mut_ptr(), value);
            std::ptr::copy_nonoverlapping(lanes.as_ptr(), to, count.min(8));
        }
    }
}

block_of!(partial_block, [], rows: 1 2 3);

/// f32, and bf16 and f16 widened while packing.
pub(super) struct Sse2F32;

kernel_of!(Sse2F32, F32x8, DType::F32, ROWS, 256, block, pack::pack_f32, pack::round_sums);

/// # Safety
/// As [`partial_block`].
#[inline(always)]
unsafe fn block<L: Lanes<Elem = f32>, const PANEL: usize>(
    rows: usize,
    vectors: usize,
    factors: Factors<f32>,
    place: Place<f32>,
    ahead: &mut Ahead,
) {
    // SAFETY: the caller's promise; a packed block of this size is whole.
    unsafe {
        if PANEL == ROWS && (rows, vectors, place.last) == (ROWS, 2, F32x8::LANES) {
            return whole_block(factors, place, ahead);
        }
        partial_block::<L, PANEL>(rows, vectors, factors, place, ahead)
    }
}

/// A block of all rows and vectors of packed panels.
///
/// # Safety
/// Both panels have the steps; the place is readable and writable for the whole block.
unsafe fn whole_block(factors: Factors<f32>, place: Place<f32>, ahead: &mut Ahead) {
    let Factors { steps, mut left, mut right, .. } = factors;
    // SAFETY: as [`F32x8`].
    let mut sums = [unsafe { _mm_setzero_ps() }; 12];
    let row_at = |i: usize| place.at.wrapping_offset(i as isize * place.row);
    // Rows of the result are brought near one after the other: all at once would take every line buffer from the factors.
    let mut near = 0;
    let mut steps_left = steps;
    while steps_left > 0 {
        ahead.fetch_few::<FETCHED>();
        if near < ROWS {
            near_line(row_at(near).cast());
            near += 1;
        }
        let run = steps_left.min(RUN_STEPS);
        steps_left -= run;
        let [s0, s1, s2, s3, s4, s5, s6, s7, s8, s9, s10, s11] = &mut sums;
        // SAFETY: each step reads three elements of the left panel and four vectors of the right one, which have them.
        unsafe {
            asm!(
                "2:",
                "movss xmm12, [{left}]",
                "shufps xmm12, xmm12, 0",
                "movups xmm13, [{right}]",
                "mulps xmm13, xmm12",
                "addps xmm0, xmm13",
                "movups xmm14, [{right} + 16]",
                "mulps xmm14, xmm12",
                "addps xmm1, xmm14",
                "movups xmm15, [{right} + 32]",
                "mulps xmm15, xmm12",
                "addps xmm2, xmm15",
                "movups xmm13, [{right} + 48]",
                "mulps xmm13, xmm12",
                "addps xmm3, xmm13",
                "movss xmm12, [{left} + 4]",
                "shufps xmm12, xmm12, 0",
                "movups xmm14, [{right}]",
                "mulps xmm14, xmm12",
                "addps xmm4, xmm14",
                "movups xmm15, [{right} + 16]",
                "mulps xmm15, xmm12",
                "addps xmm5, xmm15",
                "movups xmm13, [{right} + 32]",
                "mulps xmm13, xmm12",
                "addps xmm6, xmm13",
                "movups xmm14, [{right} + 48]",
                "mulps xmm14, xmm12",
                "addps xmm7, xmm14",
                "movss xmm12, [{left} + 8]",
                "shufps xmm12, xmm12, 0",
                "movups xmm15, [{right}]",
                "mulps xmm15, xmm12",
                "addps xmm8, xmm15",
                "movups xmm13, [{right} + 16]",
                "mulps xmm13, xmm12",
                "addps xmm9, xmm13",
                "movups xmm14, [{right} + 32]",
                "mulps xmm14, xmm12",
                "addps xmm10, xmm14",
                "movups xmm15, [{right} + 48]",
                "mulps xmm15, xmm12",
                "addps xmm11, xmm15",
                "add {left}, 12",
                "add {right}, 64",
                "sub {run}, 1",
                "jnz 2b",
                left = inout(reg) left,
                right = inout(reg) right,
                run = inout(reg) run => _,
                inout("xmm0") *s0, inout("xmm1") *s1, inout("xmm2") *s2, inout("xmm3") *s3,
                inout("xmm4") *s4, inout("xmm5") *s5, inout("xmm6") *s6, inout("xmm7") *s7,
                inout("xmm8") *s8, inout("xmm9") *s9, inout("xmm10") *s10, inout("xmm11") *s11,
                out("xmm12") _, out("xmm13") _, out("xmm14") _, out("xmm15") _,
                options(nostack, readonly),
            );
        }
    }
    for i in 0..ROWS {
        for v in 0..4 {
            let at = row_at(i).wrapping_add(4 * v);
            // SAFETY: a vector of the place.
            unsafe {
                let mut sum = sums[4 * i + v];
                if place.start == Start::Result {
                    sum = _mm_add_ps(sum, _mm_loadu_ps(at));
                }
                _mm_storeu_ps(at, sum);
            }
        }
    }
}
