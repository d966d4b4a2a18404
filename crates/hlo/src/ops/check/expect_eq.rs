//! `check.expect_eq`: expects two tensors to be equal.

use crate::ops::def::{Arity, OpClass, OpDef, Piece, Text};
use crate::ops::rules::shapes;

pub(crate) const DEF: OpDef = OpDef {
    name: "check.expect_eq",
    class: OpClass::Testing,
    operands: Arity::exactly(2),
    results: Arity::exactly(0),
    regions: Arity::exactly(0),
    attrs: &[],
    text: Text::Pieces(&[
        Piece::Operand(0),
        Piece::Word(","),
        Piece::Operand(1),
        Piece::AttrDict,
        Piece::Word(":"),
        Piece::FirstOperandType,
    ]),
    vhlo: &[],
    infer: None,
    check: |op| {
        shapes::same_types("check.expect_eq", ("lhs", op.operands[..1].iter()), ("rhs", op.operands[1..].iter()))
    },
};
