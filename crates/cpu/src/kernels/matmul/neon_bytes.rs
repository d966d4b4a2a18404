//! Matmuls of bytes with NEON: dot products of four bytes where the CPU has them, else products of 16-bit words.
//!
//! For dot products panels hold four steps of a lane side by side. There are instructions for two signed and for two unsigned
//! factors: where they differ, the left one is moved by 128 while it is packed, and 128 times the sum of each column comes off
//! the result again, modulo 2³². Words are the bytes widened while they are packed, step after step.
#![allow(unsafe_code)]
// Rows and vectors are indices into several arrays at once.
#![allow(clippy::needless_range_loop)]

use std::arch::aarch64::*;

use tensor::DType;

use super::ahead::Ahead;
use super::drive::{Block, Kernel};
use super::lanes::Start;
use super::narrow::Room;
use super::pack::Strip;

/// Steps side by side.
const QUAD: usize = 4;
/// Steps of a right panel that stay in L1.
const PIECE: usize = 512;
const ROWS: usize = 8;
const COLS: usize = 8;

/// Dot products: whether the bytes of each factor are signed.
pub(super) struct NeonDot<const LEFT_SIGNED: bool, const RIGHT_SIGNED: bool>;
/// Products of words, for CPUs without dot products.
pub(super) struct NeonWords;

/// Calls `$block` with the number of rows as a constant.
macro_rules! by_rows {
    ($rows:expr, $($m:literal => $call:expr),*) => {
        match $rows {
            $($m => $call,)*
            other => debug_assert!(false, "no block of {other} rows"),
        }
    };
}

/// Adds to each lane the products of its four bytes with those of one lane of the left factor.
macro_rules! dot_lane {
    ($signed:ident, $sum:expr, $right:expr, $left:expr, $lane:literal) => {
        if $signed {
            std::arch::asm!(
                concat!("sdot {0:v}.4s, {1:v}.16b, {2:v}.4b[", $lane, "]"),
                inout(vreg) $sum, in(vreg) $right, in(vreg) $left, options(pure, nomem, nostack, preserves_flags)
            );
        } else {
            std::arch::asm!(
                concat!("udot {0:v}.4s, {1:v}.16b, {2:v}.4b[", $lane, "]"),
                inout(vreg) $sum, in(vreg) $right, in(vreg) $left, options(pure, nomem, nostack, preserves_flags)
            );
        }
    };
}

/// Where the sums of a block go.
struct Sums {
    at: *mut i32,
    row: isize,
    start: Start,
    cols: usize,
}

impl Sums {
    fn of<K: Kernel<Sum = i32>>(b: &Block<K>) -> Sums {
        Sums { at: b.sum, row: b.sum_row, start: b.start, cols: b.cols }
    }
}

/// Stores or adds the columns of a block that belong to the result. No function: sums whose address is taken would be kept in
/// memory while they are summed.
macro_rules! store {
    ($sums:ident, $to:expr) => {
        for i in 0..$sums.len() {
            let at = $to.at.wrapping_offset(i as isize * $to.row);
            if $to.cols == COLS {
                for v in 0..2 {
                    // SAFETY: both vectors of the row are of the result.
                    unsafe {
                        let to = at.add(4 * v);
                        let old = if $to.start == Start::Zero { vdupq_n_s32(0) } else { vld1q_s32(to) };
                        vst1q_s32(to, vaddq_s32($sums[i][v], old));
                    }
                }
                continue;
            }
            let mut row = [0i32; COLS];
            // SAFETY: the row has both vectors; of the result only the block's columns are touched.
            unsafe {
                vst1q_s32(row.as_mut_ptr(), $sums[i][0]);
                vst1q_s32(row.as_mut_ptr().add(4), $sums[i][1]);
                for (j, &sum) in row.iter().enumerate().take($to.cols) {
                    let old = if $to.start == Start::Result { *at.add(j) } else { 0 };
                    at.add(j).write(sum.wrapping_add(old));
                }
            }
        }
    };
}

impl<const LEFT_SIGNED: bool, const RIGHT_SIGNED: bool> Kernel for NeonDot<LEFT_SIGNED, RIGHT_SIGNED> {
    type Left = u8;
    type Right = u8;
    type Sum = i32;
    const ROWS: usize = ROWS;
    const COLS: usize = COLS;
    const STEP: usize = QUAD;
    const PIECE: usize = PIECE;
    const SUM: DType = DType::I32;

    unsafe fn pack_left(strip: &Strip, to: *mut u8) {
        let moved = if LEFT_SIGNED == RIGHT_SIGNED { 0 } else { 0x80 };
        // SAFETY: the caller's promise.
        unsafe {
            let whole = if strip.step == 1 && strip.lanes == ROWS { pack_runs(strip, moved, to) } else { 0 };
            let rest = Strip { at: strip.at.wrapping_add(whole), steps: strip.steps - whole, ..*strip };
            pack_quads(&rest, ROWS, moved, to.add(whole * ROWS));
        }
    }
    unsafe fn pack_right(strip: &Strip, to: *mut u8) {
        // SAFETY: the caller's promise.
        unsafe {
            let mut room = Room::new();
            let strip = &room.in_bytes(strip);
            if strip.lane == 1 && strip.lanes == COLS {
                pack_side_by_side(strip, to);
            } else {
                pack_quads(strip, COLS, 0, to);
            }
        }
    }
    #[inline(always)]
    unsafe fn multiply(b: Block<Self>, ahead: &mut Ahead) {
        #[inline]
        #[target_feature(enable = "neon,dotprod")]
        unsafe fn block<const M: usize, const LEFT: bool, const RIGHT: bool>(
            quads: usize,
            left: *const u8,
            right: *const u8,
            to: &Sums,
        ) {
            let mut sums = [[vdupq_n_s32(0); 2]; M];
            let mut columns = [vdupq_n_s32(0); 2];
            let ones = vdupq_n_u8(1);
            for quad in 0..quads {
                // SAFETY: both panels have this many groups of four steps, for all lanes of a panel.
                unsafe {
                    let at = right.add(quad * COLS * QUAD);
                    let right = [vld1q_u8(at), vld1q_u8(at.add(16))];
                    if LEFT != RIGHT {
                        for v in 0..2 {
                            dot_lane!(RIGHT, columns[v], right[v], ones, 0);
                        }
                    }
                    let at = left.add(quad * ROWS * QUAD);
                    for half in 0..M.div_ceil(4) {
                        let left = vld1q_u8(at.add(16 * half));
                        let first = 4 * half;
                        for v in 0..2 {
                            dot_lane!(RIGHT, sums[first][v], right[v], left, 0);
                            if first + 1 < M {
                                dot_lane!(RIGHT, sums[first + 1][v], right[v], left, 1);
                            }
                            if first + 2 < M {
                                dot_lane!(RIGHT, sums[first + 2][v], right[v], left, 2);
                            }
                            if first + 3 < M {
                                dot_lane!(RIGHT, sums[first + 3][v], right[v], left, 3);
                            }
                        }
                    }
                }
            }
            if LEFT != RIGHT {
                for v in 0..2 {
                    let moved = vshlq_n_s32::<7>(columns[v]);
                    for i in 0..M {
                        // An unsigned left factor became 128 less, a signed one 128 more.
                        sums[i][v] = if RIGHT { vaddq_s32(sums[i][v], moved) } else { vsubq_s32(sums[i][v], moved) };
                    }
                }
            }
            store!(sums, to);
        }
        ahead.fetch(usize::MAX);
        let (quads, to) = (b.steps.div_ceil(QUAD), Sums::of(&b));
        macro_rules! rows {
            ($($m:literal)*) => {
                by_rows!(b.rows, $($m => block::<$m, LEFT_SIGNED, RIGHT_SIGNED>(quads, b.left, b.right, &to)),*)
            };
        }
        // SAFETY: the caller's promise.
        unsafe { rows!(1 2 3 4 5 6 7 8) }
    }
}

impl Kernel for NeonWords {
    type Left = i16;
    type Right = i16;
    type Sum = i32;
    const ROWS: usize = ROWS;
    const COLS: usize = COLS;
    const STEP: usize = 1;
    const PIECE: usize = PIECE;
    const SUM: DType = DType::I32;

    unsafe fn pack_left(strip: &Strip, to: *mut i16) {
        // SAFETY: the caller's promise.
        unsafe { pack_words(strip, ROWS, to) }
    }
    unsafe fn pack_right(strip: &Strip, to: *mut i16) {
        // SAFETY: the caller's promise.
        unsafe { pack_words(&Room::new().in_bytes(strip), COLS, to) }
    }
    #[inline(always)]
    unsafe fn multiply(b: Block<Self>, ahead: &mut Ahead) {
        #[inline]
        #[target_feature(enable = "neon")]
        unsafe fn block<const M: usize>(steps: usize, left: *const i16, right: *const i16, to: &Sums) {
            let mut sums = [[vdupq_n_s32(0); 2]; M];
            for step in 0..steps {
                // SAFETY: both panels have this many steps, for all lanes of a panel.
                let (left, right) = unsafe { (vld1q_s16(left.add(step * ROWS)), vld1q_s16(right.add(step * COLS))) };
                macro_rules! row {
                    ($($i:literal)*) => {
                        $(if $i < M {
                            let i = $i;
                            sums[i][0] = vmlal_laneq_s16::<$i>(sums[i][0], vget_low_s16(right), left);
                            sums[i][1] = vmlal_high_laneq_s16::<$i>(sums[i][1], right, left);
                        })*
                    };
                }
                row!(0 1 2 3 4 5 6 7);
            }
            store!(sums, to);
        }
        ahead.fetch(usize::MAX);
        let (steps, to) = (b.steps, Sums::of(&b));
        macro_rules! rows {
            ($($m:literal)*) => {
                by_rows!(b.rows, $($m => block::<$m>(steps, b.left, b.right, &to)),*)
            };
        }
        // SAFETY: the caller's promise.
        unsafe { rows!(1 2 3 4 5 6 7 8) }
    }
}

/// Packs lanes as bytes, four steps side by side, each with the bits of `moved` turned over; what the strip does not have is 0.
///
/// # Safety
/// The strip is readable; `to` takes `width` lanes of its steps rounded up to four.
unsafe fn pack_quads(strip: &Strip, width: usize, moved: u8, to: *mut u8) {
    for (quad, step) in (0..strip.steps).step_by(QUAD).enumerate() {
        let steps = QUAD.min(strip.steps - step);
        for lane in 0..width {
            let mut bytes = [0; QUAD];
            if lane < strip.lanes {
                let at = strip.at.wrapping_offset(lane as isize * strip.lane + step as isize * strip.step);
                // SAFETY: the steps and the lane are the strip's.
                unsafe {
                    if strip.step == 1 && steps == QUAD {
                        bytes = at.cast::<[u8; QUAD]>().read();
                    } else {
                        for (p, byte) in bytes.iter_mut().enumerate().take(steps) {
                            *byte = *at.wrapping_offset(p as isize * strip.step);
                        }
                    }
                }
            }
            // SAFETY: four bytes of the panel.
            unsafe { to.add((quad * width + lane) * QUAD).cast::<[u8; QUAD]>().write(bytes.map(|byte| byte ^ moved)) };
        }
    }
}

/// As [`pack_quads`], for all rows of a panel whose steps lie side by side, 16 steps at a time. Gives the number of steps.
///
/// # Safety
/// As [`pack_quads`].
#[target_feature(enable = "neon")]
unsafe fn pack_runs(strip: &Strip, moved: u8, to: *mut u8) -> usize {
    const RUN: usize = 16;
    let whole = strip.steps / RUN * RUN;
    for lane in 0..ROWS {
        let from = strip.at.wrapping_offset(lane as isize * strip.lane);
        for step in (0..whole).step_by(RUN) {
            let quad = |n: usize| to.wrapping_add(step * ROWS + (n * ROWS + lane) * QUAD).cast::<u32>();
            // SAFETY: 16 steps of a lane of the strip, and the places of four quads of a panel. Lanes are stored as bytes are.
            unsafe {
                let run = vreinterpretq_u32_u8(veorq_u8(vld1q_u8(from.add(step)), vdupq_n_u8(moved)));
                vst1q_lane_u32::<0>(quad(0), run);
                vst1q_lane_u32::<1>(quad(1), run);
                vst1q_lane_u32::<2>(quad(2), run);
                vst1q_lane_u32::<3>(quad(3), run);
            }
        }
    }
    whole
}

/// Packs whole lanes that lie side by side, four steps of each.
///
/// # Safety
/// As [`pack_quads`], for as many lanes as a panel has.
#[target_feature(enable = "neon")]
unsafe fn pack_side_by_side(strip: &Strip, to: *mut u8) {
    for (quad, step) in (0..strip.steps).step_by(QUAD).enumerate() {
        let row = |p: usize| {
            if step + p >= strip.steps {
                return vdup_n_u8(0);
            }
            // SAFETY: the lanes of a step of the strip.
            unsafe { vld1_u8(strip.at.wrapping_offset((step + p) as isize * strip.step)) }
        };
        // SAFETY: the place of four steps of a panel.
        unsafe { vst4_u8(to.add(quad * COLS * QUAD), uint8x8x4_t(row(0), row(1), row(2), row(3))) };
    }
}

/// Packs lanes as words, step after step; lanes that the strip does not have are 0.
///
/// # Safety
/// The strip is readable; `to` takes `width` lanes of its steps.
unsafe fn pack_words(strip: &Strip, width: usize, to: *mut i16) {
    let is_signed = strip.dtype.is_signed_integer();
    if strip.lane == 1 && strip.lanes == width && width == COLS {
        for step in 0..strip.steps {
            // SAFETY: the lanes of a step of the strip, and of the panel; AArch64 has NEON.
            unsafe {
                let bytes = vld1_u8(strip.at.wrapping_offset(step as isize * strip.step));
                let words = if is_signed {
                    vmovl_s8(vreinterpret_s8_u8(bytes))
                } else {
                    vreinterpretq_s16_u16(vmovl_u8(bytes))
                };
                vst1q_s16(to.add(step * width), words);
            }
        }
        return;
    }
    for step in 0..strip.steps {
        for lane in 0..width {
            let mut word = 0;
            if lane < strip.lanes {
                let at = strip.at.wrapping_offset(lane as isize * strip.lane + step as isize * strip.step);
                // SAFETY: an element of the strip.
                let byte = unsafe { *at };
                word = if is_signed { i16::from(byte as i8) } else { i16::from(byte) };
            }
            // SAFETY: an element of the panel.
            unsafe { to.add(step * width + lane).write(word) };
        }
    }
}
