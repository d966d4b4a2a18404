//! `chlo.broadcast_or`: logical or bitwise disjunction with implicit broadcasting.

use crate::ops::def::{Arity, AttrDef, AttrKind, Infer, OpClass, OpDef, Piece, Presence, Text};
use crate::ops::rules::broadcast;
use crate::ops::rules::elements::Elements;

pub(crate) const DEF: OpDef = OpDef {
    name: "chlo.broadcast_or",
    class: OpClass::Broadcasting,
    operands: Arity::exactly(2),
    results: Arity::exactly(1),
    regions: Arity::exactly(0),
    attrs: &[AttrDef { name: "broadcast_dimensions", kind: AttrKind::I64s, presence: Presence::Optional }],
    text: Text::Pieces(&[
        Piece::Operand(0),
        Piece::Word(","),
        Piece::Operand(1),
        Piece::AttrDict,
        Piece::Word(":"),
        Piece::FunctionType,
    ]),
    vhlo: &[],
    infer: Some(Infer::by("chlo.broadcast_or", |op| broadcast::infer(op, None))),
    check: |op| broadcast::check(op, Elements::BOOL_INTEGER),
};
