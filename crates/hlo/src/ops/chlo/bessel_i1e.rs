//! `chlo.bessel_i1e`: exponentially scaled modified Bessel function of order one.

use crate::ops::def::{Arity, Infer, OpClass, OpDef, Piece, Text};
use crate::ops::rules::elements::Elements;
use crate::ops::rules::elementwise;

pub(crate) const DEF: OpDef = OpDef {
    name: "chlo.bessel_i1e",
    class: OpClass::Transcendental,
    operands: Arity::exactly(1),
    results: Arity::exactly(1),
    regions: Arity::exactly(0),
    attrs: &[],
    text: Text::Pieces(&[Piece::Operand(0), Piece::AttrDict, Piece::Word(":"), Piece::ArrowTypes]),
    vhlo: &[],
    infer: Some(Infer::by("chlo.bessel_i1e", |op| elementwise::infer(op, "chlo.bessel_i1e"))),
    check: |op| elementwise::unary(op, Elements::FLOAT_COMPLEX, "chlo.bessel_i1e"),
};
