//! Elements in memory and lanes: loads, stores, conversions and rounding.

use tensor::DType;

use super::super::ir::Lane;
use super::lanes::Lanework;
use super::ops::{self as x86, Length};
use super::program::{Constant, Item, Lanes, Mem, Num, X};

/// Ordered compare predicates of `vcmpps`.
pub(super) mod predicate {
    pub(in super::super) const EQ: u8 = 0;
    pub(in super::super) const LT: u8 = 1;
    pub(in super::super) const LE: u8 = 2;
    pub(in super::super) const UNORDERED: u8 = 3;
    /// True if unordered.
    pub(in super::super) const NE: u8 = 4;
    /// True if unordered.
    pub(in super::super) const NOT_LESS_OR_EQUAL: u8 = 6;
    pub(in super::super) const ORDERED: u8 = 7;
    pub(in super::super) const GE: u8 = 13;
    pub(in super::super) const GT: u8 = 14;
}

impl Lanework<'_> {
    /// The vectors that hold `bytes` for each element: 1, 2, 4 or 8.
    fn length_of(&self, bytes: usize) -> Length {
        match self.width as usize * bytes {
            64 => Length::L512,
            32 => Length::L256,
            _ => Length::L128,
        }
    }

    /// Elements of a type from contiguous memory. `None` for types this backend cannot load.
    pub(super) fn load(&mut self, dtype: DType, mem: Mem, lanes: Lanes) -> Option<X> {
        let narrow = self.narrow.length;
        Some(match dtype {
            DType::F32 | DType::I32 | DType::U32 => self.program.load(x86::MOVUPS, narrow, mem, lanes),
            DType::F64 | DType::I64 | DType::U64 => self.program.load(x86::MOVUPD, self.full(), mem, lanes),
            DType::I16 => self.program.load(x86::PMOVSXWD, narrow, mem, lanes),
            DType::U16 => self.program.load(x86::PMOVZXWD, narrow, mem, lanes),
            DType::I8 | DType::I4 | DType::I2 => self.program.load(x86::PMOVSXBD, narrow, mem, lanes),
            DType::U8 | DType::U4 | DType::U2 => self.program.load(x86::PMOVZXBD, narrow, mem, lanes),
            DType::BF16 => {
                let bits = self.program.load(x86::PMOVZXWD, narrow, mem, lanes);
                self.program.one_imm(x86::PSLLD, narrow, bits, Some(16))
            }
            DType::F16 => self.program.load(x86::CVTPH2PS, narrow, mem, lanes),
            DType::Bool => {
                let bytes = self.program.load(x86::PMOVZXBD, narrow, mem, lanes);
                self.program.test(x86::PTESTMD, narrow, bytes, bytes, None)
            }
            _ => return None,
        })
    }

    /// One element of a type in all lanes.
    pub(super) fn load_uniform(&mut self, dtype: DType, mem: Mem) -> Option<X> {
        let narrow = self.narrow.length;
        let load = match dtype.size_bytes() {
            8 => x86::BROADCASTSD,
            4 => x86::BROADCASTSS,
            2 => x86::PBROADCASTW,
            _ => x86::PBROADCASTB,
        };
        let bits = self.program.load(load, self.full(), mem, Lanes::All);
        let widened = match dtype {
            DType::F32 | DType::I32 | DType::U32 | DType::F64 | DType::I64 | DType::U64 => return Some(bits),
            DType::I16 => x86::PMOVSXWD,
            DType::U16 | DType::BF16 => x86::PMOVZXWD,
            DType::I8 | DType::I4 | DType::I2 => x86::PMOVSXBD,
            DType::U8 | DType::U4 | DType::U2 | DType::Bool => x86::PMOVZXBD,
            DType::F16 => x86::CVTPH2PS,
            _ => return None,
        };
        let value = self.program.one(widened, narrow, bits);
        Some(match dtype {
            DType::BF16 => self.program.one_imm(x86::PSLLD, narrow, value, Some(16)),
            DType::Bool => self.program.test(x86::PTESTMD, narrow, value, value, None),
            _ => value,
        })
    }

    /// Elements that are `stride` apart: only types that fill their lane.
    pub(super) fn load_strided(
        &mut self,
        dtype: DType,
        base: u32,
        stride: isize,
        copy: i32,
        lanes: Lanes,
    ) -> Option<X> {
        let (num, index, mem) = self.strided(dtype, base, stride, copy)?;
        let dst = self.program.virt(super::program::Class::Vector);
        self.program.items.push(Item::Gather { num, dst, index, mem, lanes });
        Some(X::Reg(dst))
    }

    pub(super) fn store_strided(
        &mut self,
        dtype: DType,
        base: u32,
        stride: isize,
        copy: i32,
        value: X,
        lanes: Lanes,
    ) -> Option<()> {
        let (num, index, mem) = self.strided(dtype, base, stride, copy)?;
        self.program.items.push(Item::Scatter { num, value, index, mem, lanes });
        Some(())
    }

    fn strided(&mut self, dtype: DType, base: u32, stride: isize, copy: i32) -> Option<(Num, X, Mem)> {
        let bytes = match dtype {
            DType::F32 | DType::I32 | DType::U32 => 4,
            DType::F64 | DType::I64 | DType::U64 => 8,
            _ => return None,
        };
        let step = i32::try_from(stride.checked_mul(bytes)?).ok()?;
        // Distances within the unrolled vectors are 32-bit.
        step.checked_mul(256)?;
        let index = self.program.constant(Constant::Vector(std::array::from_fn(|lane| lane as i32 * step)));
        let num = if bytes == 8 { self.wide } else { self.narrow };
        let disp = copy * self.width as i32 * step;
        Some((num, index, Mem::Strided { base, step, disp }))
    }

    /// Stores lanes as elements of a type, rounded or wrapped.
    pub(super) fn store(&mut self, dtype: DType, mem: Mem, value: X, lanes: Lanes) -> Option<()> {
        let narrow = self.narrow.length;
        match dtype {
            DType::F32 | DType::I32 | DType::U32 => {
                self.program.store(x86::MOVUPS_STORE, narrow, mem, value, None, lanes)
            }
            DType::F64 | DType::I64 | DType::U64 => {
                self.program.store(x86::MOVUPD_STORE, self.full(), mem, value, None, lanes)
            }
            DType::I16 | DType::U16 => self.program.store(x86::PMOVDW, narrow, mem, value, None, lanes),
            DType::I8 | DType::I4 | DType::I2 | DType::U8 | DType::U4 | DType::U2 => {
                self.program.store(x86::PMOVDB, narrow, mem, value, None, lanes)
            }
            DType::F16 => self.program.store(x86::CVTPS2PH, narrow, mem, value, Some(0), lanes),
            DType::BF16 if self.machine.avx512_bf16 => {
                let bits = self.program.one(x86::CVTNEPS2BF16, narrow, value);
                let half = self.length_of(2);
                self.program.store(x86::MOVDQU16_STORE, half, mem, bits, None, lanes);
            }
            DType::BF16 => {
                let bits = self.bf16_bits(value);
                let bits = self.program.one_imm(x86::PSRLD, narrow, bits, Some(16));
                self.program.store(x86::PMOVDW, narrow, mem, bits, None, lanes);
            }
            DType::Bool => {
                let one = self.program.constant(Constant::Narrow(1));
                let value = self.program.zeroed(x86::PANDD, narrow, one, one, value);
                self.program.store(x86::PMOVDB, narrow, mem, value, None, lanes);
            }
            _ => return None,
        }
        Some(())
    }

    /// The nearest bf16 as the upper half of each lane; the lower half is arbitrary. NaN stays NaN.
    fn bf16_bits(&mut self, value: X) -> X {
        let length = self.narrow.length;
        let upper = self.program.one_imm(x86::PSRLD, length, value, Some(16));
        let one = self.program.constant(Constant::Narrow(1));
        let half = self.program.constant(Constant::Narrow(0x7fff));
        let odd = self.program.two(x86::PANDD, length, upper, one);
        let bias = self.program.two(x86::PADDD, length, odd, half);
        let rounded = self.program.two(x86::PADDD, length, value, bias);
        let nan = self.program.test(x86::CMPPS, length, value, value, Some(predicate::UNORDERED));
        let quiet = self.program.constant(Constant::Narrow(0x0040_0000));
        self.program.merged(x86::PORD, length, [value, quiet], None, nan, rounded)
    }

    /// The nearest value of a type, in the same lane.
    pub(super) fn round(&mut self, dtype: DType, value: X) -> Option<X> {
        let length = self.narrow.length;
        Some(match dtype {
            DType::F32 | DType::F64 | DType::I32 | DType::U32 | DType::I64 | DType::U64 | DType::Bool => value,
            DType::BF16 if self.machine.avx512_bf16 => {
                let bits = self.program.one(x86::CVTNEPS2BF16, length, value);
                let wide = self.program.one(x86::PMOVZXWD, length, bits);
                self.program.one_imm(x86::PSLLD, length, wide, Some(16))
            }
            DType::BF16 => {
                let bits = self.bf16_bits(value);
                let upper = self.program.constant(Constant::Narrow(0xffff_0000));
                self.program.two(x86::PANDD, length, bits, upper)
            }
            DType::F16 => {
                let bits = self.program.one_imm(x86::CVTPS2PH, length, value, Some(0));
                self.program.one(x86::CVTPH2PS, length, bits)
            }
            _ if dtype.is_unsigned_integer() => {
                let low = self.program.constant(Constant::Narrow((1 << dtype.bits()) - 1));
                self.program.two(x86::PANDD, length, value, low)
            }
            _ if dtype.is_signed_integer() => {
                let unused = 32 - dtype.bits() as u8;
                let up = self.program.one_imm(x86::PSLLD, length, value, Some(unused));
                self.program.one_imm(x86::PSRAD, length, up, Some(unused))
            }
            _ => return None,
        })
    }

    /// A value of one type as the nearest of another.
    pub(super) fn convert(&mut self, value: X, source: DType, target: DType) -> Option<X> {
        let (from, to) = (Lane::of(source)?, Lane::of(target)?);
        let unsigned = source.is_unsigned_integer();
        let (narrow, full) = (self.narrow.length, self.full());
        Some(match (from, to) {
            (Lane::Mask, Lane::Mask) => value,
            (Lane::Mask, _) => {
                let one = match to {
                    Lane::F32 => Constant::Narrow(1f32.to_bits()),
                    Lane::F64 => Constant::Wide(1f64.to_bits()),
                    Lane::I64 => Constant::Wide(1),
                    _ => Constant::Narrow(1),
                };
                let num = self.num(to);
                let one = self.program.constant(one);
                self.program.zeroed(num.pick(x86::PANDD, x86::PANDQ), num.length, one, one, value)
            }
            (Lane::I32 | Lane::I64, Lane::Mask) => {
                let num = self.num(from);
                self.program.test(num.pick(x86::PTESTMD, x86::PTESTMQ), num.length, value, value, None)
            }
            (Lane::F32 | Lane::F64, Lane::Mask) => {
                let num = self.num(from);
                let zero = self.real(num, 0.0);
                self.program.test(num.pick(x86::CMPPS, x86::CMPPD), num.length, value, zero, Some(predicate::NE))
            }
            (Lane::F32, Lane::F32) | (Lane::I32, Lane::I32) => self.round(target, value)?,
            (Lane::F64, Lane::F64) | (Lane::I64, Lane::I64) => value,
            (Lane::F32, Lane::F64) => self.program.one(x86::CVTPS2PD, full, value),
            // Through f32 a narrower type would be rounded twice.
            (Lane::F64, Lane::F32) if target == DType::F32 => self.program.one(x86::CVTPD2PS, full, value),
            (Lane::F64, Lane::F32) => return None,
            (Lane::I32, Lane::I64) => {
                self.program.one(if unsigned { x86::PMOVZXDQ } else { x86::PMOVSXDQ }, full, value)
            }
            (Lane::I64, Lane::I32) => {
                let low = self.program.one(x86::PMOVQD, full, value);
                self.round(target, low)?
            }
            (Lane::I32, Lane::F32) => {
                let to_real = if unsigned { x86::CVTUDQ2PS } else { x86::CVTDQ2PS };
                let real = if target != DType::F32 && source.bits() > 24 {
                    self.real_to_be_rounded(to_real, value)
                } else {
                    self.program.one(to_real, narrow, value)
                };
                self.round(target, real)?
            }
            (Lane::I32, Lane::F64) => {
                self.program.one(if unsigned { x86::CVTUDQ2PD } else { x86::CVTDQ2PD }, full, value)
            }
            (Lane::I64, Lane::F64) => {
                self.program.one(if unsigned { x86::CVTUQQ2PD } else { x86::CVTQQ2PD }, full, value)
            }
            (Lane::I64, Lane::F32) if target == DType::F32 => {
                self.program.one(if unsigned { x86::CVTUQQ2PS } else { x86::CVTQQ2PS }, full, value)
            }
            (Lane::I64, Lane::F32) => return None,
            (Lane::F32 | Lane::F64, Lane::I32 | Lane::I64) => self.truncated(self.num(from), value, target),
        })
    }

    /// An f32 that rounds to the same value of a narrower type as the integer does. Integers that f32 cannot hold lose
    /// their low bits, which leave a trace in the lowest one kept.
    fn real_to_be_rounded(&mut self, to_real: x86::Op, value: X) -> X {
        let num = self.narrow;
        let length = num.length;
        let unsigned = to_real == x86::CVTUDQ2PS;
        let (low_bits, one, scale) = (self.integer(num, 0xff), self.integer(num, 1), self.real(num, 256.0));
        let low = self.and(num, value, low_bits);
        let trace = self.program.two(x86::PMINUD, length, low, one);
        let shift = if unsigned { x86::PSRLD } else { x86::PSRAD };
        let high = self.program.one_imm(shift, length, value, Some(8));
        let high = self.or(num, high, trace);
        let high = self.program.one(to_real, length, high);
        let large = self.mul(num, high, scale);
        let exact = self.program.one(to_real, length, value);
        let limit = self.real(num, 16_777_216.0);
        let size = self.abs(num, exact);
        let is_large = self.compare(num, size, limit, predicate::GE);
        self.program.select(num, is_large, large, exact)
    }

    /// Towards zero, saturated at the target type; NaN gives 0.
    fn truncated(&mut self, from: Num, value: X, target: DType) -> X {
        let wide = target.bits() == 64;
        // The length of the longer of the two vectors.
        let length = if wide || from.wide { self.full() } else { from.length };
        let result = if wide { self.wide } else { self.narrow };
        if target.is_unsigned_integer() && target.bits() >= 32 {
            // The conversion gives all ones for what is too large.
            let zero = self.real(from, 0.0);
            let value = self.program.two(from.pick(x86::MAXPS, x86::MAXPD), from.length, value, zero);
            let op = match (from.wide, wide) {
                (false, false) => x86::CVTTPS2UDQ,
                (true, false) => x86::CVTTPD2UDQ,
                (false, true) => x86::CVTTPS2UQQ,
                (true, true) => x86::CVTTPD2UQQ,
            };
            return self.program.one(op, length, value);
        }
        let ordered =
            self.program.test(from.pick(x86::CMPPS, x86::CMPPD), from.length, value, value, Some(predicate::ORDERED));
        let op = match (from.wide, wide) {
            (false, false) => x86::CVTTPS2DQ,
            (true, false) => x86::CVTTPD2DQ,
            (false, true) => x86::CVTTPS2QQ,
            (true, true) => x86::CVTTPD2QQ,
        };
        if target.bits() >= 32 {
            // The conversion gives the least integer for everything out of range.
            let limit = self.real(from, if wide { 9_223_372_036_854_775_808.0 } else { 2_147_483_648.0 });
            let large =
                self.program.test(from.pick(x86::CMPPS, x86::CMPPD), from.length, value, limit, Some(predicate::GE));
            let integer = self.program.zeroed(op, length, X::None, value, ordered);
            let most = if wide { Constant::Wide(i64::MAX as u64) } else { Constant::Narrow(i32::MAX as u32) };
            let most = self.program.constant(most);
            return self.program.select(result, large, most, integer);
        }
        let bits = target.bits();
        let (least, most) = if target.is_signed_integer() {
            (-f64::from(1i32 << (bits - 1)), f64::from((1i32 << (bits - 1)) - 1))
        } else {
            (0.0, f64::from((1i32 << bits) - 1))
        };
        let (least, most) = (self.real(from, least), self.real(from, most));
        let low = self.program.two(from.pick(x86::MAXPS, x86::MAXPD), from.length, value, least);
        let clamped = self.program.two(from.pick(x86::MINPS, x86::MINPD), from.length, low, most);
        self.program.zeroed(op, length, X::None, clamped, ordered)
    }
}
