//! `stablehlo.select`: chooses between two values.

use crate::ops::def::{Arity, OpDef, Piece, Text, VhloForm, no_constraints};

pub(crate) const DEF: OpDef = OpDef {
    name: "stablehlo.select",
    operands: Arity::exactly(3),
    results: Arity::exactly(1),
    regions: Arity::exactly(0),
    attrs: &[],
    text: Text::Pieces(&[Piece::OperandsFrom(0), Piece::AttrDict, Piece::Word(":"), Piece::SelectTypes]),
    vhlo: &[VhloForm { name: "select_v1", attrs: &[] }],
    infer: None,
    check: no_constraints,
};
