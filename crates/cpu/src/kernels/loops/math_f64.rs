//! Elementary functions of f64: `exp`, `log` and `logistic` vectorise, the others are the standard library's.

use super::math::{coefficients as c, muladd_f64, polynomial_f64};

/// `(e^r - 1 - r) / r²`: the series, lowest degree first.
pub(crate) const EXP: [f64; 12] = [
    1.0 / 2.0,
    1.0 / 6.0,
    1.0 / 24.0,
    1.0 / 120.0,
    1.0 / 720.0,
    1.0 / 5_040.0,
    1.0 / 40_320.0,
    1.0 / 362_880.0,
    1.0 / 3_628_800.0,
    1.0 / 39_916_800.0,
    1.0 / 479_001_600.0,
    1.0 / 6_227_020_800.0,
];
/// `(2 atanh(s) - 2 s) / s³` in `s²`: the series, lowest degree first.
pub(crate) const ATANH: [f64; 10] = [
    2.0 / 3.0,
    2.0 / 5.0,
    2.0 / 7.0,
    2.0 / 9.0,
    2.0 / 11.0,
    2.0 / 13.0,
    2.0 / 15.0,
    2.0 / 17.0,
    2.0 / 19.0,
    2.0 / 21.0,
];
/// ln 2 in two parts; a product of the first with an integer below 2^20 is exact.
pub(crate) const LN2_HIGH: f64 = 0.693_147_180_369_123_8;
pub(crate) const LN2_LOW: f64 = 1.908_214_929_270_587_7e-10;
/// The bits of `√½`.
const SQRT_HALF_BITS: i64 = 0x3fe6_a09e_667f_3bcd;

#[inline(always)]
fn power_of_two(n: i64) -> f64 {
    f64::from_bits((n.wrapping_add(1023) as u64) << 52)
}

/// `e^x`, 1.5 ULP.
#[inline(always)]
pub(crate) fn exp_f64<const FMA: bool>(x: f64) -> f64 {
    let x = if x > 710.0 { 710.0 } else { x };
    let x = if x < -746.0 { -746.0 } else { x };
    let shifted = muladd_f64::<FMA>(x, std::f64::consts::LOG2_E, c::INTEGER_F64);
    let n = shifted - c::INTEGER_F64;
    let r = muladd_f64::<FMA>(n, -LN2_HIGH, x);
    let r = muladd_f64::<FMA>(n, -LN2_LOW, r);
    let m = muladd_f64::<FMA>(r * r, polynomial_f64::<FMA, 12>(r, &EXP), r) + 1.0;
    let n = shifted.to_bits().wrapping_sub(c::INTEGER_F64.to_bits()) as i64;
    let half = n >> 1;
    m * power_of_two(half) * power_of_two(n.wrapping_sub(half))
}

/// `1 / (1 + e^-x)`, 4 ULP.
#[inline(always)]
pub(crate) fn logistic_f64<const FMA: bool>(x: f64) -> f64 {
    1.0 / (1.0 + exp_f64::<FMA>(-x))
}

/// `ln(x)`, 1.5 ULP.
#[inline(always)]
pub(crate) fn log_f64<const FMA: bool>(x: f64) -> f64 {
    let tiny = x < f64::MIN_POSITIVE;
    let bits = (if tiny { x * 18_014_398_509_481_984.0 } else { x }).to_bits() as i64;
    // Signed 64-bit shifts are slow on older machines: the exponent is taken from the high half.
    let n = (bits.wrapping_sub(SQRT_HALF_BITS) >> 32) as i32 >> 20;
    let m = f64::from_bits(bits.wrapping_sub(i64::from(n) << 52) as u64);
    let n = f64::from(n) - if tiny { 54.0 } else { 0.0 };
    let f = m - 1.0;
    let s = f / (2.0 + f);
    let z = s * s;
    let rest = z * polynomial_f64::<FMA, 10>(z, &ATANH);
    let half_square = 0.5 * f * f;
    let tail = muladd_f64::<FMA>(s, half_square + rest, n * LN2_LOW);
    let result = muladd_f64::<FMA>(n, LN2_HIGH, -((half_square - tail) - f));
    let result = if x < f64::INFINITY { result } else { x };
    let result = if x == 0.0 { f64::NEG_INFINITY } else { result };
    if x < 0.0 { f64::NAN } else { result }
}

/// `erf(x)`, 2 ULP: the reference's own.
pub(crate) fn erf_f64(x: f64) -> f64 {
    crate::interpret::real_math::erf(x)
}
