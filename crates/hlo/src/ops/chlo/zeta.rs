//! `chlo.zeta`: Hurwitz zeta function.

use crate::ops::def::{Arity, Infer, OpClass, OpDef, Piece, Text};
use crate::ops::rules::elements::Elements;
use crate::ops::rules::elementwise;

pub(crate) const DEF: OpDef = OpDef {
    name: "chlo.zeta",
    class: OpClass::Transcendental,
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
        Piece::ArrowTypes,
    ]),
    vhlo: &[],
    infer: Some(Infer::by("chlo.zeta", |op| elementwise::infer(op, "chlo.zeta"))),
    check: |op| elementwise::binary(op, Elements::FLOAT, ["chlo.zeta"; 2]),
};
