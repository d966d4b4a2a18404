//! `stablehlo.remainder`: remainder of truncating division.

use crate::ops::def::{Arity, Infer, OpClass, OpDef, Piece, Text, VhloForm};
use crate::ops::rules::elements::Elements;
use crate::ops::rules::elementwise;

pub(crate) const DEF: OpDef = OpDef {
    name: "stablehlo.remainder",
    class: OpClass::Transcendental,
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
    vhlo: &[VhloForm { name: "remainder_v1", attrs: &[] }],
    infer: Some(Infer::by("remainder C1", |op| elementwise::infer(op, "remainder C1"))),
    check: |op| elementwise::binary(op, Elements::NUMBER, ["remainder I1", "remainder I2"]),
};
