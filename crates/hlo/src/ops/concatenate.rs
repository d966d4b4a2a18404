//! `stablehlo.concatenate`: joins tensors along a dimension.

use crate::ops::def::{Arity, AttrDef, AttrKind, OpDef, Piece, Presence, Text, VhloForm, no_constraints};

pub(crate) const DEF: OpDef = OpDef {
    name: "stablehlo.concatenate",
    operands: Arity::at_least(0),
    results: Arity::exactly(1),
    regions: Arity::exactly(0),
    attrs: &[AttrDef { name: "dimension", kind: AttrKind::I64, presence: Presence::Required }],
    text: Text::Pieces(&[
        Piece::OperandsThenComma(0),
        Piece::Word("dim"),
        Piece::Word("="),
        Piece::Attr("dimension"),
        Piece::AttrDict,
        Piece::Word(":"),
        Piece::FunctionType,
    ]),
    vhlo: &[VhloForm { name: "concatenate_v1", attrs: &["dimension"] }],
    infer: None,
    check: no_constraints,
};
