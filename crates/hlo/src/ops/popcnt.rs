//! `stablehlo.popcnt`: number of set bits.

use crate::ops::def::{Arity, Infer, OpClass, OpDef, Piece, Text, VhloForm};
use crate::ops::rules::elements::Elements;
use crate::ops::rules::elementwise;

pub(crate) const DEF: OpDef = OpDef {
    name: "stablehlo.popcnt",
    class: OpClass::Arithmetic,
    operands: Arity::exactly(1),
    results: Arity::exactly(1),
    regions: Arity::exactly(0),
    attrs: &[],
    text: Text::Pieces(&[Piece::Operand(0), Piece::AttrDict, Piece::Word(":"), Piece::SameType]),
    vhlo: &[VhloForm { name: "popcnt_v1", attrs: &[] }],
    infer: Some(Infer::by("popcnt C1", |op| elementwise::infer(op, "popcnt C1"))),
    check: |op| elementwise::unary(op, Elements::INTEGER, "popcnt I1"),
};
