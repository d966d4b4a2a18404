//! Elementwise ops as instructions of the loop language.

use std::collections::HashMap;

use hlo::{Func, Op, OpKind};
use tensor::DType;

use super::region;
use crate::kernels::loops::ir::{Binary, Inst, Lane, Reg, Unary};

/// A straight line of instructions in which equal ones are one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lanes {
    pub(crate) insts: Vec<Inst>,
    known: HashMap<Inst, Reg>,
}

impl Lanes {
    pub(crate) fn push(&mut self, inst: Inst) -> Reg {
        if let Some(&reg) = self.known.get(&inst) {
            return reg;
        }
        let reg = Reg(self.insts.len() as u32);
        self.insts.push(inst);
        self.known.insert(inst, reg);
        reg
    }

    /// A constant given by the bytes of one element.
    pub(crate) fn constant(&mut self, dtype: DType, bytes: &[u8]) -> Option<Reg> {
        Some(self.push(region::constant(dtype, bytes)?))
    }

    pub(crate) fn binary(&mut self, op: Binary, a: Reg, b: Reg) -> Reg {
        self.push(Inst::Binary(op, a, b))
    }

    /// The value an operation of this type gives: rounded or wrapped where the lane is wider.
    pub(crate) fn rounded(&mut self, dtype: DType, value: Reg) -> Reg {
        let fills =
            matches!(dtype, DType::F32 | DType::F64 | DType::I32 | DType::U32 | DType::I64 | DType::U64 | DType::Bool);
        if fills { value } else { self.push(Inst::Round(dtype, value)) }
    }

    /// An op of the language on registers that hold its operands; `None` where a loop cannot do it.
    pub(crate) fn op(&mut self, func: &Func, op: &Op, operands: &[Reg]) -> Option<Reg> {
        if op.kind()? != OpKind::ChloErf {
            return region::emit(func, op, operands, &mut |inst| self.push(inst));
        }
        let dtype = region::dtype(func, op.first_result).filter(|dtype| dtype.is_float())?;
        let value = self.push(Inst::Unary(Unary::Erf, *operands.first()?));
        Some(self.rounded(dtype, value))
    }
}

/// Whether a loop can do an op.
pub(crate) fn is_supported(func: &Func, op: &Op) -> bool {
    if op.kind() == Some(OpKind::Iota) {
        let dtype = func.ty(op.first_result).as_tensor().and_then(|ty| ty.element.plain());
        return dtype.is_some_and(|dtype| Lane::of(dtype).is_some() && !dtype.is_bool());
    }
    let registers: Vec<Reg> = (0..op.operands.len() as u32).map(Reg).collect();
    !op.operands.is_empty() && op.regions.is_empty() && Lanes::default().op(func, op, &registers).is_some()
}
