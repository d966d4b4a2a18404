//! `chlo.next_after`: next representable number towards another.

use crate::ops::def::{Arity, OpDef, Piece, Text, no_constraints};

pub(crate) const DEF: OpDef = OpDef {
    name: "chlo.next_after",
    operands: Arity::exactly(2),
    results: Arity::exactly(1),
    regions: Arity::exactly(0),
    attrs: &[],
    text: Text::Pieces(&[
        Piece::Operand(0),
        Piece::Word(","),
        Piece::Operand(1),
        Piece::AttrDict,
        Piece::Word(":"),
        Piece::ArrowTypes,
    ]),
    vhlo: &[],
    infer: None,
    check: no_constraints,
};
