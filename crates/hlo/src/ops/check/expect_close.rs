//! `check.expect_close`: expects two tensors to be within a distance in ULPs.

use tensor::DType;

use crate::ops::def::{Arity, AttrDef, AttrKind, OpClass, OpDef, Piece, Presence, Text};
use crate::ops::rules::shapes;

pub(crate) const DEF: OpDef = OpDef {
    name: "check.expect_close",
    class: OpClass::Testing,
    operands: Arity::exactly(2),
    results: Arity::exactly(0),
    regions: Arity::exactly(0),
    attrs: &[
        AttrDef { name: "min_ulp_difference", kind: AttrKind::Number(DType::U64), presence: Presence::Optional },
        AttrDef { name: "max_ulp_difference", kind: AttrKind::Number(DType::U64), presence: Presence::Optional },
    ],
    text: Text::Pieces(&[
        Piece::Operand(0),
        Piece::Word(","),
        Piece::Operand(1),
        Piece::Word(","),
        Piece::Word("max_ulp_difference"),
        Piece::Word("="),
        Piece::Attr("max_ulp_difference"),
        Piece::IfAttr(
            "min_ulp_difference",
            &[Piece::Word(","), Piece::Word("min_ulp_difference"), Piece::Word("="), Piece::Attr("min_ulp_difference")],
        ),
        Piece::Word(":"),
        Piece::AttrDict,
        Piece::OperandTypes,
    ]),
    vhlo: &[],
    infer: None,
    check: |op| {
        shapes::same_types("check.expect_close", ("lhs", op.operands[..1].iter()), ("rhs", op.operands[1..].iter()))
    },
};
