//! `stablehlo.slice`: extracts a static slice.

use crate::ops::def::{Arity, AttrDef, AttrKind, OpDef, Piece, Presence, Text, VhloForm, no_constraints};

pub(crate) const DEF: OpDef = OpDef {
    name: "stablehlo.slice",
    operands: Arity::exactly(1),
    results: Arity::exactly(1),
    regions: Arity::exactly(0),
    attrs: &[
        AttrDef { name: "start_indices", kind: AttrKind::I64s, presence: Presence::Required },
        AttrDef { name: "limit_indices", kind: AttrKind::I64s, presence: Presence::Required },
        AttrDef { name: "strides", kind: AttrKind::I64s, presence: Presence::Required },
    ],
    text: Text::Pieces(&[
        Piece::Operand(0),
        Piece::SliceRanges,
        Piece::AttrDict,
        Piece::Word(":"),
        Piece::FunctionType,
    ]),
    vhlo: &[VhloForm { name: "slice_v1", attrs: &["limit_indices", "start_indices", "strides"] }],
    infer: None,
    check: no_constraints,
};
