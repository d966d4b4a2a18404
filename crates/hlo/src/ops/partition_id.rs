//! `stablehlo.partition_id`: partition of the running process.

use tensor::DType;

use crate::ir::Type;
use crate::ops::def::{Arity, Infer, OpClass, OpDef, Piece, Text, VhloForm, no_constraints};

pub(crate) const DEF: OpDef = OpDef {
    name: "stablehlo.partition_id",
    class: OpClass::Source,
    operands: Arity::exactly(0),
    results: Arity::exactly(1),
    regions: Arity::exactly(0),
    attrs: &[],
    text: Text::Pieces(&[Piece::AttrDict, Piece::Word(":"), Piece::ResultTypes]),
    vhlo: &[VhloForm { name: "partition_id_v1", attrs: &[] }],
    infer: Some(Infer::by("partition_id O1", |_| Ok(vec![Type::scalar(DType::U32)]))),
    check: no_constraints,
};
