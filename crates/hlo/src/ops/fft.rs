//! `stablehlo.fft`: Fourier transforms.

use crate::attr::KeywordSet;
use crate::ops::def::{Arity, AttrDef, AttrKind, OpDef, Piece, Presence, Text, VhloForm, no_constraints};

pub(crate) const DEF: OpDef = OpDef {
    name: "stablehlo.fft",
    operands: Arity::exactly(1),
    results: Arity::exactly(1),
    regions: Arity::exactly(0),
    attrs: &[
        AttrDef { name: "fft_type", kind: AttrKind::Keyword(KeywordSet::FftType), presence: Presence::Required },
        AttrDef { name: "fft_length", kind: AttrKind::I64s, presence: Presence::Required },
    ],
    text: Text::Pieces(&[
        Piece::Operand(0),
        Piece::Word(","),
        Piece::Word("type"),
        Piece::Word("="),
        Piece::Attr("fft_type"),
        Piece::Word(","),
        Piece::Word("length"),
        Piece::Word("="),
        Piece::Attr("fft_length"),
        Piece::AttrDict,
        Piece::Word(":"),
        Piece::FunctionType,
    ]),
    vhlo: &[VhloForm { name: "fft_v1", attrs: &["fft_length", "fft_type"] }],
    infer: None,
    check: no_constraints,
};
