//! `stablehlo.negate`: negation.

use crate::ops::def::{Arity, Infer, OpClass, OpDef, Piece, Text, VhloForm};
use crate::ops::rules::elements::Elements;
use crate::ops::rules::elementwise;

pub(crate) const DEF: OpDef = OpDef {
    name: "stablehlo.negate",
    class: OpClass::Arithmetic,
    operands: Arity::exactly(1),
    results: Arity::exactly(1),
    regions: Arity::exactly(0),
    attrs: &[],
    text: Text::Pieces(&[Piece::Operand(0), Piece::AttrDict, Piece::Word(":"), Piece::SameType]),
    vhlo: &[VhloForm { name: "negate_v1", attrs: &[] }],
    infer: Some(Infer::by("negate C1", |op| elementwise::infer(op, "negate C1"))),
    check: |op| elementwise::unary(op, Elements::NUMBER, "negate I1"),
};
