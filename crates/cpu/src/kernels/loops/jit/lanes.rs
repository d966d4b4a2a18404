//! What each operation of the loop language becomes in vector instructions.

use super::super::ir::{Binary, Compare, Fold, Inst, Lane, Unary};
use super::convert::predicate;
use super::ops::{self as x86, Length, Op};
use super::program::{Class, Constant, Fused, Item, Lanes, Num, Program, Truth, Virt, X};
use crate::kernels::machine::Machine;

/// Rounding of `vrndscaleps`, without exceptions.
pub(super) mod rounding {
    pub(in super::super) const EVEN: u8 = 8;
    pub(in super::super) const DOWN: u8 = 9;
    pub(in super::super) const UP: u8 = 10;
    pub(in super::super) const TRUNCATE: u8 = 11;
}

const RANGE_MIN: u8 = 0b0100;
const RANGE_MAX: u8 = 0b0101;

/// The vectors that fill a register, and half of one.
#[cfg(target_arch = "x86_64")]
fn lengths(machine: &Machine) -> (Length, Length) {
    match machine {
        Machine { avx512: true, .. } => (Length::L512, Length::L256),
        Machine { avx2: true, .. } => (Length::L256, Length::L128),
        // Loops with 64-bit lanes are left to the other backend.
        _ => (Length::L128, Length::L128),
    }
}

#[cfg(target_arch = "aarch64")]
fn lengths(_: &Machine) -> (Length, Length) {
    (Length::L128, Length::L64)
}

/// Writes lane operations into a program.
pub(super) struct Lanework<'a> {
    pub(super) program: Program,
    pub(super) machine: &'a Machine,
    /// Elements in a vector: as many as 32-bit lanes fill a register, or half of that where the loop has 64-bit lanes
    /// (32-bit lanes then fill half a register).
    pub(super) width: u32,
    pub(super) narrow: Num,
    pub(super) wide: Num,
}

impl<'a> Lanework<'a> {
    /// For loops with or without 64-bit lanes.
    pub(super) fn new(machine: &'a Machine, has_wide_lanes: bool) -> Lanework<'a> {
        let (full, half) = lengths(machine);
        let length = if has_wide_lanes { half } else { full };
        Lanework {
            program: Program::default(),
            machine,
            width: length.bytes() / 4,
            narrow: Num { wide: false, length },
            wide: Num { wide: true, length: full },
        }
    }

    /// The vectors that fill a register.
    pub(super) fn full(&self) -> Length {
        self.wide.length
    }

    /// Whether 32-bit lanes fill a register: 64-bit ones then come in two halves.
    pub(super) fn is_full(&self) -> bool {
        self.narrow.length == self.wide.length
    }

    /// The upper half of a vector in its lower half.
    #[cfg(target_arch = "x86_64")]
    pub(super) fn upper_half(&mut self, x: X) -> X {
        if self.machine.avx512 {
            const UPPER_HALF: u8 = 0xee;
            return self.program.two_imm(x86::SHUFF64X2, self.full(), x, x, Some(UPPER_HALF));
        }
        const UPPER_HALF: u8 = 0x11;
        self.program.two_imm(super::encode::PERM2F128, self.full(), x, x, Some(UPPER_HALF))
    }

    #[cfg(target_arch = "aarch64")]
    pub(super) fn upper_half(&mut self, x: X) -> X {
        const UPPER_HALF: u8 = 0b11;
        self.program.two_imm(x86::SHUFPD, self.full(), x, x, Some(UPPER_HALF))
    }

    /// Two lower halves side by side.
    #[cfg(target_arch = "x86_64")]
    pub(super) fn joined_halves(&mut self, low: X, high: X) -> X {
        let op = if self.machine.avx512 { x86::INSERTI64X4 } else { super::encode::INSERTF128 };
        self.program.two_imm(op, self.full(), low, high, Some(1))
    }

    #[cfg(target_arch = "aarch64")]
    pub(super) fn joined_halves(&mut self, low: X, high: X) -> X {
        const LOWER_HALVES: u8 = 0;
        self.program.two_imm(x86::SHUFPD, self.full(), low, high, Some(LOWER_HALVES))
    }

    /// Whether there are 32 vector registers, and conversions between 64-bit integers and reals.
    pub(super) fn is_rich(&self) -> bool {
        self.machine.avx512 || self.machine.neon
    }

    /// Whether vectors are loaded and stored whole only, so that what is left of a row goes by one element.
    pub(super) fn walks_single(&self) -> bool {
        !self.machine.avx2
    }

    pub(super) fn num(&self, lane: Lane) -> Num {
        match lane {
            Lane::F64 | Lane::I64 => self.wide,
            Lane::F32 | Lane::I32 | Lane::Mask => self.narrow,
        }
    }

    /// A real constant.
    pub(super) fn real(&mut self, num: Num, value: f64) -> X {
        let constant =
            if num.wide { Constant::Wide(value.to_bits()) } else { Constant::Narrow((value as f32).to_bits()) };
        self.program.constant(constant)
    }

    /// An integer constant.
    pub(super) fn integer(&mut self, num: Num, value: i64) -> X {
        self.program.constant(if num.wide { Constant::Wide(value as u64) } else { Constant::Narrow(value as u32) })
    }

    pub(super) fn constant(&mut self, lane: Lane, bits: u64) -> X {
        match lane {
            Lane::F64 | Lane::I64 => self.program.constant(Constant::Wide(bits)),
            Lane::F32 | Lane::I32 => self.program.constant(Constant::Narrow(bits as u32)),
            Lane::Mask => {
                let op = if bits & 1 == 1 { x86::KXNORW } else { x86::KXORW };
                self.program.two(op, Length::L128, X::Tail, X::Tail)
            }
        }
    }

    fn sign_bit(&mut self, num: Num) -> X {
        self.integer(num, if num.wide { i64::MIN } else { i64::from(i32::MIN) })
    }

    pub(super) fn and(&mut self, num: Num, a: X, b: X) -> X {
        self.program.symmetric(num.pick(x86::PANDD, x86::PANDQ), num.length, a, b)
    }

    pub(super) fn or(&mut self, num: Num, a: X, b: X) -> X {
        self.program.symmetric(num.pick(x86::PORD, x86::PORQ), num.length, a, b)
    }

    pub(super) fn xor(&mut self, num: Num, a: X, b: X) -> X {
        self.program.symmetric(num.pick(x86::PXORD, x86::PXORQ), num.length, a, b)
    }

    pub(super) fn add(&mut self, num: Num, a: X, b: X) -> X {
        self.program.symmetric(num.pick(x86::ADDPS, x86::ADDPD), num.length, a, b)
    }

    pub(super) fn sub(&mut self, num: Num, a: X, b: X) -> X {
        self.program.two(num.pick(x86::SUBPS, x86::SUBPD), num.length, a, b)
    }

    pub(super) fn mul(&mut self, num: Num, a: X, b: X) -> X {
        self.program.symmetric(num.pick(x86::MULPS, x86::MULPD), num.length, a, b)
    }

    pub(super) fn div(&mut self, num: Num, a: X, b: X) -> X {
        self.program.two(num.pick(x86::DIVPS, x86::DIVPD), num.length, a, b)
    }

    pub(super) fn fma(&mut self, num: Num, a: X, b: X, c: X) -> X {
        self.program.fma(num, Fused::Add, a, b, c)
    }

    /// `c - a·b`
    pub(super) fn fnma(&mut self, num: Num, a: X, b: X, c: X) -> X {
        self.program.fma(num, Fused::From, a, b, c)
    }

    /// The larger, or `b` where either is NaN.
    pub(super) fn max_or_second(&mut self, num: Num, a: X, b: X) -> X {
        self.program.two(num.pick(x86::MAXPS, x86::MAXPD), num.length, a, b)
    }

    /// The smaller, or `b` where either is NaN.
    pub(super) fn min_or_second(&mut self, num: Num, a: X, b: X) -> X {
        self.program.two(num.pick(x86::MINPS, x86::MINPD), num.length, a, b)
    }

    pub(super) fn abs(&mut self, num: Num, a: X) -> X {
        let rest = self.integer(num, if num.wide { i64::MAX } else { i64::from(i32::MAX) });
        self.and(num, a, rest)
    }

    pub(super) fn signs(&mut self, num: Num, a: X) -> X {
        let sign = self.sign_bit(num);
        self.and(num, a, sign)
    }

    pub(super) fn rounded(&mut self, num: Num, a: X, how: u8) -> X {
        self.program.one_imm(num.pick(x86::RNDSCALEPS, x86::RNDSCALEPD), num.length, a, Some(how))
    }

    /// Compares reals.
    pub(super) fn compare(&mut self, num: Num, a: X, b: X, how: u8) -> X {
        self.program.test(num.pick(x86::CMPPS, x86::CMPPD), num.length, a, b, Some(how))
    }

    pub(super) fn unary(&mut self, unary: Unary, lane: Lane, a: X) -> Option<X> {
        let num = self.num(lane);
        let length = num.length;
        Some(match (lane, unary) {
            (Lane::Mask, Unary::Not) => self.program.one(x86::KNOTW, length, a),
            (Lane::Mask, _) => return None,
            (Lane::F32 | Lane::F64, _) => return self.real_unary(unary, num, a),
            (_, Unary::Neg) => {
                let zero = self.integer(num, 0);
                self.program.two(num.pick(x86::PSUBD, x86::PSUBQ), length, zero, a)
            }
            (_, Unary::Abs) => self.program.one(num.pick(x86::PABSD, x86::PABSQ), length, a),
            (_, Unary::Sign) => {
                let (one, minus_one) = (self.integer(num, 1), self.integer(num, -1));
                let at_most = self.program.two(num.pick(x86::PMINSD, x86::PMINSQ), length, a, one);
                self.program.two(num.pick(x86::PMAXSD, x86::PMAXSQ), length, at_most, minus_one)
            }
            (_, Unary::Not) => {
                let ones = self.integer(num, -1);
                self.xor(num, a, ones)
            }
            (_, Unary::LeadingZeros) => self.program.one(num.pick(x86::PLZCNTD, x86::PLZCNTQ), length, a),
            (_, Unary::PopCount) => self.count_ones(num, a),
            _ => return None,
        })
    }

    /// Adds up bits in ever wider fields, since not every such machine has an instruction for it.
    fn count_ones(&mut self, num: Num, a: X) -> X {
        let shift = num.pick(x86::PSRLD, x86::PSRLQ);
        let (add, sub) = (num.pick(x86::PADDD, x86::PADDQ), num.pick(x86::PSUBD, x86::PSUBQ));
        let repeated = |byte: u8| i64::from_le_bytes([byte; 8]);
        let [pairs, fours, bytes, ones] = [0x55, 0x33, 0x0f, 0x01].map(|byte| self.integer(num, repeated(byte)));
        let high = self.program.one_imm(shift, num.length, a, Some(1));
        let high = self.and(num, high, pairs);
        let sums = self.program.two(sub, num.length, a, high);
        let high = self.program.one_imm(shift, num.length, sums, Some(2));
        let (high, low) = (self.and(num, high, fours), self.and(num, sums, fours));
        let sums = self.program.two(add, num.length, high, low);
        let high = self.program.one_imm(shift, num.length, sums, Some(4));
        let sums = self.program.two(add, num.length, high, sums);
        let sums = self.and(num, sums, bytes);
        let total = self.program.two(num.pick(x86::PMULLD, x86::PMULLQ), num.length, sums, ones);
        self.program.one_imm(shift, num.length, total, Some(if num.wide { 56 } else { 24 }))
    }

    fn real_unary(&mut self, unary: Unary, num: Num, a: X) -> Option<X> {
        let length = num.length;
        Some(match unary {
            Unary::Neg => {
                let sign = self.sign_bit(num);
                self.xor(num, a, sign)
            }
            Unary::Abs => self.abs(num, a),
            Unary::Sign => {
                let (zero, one) = (self.real(num, 0.0), self.real(num, 1.0));
                let signs = self.signs(num, a);
                const NE_ORDERED: u8 = 12;
                let nonzero = self.compare(num, a, zero, NE_ORDERED);
                self.program.merged(num.pick(x86::PORD, x86::PORQ), length, [signs, one], None, nonzero, a)
            }
            Unary::Floor => self.rounded(num, a, rounding::DOWN),
            Unary::Ceil => self.rounded(num, a, rounding::UP),
            Unary::RoundEven => self.rounded(num, a, rounding::EVEN),
            Unary::RoundAway => {
                // The largest value below one half: adding a half could round up.
                let almost_half = if num.wide { 0.5f64.next_down() } else { f64::from(0.5f32.next_down()) };
                let half = self.real(num, almost_half);
                let signs = self.signs(num, a);
                let half = self.or(num, signs, half);
                let sum = self.add(num, a, half);
                self.rounded(num, sum, rounding::TRUNCATE)
            }
            Unary::Sqrt => self.program.one(num.pick(x86::SQRTPS, x86::SQRTPD), length, a),
            Unary::Rsqrt => {
                let one = self.real(num, 1.0);
                let root = self.program.one(num.pick(x86::SQRTPS, x86::SQRTPD), length, a);
                self.div(num, one, root)
            }
            Unary::IsFinite => {
                let size = self.abs(num, a);
                let infinity = self.real(num, f64::INFINITY);
                self.compare(num, size, infinity, predicate::LT)
            }
            _ => return self.function(unary, num, a),
        })
    }

    pub(super) fn binary(&mut self, binary: Binary, lane: Lane, a: X, b: X) -> Option<X> {
        let num = self.num(lane);
        match lane {
            Lane::Mask => {
                let op = match binary {
                    Binary::And | Binary::Mul | Binary::Min => x86::KANDW,
                    Binary::Or | Binary::Add | Binary::Max => x86::KORW,
                    Binary::Xor => x86::KXORW,
                    _ => return None,
                };
                Some(self.program.two(op, num.length, a, b))
            }
            Lane::F32 | Lane::F64 => self.real_binary(binary, num, a, b),
            Lane::I32 | Lane::I64 => self.integer_binary(binary, num, a, b),
        }
    }

    fn real_binary(&mut self, binary: Binary, num: Num, a: X, b: X) -> Option<X> {
        Some(match binary {
            Binary::Add => self.add(num, a, b),
            Binary::Sub => self.sub(num, a, b),
            Binary::Mul => self.mul(num, a, b),
            Binary::Div => match self.exact_reciprocal(num, b) {
                Some(reciprocal) => self.mul(num, a, reciprocal),
                None => self.div(num, a, b),
            },
            Binary::Min => self.extreme(num, RANGE_MIN, a, b),
            Binary::Max => self.extreme(num, RANGE_MAX, a, b),
            _ => return self.function_of_two(binary, num, a, b),
        })
    }

    fn constant_value(&self, x: X) -> Option<f64> {
        match x {
            X::Const(c) => match self.program.constants[c as usize] {
                Constant::Narrow(bits) => Some(f64::from(f32::from_bits(bits))),
                Constant::Wide(bits) => Some(f64::from_bits(bits)),
                Constant::Vector(_) => None,
            },
            _ => None,
        }
    }

    /// The reciprocal of a constant whose products are as exact as divisions by it: a power of two.
    fn exact_reciprocal(&mut self, num: Num, divisor: X) -> Option<X> {
        let value = self.constant_value(divisor)?;
        let mantissa = value.to_bits() & ((1 << 52) - 1);
        let exact = mantissa == 0 && (1e-30..1e30).contains(&value.abs());
        exact.then(|| self.real(num, 1.0 / value))
    }

    /// The larger or smaller; NaN if either is NaN; -0 is below 0.
    fn extreme(&mut self, num: Num, which: u8, a: X, b: X) -> X {
        let (a, b) = if self.constant_value(a).is_some() { (b, a) } else { (a, b) };
        if let Some(value) = self.constant_value(b)
            && !value.is_nan()
            && value != 0.0
        {
            // These give the second operand where one is NaN.
            return if which == RANGE_MAX { self.max_or_second(num, b, a) } else { self.min_or_second(num, b, a) };
        }
        let length = num.length;
        let result = self.program.two_imm(num.pick(x86::RANGEPS, x86::RANGEPD), length, a, b, Some(which));
        if self.machine.neon {
            // There it gives NaN where either is.
            return result;
        }
        let nan = self.compare(num, a, b, predicate::UNORDERED);
        self.program.merged(num.pick(x86::ADDPS, x86::ADDPD), length, [a, b], None, nan, result)
    }

    fn integer_binary(&mut self, binary: Binary, num: Num, a: X, b: X) -> Option<X> {
        let op = match binary {
            Binary::Add => num.pick(x86::PADDD, x86::PADDQ),
            Binary::Mul => num.pick(x86::PMULLD, x86::PMULLQ),
            Binary::Min => num.pick(x86::PMINSD, x86::PMINSQ),
            Binary::Max => num.pick(x86::PMAXSD, x86::PMAXSQ),
            Binary::MinU => num.pick(x86::PMINUD, x86::PMINUQ),
            Binary::MaxU => num.pick(x86::PMAXUD, x86::PMAXUQ),
            Binary::And => num.pick(x86::PANDD, x86::PANDQ),
            Binary::Or => num.pick(x86::PORD, x86::PORQ),
            Binary::Xor => num.pick(x86::PXORD, x86::PXORQ),
            Binary::Sub => return Some(self.program.two(num.pick(x86::PSUBD, x86::PSUBQ), num.length, a, b)),
            Binary::Shl => return Some(self.program.two(num.pick(x86::PSLLVD, x86::PSLLVQ), num.length, a, b)),
            Binary::ShrL => return Some(self.program.two(num.pick(x86::PSRLVD, x86::PSRLVQ), num.length, a, b)),
            Binary::ShrA => return Some(self.program.two(num.pick(x86::PSRAVD, x86::PSRAVQ), num.length, a, b)),
            Binary::Div | Binary::DivU | Binary::Rem | Binary::RemU if !num.wide => {
                let conversions = match binary {
                    Binary::DivU | Binary::RemU => [x86::CVTUDQ2PD, x86::CVTTPD2UDQ],
                    _ => [x86::CVTDQ2PD, x86::CVTTPD2DQ],
                };
                let quotient = self.quotient(a, b, conversions);
                if matches!(binary, Binary::Div | Binary::DivU) {
                    return Some(quotient);
                }
                // Division by zero gives the dividend, since the product is 0.
                let product = self.program.symmetric(x86::PMULLD, num.length, quotient, b);
                return Some(self.program.two(x86::PSUBD, num.length, a, product));
            }
            _ => return None,
        };
        Some(self.program.symmetric(op, num.length, a, b))
    }

    /// 32-bit division through f64, which is exact; `conversions` lead there and back.
    fn quotient(&mut self, a: X, b: X, conversions: [Op; 2]) -> X {
        let (length, full) = (self.narrow.length, self.full());
        let [to, from] = conversions;
        let half = |work: &mut Self, a: X, b: X| {
            let a = work.program.one(to, full, a);
            let b = work.program.one(to, full, b);
            let quotient = work.program.two(x86::DIVPD, full, a, b);
            work.program.one(from, full, quotient)
        };
        let mut quotient = half(self, a, b);
        if self.is_full() {
            let (a, b) = (self.upper_half(a), self.upper_half(b));
            let high = half(self, a, b);
            quotient = self.joined_halves(quotient, high);
        }
        let ones = self.integer(self.narrow, -1);
        let nonzero = self.program.test(x86::PTESTMD, length, b, b, None);
        self.program.select(self.narrow, nonzero, quotient, ones)
    }

    pub(super) fn comparison(&mut self, compare: Compare, lane: Lane, a: X, b: X) -> Option<X> {
        let num = self.num(lane);
        if matches!(lane, Lane::F32 | Lane::F64) {
            let how = match compare {
                Compare::Eq => predicate::EQ,
                Compare::Ne => predicate::NE,
                Compare::Lt => predicate::LT,
                Compare::Le => predicate::LE,
                Compare::Gt => predicate::GT,
                Compare::Ge => predicate::GE,
                _ => return None,
            };
            return Some(self.compare(num, a, b, how));
        }
        if lane == Lane::Mask {
            let op = match compare {
                Compare::Eq => x86::KXNORW,
                Compare::Ne => x86::KXORW,
                _ => return None,
            };
            return Some(self.program.two(op, num.length, a, b));
        }
        const EQ: u8 = 0;
        const LT: u8 = 1;
        const LE: u8 = 2;
        const NE: u8 = 4;
        const GE: u8 = 5;
        const GT: u8 = 6;
        let signed = num.pick(x86::PCMPD, x86::PCMPQ);
        let unsigned = num.pick(x86::PCMPUD, x86::PCMPUQ);
        let (op, how) = match compare {
            Compare::Eq => (signed, EQ),
            Compare::Ne => (signed, NE),
            Compare::Lt => (signed, LT),
            Compare::Le => (signed, LE),
            Compare::Gt => (signed, GT),
            Compare::Ge => (signed, GE),
            Compare::LtU => (unsigned, LT),
            Compare::LeU => (unsigned, LE),
            Compare::GtU => (unsigned, GT),
            Compare::GeU => (unsigned, GE),
        };
        Some(self.program.test(op, num.length, a, b, Some(how)))
    }

    pub(super) fn select(&mut self, lane: Lane, mask: X, a: X, b: X) -> X {
        if lane != Lane::Mask {
            return self.program.select(self.num(lane), mask, a, b);
        }
        let length = Length::L128;
        let first = self.program.two(x86::KANDW, length, mask, a);
        let second = self.program.two(x86::KANDNW, length, mask, b);
        self.program.two(x86::KORW, length, first, second)
    }

    /// One instruction whose operands are all known.
    pub(super) fn instruction(&mut self, inst: &Inst, lane: Lane, operands: [X; 3]) -> Option<X> {
        let [a, b, c] = operands;
        Some(match *inst {
            Inst::Const { lane, bits } => self.constant(lane, bits),
            Inst::Unary(unary, _) => self.unary(unary, lane, a)?,
            Inst::Binary(binary, ..) => self.binary(binary, lane, a, b)?,
            Inst::Fma(..) => self.fma(self.num(lane), a, b, c),
            Inst::Compare(compare, ..) => self.comparison(compare, lane, a, b)?,
            Inst::Select(..) => self.select(lane, a, b, c),
            Inst::Convert { source, target, .. } => self.convert(a, source, target)?,
            Inst::Bitcast(_) => a,
            Inst::Round(dtype, _) => self.round(dtype, a)?,
            Inst::Load(_) | Inst::Index { .. } | Inst::Reduce(..) => return None,
        })
    }

    /// The instruction of a fold that is only one.
    fn fold_op(&self, fold: Fold, lane: Lane) -> Option<Op> {
        let num = self.num(lane);
        Some(match (lane, fold) {
            (Lane::F32 | Lane::F64, Fold::Sum) => num.pick(x86::ADDPS, x86::ADDPD),
            (Lane::F32 | Lane::F64, Fold::Product) => num.pick(x86::MULPS, x86::MULPD),
            (Lane::I32 | Lane::I64, _) => match fold {
                Fold::Sum => num.pick(x86::PADDD, x86::PADDQ),
                Fold::Product => num.pick(x86::PMULLD, x86::PMULLQ),
                Fold::Min => num.pick(x86::PMINSD, x86::PMINSQ),
                Fold::Max => num.pick(x86::PMAXSD, x86::PMAXSQ),
                Fold::MinU => num.pick(x86::PMINUD, x86::PMINUQ),
                Fold::MaxU => num.pick(x86::PMAXUD, x86::PMAXUQ),
                Fold::And => num.pick(x86::PANDD, x86::PANDQ),
                Fold::Or => num.pick(x86::PORD, x86::PORQ),
                Fold::Xor => num.pick(x86::PXORD, x86::PXORQ),
            },
            _ => return None,
        })
    }

    /// What leaves the other operand of a fold as it is.
    fn identity(&mut self, fold: Fold, lane: Lane) -> Option<X> {
        let num = self.num(lane);
        Some(match lane {
            Lane::F32 | Lane::F64 => match fold {
                // -0 + x = x for every x.
                Fold::Sum => self.real(num, -0.0),
                Fold::Product => self.real(num, 1.0),
                Fold::Min => self.real(num, f64::INFINITY),
                Fold::Max => self.real(num, f64::NEG_INFINITY),
                _ => return None,
            },
            Lane::I32 | Lane::I64 => {
                let (least, most) =
                    if num.wide { (i64::MIN, i64::MAX) } else { (i64::from(i32::MIN), i64::from(i32::MAX)) };
                let value = match fold {
                    Fold::Sum | Fold::MaxU | Fold::Or | Fold::Xor => 0,
                    Fold::Product => 1,
                    Fold::Min => most,
                    Fold::Max => least,
                    Fold::MinU | Fold::And => -1,
                };
                self.integer(num, value)
            }
            Lane::Mask => return None,
        })
    }

    /// `a` and `b` folded, outside of a reduction.
    pub(super) fn folded(&mut self, fold: Fold, lane: Lane, a: X, b: X) -> Option<X> {
        let num = self.num(lane);
        if let Some(op) = self.fold_op(fold, lane) {
            return Some(self.program.symmetric(op, num.length, a, b));
        }
        let binary = match fold {
            Fold::Sum => Binary::Add,
            Fold::Product => Binary::Mul,
            Fold::Min | Fold::MinU => Binary::Min,
            Fold::Max | Fold::MaxU => Binary::Max,
            Fold::And => Binary::And,
            Fold::Or => Binary::Or,
            Fold::Xor => Binary::Xor,
        };
        self.binary(binary, lane, a, b)
    }

    /// A new accumulator of a reduction.
    pub(super) fn accumulator(&mut self, fold: Fold, lane: Lane) -> Option<Virt> {
        let length = self.num(lane).length;
        if lane == Lane::Mask {
            let virt = self.program.virt(Class::Mask);
            self.program.update(x86::KXORW, length, virt, [X::Tail, X::Tail], None, Lanes::All);
            return Some(virt);
        }
        let identity = self.identity(fold, lane)?;
        let virt = self.program.virt(Class::Accumulator);
        self.program.update(x86::MOVUPS, self.full(), virt, [X::None, identity], None, Lanes::All);
        Some(virt)
    }

    /// Folds a vector into an accumulator.
    pub(super) fn accumulate(&mut self, fold: Fold, lane: Lane, to: Virt, value: X, lanes: Lanes) -> Option<()> {
        let num = self.num(lane);
        let length = num.length;
        if lane == Lane::Mask {
            // Masks of "and" count the false ones.
            let counted = match (fold, lanes) {
                (Fold::And | Fold::Product | Fold::Min | Fold::MinU, Lanes::Tail) => {
                    self.program.two(x86::KANDNW, length, value, X::Tail)
                }
                (Fold::And | Fold::Product | Fold::Min | Fold::MinU, _) => self.program.one(x86::KNOTW, length, value),
                (_, Lanes::Tail) => self.program.two(x86::KANDW, length, value, X::Tail),
                _ => value,
            };
            let op = if fold == Fold::Xor { x86::KXORW } else { x86::KORW };
            self.program.update(op, length, to, [X::Reg(to), counted], None, Lanes::All);
            return Some(());
        }
        if let Some(op) = self.fold_op(fold, lane) {
            self.program.update(op, length, to, [X::Reg(to), value], None, lanes);
            return Some(());
        }
        if self.machine.neon {
            let which = if fold == Fold::Max { RANGE_MAX } else { RANGE_MIN };
            let op = num.pick(x86::RANGEPS, x86::RANGEPD);
            self.program.update(op, length, to, [X::Reg(to), value], Some(which), lanes);
            return Some(());
        }
        let op = match fold {
            Fold::Max => num.pick(x86::MAXPS, x86::MAXPD),
            Fold::Min => num.pick(x86::MINPS, x86::MINPD),
            _ => return None,
        };
        // A NaN in the accumulator stays, being the second operand; one in the value is copied.
        let nan = X::Reg(self.program.virt(Class::Mask));
        self.program.nan_test(num, nan, value, lanes);
        self.program.update(op, length, to, [value, X::Reg(to)], None, lanes);
        let X::Reg(nan) = nan else { return None };
        self.program.update(num.pick(x86::MOVUPS, x86::MOVUPD), length, to, [X::None, value], None, Lanes::Of(nan));
        Some(())
    }

    /// The value of a reduction in all lanes, from its accumulators.
    pub(super) fn reduced(&mut self, fold: Fold, lane: Lane, accumulators: &[Virt]) -> Option<X> {
        let num = self.num(lane);
        if lane == Lane::Mask {
            let op = if fold == Fold::Xor { x86::KXORW } else { x86::KORW };
            let mut a = X::Reg(accumulators[0]);
            for &other in &accumulators[1..] {
                a = self.program.two(op, num.length, a, X::Reg(other));
            }
            let truth = match fold {
                Fold::And | Fold::Product | Fold::Min | Fold::MinU => Truth::None,
                Fold::Xor => Truth::Parity,
                _ => Truth::Any,
            };
            let dst = self.program.virt(Class::Mask);
            self.program.items.push(Item::Truth { dst, a, width: self.width, truth });
            return Some(X::Reg(dst));
        }
        if matches!(lane, Lane::F32 | Lane::F64) && matches!(fold, Fold::Min | Fold::Max) && !self.machine.neon {
            return Some(self.extreme_of(fold, num, accumulators));
        }
        let mut parts: Vec<X> = accumulators.iter().map(|&v| X::Reg(v)).collect();
        while parts.len() > 1 {
            let mut next = Vec::with_capacity(parts.len().div_ceil(2));
            for pair in parts.chunks(2) {
                next.push(match pair {
                    [a, b] => self.folded(fold, lane, *a, *b)?,
                    _ => pair[0],
                });
            }
            parts = next;
        }
        let mut value = parts[0];
        for (op, order) in butterfly(num) {
            let moved = self.program.two_imm(op, num.length, value, value, Some(order));
            value = self.folded(fold, lane, value, moved)?;
        }
        Some(value)
    }

    /// The least or largest of reals. NaN is looked for beside, not in every step: the steps follow each other.
    fn extreme_of(&mut self, fold: Fold, num: Num, accumulators: &[Virt]) -> X {
        let op = if fold == Fold::Max { num.pick(x86::MAXPS, x86::MAXPD) } else { num.pick(x86::MINPS, x86::MINPD) };
        let mut value = X::Reg(accumulators[0]);
        let mut nan = self.compare(num, value, value, predicate::UNORDERED);
        for pair in accumulators[1..].chunks(2) {
            let (a, b) = (X::Reg(pair[0]), X::Reg(pair[pair.len() - 1]));
            let here = self.compare(num, a, b, predicate::UNORDERED);
            nan = self.program.two(x86::KORW, num.length, nan, here);
        }
        for &other in &accumulators[1..] {
            value = self.program.two(op, num.length, value, X::Reg(other));
        }
        for (op_of_move, order) in butterfly(num) {
            let moved = self.program.two_imm(op_of_move, num.length, value, value, Some(order));
            value = self.program.two(op, num.length, value, moved);
        }
        let any = self.program.virt(Class::Mask);
        self.program.items.push(Item::Truth { dst: any, a: nan, width: self.width, truth: Truth::Any });
        let not_a_number = self.real(num, f64::NAN);
        self.program.select(num, X::Reg(any), not_a_number, value)
    }
}

/// Shuffles that together bring every lane to every other.
fn butterfly(num: Num) -> Vec<(Op, u8)> {
    let (blocks, within) = if num.wide { (x86::SHUFF64X2, x86::SHUFPD) } else { (x86::SHUFF32X4, x86::SHUFPS) };
    let block_steps: &[u8] = match num.length {
        Length::L512 => &[0x4e, 0xb1],
        Length::L256 => &[0x01],
        _ => &[],
    };
    let within_steps: &[u8] = match num.length.bytes() {
        8 => &[0xb1],
        _ if num.wide => &[0x55],
        _ => &[0x4e, 0xb1],
    };
    block_steps.iter().map(|&s| (blocks, s)).chain(within_steps.iter().map(|&s| (within, s))).collect()
}
