//! `interpreter.print`: prints a tensor.

use crate::ops::def::{Arity, OpClass, OpDef, Piece, Text, no_constraints};

pub(crate) const DEF: OpDef = OpDef {
    name: "interpreter.print",
    class: OpClass::Testing,
    operands: Arity::exactly(1),
    results: Arity::exactly(0),
    regions: Arity::exactly(0),
    attrs: &[],
    text: Text::Pieces(&[Piece::Operand(0), Piece::AttrDict, Piece::Word(":"), Piece::FirstOperandType]),
    vhlo: &[],
    infer: None,
    check: no_constraints,
};
