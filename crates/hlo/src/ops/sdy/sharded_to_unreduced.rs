//! `sdy.sharded_to_unreduced`: turns axes a tensor is split along into axes it is partial along.

use crate::ops::def::{Arity, AttrDef, AttrKind, Infer, OpClass, OpDef, Piece, Presence, Text};
use crate::ops::rules::sharding;

pub(crate) const DEF: OpDef = OpDef {
    name: "sdy.sharded_to_unreduced",
    class: OpClass::Sharding,
    operands: Arity::exactly(1),
    results: Arity::exactly(1),
    regions: Arity::exactly(0),
    attrs: &[
        AttrDef { name: "axes", kind: AttrKind::SdyAxisLists, presence: Presence::Required },
        AttrDef { name: "out_sharding", kind: AttrKind::SdySharding, presence: Presence::Required },
    ],
    text: Text::Pieces(&[
        Piece::Attr("axes"),
        Piece::Operand(0),
        Piece::Word("out_sharding="),
        Piece::Attr("out_sharding"),
        Piece::AttrDict,
        Piece::Word(":"),
        Piece::ResultTypes,
    ]),
    vhlo: &[],
    infer: Some(Infer::by("sdy.sharded_to_unreduced", |op| Ok(op.operands.to_vec()))),
    check: |op| sharding::constraint(op, "out_sharding"),
};
