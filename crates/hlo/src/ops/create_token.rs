//! `stablehlo.create_token`: makes a token.

use crate::ir::Type;
use crate::ops::def::{Arity, Infer, OpClass, OpDef, Piece, Text, VhloForm, no_constraints};

pub(crate) const DEF: OpDef = OpDef {
    name: "stablehlo.create_token",
    class: OpClass::Structure,
    operands: Arity::exactly(0),
    results: Arity::exactly(1),
    regions: Arity::exactly(0),
    attrs: &[],
    text: Text::Pieces(&[Piece::AttrDict, Piece::Word(":"), Piece::ResultTypes]),
    vhlo: &[VhloForm { name: "create_token_v1", attrs: &[] }],
    infer: Some(Infer::by("create_token O1", |_| Ok(vec![Type::Token]))),
    check: no_constraints,
};
