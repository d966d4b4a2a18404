//! Operations that take several instructions of NEON.

use super::super::ops as x86;
use super::super::program::{Vector, Virt, X};
use super::encode::{self as a64, Code};
use super::{Action, Rewriting, Sign};

impl Rewriting<'_> {
    /// As `compute`: what takes several instructions.
    pub(super) fn compute_several(&mut self, v: &Vector, dst: Virt, a: X, b: X) -> Option<()> {
        let wide = v.op.is_wide();
        let pick = |narrow: Code, wide_code: Code| if wide { wide_code } else { narrow };
        match v.op {
            // The second operand where one is NaN and of two zeros.
            x86::MINPS | x86::MINPD => {
                let first = self.plain(pick(a64::FCMGT_4S, a64::FCMGT_2D), [b, a]);
                self.select(dst, b, a, first);
            }
            x86::MAXPS | x86::MAXPD => {
                let first = self.plain(pick(a64::FCMGT_4S, a64::FCMGT_2D), [a, b]);
                self.select(dst, b, a, first);
            }
            x86::PMINSQ => self.extreme_of_quads(dst, a64::CMGT_2D, [b, a], [a, b]),
            x86::PMAXSQ => self.extreme_of_quads(dst, a64::CMGT_2D, [a, b], [a, b]),
            x86::PMINUQ => self.extreme_of_quads(dst, a64::CMHI_2D, [b, a], [a, b]),
            x86::PMAXUQ => self.extreme_of_quads(dst, a64::CMHI_2D, [a, b], [a, b]),
            x86::PMULLQ => self.push(Action::MultiplyQuads, X::Reg(dst), [a, b, X::None]),
            x86::PLZCNTQ => self.push(Action::LeadingZerosOfQuads, X::Reg(dst), [b, X::None, X::None]),
            x86::CVTQQ2PS => self.push(Action::QuadsToF32(Sign::Signed), X::Reg(dst), [b, X::None, X::None]),
            x86::CVTUQQ2PS => self.push(Action::QuadsToF32(Sign::Unsigned), X::Reg(dst), [b, X::None, X::None]),
            x86::PSLLVD | x86::PSLLVQ => {
                let by = self.shift_count(wide, b);
                self.put(dst, pick(a64::USHL_4S, a64::USHL_2D), [a, by]);
            }
            x86::PSRLVD | x86::PSRLVQ | x86::PSRAVD | x86::PSRAVQ => {
                let by = self.shift_count(wide, b);
                let by = self.one(pick(a64::NEG_4S, a64::NEG_2D), by);
                let code = if matches!(v.op, x86::PSRLVD | x86::PSRLVQ) {
                    pick(a64::USHL_4S, a64::USHL_2D)
                } else {
                    pick(a64::SSHL_4S, a64::SSHL_2D)
                };
                self.put(dst, code, [a, by]);
            }
            x86::TERNLOGD | x86::TERNLOGQ => {
                // Where the third operand has a bit the second's, else the first's.
                const CHOOSE: u8 = 0xd8;
                if v.imm != Some(CHOOSE) {
                    return None;
                }
                let first = self.operand(v.tied);
                self.select(dst, first, a, b);
            }
            x86::SCALEFPS | x86::SCALEFPD => self.scale(dst, wide, a, b),
            x86::FIXUPIMMPS | x86::FIXUPIMMPD => {
                let result = self.operand(v.tied);
                self.logarithm_specials(dst, wide, result, a);
            }
            x86::GETEXPPD => {
                let (all, bias) = (self.wide_constant(0x7ff), self.wide_constant(1023));
                let exponent = self.one(a64::ushr(true, 52), b);
                let exponent = self.plain(a64::AND, [exponent, all]);
                let exponent = self.plain(a64::SUB_2D, [exponent, bias]);
                self.put(dst, a64::SCVTF_2D, [exponent, X::None]);
            }
            x86::GETMANTPD => {
                let (kept, one) = (self.wide_constant(0x800f_ffff_ffff_ffff), self.wide_constant(1f64.to_bits()));
                let fraction = self.plain(a64::AND, [b, kept]);
                self.put(dst, a64::ORR, [fraction, one]);
            }
            x86::CVTDQ2PD => {
                let quads = self.one(a64::SXTL_2D, b);
                self.put(dst, a64::SCVTF_2D, [quads, X::None]);
            }
            x86::CVTUDQ2PD => {
                let quads = self.one(a64::UXTL_2D, b);
                self.put(dst, a64::UCVTF_2D, [quads, X::None]);
            }
            x86::CVTTPD2DQ => {
                // The least integer for everything out of range.
                let quads = self.one(a64::FCVTZS_2D, b);
                let result = self.one(a64::XTN_2S, quads);
                let back = self.one(a64::SXTL_2D, result);
                let fits = self.plain(a64::CMEQ_2D, [back, quads]);
                let fits = self.one(a64::XTN_2S, fits);
                let least = self.narrow_constant(1 << 31);
                self.select(dst, least, result, fits);
            }
            x86::CVTTPD2UDQ => {
                let quads = self.one(a64::FCVTZU_2D, b);
                self.put(dst, a64::UQXTN_2S, [quads, X::None]);
            }
            x86::CVTTPS2QQ | x86::CVTTPS2UQQ => {
                let doubles = self.one(a64::FCVTL_2D, b);
                let code = if v.op == x86::CVTTPS2QQ { a64::FCVTZS_2D } else { a64::FCVTZU_2D };
                self.put(dst, code, [doubles, X::None]);
            }
            _ => return None,
        }
        Some(())
    }

    /// The first of `operands` where the comparison holds, else the second.
    fn extreme_of_quads(&mut self, dst: Virt, code: Code, compared: [X; 2], [a, b]: [X; 2]) {
        let first = self.plain(code, compared);
        self.select(dst, b, a, first);
    }

    /// Counts as they are below the width, and the width for all others: shifts only look at the lowest byte.
    fn shift_count(&mut self, wide: bool, by: X) -> X {
        let most = self.integer(wide, if wide { 64 } else { 32 });
        if !wide {
            return self.plain(a64::UMIN_4S, [by, most]);
        }
        let large = self.plain(a64::CMHI_2D, [by, most]);
        self.selected(by, most, large)
    }

    /// `x·2^power` by two factors, each of which is a normal number where the result is one.
    fn scale(&mut self, dst: Virt, wide: bool, x: X, power: X) {
        let pick = |narrow: Code, wide_code: Code| if wide { wide_code } else { narrow };
        let (bits, bias) = if wide { (52, 1023) } else { (23, 127) };
        let one = self.integer(wide, bias << bits);
        let n = self.one(pick(a64::FCVTZS_4S, a64::FCVTZS_2D), power);
        let first = self.one(a64::sshr(wide, 1), n);
        let second = self.plain(pick(a64::SUB_4S, a64::SUB_2D), [n, first]);
        let [first, second] = [first, second].map(|part| {
            let exponent = self.one(a64::shl(wide, bits as u8), part);
            self.plain(pick(a64::ADD_4S, a64::ADD_2D), [exponent, one])
        });
        let scaled = self.plain(pick(a64::FMUL_4S, a64::FMUL_2D), [x, first]);
        self.put(dst, pick(a64::FMUL_4S, a64::FMUL_2D), [scaled, second]);
    }

    /// What a logarithm gives for NaN, zero, infinities and negative arguments, else `result`.
    fn logarithm_specials(&mut self, dst: Virt, wide: bool, result: X, x: X) {
        let pick = |narrow: Code, wide_code: Code| if wide { wide_code } else { narrow };
        let (equal, above) = (pick(a64::FCMEQ_4S, a64::FCMEQ_2D), pick(a64::FCMGT_4S, a64::FCMGT_2D));
        let (zero, infinity) = (self.real(wide, 0.0), self.real(wide, f64::INFINITY));
        let (minus_infinity, nan) = (self.real(wide, f64::NEG_INFINITY), self.real(wide, f64::NAN));
        let is_zero = self.plain(equal, [x, zero]);
        let result = self.selected(result, minus_infinity, is_zero);
        let is_negative = self.plain(above, [zero, x]);
        let result = self.selected(result, nan, is_negative);
        // Everything below infinity; neither infinity nor NaN.
        let is_usual = self.plain(above, [infinity, x]);
        self.select(dst, x, result, is_usual);
    }
}
