//! `stablehlo.dynamic_broadcast_in_dim`: broadcast to a shape known at run time.

use crate::attr::Attr;
use crate::ops::def::{Arity, AttrDef, AttrKind, OpDef, Piece, Presence, Text, VhloForm, no_constraints};

pub(crate) const DEF: OpDef = OpDef {
    name: "stablehlo.dynamic_broadcast_in_dim",
    operands: Arity::exactly(2),
    results: Arity::exactly(1),
    regions: Arity::exactly(0),
    attrs: &[
        AttrDef { name: "broadcast_dimensions", kind: AttrKind::I64s, presence: Presence::Required },
        AttrDef {
            name: "known_expanding_dimensions",
            kind: AttrKind::I64s,
            presence: Presence::Default(|| Attr::i64s([])),
        },
        AttrDef {
            name: "known_nonexpanding_dimensions",
            kind: AttrKind::I64s,
            presence: Presence::Default(|| Attr::i64s([])),
        },
    ],
    text: Text::Pieces(&[
        Piece::Operand(0),
        Piece::Word(","),
        Piece::Operand(1),
        Piece::Word(","),
        Piece::Word("dims"),
        Piece::Word("="),
        Piece::Attr("broadcast_dimensions"),
        Piece::AttrDict,
        Piece::Word(":"),
        Piece::FunctionType,
    ]),
    vhlo: &[VhloForm {
        name: "dynamic_broadcast_in_dim_v1",
        attrs: &["broadcast_dimensions", "known_expanding_dimensions", "known_nonexpanding_dimensions"],
    }],
    infer: None,
    check: no_constraints,
};
