//! One vector times a matrix of small integers, with AVX-512 VNNI: the vector becomes fixed-point numbers of two or three digits in
//! base 256, and the sums of each digit's products are exact.
//!
//! Three digits have the precision of an f32 of the vector's largest magnitude; vectors of 16 bits an element, which have 8 or 11
//! bits of it, get two digits. Four steps of 64 bytes become groups of
//! four bytes, which one instruction multiplies by four steps of a digit. Elements of 4 bits are two columns a byte, which
//! become bytes after that.
#![allow(unsafe_code)]
// Digits, steps and lanes are indices into several arrays at once.
#![allow(clippy::needless_range_loop)]

use std::arch::x86_64::*;
use std::ops::Range;

/// The most digits.
const DIGITS: usize = 3;
/// Steps that are multiplied together.
pub(super) const QUAD: usize = 4;
/// Quads of steps whose sums stay in registers.
const TOGETHER: usize = 8;
/// Columns whose sums stay in L1.
pub(super) const BLOCK: usize = 2048;
/// Bytes of a vector.
const VECTOR: usize = 64;
/// The largest fixed-point numbers of three and of two digits from -128 to 127 each.
const LARGEST: f32 = 8_300_000.0;
const LARGEST_OF_TWO: f32 = 32_600.0;

/// How many digits a vector has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Precision {
    Two,
    Three,
}

/// Digits of four steps, the highest first; the third is zero where there are two.
pub(super) type Quad = [[i8; QUAD]; DIGITS];

/// Bytes of room for the digits of a vector.
pub(super) fn room(steps: usize) -> usize {
    steps.div_ceil(QUAD) * size_of::<Quad>()
}

/// Writes a vector as digits; what one unit of the last digit stands for, or `None` if the vector has no such form.
///
/// # Safety
/// `steps` numbers are readable; `to` has [`room`] for them.
pub(super) unsafe fn split(vector: *const f32, steps: usize, precision: Precision, to: *mut Quad) -> Option<f32> {
    // SAFETY: the caller's promise.
    let vector = unsafe { std::slice::from_raw_parts(vector, steps) };
    // Not a maximum of floats: that would pass over NaN.
    let largest = vector.iter().fold(0, |most, x| most.max(x.to_bits() & 0x7fff_ffff));
    let largest = f32::from_bits(largest);
    if !largest.is_finite() || largest > 0.0 && !(1e-25..1e25).contains(&largest) {
        return None;
    }
    // A power of two, so that few numbers are rounded.
    let mut unit = 1.0f32;
    if largest > 0.0 {
        let most = if precision == Precision::Two { LARGEST_OF_TWO } else { LARGEST };
        let exponent = (largest / most).to_bits() >> 23;
        unit = f32::from_bits((exponent + 1) << 23);
    }
    let inverse = 1.0 / unit;
    for (n, numbers) in vector.chunks(QUAD).enumerate() {
        let mut quad: Quad = [[0; QUAD]; DIGITS];
        for (i, x) in numbers.iter().enumerate() {
            let fixed = (x * inverse).round_ties_even() as i32;
            let low = fixed as i8;
            let rest = (fixed - i32::from(low)) >> 8;
            let middle = rest as i8;
            let high = ((rest - i32::from(middle)) >> 8) as i8;
            match precision {
                Precision::Two => (quad[0][i], quad[1][i]) = (middle, low),
                Precision::Three => (quad[0][i], quad[1][i], quad[2][i]) = (high, middle, low),
            }
        }
        // SAFETY: the room has this many quads.
        unsafe { to.add(n).write(quad) };
    }
    Some(unit)
}

/// Some steps of a matrix and of a vector's digits.
#[derive(Clone, Copy)]
pub(super) struct Digits {
    pub(super) quads: *const Quad,
    pub(super) unit: f32,
    /// The first row, at the first column of the block.
    pub(super) from: *const u8,
    /// Bytes from one row to the next.
    pub(super) row: isize,
    pub(super) steps: usize,
    /// At most [`BLOCK`].
    pub(super) columns: usize,
    pub(super) is_signed: bool,
    /// Room for `3 · BLOCK` sums.
    pub(super) sums: *mut i32,
}

impl Digits {
    /// Sums of all steps as f32, in the order of the columns, rounded up to whole vectors.
    ///
    /// # Safety
    /// Everything is readable and writable as the fields say, `to` for the columns rounded up to 128. The machine has VNNI;
    /// elements have 4 bits if `NIBBLES`, else 8; the vector has `D` digits.
    pub(super) unsafe fn multiply<const NIBBLES: bool, const D: usize>(&self, to: *mut f32) {
        let quads = self.steps.div_ceil(QUAD);
        // SAFETY: the caller's promise, for some quads at a time.
        unsafe {
            let whole = quads / TOGETHER * TOGETHER;
            for first in (0..whole).step_by(TOGETHER) {
                self.add::<NIBBLES, D, TOGETHER>(first);
            }
            for first in whole..quads {
                self.add::<NIBBLES, D, 1>(first);
            }
            self.finish::<NIBBLES, D>(quads, to);
        }
    }

    /// Vectors of sums of a digit for each vector of bytes.
    const fn parts<const NIBBLES: bool>() -> usize {
        if NIBBLES { 8 } else { 4 }
    }

    /// Adds the products of some quads to the sums; the first sets them.
    ///
    /// # Safety
    /// As [`Digits::multiply`].
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
    unsafe fn add<const NIBBLES: bool, const D: usize, const U: usize>(&self, first: usize) {
        let bytes = if NIBBLES { self.columns.div_ceil(2) } else { self.columns };
        let parts = Self::parts::<NIBBLES>();
        let last = self.steps - 1;
        let row = |step: usize| self.from.wrapping_offset(step.min(last) as isize * self.row);
        let (low_bits, flipped) = (_mm512_set1_epi8(0x0f), _mm512_set1_epi8(if self.is_signed { 8 } else { 0 }));
        let sign = _mm512_set1_epi8(if self.is_signed { -128 } else { 0 });
        for (n, at) in (0..bytes).step_by(VECTOR).enumerate() {
            let count = (bytes - at).min(VECTOR);
            let mask = if count == VECTOR { u64::MAX } else { (1u64 << count) - 1 };
            let sums = self.sums.wrapping_add(n * parts * D * 16);
            let mut totals = [[_mm512_setzero_si512(); D]; 8];
            // SAFETY: the sums of this vector of bytes; rows and digits of these quads; the mask keeps to the columns.
            unsafe {
                if first > 0 {
                    for p in 0..parts {
                        for d in 0..D {
                            totals[p][d] = _mm512_loadu_si512(sums.add((p * D + d) * 16).cast());
                        }
                    }
                }
                for u in 0..U {
                    let step = (first + u) * QUAD;
                    let mut rows = [_mm512_setzero_si512(); QUAD];
                    for i in 0..QUAD {
                        let from = row(step + i).wrapping_add(at);
                        // What the next quads read.
                        _mm_prefetch::<_MM_HINT_T0>(from.wrapping_offset((U * QUAD) as isize * self.row).cast());
                        rows[i] = _mm512_maskz_loadu_epi8(mask, from.cast());
                    }
                    let [a, b, c, d] = rows;
                    let (low_ab, high_ab) = (_mm512_unpacklo_epi8(a, b), _mm512_unpackhi_epi8(a, b));
                    let (low_cd, high_cd) = (_mm512_unpacklo_epi8(c, d), _mm512_unpackhi_epi8(c, d));
                    let fours = [
                        _mm512_unpacklo_epi16(low_ab, low_cd),
                        _mm512_unpackhi_epi16(low_ab, low_cd),
                        _mm512_unpacklo_epi16(high_ab, high_cd),
                        _mm512_unpackhi_epi16(high_ab, high_cd),
                    ];
                    let quad = self.quads.add(first + u).cast::<i32>();
                    let mut digits = [_mm512_setzero_si512(); D];
                    for d in 0..D {
                        digits[d] = _mm512_set1_epi32(quad.add(d).read_unaligned());
                    }
                    for t in 0..4 {
                        if NIBBLES {
                            // Each with its sign bit turned over: (x & 15) ^ 8.
                            let low = _mm512_ternarylogic_epi32::<0x78>(flipped, fours[t], low_bits);
                            let high = _mm512_srli_epi16::<4>(fours[t]);
                            let high = _mm512_ternarylogic_epi32::<0x78>(flipped, high, low_bits);
                            for d in 0..D {
                                totals[2 * t][d] = _mm512_dpbusd_epi32(totals[2 * t][d], low, digits[d]);
                                totals[2 * t + 1][d] = _mm512_dpbusd_epi32(totals[2 * t + 1][d], high, digits[d]);
                            }
                        } else {
                            let moved = _mm512_xor_si512(fours[t], sign);
                            for d in 0..D {
                                totals[t][d] = _mm512_dpbusd_epi32(totals[t][d], moved, digits[d]);
                            }
                        }
                    }
                }
                for p in 0..parts {
                    for d in 0..D {
                        _mm512_storeu_si512(sums.add((p * D + d) * 16).cast(), totals[p][d]);
                    }
                }
            }
        }
    }

    /// Joins the digits of each sum, and puts the sums in order.
    ///
    /// # Safety
    /// As [`Digits::multiply`].
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    unsafe fn finish<const NIBBLES: bool, const D: usize>(&self, quads: usize, to: *mut f32) {
        let parts = Self::parts::<NIBBLES>();
        let bytes = if NIBBLES { self.columns.div_ceil(2) } else { self.columns };
        // Elements were moved up so that none is negative: so much of each digit's sum goes off again.
        let moved = match (NIBBLES, self.is_signed) {
            (_, false) => 0,
            (true, true) => 8,
            (false, true) => 128,
        };
        let mut off = [0i32; D];
        for n in 0..quads {
            // SAFETY: a quad of the digits.
            let quad = unsafe { *self.quads.add(n) };
            for d in 0..D {
                off[d] = off[d].wrapping_add(quad[d].iter().map(|&digit| i32::from(digit)).sum::<i32>());
            }
        }
        let off = off.map(|sum| _mm512_set1_epi32(sum.wrapping_mul(moved)));
        let weights = [1.0f32, 256.0, 65536.0].map(|weight| _mm512_set1_ps(weight * self.unit));
        for n in 0..bytes.div_ceil(VECTOR) {
            let sums = self.sums.wrapping_add(n * parts * D * 16);
            let to = to.wrapping_add(n * parts * 16);
            let mut values = [_mm512_setzero_ps(); 8];
            for p in 0..parts {
                let mut value = _mm512_setzero_ps();
                for d in (0..D).rev() {
                    // SAFETY: a vector of the sums.
                    let sum = unsafe { _mm512_loadu_si512(sums.add((p * D + d) * 16).cast()) };
                    let sum = _mm512_cvtepi32_ps(_mm512_sub_epi32(sum, off[d]));
                    value = _mm512_fmadd_ps(sum, weights[D - 1 - d], value);
                }
                values[p] = value;
            }
            // Lane `l` of vector `t` of bytes has those from `16·l + 4·t` on: four columns, or eight.
            let groups: [[__m512; 4]; 2] = if NIBBLES {
                let pairs = [0, 1, 2, 3].map(|t| (values[2 * t], values[2 * t + 1]));
                let both = pairs.map(|(a, b)| [_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b)]);
                [[both[0][0], both[0][1], both[1][0], both[1][1]], [both[2][0], both[2][1], both[3][0], both[3][1]]]
            } else {
                [[values[0], values[1], values[2], values[3]], [_mm512_setzero_ps(); 4]]
            };
            for (half, group) in groups.iter().enumerate().take(parts / 4) {
                for (lane, vector) in lanes_to_vectors(group).into_iter().enumerate() {
                    let place = if NIBBLES { 2 * lane + half } else { lane };
                    // SAFETY: a vector of the columns, rounded up.
                    unsafe { _mm512_storeu_ps(to.add(place * 16), vector) };
                }
            }
        }
    }
}

/// Vector `l` becomes the quarters `l` of all four.
#[inline]
#[target_feature(enable = "avx512f")]
fn lanes_to_vectors([a, b, c, d]: &[__m512; 4]) -> [__m512; 4] {
    let (front_ab, back_ab) = (_mm512_shuffle_f32x4::<0x44>(*a, *b), _mm512_shuffle_f32x4::<0xee>(*a, *b));
    let (front_cd, back_cd) = (_mm512_shuffle_f32x4::<0x44>(*c, *d), _mm512_shuffle_f32x4::<0xee>(*c, *d));
    [
        _mm512_shuffle_f32x4::<0x88>(front_ab, front_cd),
        _mm512_shuffle_f32x4::<0xdd>(front_ab, front_cd),
        _mm512_shuffle_f32x4::<0x88>(back_ab, back_cd),
        _mm512_shuffle_f32x4::<0xdd>(back_ab, back_cd),
    ]
}

/// Whole quads of steps for one of some parts.
pub(super) fn part_of_steps(steps: usize, part: usize, parts: usize) -> Range<usize> {
    let quads = steps.div_ceil(QUAD);
    let at = |part: usize| (quads * part / parts * QUAD).min(steps);
    at(part)..at(part + 1)
}
