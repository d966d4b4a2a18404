//! `stablehlo.compare`: element-wise comparison.

use crate::attr::{Attr, Keyword, KeywordSet};
use crate::ops::def::{Arity, AttrDef, AttrKind, OpDef, Piece, Presence, Text, VhloForm, no_constraints};

pub(crate) const DEF: OpDef = OpDef {
    name: "stablehlo.compare",
    operands: Arity::exactly(2),
    results: Arity::exactly(1),
    regions: Arity::exactly(0),
    attrs: &[
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
        Piece::Attr("comparison_direction"),
        Piece::Word(","),
        Piece::Operand(0),
        Piece::Word(","),
        Piece::Operand(1),
        Piece::IfAttr("compare_type", &[Piece::Word(","), Piece::Attr("compare_type")]),
        Piece::AttrDict,
        Piece::Word(":"),
        Piece::FunctionType,
    ]),
    vhlo: &[VhloForm { name: "compare_v1", attrs: &["compare_type", "comparison_direction"] }],
    infer: None,
    check: no_constraints,
};
