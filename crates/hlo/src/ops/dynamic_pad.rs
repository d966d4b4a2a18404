//! `stablehlo.dynamic_pad`: padding with amounts known at run time.

use crate::ops::def::{Arity, OpDef, Piece, Text, VhloForm, no_constraints};

pub(crate) const DEF: OpDef = OpDef {
    name: "stablehlo.dynamic_pad",
    operands: Arity::exactly(5),
    results: Arity::exactly(1),
    regions: Arity::exactly(0),
    attrs: &[],
    text: Text::Pieces(&[Piece::OperandsFrom(0), Piece::AttrDict, Piece::Word(":"), Piece::FunctionType]),
    vhlo: &[VhloForm { name: "dynamic_pad_v1", attrs: &[] }],
    infer: None,
    check: no_constraints,
};
