//! `interpreter.probe`: stores a tensor for inspection.

use crate::ops::def::{Arity, AttrDef, AttrKind, Infer, OpClass, OpDef, Piece, Presence, Text, no_constraints};

pub(crate) const DEF: OpDef = OpDef {
    name: "interpreter.probe",
    class: OpClass::Testing,
    operands: Arity::exactly(1),
    results: Arity::exactly(1),
    regions: Arity::exactly(0),
    attrs: &[AttrDef { name: "probe_id", kind: AttrKind::Str, presence: Presence::Required }],
    text: Text::Pieces(&[
        Piece::Operand(0),
        Piece::Word(","),
        Piece::Word("probe_id"),
        Piece::Word("="),
        Piece::Attr("probe_id"),
        Piece::AttrDict,
        Piece::Word(":"),
        Piece::ResultTypes,
    ]),
    vhlo: &[],
    infer: Some(Infer::by("interpreter.probe", |op| Ok(op.operands.to_vec()))),
    check: no_constraints,
};
