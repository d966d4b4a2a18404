//! `chlo.is_pos_inf`: whether values are positive infinity.

use tensor::DType;

use crate::ops::def::{Arity, Infer, OpClass, OpDef, Piece, Text};
use crate::ops::rules::elements::Elements;
use crate::ops::rules::elementwise;

pub(crate) const DEF: OpDef = OpDef {
    name: "chlo.is_pos_inf",
    class: OpClass::Arithmetic,
    operands: Arity::exactly(1),
    results: Arity::exactly(1),
    regions: Arity::exactly(0),
    attrs: &[],
    text: Text::Pieces(&[Piece::Operand(0), Piece::AttrDict, Piece::Word(":"), Piece::ArrowTypes]),
    vhlo: &[],
    infer: Some(Infer::by("chlo.is_pos_inf", |op| elementwise::infer_element(op, DType::Bool))),
    check: |op| elementwise::unary(op, Elements::FLOAT, "chlo.is_pos_inf"),
};
