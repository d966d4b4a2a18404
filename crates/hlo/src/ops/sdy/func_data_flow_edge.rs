//! `sdy.func_data_flow_edge`: a bridge between a function's argument and its callers' along which shardings propagate.

use crate::ops::def::{Arity, Infer, OpClass, OpDef, Piece, Text, no_constraints};

pub(crate) const DEF: OpDef = OpDef {
    name: "sdy.func_data_flow_edge",
    class: OpClass::Sharding,
    operands: Arity::exactly(1),
    results: Arity::exactly(1),
    regions: Arity::exactly(0),
    attrs: &[],
    text: Text::Pieces(&[Piece::Operand(0), Piece::AttrDict, Piece::Word(":"), Piece::ResultTypes]),
    vhlo: &[],
    infer: Some(Infer::by("sdy.func_data_flow_edge", |op| Ok(op.operands.to_vec()))),
    check: no_constraints,
};
