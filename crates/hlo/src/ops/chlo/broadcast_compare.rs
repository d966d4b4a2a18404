//! `chlo.broadcast_compare`: comparison with implicit broadcasting.

use crate::attr::{Attr, Keyword, KeywordSet};
use crate::ops::def::{Arity, AttrDef, AttrKind, OpDef, Piece, Presence, Text, no_constraints};

pub(crate) const DEF: OpDef = OpDef {
    name: "chlo.broadcast_compare",
    operands: Arity::exactly(2),
    results: Arity::exactly(1),
    regions: Arity::exactly(0),
    attrs: &[
        AttrDef { name: "broadcast_dimensions", kind: AttrKind::I64s, presence: Presence::Optional },
        AttrDef {
            name: "comparison_direction",
            kind: AttrKind::Keyword(KeywordSet::ComparisonDirection),
            presence: Presence::Required,
        },
        AttrDef {
            name: "compare_type",
            kind: AttrKind::Keyword(KeywordSet::ComparisonType),
            presence: Presence::Default(|| Attr::Keyword(Keyword::CompareNoType)),
        },
    ],
    text: Text::Pieces(&[
        Piece::Operand(0),
        Piece::Word(","),
        Piece::Operand(1),
        Piece::AttrDict,
        Piece::Word(":"),
        Piece::FunctionType,
    ]),
    vhlo: &[],
    infer: None,
    check: no_constraints,
};
