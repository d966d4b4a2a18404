//! `chlo._asin_acos_kernel`: shared kernel of asin and acos.

use crate::ops::def::{Arity, Infer, OpClass, OpDef, Piece, Text};
use crate::ops::rules::elements::Elements;
use crate::ops::rules::elementwise;

pub(crate) const DEF: OpDef = OpDef {
    name: "chlo._asin_acos_kernel",
    class: OpClass::Transcendental,
    operands: Arity::exactly(1),
    results: Arity::exactly(1),
    regions: Arity::exactly(0),
    attrs: &[],
    text: Text::Pieces(&[Piece::Operand(0), Piece::AttrDict, Piece::Word(":"), Piece::ArrowTypes]),
    vhlo: &[],
    infer: Some(Infer::by("chlo._asin_acos_kernel", |op| elementwise::infer(op, "chlo._asin_acos_kernel"))),
    check: |op| elementwise::unary(op, Elements::COMPLEX, "chlo._asin_acos_kernel"),
};
