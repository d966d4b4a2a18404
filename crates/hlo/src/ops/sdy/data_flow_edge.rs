//! `sdy.data_flow_edge`: a bridge along which shardings propagate.

use crate::ops::def::{Arity, AttrDef, AttrKind, Infer, OpClass, OpDef, Piece, Presence, Text, no_constraints};

pub(crate) const DEF: OpDef = OpDef {
    name: "sdy.data_flow_edge",
    class: OpClass::Sharding,
    operands: Arity::exactly(1),
    results: Arity::exactly(1),
    regions: Arity::exactly(0),
    attrs: &[AttrDef { name: "sharding", kind: AttrKind::SdySharding, presence: Presence::Optional }],
    text: Text::Pieces(&[
        Piece::Operand(0),
        Piece::IfAttr("sharding", &[Piece::Word("sharding="), Piece::Attr("sharding")]),
        Piece::AttrDict,
        Piece::Word(":"),
        Piece::ResultTypes,
    ]),
    vhlo: &[],
    infer: Some(Infer::by("sdy.data_flow_edge", |op| Ok(op.operands.to_vec()))),
    check: no_constraints,
};
