//! `stablehlo.popcnt`: number of set bits.

use crate::ops::def::{Arity, OpDef, Piece, Text, VhloForm, no_constraints};

pub(crate) const DEF: OpDef = OpDef {
    name: "stablehlo.popcnt",
    operands: Arity::exactly(1),
    results: Arity::exactly(1),
    regions: Arity::exactly(0),
    attrs: &[],
    text: Text::Pieces(&[Piece::Operand(0), Piece::AttrDict, Piece::Word(":"), Piece::SameType]),
    vhlo: &[VhloForm { name: "popcnt_v1", attrs: &[] }],
    infer: None,
    check: no_constraints,
};
