//! `stablehlo.iota`: counts along a dimension.

use crate::ops::def::{Arity, AttrDef, AttrKind, OpDef, Piece, Presence, Text, VhloForm, no_constraints};

pub(crate) const DEF: OpDef = OpDef {
    name: "stablehlo.iota",
    operands: Arity::exactly(0),
    results: Arity::exactly(1),
    regions: Arity::exactly(0),
    attrs: &[AttrDef { name: "iota_dimension", kind: AttrKind::I64, presence: Presence::Required }],
    text: Text::Pieces(&[
        Piece::Word("dim"),
        Piece::Word("="),
        Piece::Attr("iota_dimension"),
        Piece::AttrDict,
        Piece::Word(":"),
        Piece::ResultTypes,
    ]),
    vhlo: &[VhloForm { name: "iota_v1", attrs: &["iota_dimension"] }],
    infer: None,
    check: no_constraints,
};
