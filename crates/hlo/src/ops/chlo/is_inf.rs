//! `chlo.is_inf`: whether values are infinite.

use crate::ops::def::{Arity, OpDef, Piece, Text, no_constraints};

pub(crate) const DEF: OpDef = OpDef {
    name: "chlo.is_inf",
    operands: Arity::exactly(1),
    results: Arity::exactly(1),
    regions: Arity::exactly(0),
    attrs: &[],
    text: Text::Pieces(&[Piece::Operand(0), Piece::AttrDict, Piece::Word(":"), Piece::ArrowTypes]),
    vhlo: &[],
    infer: None,
    check: no_constraints,
};
