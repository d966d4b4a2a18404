//! `stablehlo.or`: logical or bitwise disjunction.

use crate::ops::def::{Arity, Infer, OpClass, OpDef, Piece, Text, VhloForm};
use crate::ops::rules::elements::Elements;
use crate::ops::rules::elementwise;

pub(crate) const DEF: OpDef = OpDef {
    name: "stablehlo.or",
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
    vhlo: &[VhloForm { name: "or_v1", attrs: &[] }],
    infer: Some(Infer::by("or C1", |op| elementwise::infer(op, "or C1"))),
    check: |op| elementwise::binary(op, Elements::BOOL_INTEGER, ["or I1", "or I2"]),
};
