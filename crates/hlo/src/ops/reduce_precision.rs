//! `stablehlo.reduce_precision`: rounds to a smaller float format and back.

use crate::ops::def::{Arity, AttrDef, AttrKind, OpDef, Piece, Presence, Text, VhloForm, no_constraints};

pub(crate) const DEF: OpDef = OpDef {
    name: "stablehlo.reduce_precision",
    operands: Arity::exactly(1),
    results: Arity::exactly(1),
    regions: Arity::exactly(0),
    attrs: &[
        AttrDef { name: "exponent_bits", kind: AttrKind::I32, presence: Presence::Required },
        AttrDef { name: "mantissa_bits", kind: AttrKind::I32, presence: Presence::Required },
    ],
    text: Text::Pieces(&[
        Piece::Operand(0),
        Piece::Word(","),
        Piece::Word("format"),
        Piece::Word("="),
        Piece::ExponentMantissa,
        Piece::AttrDict,
        Piece::Word(":"),
        Piece::SameType,
    ]),
    vhlo: &[VhloForm { name: "reduce_precision_v1", attrs: &["exponent_bits", "mantissa_bits"] }],
    infer: None,
    check: no_constraints,
};
