//! `chlo.next_after`: next representable number towards another.

use crate::ops::def::{Arity, Infer, OpClass, OpDef, Piece, Text};
use crate::ops::rules::elements::Elements;
use crate::ops::rules::elementwise;

pub(crate) const DEF: OpDef = OpDef {
    name: "chlo.next_after",
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
        Piece::ArrowTypes,
    ]),
    vhlo: &[],
    infer: Some(Infer::by("chlo.next_after", |op| elementwise::infer(op, "chlo.next_after"))),
    check: |op| elementwise::binary(op, Elements::FLOAT, ["chlo.next_after"; 2]),
};
