//! `stablehlo.replica_id`: replica of the running process.

use crate::ops::def::{Arity, OpDef, Piece, Text, VhloForm, no_constraints};

pub(crate) const DEF: OpDef = OpDef {
    name: "stablehlo.replica_id",
    operands: Arity::exactly(0),
    results: Arity::exactly(1),
    regions: Arity::exactly(0),
    attrs: &[],
    text: Text::Pieces(&[Piece::AttrDict, Piece::Word(":"), Piece::ResultTypes]),
    vhlo: &[VhloForm { name: "replica_id_v1", attrs: &[] }],
    infer: None,
    check: no_constraints,
};
