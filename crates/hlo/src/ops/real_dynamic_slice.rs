//! `stablehlo.real_dynamic_slice`: slice with bounds known at run time.

use crate::ops::def::{Arity, OpDef, Piece, Text, VhloForm, no_constraints};

pub(crate) const DEF: OpDef = OpDef {
    name: "stablehlo.real_dynamic_slice",
    operands: Arity::exactly(4),
    results: Arity::exactly(1),
    regions: Arity::exactly(0),
    attrs: &[],
    text: Text::Pieces(&[Piece::OperandsFrom(0), Piece::AttrDict, Piece::Word(":"), Piece::FunctionType]),
    vhlo: &[VhloForm { name: "real_dynamic_slice_v1", attrs: &[] }],
    infer: None,
    check: no_constraints,
};
