//! `stablehlo.add`: element-wise sum.

use crate::ops::def::{Arity, OpDef, Piece, Text, VhloForm, no_constraints};

pub(crate) const DEF: OpDef = OpDef {
    name: "stablehlo.add",
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
        Piece::SameType,
    ]),
    vhlo: &[VhloForm { name: "add_v1", attrs: &[] }],
    infer: None,
    check: no_constraints,
};
