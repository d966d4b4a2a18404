//! Elementary functions of f32 that compilers can vectorise: no branches, no tables, no calls.
//!
//! `FMA` says whether the caller's instruction set multiplies and adds with one rounding; the error bounds hold either
//! way. Errors are in units in the last place (ULP) of the exact result, measured over a dense sweep of all floats.
//! The functions of seldom used operations work in f64 inside: they then need no care for rounding.

/// What the polynomials and reductions are made of, for every backend. Lowest degree first.
pub(crate) mod coefficients {
    /// Added to a real of small magnitude it leaves the nearest integer in the low bits: 1.5·2^23.
    pub(crate) const INTEGER_F32: f32 = 12_582_912.0;
    /// As [`INTEGER_F32`]: 1.5·2^52.
    pub(crate) const INTEGER_F64: f64 = 6_755_399_441_055_744.0;
    /// ln 2 in two parts; a product of the first with an integer below 2^14 is exact.
    pub(crate) const LN2_HIGH: f32 = 0.693_359_4;
    pub(crate) const LN2_LOW: f32 = -2.121_944_4e-4;
    /// Beyond these `exp` is infinity or 0.
    pub(crate) const EXP_HIGH: f32 = 89.0;
    pub(crate) const EXP_LOW: f32 = -104.0;
    /// From the first to the second `exp` is a normal number.
    pub(crate) const EXP_LEAST: f32 = -87.336_54;
    pub(crate) const EXP_MOST: f32 = 88.722_83;
    /// `(e^r - 1 - r) / r²` for `|r| <= ln 2 / 2`.
    pub(crate) const EXP: [f32; 5] = [0.5, 0.166_665_2, 0.041_666_206, 0.008_368_886, 0.001_395_044_8];
    /// Below this `expm1` is -1.
    pub(crate) const EXPM1_LOW: f32 = -20.0;
    /// Beyond this `tanh` is 1.
    pub(crate) const TANH_HIGH: f32 = 9.02;
    /// The bits of `√½`: mantissas are taken from there to `√2`.
    pub(crate) const SQRT_HALF_BITS: i32 = 0x3f35_04f3;
    /// `(ln(1 + f) - f + f²/2) / f³` for `√½ <= 1 + f < √2`.
    pub(crate) const LOG: [f32; 9] = [
        0.333_333_13,
        -0.250_000_1,
        0.200_021_27,
        -0.166_680_01,
        0.142_193_88,
        -0.124_053_63,
        0.118_892_42,
        -0.116_776_52,
        0.067_466_21,
    ];
    /// `erf(x) / x - 1` in `x²` for `|x| < 1`.
    pub(crate) const ERF_SMALL: [f32; 7] =
        [0.128_379_17, -0.376_126_26, 0.112_836, -0.026_854_444, 0.005_189_535_7, -0.000_802_084_2, 0.000_078_891_23];
    /// `ln(1 - erf(x))` for `1 <= x <= 4`; beyond `erf` is 1.
    pub(crate) const ERF_LARGE: [f32; 8] = [
        0.000_162_101_92,
        -1.129_454_5,
        -0.633_468_7,
        -0.108_146_41,
        0.025_033_252,
        -0.004_138_459_5,
        0.000_427_762_77,
        -0.000_020_518_444,
    ];
    pub(crate) const ERF_HIGH: f32 = 4.0;
    /// π/2 in two parts; a product of the first with an integer below 2^20 is exact.
    pub(crate) const HALF_PI_HIGH: f64 = 1.570_796_326_734_125_6;
    pub(crate) const HALF_PI_LOW: f64 = 6.077_100_506_506_192e-11;
    /// From here on the argument of a sine is reduced exactly, one element at a time.
    pub(crate) const TURN_HIGH: f64 = 1_048_576.0;
    /// `(sin r - r) / r³` in `r²` for `|r| <= π/4`.
    pub(crate) const SIN: [f64; 4] =
        [-0.166_666_666_415_269_53, 0.008_333_329_374_130_111, -0.000_198_393_309_991_619_64, 2.718_274_490_665_305e-6];
    /// `(cos r - 1 + r²/2) / r⁴` in `r²` for `|r| <= π/4`.
    pub(crate) const COS: [f64; 4] =
        [0.041_666_666_622_653_01, -0.001_388_888_373_805_205_1, 2.479_951_589_403_380_2e-5, -2.720_989_325_128_003e-7];
    /// `atan(t) / t` in `t²` for `0 <= t <= 1`.
    pub(crate) const ATAN: [f64; 11] = [
        0.999_999_999_667_198_1,
        -0.333_333_247_188_051_7,
        0.199_996_306_022_669_7,
        -0.142_794_931_236_560_6,
        0.110_566_749_830_944_39,
        -0.088_069_066_202_210_58,
        0.067_346_324_208_842_4,
        -0.044_618_516_853_706_235,
        0.022_496_557_032_989_598,
        -0.007_304_087_414_958_246,
        0.001_112_075_863_093_258_5,
    ];
    /// `(2 atanh(s) - 2 s) / s³` in `s²` for `|s| <= (√2 - 1) / (√2 + 1)`, to 3e-14.
    pub(crate) const ATANH: [f64; 5] = [
        0.666_666_666_753_328,
        0.399_999_957_395_065_44,
        0.285_720_994_091_999_5,
        0.221_765_154_194_308_12,
        0.195_803_403_039_710_78,
    ];
    /// `(e^r - 1 - r) / r²` for `|r| <= ln 2 / 2`, to 2e-14.
    pub(crate) const EXP_OF_POW: [f64; 8] = [
        0.499_999_999_996_200_93,
        0.166_666_666_665_684_47,
        0.041_666_666_982_624_96,
        0.008_333_333_388_583_684,
        0.001_388_880_834_779_541_6,
        0.000_198_411_628_986_235_17,
        2.488_199_396_471_734_8e-5,
        2.764_384_148_268_103_6e-6,
    ];
}

use self::coefficients as c;

/// `a·b + c`, with one rounding where `FMA`.
#[inline(always)]
pub(crate) fn muladd<const FMA: bool>(a: f32, b: f32, c: f32) -> f32 {
    if FMA { a.mul_add(b, c) } else { a * b + c }
}

/// `a·b + c`, with one rounding where `FMA`.
#[inline(always)]
pub(crate) fn muladd_f64<const FMA: bool>(a: f64, b: f64, c: f64) -> f64 {
    if FMA { a.mul_add(b, c) } else { a * b + c }
}

#[inline(always)]
fn polynomial<const FMA: bool, const N: usize>(x: f32, coefficients: &[f32; N]) -> f32 {
    let mut sum = coefficients[N - 1];
    let mut at = N - 1;
    while at > 0 {
        at -= 1;
        sum = muladd::<FMA>(sum, x, coefficients[at]);
    }
    sum
}

#[inline(always)]
pub(crate) fn polynomial_f64<const FMA: bool, const N: usize>(x: f64, coefficients: &[f64; N]) -> f64 {
    let mut sum = coefficients[N - 1];
    let mut at = N - 1;
    while at > 0 {
        at -= 1;
        sum = muladd_f64::<FMA>(sum, x, coefficients[at]);
    }
    sum
}

/// `x` where it is not above `high`; NaN stays.
#[inline(always)]
fn at_most(x: f32, high: f32) -> f32 {
    if x > high { high } else { x }
}

#[inline(always)]
fn at_least(x: f32, low: f32) -> f32 {
    if x < low { low } else { x }
}

/// 2 to an integer within the exponents of normal numbers.
#[inline(always)]
fn power_of_two(n: i32) -> f32 {
    f32::from_bits((n.wrapping_add(127) as u32) << 23)
}

/// `n` and `e^r - 1`, where `x = n ln 2 + r` and `|r| <= ln 2 / 2`.
#[inline(always)]
fn reduced_expm1<const FMA: bool>(x: f32) -> (i32, f32) {
    let shifted = muladd::<FMA>(x, std::f32::consts::LOG2_E, c::INTEGER_F32);
    let n = shifted - c::INTEGER_F32;
    let r = muladd::<FMA>(n, -c::LN2_HIGH, x);
    let r = muladd::<FMA>(n, -c::LN2_LOW, r);
    let tail = polynomial::<FMA, 5>(r, &c::EXP);
    (shifted.to_bits().wrapping_sub(c::INTEGER_F32.to_bits()) as i32, muladd::<FMA>(r * r, tail, r))
}

/// `e^x`, 1.1 ULP.
#[inline(always)]
pub(crate) fn exp_f32<const FMA: bool>(x: f32) -> f32 {
    let (n, m) = reduced_expm1::<FMA>(at_least(at_most(x, c::EXP_HIGH), c::EXP_LOW));
    // In two factors, so that results below the normal range are right too.
    let half = n >> 1;
    (m + 1.0) * power_of_two(half) * power_of_two(n.wrapping_sub(half))
}

/// `e^x - 1`, 2 ULP.
#[inline(always)]
pub(crate) fn expm1_f32<const FMA: bool>(x: f32) -> f32 {
    let (n, m) = reduced_expm1::<FMA>(at_least(at_most(x, c::EXP_HIGH), c::EXPM1_LOW));
    // Half of the power: the whole one may be above the largest number.
    let scale = power_of_two(n.wrapping_sub(1));
    let result = muladd::<FMA>(scale, m, scale - 0.5) * 2.0;
    if x == 0.0 { x } else { result }
}

/// `tanh(x)`, 2.5 ULP.
#[inline(always)]
pub(crate) fn tanh_f32<const FMA: bool>(x: f32) -> f32 {
    let (n, m) = reduced_expm1::<FMA>(2.0 * at_most(x.abs(), c::TANH_HIGH));
    let scale = power_of_two(n);
    let y = muladd::<FMA>(scale, m, scale - 1.0);
    (y / (y + 2.0)).copysign(x)
}

/// `1 / (1 + e^-x)`, 2.5 ULP.
#[inline(always)]
pub(crate) fn logistic_f32<const FMA: bool>(x: f32) -> f32 {
    1.0 / (1.0 + exp_f32::<FMA>(-x))
}

/// `n ln 2 + ln(1 + f)`, where `1 + f` lies between `√½` and `√2`.
#[inline(always)]
fn log_of_parts<const FMA: bool>(n: f32, f: f32) -> f32 {
    let square = f * f;
    let tail = polynomial::<FMA, 9>(f, &c::LOG) * f * square;
    let tail = muladd::<FMA>(n, c::LN2_LOW, tail);
    let tail = muladd::<FMA>(square, -0.5, tail);
    muladd::<FMA>(n, c::LN2_HIGH, f + tail)
}

/// The exponent and the mantissa (between `√½` and `√2`) of a positive normal number.
#[inline(always)]
fn parts(x: f32) -> (i32, f32) {
    let bits = x.to_bits() as i32;
    let n = bits.wrapping_sub(c::SQRT_HALF_BITS) >> 23;
    (n, f32::from_bits(bits.wrapping_sub(n << 23) as u32))
}

/// `ln(x)`, 1 ULP.
#[inline(always)]
pub(crate) fn log_f32<const FMA: bool>(x: f32) -> f32 {
    let tiny = x < f32::MIN_POSITIVE;
    let (n, m) = parts(if tiny { x * 8_388_608.0 } else { x });
    let n = n as f32 - if tiny { 23.0 } else { 0.0 };
    let result = log_of_parts::<FMA>(n, m - 1.0);
    let result = if x < f32::INFINITY { result } else { x };
    let result = if x == 0.0 { f32::NEG_INFINITY } else { result };
    if x < 0.0 { f32::NAN } else { result }
}

/// `ln(1 + x)`, 1.5 ULP.
#[inline(always)]
pub(crate) fn log1p_f32<const FMA: bool>(x: f32) -> f32 {
    let u = 1.0 + x;
    let lost = x - (u - 1.0);
    let (n, m) = parts(u);
    // What was lost does not count where its factor would leave the range of normal numbers.
    let shrink = power_of_two(if n > 100 { -100 } else { n.wrapping_neg() });
    let result = log_of_parts::<FMA>(n as f32, (m - 1.0) + lost * shrink);
    let result = if x < f32::INFINITY { result } else { x };
    let result = if x == -1.0 { f32::NEG_INFINITY } else { result };
    let result = if x < -1.0 { f32::NAN } else { result };
    if x == 0.0 { x } else { result }
}

/// `erf(x)`, 2 ULP.
#[inline(always)]
pub(crate) fn erf_f32<const FMA: bool>(x: f32) -> f32 {
    let a = at_most(x.abs(), c::ERF_HIGH);
    let small = muladd::<FMA>(polynomial::<FMA, 7>(a * a, &c::ERF_SMALL), a, a);
    let (n, m) = reduced_expm1::<FMA>(polynomial::<FMA, 8>(a, &c::ERF_LARGE));
    let scale = power_of_two(n);
    let large = 1.0 - muladd::<FMA>(scale, m, scale);
    let result = if a < 1.0 { small } else { large };
    let result = result.copysign(x);
    if x == 0.0 { x } else { result }
}

/// `1 / √x`, 1.5 ULP.
#[inline(always)]
pub(crate) fn rsqrt_f32(x: f32) -> f32 {
    1.0 / x.sqrt()
}

/// The nearest multiple of π/2 as its number, and the sine and cosine of what is left.
#[inline(always)]
fn turned<const FMA: bool>(x: f32) -> (u64, f64, f64) {
    let x = f64::from(x);
    let shifted = muladd_f64::<FMA>(x, std::f64::consts::FRAC_2_PI, c::INTEGER_F64);
    let n = shifted - c::INTEGER_F64;
    let r = muladd_f64::<FMA>(n, -c::HALF_PI_HIGH, x);
    let r = muladd_f64::<FMA>(n, -c::HALF_PI_LOW, r);
    let z = r * r;
    let sine = muladd_f64::<FMA>(r * z, polynomial_f64::<FMA, 4>(z, &c::SIN), r);
    let cosine = muladd_f64::<FMA>(z * z, polynomial_f64::<FMA, 4>(z, &c::COS), muladd_f64::<FMA>(z, -0.5, 1.0));
    (shifted.to_bits(), sine, cosine)
}

/// Whether [`sin_f32`], [`cos_f32`] and [`tan_f32`] leave this argument to the standard library.
#[inline(always)]
pub(crate) fn turns_far(x: f32) -> bool {
    f64::from(x.abs()) >= c::TURN_HIGH || x.is_nan()
}

/// `sin(x)`, 0.6 ULP where not [`turns_far`].
#[inline(always)]
pub(crate) fn sin_f32<const FMA: bool>(x: f32) -> f32 {
    let (n, sine, cosine) = turned::<FMA>(x);
    let value = if n & 1 == 0 { sine } else { cosine };
    let result = f64::from_bits(value.to_bits() ^ (n & 2) << 62) as f32;
    if x == 0.0 { x } else { result }
}

/// `cos(x)`, 0.6 ULP where not [`turns_far`].
#[inline(always)]
pub(crate) fn cos_f32<const FMA: bool>(x: f32) -> f32 {
    let (n, sine, cosine) = turned::<FMA>(x);
    let value = if n & 1 == 0 { cosine } else { sine };
    f64::from_bits(value.to_bits() ^ (n.wrapping_add(1) & 2) << 62) as f32
}

/// `tan(x)`, 0.6 ULP where not [`turns_far`].
#[inline(always)]
pub(crate) fn tan_f32<const FMA: bool>(x: f32) -> f32 {
    let (n, sine, cosine) = turned::<FMA>(x);
    let (above, below) = if n & 1 == 0 { (sine, cosine) } else { (-cosine, sine) };
    if x == 0.0 { x } else { (above / below) as f32 }
}

/// The cube root, 0.6 ULP.
#[inline(always)]
pub(crate) fn cbrt_f32(x: f32) -> f32 {
    let a = f64::from(x.abs());
    // A third of the exponent is within 4 %; each step (Halley's) cubes the error.
    let start = ((a.to_bits() >> 32) as u32 / 3 + 715_094_912) as u64;
    let mut root = f64::from_bits(start << 32);
    for _ in 0..2 {
        let cube = root * root * root;
        root = root * (cube + a + a) / (cube + cube + a);
    }
    let result = (root as f32).copysign(x);
    if x != 0.0 && x.abs() < f32::INFINITY { result } else { x }
}

/// Whether [`pow_f32`] leaves these arguments to the standard library.
#[inline(always)]
pub(crate) fn pow_is_special(x: f32, y: f32) -> bool {
    !(x.abs() >= f32::MIN_POSITIVE && x.abs() < f32::INFINITY && y.abs() < f32::INFINITY)
}

/// `x^y`, 0.6 ULP where not [`pow_is_special`].
#[inline(always)]
pub(crate) fn pow_f32<const FMA: bool>(x: f32, y: f32) -> f32 {
    let (n, m) = parts(x.abs());
    let m = f64::from(m);
    let s = (m - 1.0) / (m + 1.0);
    let z = s * s;
    let log = muladd_f64::<FMA>(s * z, polynomial_f64::<FMA, 5>(z, &c::ATANH), s + s);
    let log = muladd_f64::<FMA>(f64::from(n), std::f64::consts::LN_2, log);
    let power = log * f64::from(y);
    let power = if power > 200.0 { 200.0 } else { power };
    let power = if power < -200.0 { -200.0 } else { power };
    let shifted = muladd_f64::<FMA>(power, std::f64::consts::LOG2_E, c::INTEGER_F64);
    let n = shifted - c::INTEGER_F64;
    let r = muladd_f64::<FMA>(n, -std::f64::consts::LN_2, power);
    let e = muladd_f64::<FMA>(r * r, polynomial_f64::<FMA, 8>(r, &c::EXP_OF_POW), r) + 1.0;
    let scale = f64::from_bits(shifted.to_bits().wrapping_sub(c::INTEGER_F64.to_bits()).wrapping_add(1023) << 52);
    let magnitude = (e * scale) as f32;
    let half = y * 0.5;
    let whole = y.floor() == y;
    let odd = whole && half.floor() != half;
    let result = if x < 0.0 && odd { -magnitude } else { magnitude };
    if x < 0.0 && !whole { f32::NAN } else { result }
}

/// The angle of the point `(x, y)`, 0.6 ULP.
#[inline(always)]
pub(crate) fn atan2_f32<const FMA: bool>(y: f32, x: f32) -> f32 {
    let (up, along) = (f64::from(y.abs()), f64::from(x.abs()));
    let (small, large) = if up > along { (along, up) } else { (up, along) };
    let t = small / large;
    let t = if large == 0.0 { 0.0 } else { t };
    let t = if small == f64::INFINITY { 1.0 } else { t };
    let angle = t * polynomial_f64::<FMA, 11>(t * t, &c::ATAN);
    let angle = if up > along { std::f64::consts::FRAC_PI_2 - angle } else { angle };
    let angle = if x.is_sign_negative() { std::f64::consts::PI - angle } else { angle };
    let result = (angle as f32).copysign(y);
    if x.is_nan() || y.is_nan() { f32::NAN } else { result }
}

#[cfg(test)]
mod tests {
    use super::super::math_f64;
    use super::*;

    /// Error in units in the last place of the exact result; 0 where both are NaN or the same infinity or zero.
    fn ulps(got: f32, exact: f64) -> f64 {
        let nearest = exact as f32;
        if got.to_bits() == nearest.to_bits() || got.is_nan() && exact.is_nan() {
            return 0.0;
        }
        if !got.is_finite() || !nearest.is_finite() {
            // One place beyond the largest number counts as rounding.
            return if exact.abs() > 3.4e38 && got.abs() > 3.4e38 && got.signum() == nearest.signum() {
                1.0
            } else {
                1e9
            };
        }
        if nearest != 0.0 && exact.abs() < f64::from(f32::MIN_POSITIVE) && got.abs() <= f32::MIN_POSITIVE {
            // Kernels run with numbers below the normal range flushed to zero.
            return 0.0;
        }
        if got == 0.0 && nearest == 0.0 {
            return 1e9;
        }
        let place = (f64::from(nearest.abs().next_up()) - f64::from(nearest.abs())).max(1e-45);
        (f64::from(got) - exact).abs() / place
    }

    /// Every `step`-th float, and the special ones.
    fn floats(step: usize) -> impl Iterator<Item = f32> {
        let special =
            [0.0, -0.0, 1.0, -1.0, f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::MAX, f32::MIN, 88.8, -87.4];
        (0..=u32::MAX).step_by(step).map(f32::from_bits).chain(special)
    }

    fn check(name: &str, bound: f64, fused: fn(f32) -> f32, plain: fn(f32) -> f32, exact: impl Fn(f64) -> f64) {
        let mut worst = (0.0, 0.0f32);
        for x in floats(30_011) {
            let expected = exact(f64::from(x));
            let error = ulps(fused(x), expected).max(ulps(plain(x), expected));
            if error > worst.0 {
                worst = (error, x);
            }
        }
        assert!(worst.0 <= bound, "{name} is {} ULP off at {:?}", worst.0, worst.1);
    }

    #[test]
    fn functions_of_one_float_keep_their_bounds() {
        check("exp", 1.1, exp_f32::<true>, exp_f32::<false>, f64::exp);
        check("expm1", 2.0, expm1_f32::<true>, expm1_f32::<false>, f64::exp_m1);
        check("log", 1.0, log_f32::<true>, log_f32::<false>, f64::ln);
        check("log1p", 1.5, log1p_f32::<true>, log1p_f32::<false>, f64::ln_1p);
        check("tanh", 2.5, tanh_f32::<true>, tanh_f32::<false>, f64::tanh);
        check("logistic", 2.5, logistic_f32::<true>, logistic_f32::<false>, |x| 1.0 / (1.0 + (-x).exp()));
        check("erf", 2.0, erf_f32::<true>, erf_f32::<false>, math_f64::erf_f64);
        check("rsqrt", 1.5, rsqrt_f32, rsqrt_f32, |x| 1.0 / x.sqrt());
        check("cbrt", 0.6, cbrt_f32, cbrt_f32, f64::cbrt);
        let near = |x: f64| !turns_far(x as f32);
        let only = |f: fn(f64) -> f64| move |x: f64| if near(x) { f(x) } else { 0.5 };
        macro_rules! turning {
            ($name:literal, $f:ident, $exact:expr) => {
                check(
                    $name,
                    0.6,
                    |x| if turns_far(x) { 0.5 } else { $f::<true>(x) },
                    |x| if turns_far(x) { 0.5 } else { $f::<false>(x) },
                    only($exact),
                );
            };
        }
        turning!("sin", sin_f32, f64::sin);
        turning!("cos", cos_f32, f64::cos);
        turning!("tan", tan_f32, f64::tan);
    }

    #[test]
    fn functions_of_two_floats_keep_their_bounds() {
        let mut worst = (0.0, 0.0);
        for x in floats(8_000_009) {
            for y in floats(9_000_011) {
                let angle = f64::from(x).atan2(f64::from(y));
                worst.0 = ulps(atan2_f32::<true>(x, y), angle).max(ulps(atan2_f32::<false>(x, y), angle)).max(worst.0);
            }
            for step in -200..200 {
                let y = step as f32 * 0.37;
                for y in [y, y.round()] {
                    if !pow_is_special(x, y) {
                        let power = f64::from(x).powf(f64::from(y));
                        let error = ulps(pow_f32::<true>(x, y), power).max(ulps(pow_f32::<false>(x, y), power));
                        worst.1 = error.max(worst.1);
                    }
                }
            }
        }
        assert!(worst.0 <= 0.6, "atan2 is {} ULP off", worst.0);
        assert!(worst.1 <= 0.6, "pow is {} ULP off", worst.1);
    }

    #[test]
    fn functions_of_doubles_keep_their_bounds() {
        let near = |got: f64, exact: f64, bound: f64, x: f64| {
            let place = exact.abs().next_up() - exact.abs();
            let same = got.to_bits() == exact.to_bits() || got.is_nan() && exact.is_nan();
            assert!(same || (got - exact).abs() <= bound * place.max(1e-323), "{got:e} is not {exact:e}, at {x:e}");
        };
        let mut bits = 0u64;
        for _ in 0..200_000 {
            bits = bits.wrapping_add(0x9e37_79b9_7f4a_7c15);
            for x in
                [f64::from_bits(bits), f64::from_bits(bits >> 12 | 0x3ff0_0000_0000_0000), (bits as i64) as f64 / 1e16]
            {
                near(math_f64::exp_f64::<true>(x), x.exp(), 1.5, x);
                near(math_f64::exp_f64::<false>(x), x.exp(), 1.5, x);
                near(math_f64::log_f64::<true>(x), x.ln(), 1.5, x);
                near(math_f64::log_f64::<false>(x), x.ln(), 1.5, x);
                near(math_f64::logistic_f64::<true>(x), 1.0 / (1.0 + (-x).exp()), 4.0, x);
            }
        }
    }
}
