//! `stablehlo.subtract`: element-wise difference.

use crate::ops::def::{Arity, Infer, OpClass, OpDef, Piece, Text, VhloForm};
use crate::ops::rules::elements::Elements;
use crate::ops::rules::elementwise;

pub(crate) const DEF: OpDef = OpDef {
    name: "stablehlo.subtract",
    class: OpClass::Arithmetic,
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
    vhlo: &[VhloForm { name: "subtract_v1", attrs: &[] }],
    infer: Some(Infer::by("subtract C1", |op| elementwise::infer(op, "subtract C1"))),
    check: |op| elementwise::binary(op, Elements::NUMBER, ["subtract I1", "subtract I2"]),
};
