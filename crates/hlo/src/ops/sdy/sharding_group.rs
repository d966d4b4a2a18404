//! `sdy.sharding_group`: shards a group of tensors alike.

use crate::ops::def::{Arity, AttrDef, AttrKind, OpClass, OpDef, Piece, Presence, Text, no_constraints};

pub(crate) const DEF: OpDef = OpDef {
    name: "sdy.sharding_group",
    class: OpClass::Sharding,
    operands: Arity::exactly(1),
    results: Arity::exactly(0),
    regions: Arity::exactly(0),
    attrs: &[AttrDef { name: "group_id", kind: AttrKind::I64, presence: Presence::Required }],
    text: Text::Pieces(&[
        Piece::Operand(0),
        Piece::Word("group_id="),
        Piece::Attr("group_id"),
        Piece::AttrDict,
        Piece::Word(":"),
        Piece::FirstOperandType,
    ]),
    vhlo: &[],
    infer: None,
    check: no_constraints,
};
