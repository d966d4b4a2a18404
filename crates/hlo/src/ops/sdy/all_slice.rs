//! `sdy.all_slice`: slices a tensor along axes of each dimension.

use crate::ops::def::{Arity, AttrDef, AttrKind, Infer, OpClass, OpDef, Piece, Presence, Text};
use crate::ops::rules::sharding;

pub(crate) const DEF: OpDef = OpDef {
    name: "sdy.all_slice",
    class: OpClass::Collective,
    operands: Arity::exactly(1),
    results: Arity::exactly(1),
    regions: Arity::exactly(0),
    attrs: &[
        AttrDef { name: "slicing_axes", kind: AttrKind::SdyAxisLists, presence: Presence::Required },
        AttrDef { name: "out_sharding", kind: AttrKind::SdySharding, presence: Presence::Required },
    ],
    text: Text::Pieces(&[
        Piece::Attr("slicing_axes"),
        Piece::Operand(0),
        Piece::Word("out_sharding="),
        Piece::Attr("out_sharding"),
        Piece::AttrDict,
        Piece::Word(":"),
        Piece::ResultTypes,
    ]),
    vhlo: &[],
    infer: Some(Infer::by("sdy.all_slice", |op| Ok(op.operands.to_vec()))),
    check: |op| sharding::constraint(op, "out_sharding"),
};
