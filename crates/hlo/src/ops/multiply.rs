//! `stablehlo.multiply`: element-wise product.

use crate::ops::def::{Arity, Infer, OpClass, OpDef, Piece, Text, VhloForm};
use crate::ops::rules::elements::Elements;
use crate::ops::rules::elementwise;

pub(crate) const DEF: OpDef = OpDef {
    name: "stablehlo.multiply",
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
    vhlo: &[VhloForm { name: "multiply_v1", attrs: &[] }],
    infer: Some(Infer::by("multiply C1", |op| elementwise::infer(op, "multiply C1"))),
    check: |op| elementwise::binary(op, Elements::TENSOR, ["multiply I1", "multiply I2"]),
};
