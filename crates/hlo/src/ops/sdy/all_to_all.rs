//! `sdy.all_to_all`: moves axes between dimensions of a tensor.

use crate::ops::def::{Arity, AttrDef, AttrKind, Infer, OpClass, OpDef, Piece, Presence, Text};
use crate::ops::rules::sharding;

pub(crate) const DEF: OpDef = OpDef {
    name: "sdy.all_to_all",
    class: OpClass::Collective,
    operands: Arity::exactly(1),
    results: Arity::exactly(1),
    regions: Arity::exactly(0),
    attrs: &[
        AttrDef { name: "params", kind: AttrKind::SdyAllToAll, presence: Presence::Required },
        AttrDef { name: "out_sharding", kind: AttrKind::SdySharding, presence: Presence::Required },
    ],
    text: Text::Pieces(&[
        Piece::Attr("params"),
        Piece::Operand(0),
        Piece::Word("out_sharding="),
        Piece::Attr("out_sharding"),
        Piece::AttrDict,
        Piece::Word(":"),
        Piece::ResultTypes,
    ]),
    vhlo: &[],
    infer: Some(Infer::by("sdy.all_to_all", |op| Ok(op.operands.to_vec()))),
    check: |op| sharding::constraint(op, "out_sharding"),
};
