//! `sdy.return`: ends a Shardy region with its results.

use crate::ops::def::{Arity, OpClass, OpDef, Piece, Text, no_constraints};

pub(crate) const DEF: OpDef = OpDef {
    name: "sdy.return",
    class: OpClass::Terminator,
    operands: Arity::at_least(0),
    results: Arity::exactly(0),
    regions: Arity::exactly(0),
    attrs: &[],
    text: Text::Pieces(&[Piece::AttrDict, Piece::OperandsFrom(0), Piece::OperandTypesIfAny]),
    vhlo: &[],
    infer: None,
    check: no_constraints,
};
