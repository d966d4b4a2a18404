//! `stablehlo.round_nearest_afz`: rounds to nearest, ties away from zero.

use crate::ops::def::{Arity, Infer, OpClass, OpDef, Piece, Text, VhloForm};
use crate::ops::rules::elements::Elements;
use crate::ops::rules::elementwise;

pub(crate) const DEF: OpDef = OpDef {
    name: "stablehlo.round_nearest_afz",
    class: OpClass::Arithmetic,
    operands: Arity::exactly(1),
    results: Arity::exactly(1),
    regions: Arity::exactly(0),
    attrs: &[],
    text: Text::Pieces(&[Piece::Operand(0), Piece::AttrDict, Piece::Word(":"), Piece::SameType]),
    vhlo: &[VhloForm { name: "round_nearest_afz_v1", attrs: &[] }],
    infer: Some(Infer::by("round_nearest_afz C1", |op| elementwise::infer(op, "round_nearest_afz C1"))),
    check: |op| elementwise::unary(op, Elements::FLOAT_QUANTIZED, "round_nearest_afz I1"),
};
