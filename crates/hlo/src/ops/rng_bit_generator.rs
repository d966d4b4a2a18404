//! `stablehlo.rng_bit_generator`: random bits and the next state.

use crate::attr::KeywordSet;
use crate::ops::def::{Arity, AttrDef, AttrKind, OpDef, Piece, Presence, Text, VhloForm, no_constraints};

pub(crate) const DEF: OpDef = OpDef {
    name: "stablehlo.rng_bit_generator",
    operands: Arity::exactly(1),
    results: Arity::exactly(2),
    regions: Arity::exactly(0),
    attrs: &[AttrDef {
        name: "rng_algorithm",
        kind: AttrKind::Keyword(KeywordSet::RngAlgorithm),
        presence: Presence::Required,
    }],
    text: Text::Pieces(&[
        Piece::Operand(0),
        Piece::Word(","),
        Piece::Word("algorithm"),
        Piece::Word("="),
        Piece::Attr("rng_algorithm"),
        Piece::AttrDict,
        Piece::Word(":"),
        Piece::FunctionType,
    ]),
    vhlo: &[VhloForm { name: "rng_bit_generator_v1", attrs: &["rng_algorithm"] }],
    infer: None,
    check: no_constraints,
};
