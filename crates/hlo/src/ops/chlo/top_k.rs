//! `chlo.top_k`: largest elements and their indices.

use crate::attr::Attr;
use crate::ops::def::{Arity, AttrDef, AttrKind, OpDef, Piece, Presence, Text, no_constraints};

pub(crate) const DEF: OpDef = OpDef {
    name: "chlo.top_k",
    operands: Arity::exactly(1),
    results: Arity::exactly(2),
    regions: Arity::exactly(0),
    attrs: &[
        AttrDef { name: "k", kind: AttrKind::I64, presence: Presence::Required },
        AttrDef { name: "is_stable", kind: AttrKind::Bool, presence: Presence::Default(|| Attr::Bool(true)) },
    ],
    text: Text::Pieces(&[
        Piece::Word("("),
        Piece::Operand(0),
        Piece::Word(","),
        Piece::Word("k"),
        Piece::Word("="),
        Piece::Attr("k"),
        Piece::IfAttr(
            "is_stable",
            &[Piece::Word(","), Piece::Word("is_stable"), Piece::Word("="), Piece::Attr("is_stable")],
        ),
        Piece::Word(")"),
        Piece::AttrDict,
        Piece::Word(":"),
        Piece::ArrowTypes,
    ]),
    vhlo: &[],
    infer: None,
    check: no_constraints,
};
