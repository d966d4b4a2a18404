//! `stablehlo.real`: real part.

use crate::ops::def::{Arity, Infer, OpClass, OpDef, Piece, Text, VhloForm};
use crate::ops::rules::elements::Elements;
use crate::ops::rules::elementwise;

pub(crate) const DEF: OpDef = OpDef {
    name: "stablehlo.real",
    class: OpClass::Arithmetic,
    operands: Arity::exactly(1),
    results: Arity::exactly(1),
    regions: Arity::exactly(0),
    attrs: &[],
    text: Text::Pieces(&[Piece::Operand(0), Piece::AttrDict, Piece::Word(":"), Piece::SameType]),
    vhlo: &[VhloForm { name: "real_v1", attrs: &[] }],
    infer: Some(Infer::by("real C2", elementwise::infer_real_part)),
    check: |op| elementwise::unary(op, Elements::FLOAT_COMPLEX, "real I1"),
};
