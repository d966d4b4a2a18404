//! `stablehlo.tuple`: makes a tuple.

use crate::ir::Type;
use crate::ops::def::{Arity, Infer, OpClass, OpDef, Piece, Text, VhloForm, no_constraints};

pub(crate) const DEF: OpDef = OpDef {
    name: "stablehlo.tuple",
    class: OpClass::Structure,
    operands: Arity::at_least(0),
    results: Arity::exactly(1),
    regions: Arity::exactly(0),
    attrs: &[],
    text: Text::Pieces(&[Piece::OperandsFrom(0), Piece::AttrDict, Piece::Word(":"), Piece::TupleType]),
    vhlo: &[VhloForm { name: "tuple_v1", attrs: &[] }],
    infer: Some(Infer::by("tuple C1", |op| Ok(vec![Type::Tuple(op.operands.into())]))),
    check: no_constraints,
};
