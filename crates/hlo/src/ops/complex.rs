//! `stablehlo.complex`: makes complex numbers from parts.

use crate::ops::def::{Arity, OpDef, Piece, Text, VhloForm, no_constraints};

pub(crate) const DEF: OpDef = OpDef {
    name: "stablehlo.complex",
    operands: Arity::exactly(2),
    results: Arity::exactly(1),
    regions: Arity::exactly(0),
    attrs: &[],
    text: Text::Pieces(&[Piece::OperandsFrom(0), Piece::AttrDict, Piece::Word(":"), Piece::ComplexType]),
    vhlo: &[VhloForm { name: "complex_v1", attrs: &[] }],
    infer: None,
    check: no_constraints,
};
