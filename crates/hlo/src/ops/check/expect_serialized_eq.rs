//! `check.expect_serialized_eq`: expects a tensor to equal a stored one.

use tensor::DType;

use crate::ops::def::{Arity, AttrDef, AttrKind, OpClass, OpDef, Piece, Presence, Text, no_constraints};

pub(crate) const DEF: OpDef = OpDef {
    name: "check.expect_serialized_eq",
    class: OpClass::Testing,
    operands: Arity::exactly(1),
    results: Arity::exactly(0),
    regions: Arity::exactly(0),
    attrs: &[
        AttrDef { name: "probe_id", kind: AttrKind::Str, presence: Presence::Required },
        AttrDef { name: "iteration", kind: AttrKind::Number(DType::U32), presence: Presence::Optional },
    ],
    text: Text::Pieces(&[
        Piece::Operand(0),
        Piece::Word(","),
        Piece::Word("probe_id"),
        Piece::Word("="),
        Piece::Attr("probe_id"),
        Piece::IfAttr(
            "iteration",
            &[Piece::Word(","), Piece::Word("iter"), Piece::Word("="), Piece::Attr("iteration")],
        ),
        Piece::AttrDict,
        Piece::Word(":"),
        Piece::FirstOperandType,
    ]),
    vhlo: &[],
    infer: None,
    check: no_constraints,
};
