//! `stablehlo.broadcast`: adds leading dimensions (deprecated).

use crate::ops::def::{Arity, AttrDef, AttrKind, OpDef, Piece, Presence, Text, VhloForm, no_constraints};

pub(crate) const DEF: OpDef = OpDef {
    name: "stablehlo.broadcast",
    operands: Arity::exactly(1),
    results: Arity::exactly(1),
    regions: Arity::exactly(0),
    attrs: &[AttrDef { name: "broadcast_sizes", kind: AttrKind::I64s, presence: Presence::Required }],
    text: Text::Pieces(&[
        Piece::Operand(0),
        Piece::Word(","),
        Piece::Word("sizes"),
        Piece::Word("="),
        Piece::Attr("broadcast_sizes"),
        Piece::AttrDict,
        Piece::Word(":"),
        Piece::FunctionType,
    ]),
    vhlo: &[VhloForm { name: "broadcast_v1", attrs: &["broadcast_sizes"] }],
    infer: None,
    check: no_constraints,
};
