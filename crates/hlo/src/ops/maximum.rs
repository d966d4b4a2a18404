//! `stablehlo.maximum`: element-wise maximum.

use crate::ops::def::{Arity, Infer, OpClass, OpDef, Piece, Text, VhloForm};
use crate::ops::rules::elements::Elements;
use crate::ops::rules::elementwise;

pub(crate) const DEF: OpDef = OpDef {
    name: "stablehlo.maximum",
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
    vhlo: &[VhloForm { name: "maximum_v1", attrs: &[] }],
    infer: Some(Infer::by("maximum C1", |op| elementwise::infer(op, "maximum C1"))),
    check: |op| elementwise::binary(op, Elements::TENSOR, ["maximum I1", "maximum I2"]),
};
