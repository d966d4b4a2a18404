//! `sdy.reshard`: changes a tensor's sharding.

use crate::ops::def::{Arity, AttrDef, AttrKind, Infer, OpClass, OpDef, Piece, Presence, Text};
use crate::ops::rules::sharding;

pub(crate) const DEF: OpDef = OpDef {
    name: "sdy.reshard",
    class: OpClass::Sharding,
    operands: Arity::exactly(1),
    results: Arity::exactly(1),
    regions: Arity::exactly(0),
    attrs: &[AttrDef { name: "sharding", kind: AttrKind::SdySharding, presence: Presence::Required }],
    text: Text::Pieces(&[
        Piece::Operand(0),
        Piece::Attr("sharding"),
        Piece::AttrDict,
        Piece::Word(":"),
        Piece::ResultTypes,
    ]),
    vhlo: &[],
    infer: Some(Infer::by("sdy.reshard", |op| Ok(op.operands.to_vec()))),
    check: |op| sharding::constraint(op, "sharding"),
};
