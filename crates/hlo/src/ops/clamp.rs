//! `stablehlo.clamp`: limits values to a range.

use crate::ops::def::{Arity, OpDef, Piece, Text, VhloForm, no_constraints};

pub(crate) const DEF: OpDef = OpDef {
    name: "stablehlo.clamp",
    operands: Arity::exactly(3),
    results: Arity::exactly(1),
    regions: Arity::exactly(0),
    attrs: &[],
    text: Text::Pieces(&[Piece::OperandsFrom(0), Piece::AttrDict, Piece::Word(":"), Piece::SameType]),
    vhlo: &[VhloForm { name: "clamp_v1", attrs: &[] }],
    infer: None,
    check: no_constraints,
};
