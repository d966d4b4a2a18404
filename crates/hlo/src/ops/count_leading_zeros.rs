//! `stablehlo.count_leading_zeros`: number of leading zero bits.

use crate::ops::def::{Arity, Infer, OpClass, OpDef, Piece, Text, VhloForm};
use crate::ops::rules::elements::Elements;
use crate::ops::rules::elementwise;

pub(crate) const DEF: OpDef = OpDef {
    name: "stablehlo.count_leading_zeros",
    class: OpClass::Arithmetic,
    operands: Arity::exactly(1),
    results: Arity::exactly(1),
    regions: Arity::exactly(0),
    attrs: &[],
    text: Text::Pieces(&[Piece::Operand(0), Piece::AttrDict, Piece::Word(":"), Piece::SameType]),
    vhlo: &[VhloForm { name: "count_leading_zeros_v1", attrs: &[] }],
    infer: Some(Infer::by("count_leading_zeros C1", |op| elementwise::infer(op, "count_leading_zeros C1"))),
    check: |op| elementwise::unary(op, Elements::INTEGER, "count_leading_zeros I1"),
};
