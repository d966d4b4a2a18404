//! Matmuls of bytes without tiles: with AVX-512 VNNI, plain AVX-512 and AVX2.
//!
//! Panels hold four steps of a lane side by side. VNNI multiplies them as they are, an unsigned byte by a signed one: where
//! both factors are signed, or both unsigned, the left one is moved by 128 while it is packed, and the sums start from 128
//! times the sum of each column, modulo 2³². Without VNNI bytes become words, whose products add up in pairs.
#![allow(unsafe_code)]
// Rows and vectors are indices into several arrays at once.
#![allow(clippy::needless_range_loop)]

use std::arch::x86_64::*;

use tensor::DType;

use super::ahead::{Ahead, near_line};
use super::avx512::{first, transpose};
use super::drive::{Block, Kernel};
use super::lanes::Start;
use super::narrow::Room;
use super::pack::Strip;

/// Steps side by side.
const QUAD: usize = 4;
/// Steps of a right panel that stay in L1.
const PIECE: usize = 512;
/// The same for VNNI, whose panel comes from L2: sums of four bytes a byte are better stored once than a panel is near.
const VNNI_PIECE: usize = 1024;

/// Sums of VNNI: whether the bytes of each factor are signed.
pub(super) struct Vnni<const LEFT_SIGNED: bool, const RIGHT_SIGNED: bool>;
/// Sums of words with AVX-512.
pub(super) struct Words512<const RIGHT_SIGNED: bool>;
/// Sums of words with AVX2.
pub(super) struct Words256<const RIGHT_SIGNED: bool>;

const VNNI_ROWS: usize = 14;
const WIDE_ROWS: usize = 12;
const WIDE_COLS: usize = 32;
const NARROW_ROWS: usize = 4;
const NARROW_COLS: usize = 16;

/// Calls `$block` with the number of rows as a constant.
macro_rules! by_rows {
    ($rows:expr, $block:ident, $signs:tt, $arguments:tt, $($m:literal)*) => {
        match $rows {
            $($m => by_rows!(@call $block, $m, $signs, $arguments),)*
            other => debug_assert!(false, "no block of {other} rows"),
        }
    };
    (@call $block:ident, $m:literal, ($($sign:ident),*), $arguments:tt) => {
        $block::<$m, $($sign),*> $arguments
    };
}

/// Stores or adds the columns of a block that belong to the result. No function: sums whose address is taken would be kept in
/// memory while they are summed.
macro_rules! store_512 {
    ($sums:ident, $b:ident) => {
        for i in 0..$sums.len() {
            for v in 0..2 {
                let mask = first($b.cols.saturating_sub(v * 16).min(16)) as u16;
                let to = $b.sum.wrapping_offset(i as isize * $b.sum_row).wrapping_add(v * 16);
                // SAFETY: the mask keeps to the columns of the result.
                unsafe {
                    let mut value = $sums[i][v];
                    if $b.start == Start::Result {
                        value = _mm512_add_epi32(value, _mm512_maskz_loadu_epi32(mask, to));
                    }
                    _mm512_mask_storeu_epi32(to, mask, value);
                }
            }
        }
    };
}
impl<const LEFT_SIGNED: bool, const RIGHT_SIGNED: bool> Kernel for Vnni<LEFT_SIGNED, RIGHT_SIGNED> {
    type Left = u8;
    type Right = u8;
    type Sum = i32;
    const ROWS: usize = VNNI_ROWS;
    const COLS: usize = WIDE_COLS;
    const STEP: usize = QUAD;
    const PIECE: usize = VNNI_PIECE;
    const IS_CORRECTED: bool = LEFT_SIGNED == RIGHT_SIGNED;
    const SUM: DType = DType::I32;

    unsafe fn pack_left(strip: &Strip, to: *mut u8) {
        let moved = if LEFT_SIGNED == RIGHT_SIGNED { 0x80 } else { 0 };
        // SAFETY: the caller's promise; the kernel is chosen for machines with AVX-512.
        unsafe {
            let whole = if strip.step == 1 { pack_lines_of_steps(strip, moved, to) } else { 0 };
            pack_left_quads(&strip.after(whole), VNNI_ROWS, moved, to.add(whole * VNNI_ROWS));
        }
    }
    unsafe fn pack_right(strip: &Strip, to: *mut u8) {
        // SAFETY: the caller's promise.
        unsafe { pack_right_quads(strip, WIDE_COLS, to) }
    }
    unsafe fn correction(right: *const u8, steps: usize, to: *mut i32) {
        // SAFETY: the caller's promise; the kernel is chosen for machines with VNNI.
        unsafe { moved_columns::<RIGHT_SIGNED>(right, steps.div_ceil(QUAD), to) }
    }
    #[inline(always)]
    unsafe fn multiply(b: Block<Self>, ahead: &mut Ahead) {
        #[inline]
        #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
        unsafe fn block<const M: usize, const LEFT: bool, const RIGHT: bool>(b: &Bytes<u8>) {
            let mut first = [_mm512_setzero_si512(); 2];
            if LEFT == RIGHT {
                for v in 0..2 {
                    // SAFETY: the correction has both vectors.
                    first[v] = unsafe { _mm512_loadu_si512(b.correction.add(16 * v).cast()) };
                }
            }
            let mut sums = [first; M];
            macro_rules! quad {
                ($quad:expr) => {
                    // SAFETY: both panels have this many groups of four steps.
                    unsafe {
                        let at = b.right.add($quad * WIDE_COLS * QUAD);
                        let right = [_mm512_loadu_si512(at.cast()), _mm512_loadu_si512(at.add(64).cast())];
                        for i in 0..M {
                            let at = b.left.add(($quad * VNNI_ROWS + i) * QUAD);
                            let left = _mm512_set1_epi32(at.cast::<i32>().read_unaligned());
                            for v in 0..2 {
                                sums[i][v] = if RIGHT {
                                    _mm512_dpbusd_epi32(sums[i][v], left, right[v])
                                } else {
                                    _mm512_dpbusd_epi32(sums[i][v], right[v], left)
                                };
                            }
                        }
                    }
                };
            }
            // The rows of the result are brought near one by one: all at once would take every line buffer from the factors.
            // Two loops, not one loop of short runs: a core does not foresee where each run ends.
            let while_near = M.min(b.quads);
            let mut near = b.sum;
            for quad in 0..while_near {
                near_line(near.cast());
                near_line(near.wrapping_add(16).cast());
                near = near.wrapping_offset(b.sum_row);
                quad!(quad);
            }
            for quad in while_near..b.quads {
                quad!(quad);
            }
            store_512!(sums, b);
        }
        ahead.fetch(usize::MAX);
        let bytes = Bytes::new(&b);
        // SAFETY: the caller's promise.
        unsafe { by_rows!(b.rows, block, (LEFT_SIGNED, RIGHT_SIGNED), (&bytes), 1 2 3 4 5 6 7 8 9 10 11 12 13 14) }
    }
}

/// What moving the left factor by 128 takes off the sums of each column: 128 times the sum of the column, added where the
/// right factor is unsigned, for then the left one was made less.
///
/// # Safety
/// The panel has this many groups of four steps, `to` takes a row of sums; the machine has VNNI.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
unsafe fn moved_columns<const RIGHT: bool>(right: *const u8, quads: usize, to: *mut i32) {
    // So many sums of each vector that none waits for its last result.
    const CHAINS: usize = 4;
    let ones = _mm512_set1_epi8(1);
    let mut sums = [[_mm512_setzero_si512(); CHAINS]; 2];
    for first in (0..quads).step_by(CHAINS) {
        for chain in 0..CHAINS {
            if first + chain < quads {
                for v in 0..2 {
                    // SAFETY: a vector of the panel.
                    let bytes = unsafe { _mm512_loadu_si512(right.add((2 * (first + chain) + v) * 64).cast()) };
                    let sum = sums[v][chain];
                    sums[v][chain] = if RIGHT {
                        _mm512_dpbusd_epi32(sum, ones, bytes)
                    } else {
                        _mm512_dpbusd_epi32(sum, bytes, ones)
                    };
                }
            }
        }
    }
    for v in 0..2 {
        let [a, b, c, d] = sums[v];
        let moved = _mm512_slli_epi32::<7>(_mm512_add_epi32(_mm512_add_epi32(a, b), _mm512_add_epi32(c, d)));
        let moved = if RIGHT { _mm512_sub_epi32(_mm512_setzero_si512(), moved) } else { moved };
        // SAFETY: a vector of the row.
        unsafe { _mm512_storeu_si512(to.add(16 * v).cast(), moved) };
    }
}

/// Packs rows whose steps lie side by side as [`pack_left_quads`] does, a line of each at a time. Gives the number of steps
/// that were packed.
///
/// # Safety
/// As [`pack_left_quads`] with a width of `VNNI_ROWS`; the machine has AVX-512.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn pack_lines_of_steps(strip: &Strip, moved: u8, to: *mut u8) -> usize {
    const LINE: usize = 64;
    let whole = strip.steps / LINE * LINE;
    let moved = _mm512_set1_epi8(moved as i8);
    for step in (0..whole).step_by(LINE) {
        let mut rows = [_mm512_setzero_ps(); 16];
        for i in 0..VNNI_ROWS {
            if i < strip.lanes {
                let at = strip.at.wrapping_offset(i as isize * strip.lane).wrapping_add(step);
                // SAFETY: a line of steps of a lane of the strip.
                let bytes = unsafe { _mm512_loadu_si512(at.cast()) };
                rows[i] = _mm512_castsi512_ps(_mm512_xor_si512(bytes, moved));
            }
        }
        let quads = transpose(&rows);
        for n in 0..LINE / QUAD {
            // SAFETY: a group of four steps of the panel, which the mask keeps to.
            unsafe {
                let place = to.add((step + n * QUAD) * VNNI_ROWS).cast();
                _mm512_mask_storeu_ps(place, first(VNNI_ROWS) as u16, quads[n]);
            }
        }
    }
    whole
}

impl<const RIGHT_SIGNED: bool> Kernel for Words512<RIGHT_SIGNED> {
    type Left = i16;
    type Right = u8;
    type Sum = i32;
    const ROWS: usize = WIDE_ROWS;
    const COLS: usize = WIDE_COLS;
    const STEP: usize = QUAD;
    const PIECE: usize = PIECE;
    const SUM: DType = DType::I32;

    unsafe fn pack_left(strip: &Strip, to: *mut i16) {
        // SAFETY: the caller's promise.
        unsafe { pack_left_words(strip, WIDE_ROWS, to) }
    }
    unsafe fn pack_right(strip: &Strip, to: *mut u8) {
        // SAFETY: the caller's promise.
        unsafe { pack_right_quads(strip, WIDE_COLS, to) }
    }
    #[inline(always)]
    unsafe fn multiply(b: Block<Self>, ahead: &mut Ahead) {
        #[inline]
        #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
        unsafe fn block<const M: usize, const RIGHT: bool>(b: &Bytes<i16>) {
            let mut sums = [[_mm512_setzero_si512(); 2]; M];
            for quad in 0..b.quads {
                let mut right = [[_mm512_setzero_si512(); 2]; 2];
                for v in 0..2 {
                    // SAFETY: the right panel has this many groups of four steps.
                    let bytes = unsafe { _mm512_loadu_si512(b.right.add((quad * 2 + v) * 64).cast()) };
                    right[v] = if RIGHT {
                        [_mm512_srai_epi16::<8>(_mm512_slli_epi16::<8>(bytes)), _mm512_srai_epi16::<8>(bytes)]
                    } else {
                        [_mm512_and_si512(bytes, _mm512_set1_epi16(0xff)), _mm512_srli_epi16::<8>(bytes)]
                    };
                }
                for i in 0..M {
                    for half in 0..2 {
                        // SAFETY: the left panel has this many groups of four steps, the even ones first.
                        let left = unsafe {
                            let at = b.left.add((quad * WIDE_ROWS + i) * QUAD + 2 * half);
                            _mm512_set1_epi32(at.cast::<i32>().read_unaligned())
                        };
                        for v in 0..2 {
                            sums[i][v] = _mm512_add_epi32(sums[i][v], _mm512_madd_epi16(left, right[v][half]));
                        }
                    }
                }
            }
            store_512!(sums, b);
        }
        ahead.fetch(usize::MAX);
        let bytes = Bytes::new(&b);
        // SAFETY: the caller's promise.
        unsafe { by_rows!(b.rows, block, (RIGHT_SIGNED), (&bytes), 1 2 3 4 5 6 7 8 9 10 11 12) }
    }
}

impl<const RIGHT_SIGNED: bool> Kernel for Words256<RIGHT_SIGNED> {
    type Left = i16;
    type Right = u8;
    type Sum = i32;
    const ROWS: usize = NARROW_ROWS;
    const COLS: usize = NARROW_COLS;
    const STEP: usize = QUAD;
    const PIECE: usize = PIECE;
    const SUM: DType = DType::I32;

    unsafe fn pack_left(strip: &Strip, to: *mut i16) {
        // SAFETY: the caller's promise.
        unsafe { pack_left_words(strip, NARROW_ROWS, to) }
    }
    unsafe fn pack_right(strip: &Strip, to: *mut u8) {
        // SAFETY: the caller's promise.
        unsafe { pack_right_quads(strip, NARROW_COLS, to) }
    }
    #[inline(always)]
    unsafe fn multiply(b: Block<Self>, ahead: &mut Ahead) {
        #[inline]
        #[target_feature(enable = "avx2")]
        unsafe fn block<const M: usize, const RIGHT: bool>(b: &Bytes<i16>) {
            let mut sums = [[_mm256_setzero_si256(); 2]; M];
            for quad in 0..b.quads {
                let mut right = [[_mm256_setzero_si256(); 2]; 2];
                for v in 0..2 {
                    // SAFETY: the right panel has this many groups of four steps.
                    let bytes = unsafe { _mm256_loadu_si256(b.right.add((quad * 2 + v) * 32).cast()) };
                    right[v] = if RIGHT {
                        [_mm256_srai_epi16::<8>(_mm256_slli_epi16::<8>(bytes)), _mm256_srai_epi16::<8>(bytes)]
                    } else {
                        [_mm256_and_si256(bytes, _mm256_set1_epi16(0xff)), _mm256_srli_epi16::<8>(bytes)]
                    };
                }
                for i in 0..M {
                    for half in 0..2 {
                        // SAFETY: the left panel has this many groups of four steps, the even ones first.
                        let left = unsafe {
                            let at = b.left.add((quad * NARROW_ROWS + i) * QUAD + 2 * half);
                            _mm256_set1_epi32(at.cast::<i32>().read_unaligned())
                        };
                        for v in 0..2 {
                            sums[i][v] = _mm256_add_epi32(sums[i][v], _mm256_madd_epi16(left, right[v][half]));
                        }
                    }
                }
            }
            for i in 0..M {
                let at = b.sum.wrapping_offset(i as isize * b.sum_row);
                if b.cols == NARROW_COLS {
                    for v in 0..2 {
                        // SAFETY: both vectors of the row are of the result.
                        unsafe {
                            let to = at.add(8 * v).cast::<__m256i>();
                            let is_new = b.start == Start::Zero;
                            let old = if is_new { _mm256_setzero_si256() } else { _mm256_loadu_si256(to) };
                            _mm256_storeu_si256(to, _mm256_add_epi32(sums[i][v], old));
                        }
                    }
                    continue;
                }
                let mut row = [0i32; NARROW_COLS];
                // SAFETY: the row has both vectors; of the result only the block's columns are touched.
                unsafe {
                    _mm256_storeu_si256(row.as_mut_ptr().cast(), sums[i][0]);
                    _mm256_storeu_si256(row.as_mut_ptr().add(8).cast(), sums[i][1]);
                    for (j, &sum) in row.iter().enumerate().take(b.cols) {
                        let old = if b.start == Start::Result { *at.add(j) } else { 0 };
                        at.add(j).write(sum.wrapping_add(old));
                    }
                }
            }
        }
        ahead.fetch(usize::MAX);
        let bytes = Bytes::new(&b);
        // SAFETY: the caller's promise.
        unsafe { by_rows!(b.rows, block, (RIGHT_SIGNED), (&bytes), 1 2 3 4) }
    }
}

/// A register block, whatever its kernel.
struct Bytes<L> {
    quads: usize,
    left: *const L,
    right: *const u8,
    correction: *const i32,
    sum: *mut i32,
    sum_row: isize,
    start: Start,
    cols: usize,
}

impl<L: Copy> Bytes<L> {
    #[inline(always)]
    fn new<K: Kernel<Left = L, Right = u8, Sum = i32>>(b: &Block<K>) -> Bytes<L> {
        Bytes {
            quads: b.steps.div_ceil(QUAD),
            left: b.left,
            right: b.right,
            correction: b.correction,
            sum: b.sum,
            sum_row: b.sum_row,
            start: b.start,
            cols: b.cols,
        }
    }
}

/// Packs rows as bytes, four steps side by side, each with the bits of `moved` turned over.
///
/// # Safety
/// The strip is readable; `to` takes `width` lanes of its steps rounded up to four.
unsafe fn pack_left_quads(strip: &Strip, width: usize, moved: u8, to: *mut u8) {
    // SAFETY: the caller's promise.
    unsafe {
        if strip.step == 1 {
            let whole = pack_lanes_of_steps(strip, width, |place, lanes, quad| {
                let quad = _mm_xor_si128(quad, _mm_set1_epi8(moved as i8));
                let to = to.add(place * QUAD).cast();
                if lanes == 4 { _mm_storeu_si128(to, quad) } else { _mm_storel_epi64(to, quad) }
            });
            return pack_quads(&strip.after(whole), width, moved, to.add(whole * width));
        }
        pack_quads(strip, width, moved, to);
    }
}

/// As [`pack_left_quads`], byte by byte.
///
/// # Safety
/// As [`pack_left_quads`].
unsafe fn pack_quads(strip: &Strip, width: usize, moved: u8, to: *mut u8) {
    // SAFETY: the caller's promise.
    unsafe {
        each_quad(strip, width, |quad, lane, bytes| {
            let moved = bytes.map(|byte| byte ^ moved);
            to.add((quad * width + lane) * QUAD).cast::<[u8; QUAD]>().write(moved);
        });
    }
}

/// Packs rows as words: of four steps the even ones, then the odd ones.
///
/// # Safety
/// As [`pack_left_quads`].
unsafe fn pack_left_words(strip: &Strip, width: usize, to: *mut i16) {
    let is_signed = strip.dtype.is_signed_integer();
    let (mut strip, mut to) = (*strip, to);
    if strip.step == 1 {
        // SAFETY: the caller's promise.
        unsafe {
            let whole = pack_words_of_steps(&strip, width, to);
            (strip, to) = (strip.after(whole), to.add(whole * width));
        }
    }
    let word = |byte: u8| if is_signed { i16::from(byte as i8) } else { i16::from(byte) };
    // SAFETY: the caller's promise.
    unsafe {
        each_quad(&strip, width, |quad, lane, [a, b, c, d]| {
            to.add((quad * width + lane) * QUAD).cast::<[i16; QUAD]>().write([a, c, b, d].map(word));
        });
    }
}

/// As [`pack_left_words`], as far as [`pack_lanes_of_steps`] goes.
///
/// # Safety
/// As [`pack_left_words`], for steps that lie side by side; the machine has AVX2.
#[target_feature(enable = "avx2")]
unsafe fn pack_words_of_steps(strip: &Strip, width: usize, to: *mut i16) -> usize {
    const EVEN_FIRST: i32 = 0xd8;
    let is_signed = strip.dtype.is_signed_integer();
    // SAFETY: the caller's promise.
    unsafe {
        pack_lanes_of_steps(strip, width, |place, lanes, quad| {
            let words = if is_signed { _mm256_cvtepi8_epi16(quad) } else { _mm256_cvtepu8_epi16(quad) };
            let words = _mm256_shufflehi_epi16::<EVEN_FIRST>(_mm256_shufflelo_epi16::<EVEN_FIRST>(words));
            let to = to.add(place * QUAD);
            if lanes == 4 {
                _mm256_storeu_si256(to.cast(), words);
            } else {
                _mm_storeu_si128(to.cast(), _mm256_castsi256_si128(words));
            }
        })
    }
}

/// Calls `put` for every four steps of every lane up to `width`; what the strip does not have is 0.
///
/// # Safety
/// The strip is readable.
#[inline(always)]
unsafe fn each_quad(strip: &Strip, width: usize, mut put: impl FnMut(usize, usize, [u8; QUAD])) {
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
            put(quad, lane, bytes);
        }
    }
}

/// Packs columns, four steps of each side by side.
///
/// # Safety
/// As [`pack_left_quads`]; the machine has AVX2. `width` is a multiple of 16.
unsafe fn pack_right_quads(strip: &Strip, width: usize, to: *mut u8) {
    // SAFETY: the caller's promise.
    unsafe {
        let mut room = Room::new();
        let strip = &room.in_bytes(strip);
        if strip.lane == 1 && strip.lanes == width {
            pack_side_by_side(strip, width, to);
        } else {
            pack_left_quads(strip, width, 0, to);
        }
    }
}

/// Whole lanes that lie side by side.
///
/// # Safety
/// As [`pack_right_quads`].
#[target_feature(enable = "avx2")]
unsafe fn pack_side_by_side(strip: &Strip, width: usize, to: *mut u8) {
    const GROUP: usize = 16;
    for (quad, step) in (0..strip.steps).step_by(QUAD).enumerate() {
        let at = |p: usize, lane: usize| strip.at.wrapping_offset((step + p) as isize * strip.step).wrapping_add(lane);
        let mut lane = 0;
        while lane + 2 * GROUP <= width {
            let row = |p: usize| {
                if step + p >= strip.steps {
                    return _mm256_setzero_si256();
                }
                // SAFETY: 32 lanes of a step of the strip.
                unsafe { _mm256_loadu_si256(at(p, lane).cast()) }
            };
            let (a, b, c, d) = (row(0), row(1), row(2), row(3));
            let (low_ab, high_ab) = (_mm256_unpacklo_epi8(a, b), _mm256_unpackhi_epi8(a, b));
            let (low_cd, high_cd) = (_mm256_unpacklo_epi8(c, d), _mm256_unpackhi_epi8(c, d));
            // Each half of a vector has four lanes, those of the upper half 16 on.
            let fours = [
                _mm256_unpacklo_epi16(low_ab, low_cd),
                _mm256_unpackhi_epi16(low_ab, low_cd),
                _mm256_unpacklo_epi16(high_ab, high_cd),
                _mm256_unpackhi_epi16(high_ab, high_cd),
            ];
            for n in 0..4 {
                let place = (quad * width + lane + 4 * n) * QUAD;
                // SAFETY: twice four lanes of the groups' places.
                unsafe {
                    _mm_storeu_si128(to.add(place).cast(), _mm256_castsi256_si128(fours[n]));
                    _mm_storeu_si128(to.add(place + GROUP * QUAD).cast(), _mm256_extracti128_si256::<1>(fours[n]));
                }
            }
            lane += 2 * GROUP;
        }
        if lane < width {
            let row = |p: usize| {
                if step + p >= strip.steps {
                    return _mm_setzero_si128();
                }
                // SAFETY: 16 lanes of a step of the strip.
                unsafe { _mm_loadu_si128(at(p, lane).cast()) }
            };
            let (a, b, c, d) = (row(0), row(1), row(2), row(3));
            let (low_ab, high_ab) = (_mm_unpacklo_epi8(a, b), _mm_unpackhi_epi8(a, b));
            let (low_cd, high_cd) = (_mm_unpacklo_epi8(c, d), _mm_unpackhi_epi8(c, d));
            let fours = [
                _mm_unpacklo_epi16(low_ab, low_cd),
                _mm_unpackhi_epi16(low_ab, low_cd),
                _mm_unpacklo_epi16(high_ab, high_cd),
                _mm_unpackhi_epi16(high_ab, high_cd),
            ];
            for n in 0..4 {
                let place = (quad * width + lane + 4 * n) * QUAD;
                // SAFETY: four lanes of the group's place.
                unsafe { _mm_storeu_si128(to.add(place).cast(), fours[n]) };
            }
        }
    }
}

/// Calls `put` with the place of four lanes, or of the last two, and with four steps of each, for lanes whose steps lie side by
/// side; lanes that the strip does not have are 0. Gives the number of steps that were put.
///
/// # Safety
/// As [`pack_left_quads`]; the machine has AVX2. `width` is even.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn pack_lanes_of_steps(strip: &Strip, width: usize, put: impl Fn(usize, usize, __m128i)) -> usize {
    const RUN: usize = 4 * QUAD;
    let whole = strip.steps / RUN * RUN;
    for step in (0..whole).step_by(RUN) {
        for lane in (0..width).step_by(4) {
            let row = |n: usize| {
                if lane + n >= strip.lanes {
                    return _mm_setzero_si128();
                }
                let at = strip.at.wrapping_offset((lane + n) as isize * strip.lane).wrapping_add(step);
                // SAFETY: 16 steps of a lane of the strip.
                unsafe { _mm_loadu_si128(at.cast()) }
            };
            let (a, b, c, d) = (row(0), row(1), row(2), row(3));
            let (low_ab, high_ab) = (_mm_unpacklo_epi32(a, b), _mm_unpackhi_epi32(a, b));
            let (low_cd, high_cd) = (_mm_unpacklo_epi32(c, d), _mm_unpackhi_epi32(c, d));
            let quads = [
                _mm_unpacklo_epi64(low_ab, low_cd),
                _mm_unpackhi_epi64(low_ab, low_cd),
                _mm_unpacklo_epi64(high_ab, high_cd),
                _mm_unpackhi_epi64(high_ab, high_cd),
            ];
            for (n, quad) in quads.into_iter().enumerate() {
                put((step / QUAD + n) * width + lane, 4.min(width - lane), quad);
            }
        }
    }
    whole
}
