//! `stablehlo.dynamic_reshape`: reshape to a shape known at run time.

use crate::ops::def::{Arity, OpDef, Piece, Text, VhloForm, no_constraints};

pub(crate) const DEF: OpDef = OpDef {
    name: "stablehlo.dynamic_reshape",
    operands: Arity::exactly(2),
    results: Arity::exactly(1),
    regions: Arity::exactly(0),
    attrs: &[],
    text: Text::Pieces(&[Piece::OperandsFrom(0), Piece::AttrDict, Piece::Word(":"), Piece::FunctionType]),
    vhlo: &[VhloForm { name: "dynamic_reshape_v1", attrs: &[] }],
    infer: None,
    check: no_constraints,
};
