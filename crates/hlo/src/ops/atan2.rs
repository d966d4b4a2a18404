//! `stablehlo.atan2`: angle of the point (rhs, lhs).

use crate::ops::def::{Arity, Infer, OpClass, OpDef, Piece, Text, VhloForm};
use crate::ops::rules::elements::Elements;
use crate::ops::rules::elementwise;

pub(crate) const DEF: OpDef = OpDef {
    name: "stablehlo.atan2",
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
    vhlo: &[VhloForm { name: "atan2_v1", attrs: &[] }],
    infer: Some(Infer::by("atan2 C1", |op| elementwise::infer(op, "atan2 C1"))),
    check: |op| elementwise::binary(op, Elements::FLOAT_COMPLEX_QUANTIZED, ["atan2 I1", "atan2 I2"]),
};
