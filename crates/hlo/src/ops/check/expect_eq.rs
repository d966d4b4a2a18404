//! `check.expect_eq`: expects two tensors to be equal.

use crate::ops::def::{Arity, OpDef, Piece, Text, no_constraints};

pub(crate) const DEF: OpDef = OpDef {
    name: "check.expect_eq",
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
    check: no_constraints,
};
