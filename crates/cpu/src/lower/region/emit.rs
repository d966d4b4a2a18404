//! One elementwise op as instructions of the loop language.

use hlo::{Attr, Func, Keyword, Op, OpKind};
use tensor::DType;

use super::dtype;
use crate::attributes;
use crate::kernels::loops::ir::{Binary, Compare, Inst, Lane, Reg, Unary};

/// Adds what an elementwise op computes from the registers of its operands, and gives the register of its result. Only
/// element types matter, not shapes. `None` for ops and types this language does not have.
pub(crate) fn emit(func: &Func, op: &Op, operands: &[Reg], push: &mut dyn FnMut(Inst) -> Reg) -> Option<Reg> {
    let target = dtype(func, op.first_result)?;
    let source = match op.operands.first() {
        Some(&first) => dtype(func, first)?,
        None => return None,
    };
    let lane = Lane::of(source)?;
    Lane::of(target)?;
    let kind = op.kind()?;
    let mut to = Emitter { dtype: target, push };
    match (kind, operands) {
        (OpKind::Compare, &[a, b]) => {
            let total = attributes::is_total_order(op);
            let direction = op.attr("comparison_direction").and_then(Attr::as_keyword)?;
            match lane {
                Lane::F32 | Lane::F64 if total => {
                    let (a, b) = (to.total_order(lane, a), to.total_order(lane, b));
                    to.compare(direction, DType::I64, a, b)
                }
                Lane::Mask => to.compare_masks(direction, a, b),
                _ => to.compare(direction, source, a, b),
            }
        }
        (OpKind::Select, &[mask, a, b]) => Some(to.put(Inst::Select(mask, a, b))),
        (OpKind::Clamp, &[low, value, high]) => {
            let raised = to.binary(Binary::Max, value, low)?;
            to.binary(Binary::Min, raised, high)
        }
        (OpKind::Convert, &[value]) => Some(match source == target {
            true => value,
            false => to.put(Inst::Convert { value, source, target }),
        }),
        (OpKind::BitcastConvert, &[value]) => to.bitcast(source, value),
        (OpKind::ReducePrecision, &[value]) => {
            let bits = |name: &str| op.attr(name).and_then(Attr::as_int);
            match (target, bits("exponent_bits")?, bits("mantissa_bits")?) {
                (DType::F32, 8, 7) => Some(to.put(Inst::Round(DType::BF16, value))),
                (DType::F32, 8.., 23..) | (DType::F64, 11.., 52..) | (DType::BF16, 8.., 7..) => Some(value),
                _ => None,
            }
        }
        (_, &[a]) => to.unary(kind, source, lane, a),
        (_, &[a, b]) => to.binary(binary_kind(kind)?, a, b),
        _ => None,
    }
}

fn binary_kind(kind: OpKind) -> Option<Binary> {
    Some(match kind {
        OpKind::Add => Binary::Add,
        OpKind::Subtract => Binary::Sub,
        OpKind::Multiply => Binary::Mul,
        OpKind::Divide => Binary::Div,
        OpKind::Remainder => Binary::Rem,
        OpKind::Minimum => Binary::Min,
        OpKind::Maximum => Binary::Max,
        OpKind::Power => Binary::Pow,
        OpKind::Atan2 => Binary::Atan2,
        OpKind::And => Binary::And,
        OpKind::Or => Binary::Or,
        OpKind::Xor => Binary::Xor,
        OpKind::ShiftLeft => Binary::Shl,
        OpKind::ShiftRightLogical => Binary::ShrL,
        OpKind::ShiftRightArithmetic => Binary::ShrA,
        _ => return None,
    })
}

struct Emitter<'p> {
    /// Type of the result.
    dtype: DType,
    push: &'p mut dyn FnMut(Inst) -> Reg,
}

impl Emitter<'_> {
    fn put(&mut self, inst: Inst) -> Reg {
        (self.push)(inst)
    }

    /// What was computed in a wider lane, as the type can hold it.
    fn rounded(&mut self, reg: Reg) -> Reg {
        match self.dtype {
            DType::F32 | DType::F64 | DType::I32 | DType::U32 | DType::I64 | DType::U64 | DType::Bool => reg,
            narrow => self.put(Inst::Round(narrow, reg)),
        }
    }

    /// What an op gives that leaves the values of most types among themselves. Types without negative zero have one NaN
    /// without a sign, and one type has neither sign nor zero: only there is it rounded.
    fn closed(&mut self, reg: Reg) -> Reg {
        match self.dtype {
            DType::F8E4M3B11FNUZ | DType::F8E4M3FNUZ | DType::F8E5M2FNUZ | DType::F8E8M0FNU => self.rounded(reg),
            _ => reg,
        }
    }

    fn integer(&mut self, lane: Lane, value: i64) -> Reg {
        let bits = if lane == Lane::I64 { value as u64 } else { u64::from(value as u32) };
        self.put(Inst::Const { lane, bits })
    }

    fn real(&mut self, lane: Lane, value: f64) -> Reg {
        let bits = if lane == Lane::F64 { value.to_bits() } else { u64::from((value as f32).to_bits()) };
        self.put(Inst::Const { lane, bits })
    }

    /// An integer in the order of IEEE 754 `totalOrder`: negative numbers have their magnitude bits flipped.
    fn total_order(&mut self, lane: Lane, value: Reg) -> Reg {
        let (lane, width) = if lane == Lane::F64 { (Lane::I64, 64) } else { (Lane::I32, 32) };
        let bits = self.put(Inst::Bitcast(value));
        let (last, one) = (self.integer(lane, width - 1), self.integer(lane, 1));
        let sign = self.put(Inst::Binary(Binary::ShrA, bits, last));
        let flip = self.put(Inst::Binary(Binary::ShrL, sign, one));
        self.put(Inst::Binary(Binary::Xor, bits, flip))
    }

    fn compare(&mut self, direction: Keyword, source: DType, a: Reg, b: Reg) -> Option<Reg> {
        let unsigned = source.is_unsigned_integer();
        let op = match direction {
            Keyword::Eq => Compare::Eq,
            Keyword::Ne => Compare::Ne,
            Keyword::Lt if unsigned => Compare::LtU,
            Keyword::Le if unsigned => Compare::LeU,
            Keyword::Gt if unsigned => Compare::GtU,
            Keyword::Ge if unsigned => Compare::GeU,
            Keyword::Lt => Compare::Lt,
            Keyword::Le => Compare::Le,
            Keyword::Gt => Compare::Gt,
            Keyword::Ge => Compare::Ge,
            _ => return None,
        };
        Some(self.put(Inst::Compare(op, a, b)))
    }

    fn compare_masks(&mut self, direction: Keyword, a: Reg, b: Reg) -> Option<Reg> {
        let mut not = |reg: Reg| self.put(Inst::Unary(Unary::Not, reg));
        Some(match direction {
            Keyword::Ne => self.put(Inst::Binary(Binary::Xor, a, b)),
            Keyword::Eq => {
                let differ = self.put(Inst::Binary(Binary::Xor, a, b));
                self.put(Inst::Unary(Unary::Not, differ))
            }
            Keyword::Lt => {
                let a = not(a);
                self.put(Inst::Binary(Binary::And, a, b))
            }
            Keyword::Gt => {
                let b = not(b);
                self.put(Inst::Binary(Binary::And, a, b))
            }
            Keyword::Le => {
                let a = not(a);
                self.put(Inst::Binary(Binary::Or, a, b))
            }
            Keyword::Ge => {
                let b = not(b);
                self.put(Inst::Binary(Binary::Or, a, b))
            }
            _ => return None,
        })
    }

    fn bitcast(&mut self, source: DType, value: Reg) -> Option<Reg> {
        let target = self.dtype;
        if source.bits() != target.bits() {
            return None;
        }
        let sixteen = |to: &mut Self| to.integer(Lane::I32, 16);
        Some(match (source, target) {
            _ if source == target => value,
            (DType::BF16, _) if target.is_integer() => {
                let (bits, by) = (self.put(Inst::Bitcast(value)), sixteen(self));
                let shift = if target.is_signed_integer() { Binary::ShrA } else { Binary::ShrL };
                self.put(Inst::Binary(shift, bits, by))
            }
            (_, DType::BF16) if source.is_integer() => {
                let by = sixteen(self);
                let bits = self.put(Inst::Binary(Binary::Shl, value, by));
                self.put(Inst::Bitcast(bits))
            }
            _ if source.is_integer() && target.is_integer() => self.rounded(value),
            (DType::F32 | DType::F64, _) if target.is_integer() => self.put(Inst::Bitcast(value)),
            (_, DType::F32 | DType::F64) if source.is_integer() => self.put(Inst::Bitcast(value)),
            _ => return None,
        })
    }

    fn unary(&mut self, kind: OpKind, source: DType, lane: Lane, a: Reg) -> Option<Reg> {
        match lane {
            Lane::Mask => match kind {
                OpKind::Not => Some(self.put(Inst::Unary(Unary::Not, a))),
                _ => None,
            },
            Lane::I32 | Lane::I64 => self.integer_unary(kind, source, lane, a),
            Lane::F32 | Lane::F64 => self.real_unary(kind, lane, a),
        }
    }

    fn integer_unary(&mut self, kind: OpKind, source: DType, lane: Lane, a: Reg) -> Option<Reg> {
        let unsigned = source.is_unsigned_integer();
        // Bits beyond the type, which sign extension fills, are not counted.
        let own_bits = |to: &mut Self| match source {
            DType::I2 => to.put(Inst::Round(DType::U2, a)),
            DType::I4 => to.put(Inst::Round(DType::U4, a)),
            DType::I8 => to.put(Inst::Round(DType::U8, a)),
            DType::I16 => to.put(Inst::Round(DType::U16, a)),
            _ => a,
        };
        let result = match kind {
            OpKind::Abs if unsigned => a,
            OpKind::Abs => self.put(Inst::Unary(Unary::Abs, a)),
            OpKind::Negate => self.put(Inst::Unary(Unary::Neg, a)),
            OpKind::Not => self.put(Inst::Unary(Unary::Not, a)),
            OpKind::Sign if unsigned => {
                let one = self.integer(lane, 1);
                self.put(Inst::Binary(Binary::MinU, a, one))
            }
            OpKind::Sign => self.put(Inst::Unary(Unary::Sign, a)),
            OpKind::Popcnt => {
                let bits = own_bits(self);
                self.put(Inst::Unary(Unary::PopCount, bits))
            }
            OpKind::CountLeadingZeros => {
                let bits = own_bits(self);
                let count = self.put(Inst::Unary(Unary::LeadingZeros, bits));
                let width = if lane == Lane::I64 { 64 } else { 32 };
                match width - i64::from(source.bits()) {
                    0 => count,
                    extra => {
                        let extra = self.integer(lane, extra);
                        self.put(Inst::Binary(Binary::Sub, count, extra))
                    }
                }
            }
            OpKind::ChloSquare => self.put(Inst::Binary(Binary::Mul, a, a)),
            OpKind::Real => a,
            _ => return None,
        };
        Some(self.rounded(result))
    }

    fn real_unary(&mut self, kind: OpKind, lane: Lane, a: Reg) -> Option<Reg> {
        let op = match kind {
            OpKind::Abs => Unary::Abs,
            OpKind::Negate => Unary::Neg,
            OpKind::Sign => Unary::Sign,
            OpKind::Floor => Unary::Floor,
            OpKind::Ceil => Unary::Ceil,
            OpKind::RoundNearestEven => Unary::RoundEven,
            OpKind::RoundNearestAfz => Unary::RoundAway,
            OpKind::Sqrt => Unary::Sqrt,
            OpKind::Rsqrt => Unary::Rsqrt,
            OpKind::Cbrt => Unary::Cbrt,
            OpKind::Exponential => Unary::Exp,
            OpKind::ExponentialMinusOne => Unary::ExpMinusOne,
            OpKind::Log => Unary::Log,
            OpKind::LogPlusOne => Unary::LogPlusOne,
            OpKind::Tanh => Unary::Tanh,
            OpKind::Logistic => Unary::Logistic,
            OpKind::Sine => Unary::Sin,
            OpKind::Cosine => Unary::Cos,
            OpKind::Tan | OpKind::ChloTan => Unary::Tan,
            OpKind::ChloErf => Unary::Erf,
            OpKind::IsFinite => return Some(self.put(Inst::Unary(Unary::IsFinite, a))),
            OpKind::Real => return Some(a),
            OpKind::ChloSquare => {
                let square = self.put(Inst::Binary(Binary::Mul, a, a));
                return Some(self.rounded(square));
            }
            OpKind::ChloIsInf | OpKind::ChloIsPosInf | OpKind::ChloIsNegInf => {
                let value = if kind == OpKind::ChloIsInf { self.put(Inst::Unary(Unary::Abs, a)) } else { a };
                let limit = if kind == OpKind::ChloIsNegInf { f64::NEG_INFINITY } else { f64::INFINITY };
                let limit = self.real(lane, limit);
                return Some(self.put(Inst::Compare(Compare::Eq, value, limit)));
            }
            _ => return None,
        };
        let result = self.put(Inst::Unary(op, a));
        Some(match op {
            Unary::Abs | Unary::Neg | Unary::Sign | Unary::Floor | Unary::Ceil => self.closed(result),
            Unary::RoundEven | Unary::RoundAway => self.closed(result),
            _ => self.rounded(result),
        })
    }

    fn binary(&mut self, op: Binary, a: Reg, b: Reg) -> Option<Reg> {
        let dtype = self.dtype;
        if dtype.is_bool() {
            let op = match op {
                Binary::Add | Binary::Or | Binary::Max => Binary::Or,
                Binary::Mul | Binary::And | Binary::Min => Binary::And,
                Binary::Xor => Binary::Xor,
                _ => return None,
            };
            return Some(self.put(Inst::Binary(op, a, b)));
        }
        if dtype.is_float() {
            return match op {
                Binary::Min | Binary::Max => {
                    let result = self.put(Inst::Binary(op, a, b));
                    Some(self.closed(result))
                }
                Binary::And | Binary::Or | Binary::Xor | Binary::Shl | Binary::ShrL | Binary::ShrA => None,
                _ => {
                    let result = self.put(Inst::Binary(op, a, b));
                    Some(self.rounded(result))
                }
            };
        }
        let op = match op {
            Binary::Pow | Binary::Atan2 => return None,
            Binary::Div if dtype.is_unsigned_integer() => Binary::DivU,
            Binary::Rem if dtype.is_unsigned_integer() => Binary::RemU,
            Binary::Min if dtype.is_unsigned_integer() => Binary::MinU,
            Binary::Max if dtype.is_unsigned_integer() => Binary::MaxU,
            other => other,
        };
        // Right shifts bring in the bits above the type: zeros for a logical one, the sign for an arithmetic one.
        let extended = |signed: DType, unsigned: DType| match op {
            Binary::ShrL if dtype == signed => Some(unsigned),
            Binary::ShrA if dtype == unsigned => Some(signed),
            _ => None,
        };
        let view = match dtype.bits() {
            2 => extended(DType::I2, DType::U2),
            4 => extended(DType::I4, DType::U4),
            8 => extended(DType::I8, DType::U8),
            16 => extended(DType::I16, DType::U16),
            _ => None,
        };
        let a = match view {
            Some(view) => self.put(Inst::Round(view, a)),
            None => a,
        };
        let result = self.put(Inst::Binary(op, a, b));
        Some(match op {
            Binary::Min | Binary::Max | Binary::MinU | Binary::MaxU | Binary::RemU => result,
            Binary::And | Binary::Or | Binary::Xor => result,
            _ => self.rounded(result),
        })
    }
}
