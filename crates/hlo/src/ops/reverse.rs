//! `stablehlo.reverse`: reverses dimensions.

use crate::ops::def::{Arity, AttrDef, AttrKind, OpDef, Piece, Presence, Text, VhloForm, no_constraints};

pub(crate) const DEF: OpDef = OpDef {
    name: "stablehlo.reverse",
    operands: Arity::exactly(1),
    results: Arity::exactly(1),
    regions: Arity::exactly(0),
    attrs: &[AttrDef { name: "dimensions", kind: AttrKind::I64s, presence: Presence::Required }],
    text: Text::Pieces(&[
        Piece::Operand(0),
        Piece::Word(","),
        Piece::Word("dims"),
        Piece::Word("="),
        Piece::Attr("dimensions"),
        Piece::AttrDict,
        Piece::Word(":"),
        Piece::SameType,
    ]),
    vhlo: &[VhloForm { name: "reverse_v1", attrs: &["dimensions"] }],
    infer: None,
    check: no_constraints,
};
