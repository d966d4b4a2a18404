//! `sdy.propagation_barrier`: limits sharding propagation.

use crate::ops::def::{Arity, AttrDef, AttrKind, Infer, OpClass, OpDef, Piece, Presence, Text, no_constraints};

pub(crate) const DEF: OpDef = OpDef {
    name: "sdy.propagation_barrier",
    class: OpClass::Sharding,
    operands: Arity::exactly(1),
    results: Arity::exactly(1),
    regions: Arity::exactly(0),
    attrs: &[AttrDef {
        name: "allowed_direction",
        kind: AttrKind::Named(&["NONE", "FORWARD", "BACKWARD", "BOTH"]),
        presence: Presence::Required,
    }],
    text: Text::Pieces(&[
        Piece::Operand(0),
        Piece::Word("allowed_direction="),
        Piece::Attr("allowed_direction"),
        Piece::AttrDict,
        Piece::Word(":"),
        Piece::ResultTypes,
    ]),
    vhlo: &[],
    infer: Some(Infer::by("sdy.propagation_barrier", |op| Ok(op.operands.to_vec()))),
    check: no_constraints,
};
