//! `check.expect_almost_eq_const`: expects a tensor to almost equal a constant.

use crate::ops::def::{Arity, AttrDef, AttrKind, OpDef, Piece, Presence, Text, no_constraints};

pub(crate) const DEF: OpDef = OpDef {
    name: "check.expect_almost_eq_const",
    operands: Arity::exactly(1),
    results: Arity::exactly(0),
    regions: Arity::exactly(0),
    attrs: &[
        AttrDef { name: "value", kind: AttrKind::Dense, presence: Presence::Required },
        AttrDef { name: "tolerance", kind: AttrKind::Any, presence: Presence::Optional },
    ],
    text: Text::Pieces(&[
        Piece::Operand(0),
        Piece::Word(","),
        Piece::Attr("value"),
        Piece::IfAttr(
            "tolerance",
            &[Piece::Word(","), Piece::Word("tolerance"), Piece::Word("="), Piece::Attr("tolerance")],
        ),
        Piece::AttrDict,
    ]),
    vhlo: &[],
    infer: None,
    check: no_constraints,
};
