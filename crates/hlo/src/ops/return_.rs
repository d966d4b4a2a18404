//! `stablehlo.return`: ends a region with its results.

use crate::ops::def::{Arity, OpClass, OpDef, Piece, Text, VhloForm, no_constraints};

pub(crate) const DEF: OpDef = OpDef {
    name: "stablehlo.return",
    class: OpClass::Terminator,
    operands: Arity::at_least(0),
    results: Arity::exactly(0),
    regions: Arity::exactly(0),
    attrs: &[],
    text: Text::Pieces(&[Piece::OperandsFrom(0), Piece::AttrDict, Piece::OperandTypesIfAny]),
    vhlo: &[VhloForm { name: "return_v1", attrs: &[] }],
    infer: None,
    check: no_constraints,
};
