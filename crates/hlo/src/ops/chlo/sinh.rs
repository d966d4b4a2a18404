//! `chlo.sinh`: hyperbolic sine.

use crate::ops::def::{Arity, Infer, OpClass, OpDef, Piece, Text};
use crate::ops::rules::elements::Elements;
use crate::ops::rules::elementwise;

pub(crate) const DEF: OpDef = OpDef {
    name: "chlo.sinh",
    class: OpClass::Transcendental,
    operands: Arity::exactly(1),
    results: Arity::exactly(1),
    regions: Arity::exactly(0),
    attrs: &[],
    text: Text::Pieces(&[Piece::Operand(0), Piece::AttrDict, Piece::Word(":"), Piece::ArrowTypes]),
    vhlo: &[],
    infer: Some(Infer::by("chlo.sinh", |op| elementwise::infer(op, "chlo.sinh"))),
    check: |op| elementwise::unary(op, Elements::FLOAT_COMPLEX, "chlo.sinh"),
};
