//! `check.expect_almost_eq`: expects two tensors to be almost equal.

use tensor::DType;

use crate::ops::def::{Arity, AttrDef, AttrKind, OpClass, OpDef, Piece, Presence, Text};
use crate::ops::rules::shapes;

pub(crate) const DEF: OpDef = OpDef {
    name: "check.expect_almost_eq",
    class: OpClass::Testing,
    operands: Arity::exactly(2),
    results: Arity::exactly(0),
    regions: Arity::exactly(0),
    attrs: &[AttrDef { name: "tolerance", kind: AttrKind::Number(DType::F64), presence: Presence::Optional }],
    text: Text::Pieces(&[
        Piece::Operand(0),
        Piece::Word(","),
        Piece::Operand(1),
        Piece::IfAttr(
            "tolerance",
            &[Piece::Word(","), Piece::Word("tolerance"), Piece::Word("="), Piece::Attr("tolerance")],
        ),
        Piece::AttrDict,
        Piece::Word(":"),
        Piece::FirstOperandType,
    ]),
    vhlo: &[],
    infer: None,
    check: |op| {
        shapes::same_types("check.expect_almost_eq", ("lhs", op.operands[..1].iter()), ("rhs", op.operands[1..].iter()))
    },
};
