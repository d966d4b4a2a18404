//! `stablehlo.sign`: sign.

use crate::ops::def::{Arity, Infer, OpClass, OpDef, Piece, Text, VhloForm};
use crate::ops::rules::elements::Elements;
use crate::ops::rules::elementwise;

pub(crate) const DEF: OpDef = OpDef {
    name: "stablehlo.sign",
    class: OpClass::Arithmetic,
    operands: Arity::exactly(1),
    results: Arity::exactly(1),
    regions: Arity::exactly(0),
    attrs: &[],
    text: Text::Pieces(&[Piece::Operand(0), Piece::AttrDict, Piece::Word(":"), Piece::SameType]),
    vhlo: &[VhloForm { name: "sign_v1", attrs: &[] }],
    infer: Some(Infer::by("sign C1", |op| elementwise::infer(op, "sign C1"))),
    check: |op| elementwise::unary(op, Elements::SIGNED_FLOAT_COMPLEX_QUANTIZED, "sign I1"),
};
