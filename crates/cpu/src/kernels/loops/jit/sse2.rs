//! Rewrites a program for AVX2 for SSE2, which every x86-64 machine has: instructions of two operands, and fewer of them.
//!
//! The result of an instruction is its first operand, which is its `tied` one here. Vectors have four lanes of 32 bits; what
//! needs 64-bit lanes is left to the other backend. A multiplication and an addition are rounded one after the other.

use super::encode::{self as x86, Form, Length, Op, Zeroing};
use super::lanes::rounding;
use super::program::{Class, Constant, Fused, Item, Lanes, Mem, Program, Truth, Vector, Virt, X};

/// Bits of an f32.
const SIGN: u32 = 1 << 31;
/// 2^23: reals from here on are integers.
const WHOLE: u32 = 0x4b00_0000;
const ONE: u32 = 0x3f80_0000;

struct Rewriting {
    to: Program,
}

/// The same program for SSE2; `None` where an instruction has no counterpart here.
pub(super) fn rewritten(from: &Program) -> Option<Program> {
    let to = Program { classes: from.classes.clone(), constants: from.constants.clone(), ..Program::default() };
    let mut rewriting = Rewriting { to };
    for item in &from.items {
        rewriting.item(item)?;
    }
    Some(rewriting.to)
}

/// Whether the operands may change places.
fn is_symmetric(op: Op) -> bool {
    matches!(
        op,
        x86::ADDPS | x86::MULPS | x86::PADDD | x86::PANDD | x86::PORD | x86::PXORD | x86::PCMPEQD | x86::PMULUDQ
    )
}

/// Instructions of two operands that are here as they are.
fn is_of_two(op: Op) -> bool {
    is_symmetric(op)
        || matches!(op, x86::SUBPS | x86::DIVPS | x86::MINPS | x86::MAXPS | x86::PSUBD | x86::PANDN | x86::PCMPGTD)
        || matches!(op, x86::PACKSSDW | x86::PACKUSWB | x86::PUNPCKLDQ)
}

impl Rewriting {
    fn item(&mut self, item: &Item) -> Option<()> {
        match *item {
            Item::Vector(ref v) => self.vector(v),
            Item::Fma { num, fused, dst, a, b, c } => {
                if num.wide {
                    return None;
                }
                let product = self.two(x86::MULPS, a, b);
                match fused {
                    Fused::Add => self.put_two(dst, x86::ADDPS, product, c, None),
                    Fused::From => self.put_two(dst, x86::SUBPS, c, product, None),
                }
                Some(())
            }
            Item::Gather { num, dst, mem: Mem::Strided { base, step, disp }, lanes: Lanes::All, .. } if !num.wide => {
                let element = |lane: i32| X::Mem(Mem::Strided { base, step, disp: disp + lane * step });
                let [a, b, c, d] = [0, 1, 2, 3].map(|lane| self.one(x86::MOVSS, element(lane), None));
                let low = self.two(x86::PUNPCKLDQ, a, b);
                let high = self.two(x86::PUNPCKLDQ, c, d);
                self.put_two(dst, x86::PUNPCKLQDQ, low, high, None);
                Some(())
            }
            Item::Scatter { num, value, mem: Mem::Strided { base, step, disp }, lanes, .. } if !num.wide => {
                let count = if lanes == Lanes::All { 4 } else { 1 };
                for lane in 0..count {
                    let moved = if lane == 0 { value } else { self.one(x86::PSHUFD, value, Some(lane as u8)) };
                    let mem = Mem::Strided { base, step, disp: disp + lane * step };
                    self.push(X::Mem(mem), x86::MOVSS_STORE, X::None, moved, X::None, None);
                }
                Some(())
            }
            // Counting bits takes an instruction that came later.
            Item::Truth { truth: Truth::Parity, .. } | Item::Gather { .. } | Item::Scatter { .. } => None,
            // Only functions in 64-bit lanes jump.
            Item::Skip(_) | Item::Land => None,
            Item::Truth { .. } | Item::Enter(_) | Item::Leave(_) => {
                self.to.items.push(*item);
                Some(())
            }
        }
    }

    fn push(&mut self, dst: X, op: Op, tied: X, a: X, b: X, imm: Option<u8>) {
        let (length, lanes, zeroing) = (Length::L128, Lanes::All, Zeroing::Merge);
        self.to.items.push(Item::Vector(Vector { op, length, dst, a, b, tied, lanes, zeroing, imm }));
    }

    /// Pushes `dst = op(b)`.
    fn put_one(&mut self, dst: Virt, op: Op, b: X, imm: Option<u8>) {
        self.push(X::Reg(dst), op, X::None, X::None, b, imm);
    }

    fn one(&mut self, op: Op, b: X, imm: Option<u8>) -> X {
        let dst = self.to.virt(Class::Vector);
        self.put_one(dst, op, b, imm);
        X::Reg(dst)
    }

    /// Pushes `dst = op(a, b)`.
    fn put_two(&mut self, dst: Virt, op: Op, a: X, b: X, imm: Option<u8>) {
        let (a, b) = match (a, b) {
            // The first operand would have to be loaded before.
            (X::Const(_), X::Reg(_)) if is_symmetric(op) => (b, a),
            (_, X::Reg(second)) if second == dst && a != b => {
                if is_symmetric(op) {
                    (b, a)
                } else {
                    // The result would overwrite the second operand before it is read.
                    let value = self.two_imm(op, a, b, imm);
                    return self.put_one(dst, x86::MOVUPS, value, None);
                }
            }
            operands => operands,
        };
        self.push(X::Reg(dst), op, a, X::None, b, imm);
    }

    fn two_imm(&mut self, op: Op, a: X, b: X, imm: Option<u8>) -> X {
        let dst = self.to.virt(Class::Vector);
        self.put_two(dst, op, a, b, imm);
        X::Reg(dst)
    }

    fn two(&mut self, op: Op, a: X, b: X) -> X {
        self.two_imm(op, a, b, None)
    }

    /// Pushes a shift of every lane by a count.
    fn put_shifted(&mut self, dst: Virt, op: Op, x: X, count: u8) {
        self.push(X::Reg(dst), op, x, X::None, X::None, Some(count));
    }

    fn shifted(&mut self, op: Op, x: X, count: u8) -> X {
        let dst = self.to.virt(Class::Vector);
        self.put_shifted(dst, op, x, count);
        X::Reg(dst)
    }

    fn all_lanes(&mut self, bits: u32) -> X {
        self.to.constant(Constant::Vector([bits as i32; 16]))
    }

    /// Pushes `dst = mask ? b : a`.
    fn put_choice(&mut self, dst: Virt, mask: X, a: X, b: X) {
        let differ = self.two(x86::PXORD, a, b);
        let changed = self.two(x86::PANDD, differ, mask);
        self.put_two(dst, x86::PXORD, changed, a, None);
    }

    fn vector(&mut self, v: &Vector) -> Option<()> {
        let Vector { op, imm, a, b, .. } = *v;
        if let X::Mem(_) = v.dst {
            let is_known = matches!(op, x86::MOVUPS_STORE | x86::MOVNTPS_STORE | x86::MOVSS_STORE | x86::MOVSD_STORE)
                || matches!(op, x86::PEXTRW_STORE | x86::PEXTRB_STORE) && imm == Some(0);
            self.push(v.dst, op, X::None, a, X::None, imm);
            return is_known.then_some(());
        }
        let X::Reg(dst) = v.dst else { return None };
        if op == x86::MOVUPS {
            self.put_one(dst, op, b, None);
            return Some(());
        }
        if v.length != Length::L128 || op.is_wide() {
            return None;
        }
        if op == x86::BLENDVPS {
            let Lanes::Of(mask) = v.lanes else { return None };
            self.put_choice(dst, X::Reg(mask), a, b);
            return Some(());
        }
        match op {
            _ if v.lanes != Lanes::All => return None,
            x86::MOVSS | x86::MOVSD | x86::MOVD_GPR => self.put_one(dst, op, b, None),
            x86::PINSRB | x86::PINSRW => self.put_two(dst, op, a, b, imm),
            x86::SQRTPS | x86::CVTDQ2PS | x86::CVTTPS2DQ | x86::PSHUFD => self.put_one(dst, op, b, imm),
            x86::BROADCASTSS => {
                let element = self.one(x86::MOVSS, b, None);
                self.put_one(dst, x86::PSHUFD, element, Some(0));
            }
            x86::PBROADCASTD => self.put_one(dst, x86::PSHUFD, b, Some(0)),
            x86::PBROADCASTW | x86::PBROADCASTB => {
                let zero = self.all_lanes(0);
                let insert = if op == x86::PBROADCASTW { x86::PINSRW } else { x86::PINSRB };
                let mut element = self.two_imm(insert, zero, b, Some(0));
                if op == x86::PBROADCASTB {
                    element = self.two(x86::PUNPCKLBW, element, element);
                }
                self.put_one(dst, x86::PSHUFLW, element, Some(0));
            }
            x86::PMOVSXBD | x86::PMOVZXBD | x86::PMOVSXWD | x86::PMOVZXWD => self.widen(dst, op, b),
            x86::SHUFPS if a == b => self.put_one(dst, x86::PSHUFD, a, imm),
            x86::SHUFPS => self.put_two(dst, op, a, b, imm),
            x86::CMPPS => self.compare(dst, a, b, imm?)?,
            x86::ROUNDPS => self.round(dst, b, imm?)?,
            x86::PMULLD => self.multiply(dst, a, b),
            x86::PMAXSD | x86::PMINSD | x86::PMAXUD | x86::PMINUD => {
                let (mut x, mut y) = (a, b);
                if matches!(op, x86::PMAXUD | x86::PMINUD) {
                    let sign = self.all_lanes(SIGN);
                    x = self.two(x86::PXORD, a, sign);
                    y = self.two(x86::PXORD, b, sign);
                }
                let is_greater = self.two(x86::PCMPGTD, x, y);
                let (other, chosen) = if matches!(op, x86::PMAXSD | x86::PMAXUD) { (b, a) } else { (a, b) };
                self.put_choice(dst, is_greater, other, chosen);
            }
            x86::PABSD => {
                let signs = self.shifted(x86::PSRAD, b, 31);
                let turned = self.two(x86::PXORD, b, signs);
                self.put_two(dst, x86::PSUBD, turned, signs, None);
            }
            _ if matches!(op.form, Form::Vmi(_)) => self.put_shifted(dst, op, b, imm?),
            _ if is_of_two(op) => self.put_two(dst, op, a, b, imm),
            _ => return None,
        }
        Some(())
    }

    /// Narrow integers, from memory or the lowest bytes of a register, as 32-bit lanes.
    fn widen(&mut self, dst: Virt, op: Op, from: X) {
        let is_byte = matches!(op, x86::PMOVSXBD | x86::PMOVZXBD);
        let is_signed = matches!(op, x86::PMOVSXBD | x86::PMOVSXWD);
        let mut x = match from {
            X::Mem(_) => self.one(if is_byte { x86::MOVSS } else { x86::MOVSD }, from, None),
            _ => from,
        };
        let zero = self.all_lanes(0);
        // Signed ones come into the upper bits of their lanes first.
        let other = |x: X| if is_signed { x } else { zero };
        if is_byte {
            x = self.two(x86::PUNPCKLBW, x, other(x));
        }
        if is_signed {
            x = self.two(x86::PUNPCKLWD, x, x);
            self.put_shifted(dst, x86::PSRAD, x, if is_byte { 24 } else { 16 });
        } else {
            self.put_two(dst, x86::PUNPCKLWD, x, zero, None);
        }
    }

    /// Compares reals. There are the first eight predicates of AVX; the others are those with the operands exchanged.
    fn compare(&mut self, dst: Virt, a: X, b: X, how: u8) -> Option<()> {
        const LT: u8 = 1;
        const LE: u8 = 2;
        const NE: u8 = 4;
        const ORDERED: u8 = 7;
        const NE_ORDERED: u8 = 12;
        const GE: u8 = 13;
        const GT: u8 = 14;
        match how {
            0..=7 => self.put_two(dst, x86::CMPPS, a, b, Some(how)),
            GE => self.put_two(dst, x86::CMPPS, b, a, Some(LE)),
            GT => self.put_two(dst, x86::CMPPS, b, a, Some(LT)),
            NE_ORDERED => {
                let differ = self.two_imm(x86::CMPPS, a, b, Some(NE));
                let ordered = self.two_imm(x86::CMPPS, a, b, Some(ORDERED));
                self.put_two(dst, x86::PANDD, differ, ordered, None);
            }
            _ => return None,
        }
        Some(())
    }

    /// Rounds reals to integers: adding 2^23 leaves no room for a fraction.
    fn round(&mut self, dst: Virt, x: X, how: u8) -> Option<()> {
        const LT: u8 = 1;
        let (sign, whole, one) = (self.all_lanes(SIGN), self.all_lanes(WHOLE), self.all_lanes(ONE));
        let size = self.two(x86::PANDN, sign, x);
        let signs = self.two(x86::PANDD, x, sign);
        let sum = self.two(x86::ADDPS, size, whole);
        let mut nearest = self.two(x86::SUBPS, sum, whole);
        if how == rounding::TRUNCATE {
            let is_above = self.two_imm(x86::CMPPS, size, nearest, Some(LT));
            let excess = self.two(x86::PANDD, is_above, one);
            nearest = self.two(x86::SUBPS, nearest, excess);
        }
        let mut result = self.two(x86::PORD, nearest, signs);
        match how {
            rounding::EVEN | rounding::TRUNCATE => {}
            rounding::DOWN => {
                let is_above = self.two_imm(x86::CMPPS, x, result, Some(LT));
                let excess = self.two(x86::PANDD, is_above, one);
                let lower = self.two(x86::SUBPS, result, excess);
                result = self.two(x86::PORD, lower, signs);
            }
            rounding::UP => {
                let is_below = self.two_imm(x86::CMPPS, result, x, Some(LT));
                let missing = self.two(x86::PANDD, is_below, one);
                let higher = self.two(x86::ADDPS, result, missing);
                result = self.two(x86::PORD, higher, signs);
            }
            _ => return None,
        }
        // What is as large is an integer already, an infinity, or NaN.
        let is_small = self.two_imm(x86::CMPPS, size, whole, Some(LT));
        self.put_choice(dst, is_small, x, result);
        Some(())
    }

    /// Products of 32-bit integers from those of every other lane.
    fn multiply(&mut self, dst: Virt, a: X, b: X) {
        const EVEN: u8 = 0x08;
        let [odd_a, odd_b] = [a, b].map(|x| self.shifted(x86::PSRLQ, x, 32));
        let [even, odd] = [[a, b], [odd_a, odd_b]].map(|[a, b]| {
            let products = self.two(x86::PMULUDQ, a, b);
            self.one(x86::PSHUFD, products, Some(EVEN))
        });
        self.put_two(dst, x86::PUNPCKLDQ, even, odd, None);
    }
}
