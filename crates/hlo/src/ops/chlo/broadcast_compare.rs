//! `chlo.broadcast_compare`: comparison with implicit broadcasting.

use tensor::DType;

use crate::ir::{Attr, Keyword, KeywordSet};
use crate::ops::def::{Arity, AttrDef, AttrKind, Infer, OpClass, OpDef, OpView, Piece, Presence, Text};
use crate::ops::rules::elements::Elements;
use crate::ops::rules::{Inferred, broadcast, shapes};

pub(crate) const DEF: OpDef = OpDef {
    name: "chlo.broadcast_compare",
    class: OpClass::Broadcasting,
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
    infer: Some(Infer::by("chlo.broadcast_compare", infer)),
    check: |op| broadcast::check(op, Elements::ANY),
};

fn infer(op: &OpView<'_>) -> Inferred {
    shapes::same_element("chlo.broadcast_compare", ("lhs", op.tensor(0)?), ("rhs", op.tensor(1)?))?;
    broadcast::infer(op, Some(DType::Bool.into()))
}
