//! `stablehlo.pad`: adds edge and interior padding.

use crate::ops::def::{Arity, AttrDef, AttrKind, OpDef, Piece, Presence, Text, VhloForm, no_constraints};

pub(crate) const DEF: OpDef = OpDef {
    name: "stablehlo.pad",
    operands: Arity::exactly(2),
    results: Arity::exactly(1),
    regions: Arity::exactly(0),
    attrs: &[
        AttrDef { name: "edge_padding_low", kind: AttrKind::I64s, presence: Presence::Required },
        AttrDef { name: "edge_padding_high", kind: AttrKind::I64s, presence: Presence::Required },
        AttrDef { name: "interior_padding", kind: AttrKind::I64s, presence: Presence::Required },
    ],
    text: Text::Pieces(&[
        Piece::Operand(0),
        Piece::Word(","),
        Piece::Operand(1),
        Piece::Word(","),
        Piece::Word("low"),
        Piece::Word("="),
        Piece::Attr("edge_padding_low"),
        Piece::Word(","),
        Piece::Word("high"),
        Piece::Word("="),
        Piece::Attr("edge_padding_high"),
        Piece::Word(","),
        Piece::Word("interior"),
        Piece::Word("="),
        Piece::Attr("interior_padding"),
        Piece::AttrDict,
        Piece::Word(":"),
        Piece::FunctionType,
    ]),
    vhlo: &[VhloForm { name: "pad_v1", attrs: &["edge_padding_high", "edge_padding_low", "interior_padding"] }],
    infer: None,
    check: no_constraints,
};
