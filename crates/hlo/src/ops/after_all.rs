//! `stablehlo.after_all`: joins tokens into one.

use crate::ops::def::{Arity, OpDef, Piece, Text, VhloForm, no_constraints};

pub(crate) const DEF: OpDef = OpDef {
    name: "stablehlo.after_all",
    operands: Arity::at_least(0),
    results: Arity::exactly(1),
    regions: Arity::exactly(0),
    attrs: &[],
    text: Text::Pieces(&[Piece::OperandsFrom(0), Piece::AttrDict, Piece::Word(":"), Piece::SameType]),
    vhlo: &[VhloForm { name: "after_all_v1", attrs: &[] }],
    infer: None,
    check: no_constraints,
};
