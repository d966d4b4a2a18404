//! Elementary functions as vector instructions: the same steps and polynomials as `math` and `math_f64`.

use std::f64::consts;

use super::super::ir::{Binary, Unary};
use super::super::math::coefficients as c;
use super::super::math_f64 as wide;
use super::convert::predicate;
use super::lanes::{Lanework, rounding};
use super::ops::{self as x86, Length};
use super::program::{Num, X};

/// For `vfixupimm`: what a logarithm gives for NaN, zero, infinities and negative arguments.
const LOG_SPECIALS: i64 = {
    const KEEP: i64 = 0;
    const ARGUMENT: i64 = 1;
    const QUIET: i64 = 2;
    const NAN: i64 = 3;
    const MINUS_INFINITY: i64 = 4;
    const INFINITY: i64 = 5;
    // Classes in order: quiet NaN, signalling NaN, zero, one, -infinity, infinity, negative, positive.
    let classes = [ARGUMENT, QUIET, MINUS_INFINITY, KEEP, NAN, INFINITY, NAN, KEEP];
    let mut table = 0;
    let mut at = 0;
    while at < 8 {
        table |= classes[at] << (4 * at);
        at += 1;
    }
    table
};

impl Lanework<'_> {
    pub(super) fn function(&mut self, unary: Unary, num: Num, x: X) -> Option<X> {
        if num.wide {
            return Some(match unary {
                Unary::Exp => self.exp_f64(x),
                Unary::Log => self.log_f64(x),
                Unary::Logistic => {
                    let exp = self.unary(Unary::Neg, super::super::ir::Lane::F64, x)?;
                    let exp = self.exp_f64(exp);
                    self.one_over_one_plus(num, exp)
                }
                _ => return None,
            });
        }
        Some(match unary {
            Unary::Exp => self.exp(x),
            Unary::ExpMinusOne => self.expm1(x),
            Unary::Log => self.log(x),
            Unary::LogPlusOne => self.log1p(x),
            Unary::Tanh => self.tanh(x),
            Unary::Logistic => {
                let sign = self.integer(num, i64::from(i32::MIN));
                let minus = self.xor(num, x, sign);
                let exp = self.exp(minus);
                self.one_over_one_plus(num, exp)
            }
            Unary::Erf => self.erf(x),
            Unary::Sin | Unary::Cos | Unary::Tan => self.turn(unary, x),
            Unary::Cbrt => {
                let size = self.abs(num, x);
                let root = self.in_f64([size], |work, [x]| work.cbrt(x));
                let root = self.with_sign_of(num, root, x);
                let (zero, infinity) = (self.f32(0.0), self.f32(f32::INFINITY));
                let positive = self.compare(num, size, zero, predicate::GT);
                let finite = self.compare(num, size, infinity, predicate::LT);
                let usual = self.program.two(x86::KANDW, Length::L128, positive, finite);
                self.program.select(num, usual, root, x)
            }
            _ => return None,
        })
    }

    pub(super) fn function_of_two(&mut self, binary: Binary, num: Num, a: X, b: X) -> Option<X> {
        match binary {
            Binary::Pow if !num.wide => Some(self.in_f64([a, b], |work, [x, y]| work.pow(x, y))),
            Binary::Atan2 if !num.wide => Some(self.in_f64([a, b], |work, [y, x]| work.atan2(y, x))),
            _ => None,
        }
    }

    fn one_over_one_plus(&mut self, num: Num, x: X) -> X {
        let one = self.real(num, 1.0);
        let sum = self.add(num, x, one);
        self.div(num, one, sum)
    }

    fn f32(&mut self, value: f32) -> X {
        self.real(self.narrow, f64::from(value))
    }

    pub(super) fn f64(&mut self, value: f64) -> X {
        self.real(self.wide, value)
    }

    fn polynomial(&mut self, x: X, coefficients: &[f32]) -> X {
        let mut terms = coefficients.iter().rev();
        let mut sum = self.f32(terms.next().copied().unwrap_or(0.0));
        for &term in terms {
            let term = self.f32(term);
            sum = self.fma(self.narrow, sum, x, term);
        }
        sum
    }

    pub(super) fn polynomial_f64(&mut self, x: X, coefficients: &[f64]) -> X {
        let mut terms = coefficients.iter().rev();
        let mut sum = self.f64(terms.next().copied().unwrap_or(0.0));
        for &term in terms {
            let term = self.f64(term);
            sum = self.fma(self.wide, sum, x, term);
        }
        sum
    }

    fn scaled(&mut self, num: Num, x: X, power: X) -> X {
        self.program.two(num.pick(x86::SCALEFPS, x86::SCALEFPD), num.length, x, power)
    }

    /// `2^power` as f32, for integers between -126 and 127.
    fn power_of_two(&mut self, power: X) -> X {
        let num = self.narrow;
        if self.machine.avx512 {
            let one = self.f32(1.0);
            return self.scaled(num, one, power);
        }
        // The sum has the biased exponent in its lowest bits.
        let magic = self.f32(8_388_608.0 + 127.0);
        let sum = self.add(num, power, magic);
        self.program.one_imm(x86::PSLLD, num.length, sum, Some(23))
    }

    /// `size`, which is not negative, with the sign of `x`.
    fn with_sign_of(&mut self, num: Num, size: X, x: X) -> X {
        if !self.is_rich() {
            let signs = self.signs(num, x);
            return self.or(num, size, signs);
        }
        let sign = self.integer(num, if num.wide { i64::MIN } else { i64::from(i32::MIN) });
        // Where the third operand has a bit the second's, else the first's.
        const CHOOSE: u8 = 0xd8;
        self.program.three(num.pick(x86::TERNLOGD, x86::TERNLOGQ), num.length, [size, x, sign], CHOOSE)
    }

    /// `x` where it is 0, else `value`.
    pub(super) fn zero_as_it_is(&mut self, num: Num, x: X, value: X) -> X {
        let zero = self.real(num, 0.0);
        let is_zero = self.compare(num, x, zero, predicate::EQ);
        self.program.select(num, is_zero, x, value)
    }

    /// `n` and `e^r - 1`, where `x = n ln 2 + r` and `|r| <= ln 2 / 2`.
    fn reduced_expm1(&mut self, x: X) -> (X, X) {
        let (_, n, m) = self.reduced_expm1_parts(x);
        (n, m)
    }

    /// As [`Lanework::reduced_expm1`], after a real whose lowest bits are `n`.
    fn reduced_expm1_parts(&mut self, x: X) -> (X, X, X) {
        let num = self.narrow;
        let (log2_e, magic) = (self.f32(std::f32::consts::LOG2_E), self.f32(c::INTEGER_F32));
        let shifted = self.fma(num, x, log2_e, magic);
        let n = self.sub(num, shifted, magic);
        let (high, low) = (self.f32(c::LN2_HIGH), self.f32(c::LN2_LOW));
        let r = self.fnma(num, n, high, x);
        let r = self.fnma(num, n, low, r);
        let tail = self.polynomial(r, &c::EXP);
        let square = self.mul(num, r, r);
        (shifted, n, self.fma(num, square, tail, r))
    }

    fn clamped(&mut self, x: X, low: f32, high: f32) -> X {
        let (low, high) = (self.f32(low), self.f32(high));
        let x = self.min_or_second(self.narrow, high, x);
        self.max_or_second(self.narrow, low, x)
    }

    fn exp(&mut self, x: X) -> X {
        let num = self.narrow;
        if !self.is_rich() {
            return self.exp_by_bits(x);
        }
        let x = self.clamped(x, c::EXP_LOW, c::EXP_HIGH);
        let (n, m) = self.reduced_expm1(x);
        let one = self.f32(1.0);
        let m = self.add(num, m, one);
        self.scaled(num, m, n)
    }

    /// As [`Lanework::exp`], without an instruction that scales: the power of two is added to the exponent, and what has no normal
    /// result is replaced.
    fn exp_by_bits(&mut self, x: X) -> X {
        let num = self.narrow;
        let length = num.length;
        let (shifted, _, m) = self.reduced_expm1_parts(x);
        let (one, least, most) = (self.f32(1.0), self.f32(c::EXP_LEAST), self.f32(c::EXP_MOST));
        let m = self.add(num, m, one);
        let power = self.program.one_imm(x86::PSLLD, length, shifted, Some(23));
        let is_normal = self.compare(num, x, least, predicate::GE);
        let result = self.program.zeroed(x86::PADDD, length, m, power, is_normal);
        // Or NaN, which the sum stays.
        let is_large = self.compare(num, x, most, predicate::NOT_LESS_OR_EQUAL);
        let infinity = self.f32(f32::INFINITY);
        let endless = self.add(num, x, infinity);
        self.program.select(num, is_large, endless, result)
    }

    fn expm1(&mut self, x: X) -> X {
        let num = self.narrow;
        let bounded = self.clamped(x, c::EXPM1_LOW, c::EXP_HIGH);
        let (n, m) = self.reduced_expm1(bounded);
        let (half, two) = (self.f32(0.5), self.f32(2.0));
        let scale = self.scaled(num, half, n);
        let rest = self.sub(num, scale, half);
        let result = self.fma(num, scale, m, rest);
        let result = self.mul(num, result, two);
        self.zero_as_it_is(num, x, result)
    }

    fn tanh(&mut self, x: X) -> X {
        let num = self.narrow;
        let (high, one, two) = (self.f32(c::TANH_HIGH), self.f32(1.0), self.f32(2.0));
        let size = self.abs(num, x);
        let size = self.min_or_second(num, high, size);
        let double = self.add(num, size, size);
        let (n, m) = self.reduced_expm1(double);
        let scale = self.power_of_two(n);
        let rest = self.sub(num, scale, one);
        let y = self.fma(num, scale, m, rest);
        let below = self.add(num, y, two);
        let size = self.div(num, y, below);
        self.with_sign_of(num, size, x)
    }

    /// The exponent as a real and the mantissa, between `√½` and `√2`, of a positive normal number.
    fn parts(&mut self, x: X) -> (X, X) {
        let length = self.narrow.length;
        let start = self.integer(self.narrow, i64::from(c::SQRT_HALF_BITS));
        let n = self.program.two(x86::PSUBD, length, x, start);
        let n = self.program.one_imm(x86::PSRAD, length, n, Some(23));
        let exponent = self.program.one_imm(x86::PSLLD, length, n, Some(23));
        let m = self.program.two(x86::PSUBD, length, x, exponent);
        (self.program.one(x86::CVTDQ2PS, length, n), m)
    }

    /// `n ln 2 + ln(1 + f)`, where `1 + f` lies between `√½` and `√2`.
    fn log_of_parts(&mut self, n: X, f: X) -> X {
        let num = self.narrow;
        let square = self.mul(num, f, f);
        let tail = self.polynomial(f, &c::LOG);
        let tail = self.mul(num, tail, f);
        let tail = self.mul(num, tail, square);
        let (low, high, half) = (self.f32(c::LN2_LOW), self.f32(c::LN2_HIGH), self.f32(-0.5));
        let tail = self.fma(num, n, low, tail);
        let tail = self.fma(num, square, half, tail);
        let sum = self.add(num, f, tail);
        self.fma(num, n, high, sum)
    }

    fn log_specials(&mut self, num: Num, result: X, x: X) -> X {
        let table = self.integer(num, LOG_SPECIALS);
        self.program.three(num.pick(x86::FIXUPIMMPS, x86::FIXUPIMMPD), num.length, [result, x, table], 0)
    }

    fn log(&mut self, x: X) -> X {
        let num = self.narrow;
        let (normal, up, down) = (self.f32(f32::MIN_POSITIVE), self.f32(8_388_608.0), self.f32(23.0));
        let tiny = self.compare(num, x, normal, predicate::LT);
        let scaled = self.program.merged(x86::MULPS, num.length, [x, up], None, tiny, x);
        let (n, m) = self.parts(scaled);
        let n = self.program.merged(x86::SUBPS, num.length, [n, down], None, tiny, n);
        let one = self.f32(1.0);
        let f = self.sub(num, m, one);
        let result = self.log_of_parts(n, f);
        self.log_specials(num, result, x)
    }

    fn log1p(&mut self, x: X) -> X {
        let num = self.narrow;
        let (one, zero) = (self.f32(1.0), self.f32(0.0));
        let u = self.add(num, x, one);
        let back = self.sub(num, u, one);
        let lost = self.sub(num, x, back);
        let (n, m) = self.parts(u);
        let minus = self.sub(num, zero, n);
        let lost = self.scaled(num, lost, minus);
        let f = self.sub(num, m, one);
        let f = self.add(num, f, lost);
        let result = self.log_of_parts(n, f);
        let result = self.log_specials(num, result, u);
        self.zero_as_it_is(num, x, result)
    }

    fn erf(&mut self, x: X) -> X {
        let num = self.narrow;
        let (high, one) = (self.f32(c::ERF_HIGH), self.f32(1.0));
        let size = self.abs(num, x);
        let a = self.min_or_second(num, high, size);
        let square = self.mul(num, a, a);
        let small = self.polynomial(square, &c::ERF_SMALL);
        let small = self.fma(num, small, a, a);
        let power = self.polynomial(a, &c::ERF_LARGE);
        let (n, m) = self.reduced_expm1(power);
        let scale = self.power_of_two(n);
        let rest = self.fma(num, scale, m, scale);
        let large = self.sub(num, one, rest);
        let is_small = self.compare(num, a, one, predicate::LT);
        let result = self.program.select(num, is_small, small, large);
        self.with_sign_of(num, result, x)
    }

    fn exp_f64(&mut self, x: X) -> X {
        let num = self.wide;
        let (low, high, one) = (self.f64(-746.0), self.f64(710.0), self.f64(1.0));
        let x = self.min_or_second(num, high, x);
        let x = self.max_or_second(num, low, x);
        let (log2_e, magic) = (self.f64(consts::LOG2_E), self.f64(c::INTEGER_F64));
        let shifted = self.fma(num, x, log2_e, magic);
        let n = self.sub(num, shifted, magic);
        let (high, low) = (self.f64(wide::LN2_HIGH), self.f64(wide::LN2_LOW));
        let r = self.fnma(num, n, high, x);
        let r = self.fnma(num, n, low, r);
        let tail = self.polynomial_f64(r, &wide::EXP);
        let square = self.mul(num, r, r);
        let m = self.fma(num, square, tail, r);
        let m = self.add(num, m, one);
        self.scaled(num, m, n)
    }

    /// As [`Lanework::parts`], in f64.
    fn parts_f64(&mut self, x: X) -> (X, X) {
        let full = self.full();
        let start = self.integer(self.wide, 0x3fe6_a09e_667f_3bcd);
        let n = self.program.two(x86::PSUBQ, full, x, start);
        let n = self.program.one_imm(x86::PSRAQ, full, n, Some(52));
        let exponent = self.program.one_imm(x86::PSLLQ, full, n, Some(52));
        let m = self.program.two(x86::PSUBQ, full, x, exponent);
        (self.small_to_f64(n), m)
    }

    /// Integers of at most 51 bits as reals.
    fn small_to_f64(&mut self, x: X) -> X {
        let num = self.wide;
        if self.is_rich() {
            return self.program.one(x86::CVTQQ2PD, num.length, x);
        }
        let magic = self.f64(c::INTEGER_F64);
        let sum = self.program.two(x86::PADDQ, num.length, x, magic);
        self.sub(num, sum, magic)
    }

    /// Reals that are integers of at most 51 bits once they are truncated.
    fn truncated_small(&mut self, x: X) -> X {
        let num = self.wide;
        if self.is_rich() {
            return self.program.one(x86::CVTTPD2QQ, num.length, x);
        }
        let magic = self.f64(c::INTEGER_F64);
        let whole = self.rounded(num, x, rounding::TRUNCATE);
        let sum = self.add(num, whole, magic);
        self.program.two(x86::PSUBQ, num.length, sum, magic)
    }

    fn log_f64(&mut self, x: X) -> X {
        let num = self.wide;
        let (normal, up, down) = (self.f64(f64::MIN_POSITIVE), self.f64(18_014_398_509_481_984.0), self.f64(54.0));
        let tiny = self.compare(num, x, normal, predicate::LT);
        let scaled = self.program.merged(x86::MULPD, num.length, [x, up], None, tiny, x);
        let (n, m) = self.parts_f64(scaled);
        let n = self.program.merged(x86::SUBPD, num.length, [n, down], None, tiny, n);
        let (half, one, two) = (self.f64(0.5), self.f64(1.0), self.f64(2.0));
        let (low, high) = (self.f64(wide::LN2_LOW), self.f64(wide::LN2_HIGH));
        let f = self.sub(num, m, one);
        let below = self.add(num, f, two);
        let s = self.div(num, f, below);
        let z = self.mul(num, s, s);
        let rest = self.polynomial_f64(z, &wide::ATANH);
        let rest = self.mul(num, rest, z);
        let half_square = self.mul(num, f, half);
        let half_square = self.mul(num, half_square, f);
        let sum = self.add(num, half_square, rest);
        let product = self.mul(num, n, low);
        let tail = self.fma(num, s, sum, product);
        let sum = self.sub(num, half_square, tail);
        let sum = self.sub(num, f, sum);
        let result = self.fma(num, n, high, sum);
        self.log_specials(num, result, x)
    }

    /// A function of f32 computed in f64, in two halves where the vectors are full.
    pub(super) fn in_f64<const N: usize>(&mut self, operands: [X; N], function: impl Fn(&mut Self, [X; N]) -> X) -> X {
        let half = |work: &mut Self, operands: [X; N]| {
            let full = work.full();
            let operands = operands.map(|x| work.program.one(x86::CVTPS2PD, full, x));
            let result = function(work, operands);
            work.program.one(x86::CVTPD2PS, full, result)
        };
        let low = half(self, operands);
        if !self.is_full() {
            return low;
        }
        let upper = operands.map(|x| self.upper_half(x));
        let high = half(self, upper);
        self.joined_halves(low, high)
    }

    /// The cube root of a positive number.
    fn cbrt(&mut self, a: X) -> X {
        let num = self.wide;
        // A third of the exponent is within 4 %; each step (Halley's) cubes the error.
        let third = self.f64(1.0 / 3.0);
        let bits = self.program.one_imm(x86::PSRLQ, num.length, a, Some(32));
        let bits = self.small_to_f64(bits);
        let bits = self.mul(num, bits, third);
        let bits = self.truncated_small(bits);
        let bias = self.integer(num, 715_094_912);
        let bits = self.program.two(x86::PADDQ, num.length, bits, bias);
        let mut root = self.program.one_imm(x86::PSLLQ, num.length, bits, Some(32));
        for _ in 0..2 {
            let cube = self.mul(num, root, root);
            let cube = self.mul(num, cube, root);
            let above = self.add(num, cube, a);
            let above = self.add(num, above, a);
            let below = self.add(num, cube, cube);
            let below = self.add(num, below, a);
            let above = self.mul(num, root, above);
            root = self.div(num, above, below);
        }
        root
    }

    /// `x^y` with the special cases of IEEE 754, for operands and result of f32.
    fn pow(&mut self, x: X, y: X) -> X {
        let num = self.wide;
        let (zero, one, infinity) = (self.f64(0.0), self.f64(1.0), self.f64(f64::INFINITY));
        let size = self.abs(num, x);
        let (n, m) = self.parts_f64(size);
        let (above, below) = (self.sub(num, m, one), self.add(num, m, one));
        let s = self.div(num, above, below);
        let z = self.mul(num, s, s);
        let tail = self.polynomial_f64(z, &c::ATANH);
        let (cube, double) = (self.mul(num, s, z), self.add(num, s, s));
        let log = self.fma(num, cube, tail, double);
        let ln2 = self.f64(consts::LN_2);
        let log = self.fma(num, n, ln2, log);
        let log = self.log_specials(num, log, size);
        let power = self.mul(num, log, y);
        let (most, least) = (self.f64(200.0), self.f64(-200.0));
        let power = self.min_or_second(num, most, power);
        let power = self.max_or_second(num, least, power);
        let (log2_e, magic) = (self.f64(consts::LOG2_E), self.f64(c::INTEGER_F64));
        let shifted = self.fma(num, power, log2_e, magic);
        let n = self.sub(num, shifted, magic);
        let r = self.fnma(num, n, ln2, power);
        let tail = self.polynomial_f64(r, &c::EXP_OF_POW);
        let square = self.mul(num, r, r);
        let e = self.fma(num, square, tail, r);
        let e = self.add(num, e, one);
        let magnitude = self.scaled(num, e, n);
        // Which powers of negative numbers are negative, and which are none.
        let half = self.f64(0.5);
        let half = self.mul(num, y, half);
        let (floor, half_floor) = (self.rounded(num, y, rounding::DOWN), self.rounded(num, half, rounding::DOWN));
        let whole = self.compare(num, floor, y, predicate::EQ);
        let not_even = self.compare(num, half_floor, half, predicate::NE);
        let odd = self.program.two(x86::KANDW, Length::L128, whole, not_even);
        let signs = self.signs(num, x);
        let or = num.pick(x86::PORD, x86::PORQ);
        let result = self.program.merged(or, num.length, [magnitude, signs], None, odd, magnitude);
        let negative = self.compare(num, x, zero, predicate::LT);
        let finite = self.compare(num, size, infinity, predicate::LT);
        let broken = self.program.two(x86::KANDNW, Length::L128, whole, negative);
        let broken = self.program.two(x86::KANDW, Length::L128, broken, finite);
        let nan = self.f64(f64::NAN);
        let result = self.program.select(num, broken, nan, result);
        // 1 to any power, any number to the power 0, and -1 to an infinite power.
        let y_size = self.abs(num, y);
        let endless = self.compare(num, y_size, infinity, predicate::EQ);
        let unit = self.compare(num, size, one, predicate::EQ);
        let unit_endless = self.program.two(x86::KANDW, Length::L128, endless, unit);
        let is_one = self.compare(num, x, one, predicate::EQ);
        let no_power = self.compare(num, y, zero, predicate::EQ);
        let certain = self.program.two(x86::KORW, Length::L128, is_one, no_power);
        let certain = self.program.two(x86::KORW, Length::L128, certain, unit_endless);
        self.program.select(num, certain, one, result)
    }

    /// The angle of the point `(x, y)`, for operands and result of f32.
    fn atan2(&mut self, y: X, x: X) -> X {
        let num = self.wide;
        let (zero, one, infinity) = (self.f64(0.0), self.f64(1.0), self.f64(f64::INFINITY));
        let (up, along) = (self.abs(num, y), self.abs(num, x));
        let steep = self.compare(num, up, along, predicate::GT);
        let small = self.program.select(num, steep, along, up);
        let large = self.program.select(num, steep, up, along);
        let t = self.div(num, small, large);
        let at_origin = self.compare(num, large, zero, predicate::EQ);
        let t = self.program.select(num, at_origin, zero, t);
        let endless = self.compare(num, small, infinity, predicate::EQ);
        let t = self.program.select(num, endless, one, t);
        let square = self.mul(num, t, t);
        let angle = self.polynomial_f64(square, &c::ATAN);
        let angle = self.mul(num, angle, t);
        let (right, straight) = (self.f64(consts::FRAC_PI_2), self.f64(consts::PI));
        let sub = num.pick(x86::SUBPS, x86::SUBPD);
        let angle = self.program.merged(sub, num.length, [right, angle], None, steep, angle);
        let sign = self.integer(num, i64::MIN);
        let behind = self.program.test(num.pick(x86::PTESTMD, x86::PTESTMQ), num.length, x, sign, None);
        let angle = self.program.merged(sub, num.length, [straight, angle], None, behind, angle);
        let result = self.with_sign_of(num, angle, y);
        let nan = self.compare(num, x, y, predicate::UNORDERED);
        self.program.merged(num.pick(x86::ADDPS, x86::ADDPD), num.length, [x, y], None, nan, result)
    }
}
