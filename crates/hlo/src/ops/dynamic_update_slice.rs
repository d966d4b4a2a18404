//! `stablehlo.dynamic_update_slice`: writes a slice at indices known at run time.

use crate::ops::def::{Arity, OpDef, Piece, Text, VhloForm, no_constraints};

pub(crate) const DEF: OpDef = OpDef {
    name: "stablehlo.dynamic_update_slice",
    operands: Arity::at_least(2),
    results: Arity::exactly(1),
    regions: Arity::exactly(0),
    attrs: &[],
    text: Text::Pieces(&[Piece::OperandsFrom(0), Piece::AttrDict, Piece::Word(":"), Piece::FunctionType]),
    vhlo: &[VhloForm { name: "dynamic_update_slice_v1", attrs: &[] }],
    infer: None,
    check: no_constraints,
};
