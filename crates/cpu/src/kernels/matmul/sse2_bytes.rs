//! Matmuls of bytes with SSE2, which every x86-64 has: bytes become words, whose products add up in pairs.
//!
//! Panels hold two steps of a lane side by side, widened while they are packed.
#![allow(unsafe_code)]
// Rows and vectors are indices into several arrays at once.
#![allow(clippy::needless_range_loop)]

use std::arch::x86_64::*;

use tensor::DType;

use super::ahead::Ahead;
use super::drive::{Block, Kernel};
use super::lanes::Start;
use super::narrow::Room;
use super::pack::Strip;

/// Steps side by side.
const PAIR: usize = 2;
/// Steps of a right panel that stay in L1.
const PIECE: usize = 512;
const ROWS: usize = 4;
const COLS: usize = 8;
/// Lanes of a vector.
const LANES: usize = 4;

/// Sums of words.
pub(super) struct Words128;

impl Kernel for Words128 {
    type Left = i16;
    type Right = i16;
    type Sum = i32;
    const ROWS: usize = ROWS;
    const COLS: usize = COLS;
    const STEP: usize = PAIR;
    const PIECE: usize = PIECE;
    const SUM: DType = DType::I32;

    unsafe fn pack_left(strip: &Strip, to: *mut i16) {
        // SAFETY: the caller's promise.
        unsafe { pack_pairs::<ROWS>(strip, to) }
    }
    unsafe fn pack_right(strip: &Strip, to: *mut i16) {
        // SAFETY: the caller's promise.
        unsafe { pack_pairs::<COLS>(&Room::new().in_bytes(strip), to) }
    }
    #[inline(always)]
    unsafe fn multiply(b: Block<Self>, ahead: &mut Ahead) {
        ahead.fetch(usize::MAX);
        // SAFETY: the caller's promise.
        unsafe {
            match b.rows {
                1 => block::<1>(&b),
                2 => block::<2>(&b),
                3 => block::<3>(&b),
                _ => block::<ROWS>(&b),
            }
        }
    }
}

/// # Safety
/// As [`Kernel::multiply`], for `M` rows.
#[target_feature(enable = "sse2")]
unsafe fn block<const M: usize>(b: &Block<Words128>) {
    let zero = [_mm_setzero_si128(); 2];
    let mut sums = [zero; M];
    let (mut left, mut right) = (b.left, b.right);
    for _ in 0..b.steps.div_ceil(PAIR) {
        // SAFETY: both panels have this many pairs of steps, for all lanes of a panel.
        let (rows, columns) = unsafe {
            let columns = [_mm_loadu_si128(right.cast()), _mm_loadu_si128(right.add(COLS).cast())];
            (_mm_loadu_si128(left.cast()), columns)
        };
        macro_rules! row {
            ($($i:literal)*) => {
                $(if $i < M {
                    let row = _mm_shuffle_epi32::<{ $i * 0b01_01_01_01 }>(rows);
                    for v in 0..2 {
                        sums[$i][v] = _mm_add_epi32(sums[$i][v], _mm_madd_epi16(row, columns[v]));
                    }
                })*
            };
        }
        row!(0 1 2 3);
        left = left.wrapping_add(ROWS * PAIR);
        right = right.wrapping_add(COLS * PAIR);
    }
    for i in 0..M {
        let at = b.sum.wrapping_offset(i as isize * b.sum_row);
        if b.cols == COLS {
            for v in 0..2 {
                // SAFETY: both vectors of the row are of the result.
                unsafe {
                    let to = at.add(LANES * v).cast::<__m128i>();
                    let old = if b.start == Start::Zero { _mm_setzero_si128() } else { _mm_loadu_si128(to) };
                    _mm_storeu_si128(to, _mm_add_epi32(sums[i][v], old));
                }
            }
            continue;
        }
        let mut row = [0i32; COLS];
        // SAFETY: the row has both vectors; of the result only the block's columns are touched.
        unsafe {
            _mm_storeu_si128(row.as_mut_ptr().cast(), sums[i][0]);
            _mm_storeu_si128(row.as_mut_ptr().add(LANES).cast(), sums[i][1]);
            for (j, &sum) in row.iter().enumerate().take(b.cols) {
                let old = if b.start == Start::Result { *at.add(j) } else { 0 };
                at.add(j).write(sum.wrapping_add(old));
            }
        }
    }
}

/// Packs lanes as words, two steps of each side by side; what the strip does not have is 0.
///
/// # Safety
/// The strip is readable; `to` takes `WIDTH` lanes of its steps rounded up to two.
unsafe fn pack_pairs<const WIDTH: usize>(strip: &Strip, to: *mut i16) {
    let is_signed = strip.dtype.is_signed_integer();
    // SAFETY: the caller's promise.
    unsafe {
        if strip.step == 1 {
            let whole = pack_runs::<WIDTH>(strip, is_signed, to);
            pack_words::<WIDTH>(&strip.after(whole), is_signed, to.add(whole * WIDTH));
        } else if strip.lane == 1 && strip.lanes == WIDTH && WIDTH == COLS {
            pack_side_by_side(strip, is_signed, to);
        } else {
            pack_words::<WIDTH>(strip, is_signed, to);
        }
    }
}

/// As [`pack_pairs`], word by word.
///
/// # Safety
/// As [`pack_pairs`].
unsafe fn pack_words<const WIDTH: usize>(strip: &Strip, is_signed: bool, to: *mut i16) {
    for step in 0..strip.steps.next_multiple_of(PAIR) {
        for lane in 0..WIDTH {
            let mut word = 0;
            if lane < strip.lanes && step < strip.steps {
                let at = lane as isize * strip.lane + step as isize * strip.step;
                // SAFETY: an element of the strip.
                let byte = unsafe { *strip.at.wrapping_offset(at) };
                word = if is_signed { i16::from(byte as i8) } else { i16::from(byte) };
            }
            // SAFETY: an element of the panel.
            unsafe { to.add((step / PAIR * WIDTH + lane) * PAIR + step % PAIR).write(word) };
        }
    }
}

/// The words of eight bytes.
#[inline]
#[target_feature(enable = "sse2")]
fn words(bytes: __m128i, is_signed: bool) -> __m128i {
    if is_signed {
        _mm_srai_epi16::<8>(_mm_unpacklo_epi8(bytes, bytes))
    } else {
        _mm_unpacklo_epi8(bytes, _mm_setzero_si128())
    }
}

/// As [`pack_pairs`], for steps that lie side by side, eight at a time. Gives the number of steps.
///
/// # Safety
/// As [`pack_pairs`]; `WIDTH` is a multiple of four.
#[target_feature(enable = "sse2")]
unsafe fn pack_runs<const WIDTH: usize>(strip: &Strip, is_signed: bool, to: *mut i16) -> usize {
    const RUN: usize = 8;
    let whole = strip.steps / RUN * RUN;
    for step in (0..whole).step_by(RUN) {
        for lane in (0..WIDTH).step_by(LANES) {
            let row = |n: usize| {
                if lane + n >= strip.lanes {
                    return _mm_setzero_si128();
                }
                let at = strip.at.wrapping_offset((lane + n) as isize * strip.lane).wrapping_add(step);
                // SAFETY: eight steps of a lane of the strip.
                words(unsafe { _mm_loadl_epi64(at.cast()) }, is_signed)
            };
            let (a, b, c, d) = (row(0), row(1), row(2), row(3));
            let (low_ab, high_ab) = (_mm_unpacklo_epi32(a, b), _mm_unpackhi_epi32(a, b));
            let (low_cd, high_cd) = (_mm_unpacklo_epi32(c, d), _mm_unpackhi_epi32(c, d));
            let pairs = [
                _mm_unpacklo_epi64(low_ab, low_cd),
                _mm_unpackhi_epi64(low_ab, low_cd),
                _mm_unpacklo_epi64(high_ab, high_cd),
                _mm_unpackhi_epi64(high_ab, high_cd),
            ];
            for n in 0..LANES {
                // SAFETY: the places of a pair of steps of four lanes.
                unsafe { _mm_storeu_si128(to.add((step + n * PAIR) * WIDTH + lane * PAIR).cast(), pairs[n]) };
            }
        }
    }
    whole
}

/// As [`pack_pairs`], for eight lanes that lie side by side.
///
/// # Safety
/// As [`pack_pairs`].
#[target_feature(enable = "sse2")]
unsafe fn pack_side_by_side(strip: &Strip, is_signed: bool, to: *mut i16) {
    for step in (0..strip.steps).step_by(PAIR) {
        let row = |p: usize| {
            if step + p >= strip.steps {
                return _mm_setzero_si128();
            }
            // SAFETY: the lanes of a step of the strip.
            unsafe { _mm_loadl_epi64(strip.at.wrapping_offset((step + p) as isize * strip.step).cast()) }
        };
        let both = _mm_unpacklo_epi8(row(0), row(1));
        let rest = _mm_unpackhi_epi64(both, both);
        // SAFETY: the places of a pair of steps of all lanes, half of them at a time.
        unsafe {
            _mm_storeu_si128(to.add(step * COLS).cast(), words(both, is_signed));
            _mm_storeu_si128(to.add(step * COLS + COLS).cast(), words(rest, is_signed));
        }
    }
}
