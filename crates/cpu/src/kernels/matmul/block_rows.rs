//! Up to four rows at a time times a factor of blocks, with AVX-512 VNNI: rows are vectors of digits.
//!
//! 128 codes at a time become two vectors of bytes, whose order the digits have too, and products are summed by fours before the scales
//! count.
#![allow(unsafe_code)]
// Rows, outputs and groups are indices into several arrays at once.
#![allow(clippy::needless_range_loop)]

use std::arch::x86_64::*;
use std::ops::Range;

use tensor::{BlockFormat, DType};

use super::super::Cores;
use super::blocks::{BlockMatMul, Places, tasks};
use super::scratch::{Loan, Slot};

/// The most rows that are vectors at a time.
pub(super) const VECTORS: usize = 4;
/// Steps that are multiplied together: two vectors of bytes.
const STEP: usize = 128;
/// Bytes of a vector.
pub(super) const VECTOR: usize = 64;
/// Bytes by which the factor is fetched before it is read.
const AHEAD: usize = 4096;
/// Elements of a group that has a minimum.
const GROUP: usize = 32;

/// The largest fixed-point numbers of two and of three digits from -128 to 127 each.
const LARGEST: [f32; 2] = [32_600.0, 8_300_000.0];

/// Blocks of a format as codes of a byte and factors of their sums.
pub(super) trait Codes {
    /// What is known of a unit before its codes.
    type Scales: Copy;
    /// Runs of [`STEP`] codes in a unit of blocks.
    const STEPS: usize;
    /// Bytes of a unit.
    const BYTES: usize;
    /// What a code has more than the number it stands for.
    const OFFSET: i32;
    /// Which runs of 16 inputs the quarters of the vectors are.
    const ORDER: [usize; 8];
    /// Whether groups of 32 have a minimum.
    const HAS_MINIMA: bool = false;

    /// # Safety
    /// A unit is readable; compiled for AVX-512; so for the rest.
    unsafe fn scales(at: *const u8) -> Self::Scales;

    /// The bytes of a run, and the factor of each sum of four.
    unsafe fn step(at: *const u8, step: usize, scales: Self::Scales) -> ([__m512i; 2], [__m512; 2]);

    /// Minima of a unit of eight groups.
    unsafe fn minima(_scales: Self::Scales) -> __m256 {
        // SAFETY: compiled for AVX-512.
        unsafe { _mm256_setzero_ps() }
    }
}

pub(super) struct Q4K;
pub(super) struct Q6K;
pub(super) struct Q4;
pub(super) struct Q8;

/// Lanes by the number that each of four, or each half, is to have.
const fn fours(numbers: [i32; 4]) -> [i32; 16] {
    let mut lanes = [0; 16];
    let mut n = 0;
    while n < 16 {
        lanes[n] = numbers[n / 4];
        n += 1;
    }
    lanes
}

/// # Safety
/// Compiled for AVX-512.
#[inline(always)]
unsafe fn chosen(from: __m512, lanes: &[i32; 16]) -> __m512 {
    // SAFETY: 16 lanes.
    unsafe { _mm512_permutexvar_ps(_mm512_loadu_si512(lanes.as_ptr().cast()), from) }
}

/// Low and high halves of bytes.
///
/// # Safety
/// Compiled for AVX-512.
#[inline(always)]
unsafe fn nibbles(bytes: __m512i) -> [__m512i; 2] {
    // SAFETY: as above.
    unsafe {
        let low = _mm512_set1_epi8(15);
        [_mm512_and_si512(bytes, low), _mm512_and_si512(_mm512_srli_epi16::<4>(bytes), low)]
    }
}

/// Numbers of 16 bits in the low lanes.
///
/// # Safety
/// Compiled for AVX-512.
#[inline(always)]
unsafe fn halves(bits: u64) -> __m512 {
    // SAFETY: as above.
    unsafe { _mm512_castps128_ps512(_mm_cvtph_ps(_mm_cvtsi64_si128(bits as i64))) }
}

impl Codes for Q4K {
    /// Eight scales, then eight minima.
    type Scales = __m512;
    const STEPS: usize = 2;
    const BYTES: usize = BlockFormat::Q4K.bytes();
    const OFFSET: i32 = 0;
    const ORDER: [usize; 8] = [0, 1, 4, 5, 2, 3, 6, 7];
    const HAS_MINIMA: bool = true;

    #[inline(always)]
    unsafe fn scales(at: *const u8) -> __m512 {
        const BOTH: [i32; 16] = [0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1];
        const LOW: u32 = 0x0f0f_0f0f;
        const TOP: u32 = 0x3030_3030;
        const SIX: u32 = 0x3f3f_3f3f;
        // SAFETY: the first 16 bytes of a block.
        unsafe {
            let both = halves(u64::from(at.cast::<u32>().read_unaligned()));
            let [a, b, c] = at.add(4).cast::<[u32; 3]>().read_unaligned();
            let scales = u64::from(a & SIX) | u64::from(c & LOW | a >> 2 & TOP) << 32;
            let minima = u64::from(b & SIX) | u64::from(c >> 4 & LOW | b >> 2 & TOP) << 32;
            let codes = _mm512_cvtepu8_epi32(_mm_set_epi64x(minima as i64, scales as i64));
            _mm512_mul_ps(_mm512_cvtepi32_ps(codes), chosen(both, &BOTH))
        }
    }

    #[inline(always)]
    unsafe fn step(at: *const u8, step: usize, scales: __m512) -> ([__m512i; 2], [__m512; 2]) {
        const FACTORS: [[[i32; 16]; 2]; 2] =
            [[fours([0, 0, 2, 2]), fours([1, 1, 3, 3])], [fours([4, 4, 6, 6]), fours([5, 5, 7, 7])]];
        // SAFETY: 64 of the 128 bytes of codes.
        unsafe {
            let bytes = _mm512_loadu_si512(at.add(16 + step * VECTOR).cast());
            (nibbles(bytes), [chosen(scales, &FACTORS[step][0]), chosen(scales, &FACTORS[step][1])])
        }
    }

    #[inline(always)]
    unsafe fn minima(scales: __m512) -> __m256 {
        // SAFETY: compiled for AVX-512.
        unsafe { _mm512_extractf32x8_ps::<1>(scales) }
    }
}

impl Codes for Q6K {
    /// 16 scales.
    type Scales = __m512;
    const STEPS: usize = 2;
    const BYTES: usize = BlockFormat::Q6K.bytes();
    const OFFSET: i32 = 32;
    const ORDER: [usize; 8] = [0, 1, 2, 3, 4, 5, 6, 7];

    #[inline(always)]
    unsafe fn scales(at: *const u8) -> __m512 {
        // SAFETY: the last 18 bytes of a block.
        unsafe {
            let scale = halves(u64::from(at.add(208).cast::<u16>().read_unaligned()));
            let codes = _mm512_cvtepi8_epi32(_mm_loadu_si128(at.add(192).cast()));
            _mm512_mul_ps(_mm512_cvtepi32_ps(codes), chosen(scale, &[0; 16]))
        }
    }

    #[inline(always)]
    unsafe fn step(at: *const u8, step: usize, scales: __m512) -> ([__m512i; 2], [__m512; 2]) {
        const FACTORS: [[[i32; 16]; 2]; 2] =
            [[fours([0, 1, 2, 3]), fours([4, 5, 6, 7])], [fours([8, 9, 10, 11]), fours([12, 13, 14, 15])]];
        // SAFETY: half of the low and of the high bits.
        unsafe {
            let low = _mm512_loadu_si512(at.add(step * VECTOR).cast());
            let high = _mm512_broadcast_i64x4(_mm256_loadu_si256(at.add(128 + step * VECTOR / 2).cast()));
            // Two bits for each half, then those of the halves above.
            let high = _mm512_mask_srli_epi32::<2>(high, 0xff00, high);
            let (four, six) = (_mm512_set1_epi8(15), _mm512_set1_epi8(63));
            // Where the first has bits those of the second, else those of the third.
            let first = _mm512_ternarylogic_epi32::<0xca>(four, low, _mm512_slli_epi16::<4>(high));
            let second = _mm512_ternarylogic_epi32::<0xca>(four, _mm512_srli_epi16::<4>(low), high);
            let codes = [_mm512_and_si512(first, six), _mm512_and_si512(second, six)];
            (codes, [chosen(scales, &FACTORS[step][0]), chosen(scales, &FACTORS[step][1])])
        }
    }
}

impl Codes for Q4 {
    /// Four scales, each four times.
    type Scales = __m512;
    const STEPS: usize = 1;
    const BYTES: usize = 4 * BlockFormat::Q4_0.bytes();
    const OFFSET: i32 = 8;
    const ORDER: [usize; 8] = [0, 2, 4, 6, 1, 3, 5, 7];

    #[inline(always)]
    unsafe fn scales(at: *const u8) -> __m512 {
        // SAFETY: the first bytes of four blocks.
        unsafe { four_scales(at, BlockFormat::Q4_0.bytes()) }
    }

    #[inline(always)]
    unsafe fn step(at: *const u8, _step: usize, scales: __m512) -> ([__m512i; 2], [__m512; 2]) {
        const BYTES: usize = BlockFormat::Q4_0.bytes();
        // SAFETY: the codes of four blocks.
        unsafe {
            let bytes = _mm512_castsi128_si512(_mm_loadu_si128(at.add(2).cast()));
            let bytes = _mm512_inserti32x4::<1>(bytes, _mm_loadu_si128(at.add(2 + BYTES).cast()));
            let bytes = _mm512_inserti32x4::<2>(bytes, _mm_loadu_si128(at.add(2 + 2 * BYTES).cast()));
            let bytes = _mm512_inserti32x4::<3>(bytes, _mm_loadu_si128(at.add(2 + 3 * BYTES).cast()));
            (nibbles(bytes), [scales, scales])
        }
    }
}

impl Codes for Q8 {
    /// Four scales, each four times.
    type Scales = __m512;
    const STEPS: usize = 1;
    const BYTES: usize = 4 * BlockFormat::Q8_0.bytes();
    const OFFSET: i32 = 128;
    const ORDER: [usize; 8] = [0, 1, 2, 3, 4, 5, 6, 7];

    #[inline(always)]
    unsafe fn scales(at: *const u8) -> __m512 {
        // SAFETY: the first bytes of four blocks.
        unsafe { four_scales(at, BlockFormat::Q8_0.bytes()) }
    }

    #[inline(always)]
    unsafe fn step(at: *const u8, _step: usize, scales: __m512) -> ([__m512i; 2], [__m512; 2]) {
        const BYTES: usize = BlockFormat::Q8_0.bytes();
        // SAFETY: the codes of four blocks.
        unsafe {
            let sign = _mm512_set1_epi8(-128);
            let mut codes = [_mm512_setzero_si512(); 2];
            for half in 0..2 {
                let at = at.add(2 + 2 * half * BYTES);
                let low = _mm512_castsi256_si512(_mm256_loadu_si256(at.cast()));
                let both = _mm512_inserti64x4::<1>(low, _mm256_loadu_si256(at.add(BYTES).cast()));
                codes[half] = _mm512_xor_si512(both, sign);
            }
            // Quarters of the scales: of the first two blocks, and of the others.
            (codes, [_mm512_shuffle_f32x4::<0x50>(scales, scales), _mm512_shuffle_f32x4::<0xfa>(scales, scales)])
        }
    }
}

/// The scales of four blocks, each in four lanes.
///
/// # Safety
/// They are readable, so many bytes apart; compiled for AVX-512.
#[inline(always)]
unsafe fn four_scales(at: *const u8, bytes: usize) -> __m512 {
    // SAFETY: the caller's promise.
    unsafe {
        let mut bits = 0;
        for n in 0..4 {
            bits |= u64::from(at.add(n * bytes).cast::<u16>().read_unaligned()) << (16 * n);
        }
        chosen(halves(bits), &fours([0, 1, 2, 3]))
    }
}

/// Up to four rows at a time.
pub(super) struct Thin<'a> {
    problem: &'a BlockMatMul,
    places: &'a Places,
    first: usize,
    /// Digits and what offsets take from their sums, for each vector of steps and each row.
    digits: *const u8,
    /// Sums of groups, for each unit of eight and each row.
    groups: *const f32,
    /// What the last digit of each row counts.
    units: [f32; VECTORS],
}

// SAFETY: addresses of memory that outlives the run; tasks write disjoint outputs.
unsafe impl Sync for Thin<'_> {}

impl Thin<'_> {
    pub(super) fn takes(problem: &BlockMatMul) -> bool {
        problem.m <= 8 * VECTORS && problem.k.is_multiple_of(STEP)
    }

    /// # Safety
    /// As [`BlockMatMul::run`], on a machine with VNNI.
    pub(super) unsafe fn run(problem: &BlockMatMul, places: &Places, cores: &Cores) {
        // SAFETY: the caller's promise, and the format is the problem's.
        unsafe {
            for first in (0..problem.m).step_by(VECTORS) {
                let rows = first..(first + VECTORS).min(problem.m);
                match (problem.format, problem.dtype) {
                    (BlockFormat::Q4K, DType::F32) => Self::rows::<Q4K, 3>(problem, places, rows, cores),
                    (BlockFormat::Q4K, _) => Self::rows::<Q4K, 2>(problem, places, rows, cores),
                    (BlockFormat::Q6K, DType::F32) => Self::rows::<Q6K, 3>(problem, places, rows, cores),
                    (BlockFormat::Q6K, _) => Self::rows::<Q6K, 2>(problem, places, rows, cores),
                    (BlockFormat::Q4_0, DType::F32) => Self::rows::<Q4, 3>(problem, places, rows, cores),
                    (BlockFormat::Q4_0, _) => Self::rows::<Q4, 2>(problem, places, rows, cores),
                    (BlockFormat::Q8_0, DType::F32) => Self::rows::<Q8, 3>(problem, places, rows, cores),
                    (BlockFormat::Q8_0, _) => Self::rows::<Q8, 2>(problem, places, rows, cores),
                }
            }
        }
    }

    /// # Safety
    /// As [`Thin::run`], for at most four rows; two digits are for rows of 16 bits an element.
    unsafe fn rows<C: Codes, const D: usize>(
        problem: &BlockMatMul,
        places: &Places,
        rows: Range<usize>,
        cores: &Cores,
    ) {
        let BlockMatMul { k, n, .. } = *problem;
        let count = rows.len();
        let digits_bytes = k / VECTOR * count * 2 * D * VECTOR;
        let sums = if C::HAS_MINIMA { k / GROUP * count } else { 0 };
        let loan = Loan::take(Slot::Shared, digits_bytes + (sums + k) * size_of::<f32>());
        let groups = loan.at::<u8>().wrapping_add(digits_bytes).cast::<f32>();
        let wide = groups.wrapping_add(sums);
        let mut units = [1.0; VECTORS];
        for (i, row) in rows.clone().enumerate() {
            // SAFETY: the loan has room for a row of floats, and for digits and sums of all.
            let unit = unsafe {
                problem.widen(places, row, wide);
                let to = loan.at::<u8>().add(i * 2 * D * VECTOR);
                digits_of::<C, D>(wide, k, to, count * 2 * D * VECTOR, groups.wrapping_add(8 * i), 8 * count)
            };
            let Some(unit) = unit else {
                // What is no fixed-point number is multiplied as it is.
                drop(loan);
                // SAFETY: the caller's promise.
                return unsafe { problem.run_rows(places, rows, cores) };
            };
            units[i] = unit;
        }
        let thin = &Thin { problem, places, first: rows.start, digits: loan.at(), groups, units };
        tasks(n, cores, &|outputs| {
            // SAFETY: the outputs are this task's own; there are as many rows.
            unsafe {
                match count {
                    1 => thin.outputs::<C, D, 1>(outputs),
                    2 => thin.outputs::<C, D, 2>(outputs),
                    3 => thin.outputs::<C, D, 3>(outputs),
                    _ => thin.outputs::<C, D, 4>(outputs),
                }
            }
        });
    }

    /// # Safety
    /// As [`Thin::rows`], for `M` rows; no other thread writes these outputs.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,f16c")]
    unsafe fn outputs<C: Codes, const D: usize, const M: usize>(&self, outputs: Range<usize>) {
        let BlockMatMul { k, n, .. } = *self.problem;
        let row_bytes = self.problem.row_bytes();
        let units = k / (C::STEPS * STEP);
        let each = 2 * D * VECTOR;
        for output in outputs {
            let row = self.places.blocks.wrapping_add(output * row_bytes);
            let mut totals = [[_mm512_setzero_ps(); 2]; M];
            let mut less = [_mm256_setzero_ps(); M];
            for unit in 0..units {
                let at = row.wrapping_add(unit * C::BYTES);
                for line in 0..C::BYTES.div_ceil(VECTOR) {
                    _mm_prefetch::<_MM_HINT_T0>(at.wrapping_add(AHEAD + line * VECTOR).cast());
                }
                // SAFETY: a unit of the row, and the digits and sums of its steps.
                unsafe {
                    let scales = C::scales(at);
                    for step in 0..C::STEPS {
                        let (codes, factors) = C::step(at, step, scales);
                        let x = self.digits.add((unit * C::STEPS + step) * 2 * M * each);
                        for half in 0..2 {
                            for i in 0..M {
                                let x = x.add((half * M + i) * each);
                                let sums = sums_of::<C, D>(codes[half], x);
                                totals[i][half] = _mm512_fmadd_ps(sums, factors[half], totals[i][half]);
                            }
                        }
                    }
                    if C::HAS_MINIMA {
                        let minima = C::minima(scales);
                        for i in 0..M {
                            let sums = _mm256_loadu_ps(self.groups.add((unit * M + i) * 8));
                            less[i] = _mm256_fmadd_ps(minima, sums, less[i]);
                        }
                    }
                }
            }
            for i in 0..M {
                let total = _mm512_reduce_add_ps(_mm512_add_ps(totals[i][0], totals[i][1])) * self.units[i];
                let less = _mm512_reduce_add_ps(_mm512_zextps256_ps512(less[i]));
                // SAFETY: an output of this thread.
                unsafe { *self.places.out.add((self.first + i) * n + output) = total - less };
            }
        }
    }
}

/// Products of 64 codes with digits, summed by fours.
///
/// # Safety
/// As many digits are readable, and what offsets take; compiled for VNNI.
#[inline(always)]
unsafe fn sums_of<C: Codes, const D: usize>(codes: __m512i, x: *const u8) -> __m512 {
    // SAFETY: the caller's promise.
    unsafe {
        let zero = _mm512_setzero_si512();
        let digit = |n: usize| x.add(n * VECTOR).cast::<__m512i>();
        if D == 2 {
            let high = _mm512_slli_epi32::<8>(_mm512_dpbusd_epi32(zero, codes, _mm512_load_si512(digit(0))));
            let low = _mm512_load_si512(digit(1));
            let both = match C::OFFSET {
                0 => _mm512_dpbusd_epi32(high, codes, low),
                _ => _mm512_add_epi32(high, _mm512_dpbusd_epi32(_mm512_load_si512(digit(3)), codes, low)),
            };
            return _mm512_cvtepi32_ps(both);
        }
        let mut sum = _mm512_setzero_ps();
        for n in 0..D {
            let own = _mm512_dpbusd_epi32(_mm512_load_si512(digit(D + n)), codes, _mm512_load_si512(digit(n)));
            sum = _mm512_fmadd_ps(sum, _mm512_set1_ps(256.0), _mm512_cvtepi32_ps(own));
        }
        sum
    }
}

/// Writes a row as digits, the highest first, with what offsets take from sums of four, and the sums of its groups; what one unit of the
/// last digit stands for, or `None` if the row has no such form.
///
/// # Safety
/// `k` numbers are readable, a multiple of [`STEP`]. For each 64 of them `to` takes `2·D` vectors, so many bytes apart; `groups` takes
/// the sums of eight groups, so many numbers apart, where the format has minima. The machine has VNNI.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
unsafe fn digits_of<C: Codes, const D: usize>(
    row: *const f32,
    k: usize,
    to: *mut u8,
    apart: usize,
    groups: *mut f32,
    groups_apart: usize,
) -> Option<f32> {
    let mut largest = _mm512_setzero_si512();
    let magnitude = _mm512_set1_epi32(0x7fff_ffff);
    for at in (0..k).step_by(16) {
        // SAFETY: a part of the row.
        let bits = unsafe { _mm512_loadu_si512(row.add(at).cast()) };
        // Not a maximum of floats: that would pass over NaN.
        largest = _mm512_max_epu32(largest, _mm512_and_si512(bits, magnitude));
    }
    let largest = f32::from_bits(_mm512_reduce_max_epu32(largest));
    if !largest.is_finite() || largest > 0.0 && !(1e-25..1e25).contains(&largest) {
        return None;
    }
    // A power of two, so that few numbers are rounded.
    let mut unit = 1.0f32;
    if largest > 0.0 {
        unit = f32::from_bits((((largest / LARGEST[D - 2]).to_bits() >> 23) + 1) << 23);
    }
    let inverse = _mm512_set1_ps(1.0 / unit);
    let (zero, ones, offset) = (_mm512_setzero_si512(), _mm512_set1_epi8(1), _mm512_set1_epi32(-C::OFFSET));
    for vector in 0..k / VECTOR {
        let to = to.wrapping_add(vector * apart);
        for quarter in 0..4 {
            let run = C::ORDER[vector % 2 * 4 + quarter];
            // SAFETY: 16 numbers of the step, and a quarter of each digit's vector.
            unsafe {
                let numbers = _mm512_loadu_ps(row.add(vector / 2 * STEP + run * 16));
                let mut rest = _mm512_cvtps_epi32(_mm512_mul_ps(numbers, inverse));
                for n in (0..D).rev() {
                    let own = _mm512_srai_epi32::<24>(_mm512_slli_epi32::<24>(rest));
                    let place = to.add(n * VECTOR + quarter * 16).cast();
                    _mm_storeu_si128(place, _mm512_cvtepi32_epi8(own));
                    rest = _mm512_srai_epi32::<8>(_mm512_sub_epi32(rest, own));
                }
            }
        }
        // SAFETY: the vectors that were just written, and those after them.
        unsafe {
            let mut both = zero;
            for n in 0..D {
                let digits = _mm512_loadu_si512(to.add(n * VECTOR).cast());
                let own = _mm512_dpbusd_epi32(zero, ones, digits);
                both = _mm512_add_epi32(_mm512_slli_epi32::<8>(both), own);
                let own = if D == 2 { both } else { own };
                _mm512_storeu_si512(to.add((D + n) * VECTOR).cast(), _mm512_mullo_epi32(own, offset));
            }
        }
    }
    if C::HAS_MINIMA {
        for group in 0..k / GROUP {
            // SAFETY: the numbers of a group, and the place of its sum.
            unsafe {
                let (low, high) =
                    (_mm512_loadu_ps(row.add(group * GROUP)), _mm512_loadu_ps(row.add(group * GROUP + 16)));
                let sum = _mm512_reduce_add_ps(_mm512_add_ps(low, high));
                *groups.add(group / 8 * groups_apart + group % 8) = sum;
            }
        }
    }
    Some(unit)
}
