//! `chlo.polygamma`: polygamma function.

use crate::ops::def::{Arity, Infer, OpClass, OpDef, Piece, Text};
use crate::ops::rules::elements::Elements;
use crate::ops::rules::elementwise;

pub(crate) const DEF: OpDef = OpDef {
    name: "chlo.polygamma",
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
    infer: Some(Infer::by("chlo.polygamma", |op| elementwise::infer(op, "chlo.polygamma"))),
    check: |op| elementwise::binary(op, Elements::FLOAT, ["chlo.polygamma"; 2]),
};
