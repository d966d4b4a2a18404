//! `sdy.all_reduce`: reduces a tensor along axes.

use crate::ops::def::{Arity, AttrDef, AttrKind, Infer, OpClass, OpDef, Piece, Presence, Text};
use crate::ops::rules::sharding;

pub(crate) const DEF: OpDef = OpDef {
    name: "sdy.all_reduce",
    class: OpClass::Collective,
    operands: Arity::exactly(1),
    results: Arity::exactly(1),
    regions: Arity::exactly(0),
    attrs: &[
        AttrDef { name: "reduction_op", kind: AttrKind::Named(&["sum", "max", "min"]), presence: Presence::Optional },
        AttrDef { name: "reduction_axes", kind: AttrKind::SdyAxisList, presence: Presence::Required },
        AttrDef { name: "out_sharding", kind: AttrKind::SdySharding, presence: Presence::Required },
    ],
    text: Text::Pieces(&[
        Piece::IfAttr("reduction_op", &[Piece::Attr("reduction_op")]),
        Piece::Attr("reduction_axes"),
        Piece::Operand(0),
        Piece::Word("out_sharding="),
        Piece::Attr("out_sharding"),
        Piece::AttrDict,
        Piece::Word(":"),
        Piece::ResultTypes,
    ]),
    vhlo: &[],
    infer: Some(Infer::by("sdy.all_reduce", |op| Ok(op.operands.to_vec()))),
    check: |op| sharding::constraint(op, "out_sharding"),
};
