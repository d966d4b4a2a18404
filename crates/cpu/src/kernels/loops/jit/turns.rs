//! Sine, cosine and tangent of f32, computed in f64: the steps of `math`, and an exact reduction of large arguments.

use std::f64::consts;

use super::super::ir::Unary;
use super::super::math::coefficients as c;
use super::convert::predicate;
use super::lanes::{Lanework, rounding};
use super::ops::{self as x86, Length};
use super::program::{Class, Item, Lanes, Mem, X};

/// The first binary digits of 2/π after the point.
const TWO_OVER_PI: [u64; 4] =
    [0xa2f9_836e_4e44_1529, 0xfc27_57d1_f534_ddc0, 0xdb62_9599_3c43_9041, 0xfe51_63ab_debb_c561];

/// The exponent of the first argument that is too large for the usual reduction: `TURN_HIGH` is 2^20.
const FIRST_EXPONENT: i32 = 20;
const EXPONENTS: usize = 128 - FIRST_EXPONENT as usize;
const PARTS: usize = 3;

/// For each exponent E of an argument `m·2^(E - 23)`, where m is an integer of 24 bits: `2^(E - 23)·2/π` modulo 4, in
/// parts of 28, 28 and 53 bits. The products of the first two with m are exact.
const FAR: [f64; EXPONENTS * PARTS] = {
    let mut table = [0.0; EXPONENTS * PARTS];
    let mut at = 0;
    while at < EXPONENTS {
        // The digit worth 2 after the multiplication; digits before the point are 0.
        let first = at as i32 + FIRST_EXPONENT - 23 - 1;
        table[PARTS * at] = digits(first, 28) as f64 / (1u64 << 26) as f64;
        table[PARTS * at + 1] = digits(first + 28, 28) as f64 / (1u64 << 54) as f64;
        table[PARTS * at + 2] = digits(first + 56, 53) as f64 / (1u64 << 54) as f64 / (1u64 << 53) as f64;
        at += 1;
    }
    table
};

/// `count` binary digits of 2/π from the one worth `2^-first` on.
const fn digits(first: i32, count: i32) -> u64 {
    let mut value = 0;
    let mut k = first;
    while k < first + count {
        value <<= 1;
        if k >= 1 {
            let at = (k - 1) as usize;
            value |= TWO_OVER_PI[at / 64] >> (63 - at % 64) & 1;
        }
        k += 1;
    }
    value
}

impl Lanework<'_> {
    pub(super) fn turn(&mut self, unary: Unary, x: X) -> X {
        let result = self.in_f64([x], |work, [x]| work.turn_f64(unary, x));
        if unary == Unary::Cos { result } else { self.zero_as_it_is(self.narrow, x, result) }
    }

    /// An angle between -π/4 and π/4, and a number whose lowest bits say how many right angles it is away from `x`.
    fn reduced_angle(&mut self, x: X) -> (X, X) {
        let num = self.wide;
        let (turns, magic) = (self.f64(consts::FRAC_2_PI), self.f64(c::INTEGER_F64));
        let (high, low) = (self.f64(c::HALF_PI_HIGH), self.f64(c::HALF_PI_LOW));
        let near_turns = self.fma(num, x, turns, magic);
        let n = self.sub(num, near_turns, magic);
        let r = self.fnma(num, n, high, x);
        let near = self.fnma(num, n, low, r);

        let size = self.abs(num, x);
        let (limit, infinity) = (self.f64(c::TURN_HIGH), self.f64(f64::INFINITY));
        let large = self.compare(num, size, limit, predicate::GE);
        let finite = self.compare(num, size, infinity, predicate::LT);
        let far = self.program.two(x86::KANDW, Length::L128, large, finite);
        self.program.items.push(Item::Skip(far));
        let row_bytes = (PARTS * 8) as f64;
        let (row, start) = (self.f64(row_bytes), self.f64(-row_bytes * f64::from(FIRST_EXPONENT)));
        let exponent = self.program.one(x86::GETEXPPD, num.length, x);
        let place = self.fma(num, exponent, row, start);
        let place = self.program.one(x86::CVTTPD2DQ, num.length, place);
        // Sign kept, mantissa between 1 and 2.
        const SIGNED_FROM_ONE: u8 = 0;
        let m = self.program.one_imm(x86::GETMANTPD, num.length, x, Some(SIGNED_FROM_ONE));
        let scale = self.f64(8_388_608.0);
        let m = self.mul(num, m, scale);
        let [first, second, third] = [0, 8, 16].map(|disp| self.looked_up(place, disp, far));
        let (quarter, four) = (self.f64(0.25), self.f64(4.0));
        let p = self.mul(num, m, first);
        let whole = self.mul(num, p, quarter);
        let whole = self.rounded(num, whole, rounding::EVEN);
        let p = self.fnma(num, whole, four, p);
        let q = self.mul(num, m, second);
        let sum = self.add(num, p, q);
        let n = self.rounded(num, sum, rounding::EVEN);
        let r = self.sub(num, p, n);
        let r = self.add(num, r, q);
        let r = self.fma(num, m, third, r);
        let right_angle = self.f64(consts::FRAC_PI_2);
        self.program.replace(x86::MULPD, num.length, near, [r, right_angle], far);
        self.program.replace(x86::ADDPD, num.length, near_turns, [n, magic], far);
        self.program.items.push(Item::Land);
        (near, near_turns)
    }

    fn looked_up(&mut self, place: X, disp: i32, lanes: X) -> X {
        self.program.table = &FAR;
        let dst = self.program.virt(Class::Vector);
        let lanes = if let X::Reg(virt) = lanes { Lanes::Of(virt) } else { Lanes::All };
        self.program.items.push(Item::Gather { num: self.wide, dst, index: place, mem: Mem::Table { disp }, lanes });
        X::Reg(dst)
    }

    fn turn_f64(&mut self, unary: Unary, x: X) -> X {
        let num = self.wide;
        let (angle, turns) = self.reduced_angle(x);
        let (one, minus_half) = (self.f64(1.0), self.f64(-0.5));
        let z = self.mul(num, angle, angle);
        let tail = self.polynomial_f64(z, &c::SIN);
        let cube = self.mul(num, angle, z);
        let sine = self.fma(num, cube, tail, angle);
        let tail = self.polynomial_f64(z, &c::COS);
        let square = self.mul(num, z, z);
        let start = self.fma(num, z, minus_half, one);
        let cosine = self.fma(num, square, tail, start);
        let bit = self.integer(num, 1);
        let odd = self.program.test(x86::PTESTMQ, num.length, turns, bit, None);
        let sign = self.integer(num, i64::MIN);
        if unary == Unary::Tan {
            let minus = self.xor(num, cosine, sign);
            let above = self.program.select(num, odd, minus, sine);
            let below = self.program.select(num, odd, sine, cosine);
            return self.div(num, above, below);
        }
        let (value, turns) = if unary == Unary::Sin {
            (self.program.select(num, odd, cosine, sine), turns)
        } else {
            let value = self.program.select(num, odd, sine, cosine);
            (value, self.program.two(x86::PADDQ, num.length, turns, bit))
        };
        let turned = self.program.one_imm(x86::PSLLQ, num.length, turns, Some(62));
        let turned = self.and(num, turned, sign);
        self.xor(num, value, turned)
    }
}
