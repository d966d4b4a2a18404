//! `stablehlo.rng`: random numbers of a distribution.

use crate::attr::KeywordSet;
use crate::ops::def::{Arity, AttrDef, AttrKind, OpDef, Piece, Presence, Text, VhloForm, no_constraints};

pub(crate) const DEF: OpDef = OpDef {
    name: "stablehlo.rng",
    operands: Arity::exactly(3),
    results: Arity::exactly(1),
    regions: Arity::exactly(0),
    attrs: &[AttrDef {
        name: "rng_distribution",
        kind: AttrKind::Keyword(KeywordSet::RngDistribution),
        presence: Presence::Required,
    }],
    text: Text::Pieces(&[
        Piece::Operand(0),
        Piece::Word(","),
        Piece::Operand(1),
        Piece::Word(","),
        Piece::Operand(2),
        Piece::Word(","),
        Piece::Word("distribution"),
        Piece::Word("="),
        Piece::Attr("rng_distribution"),
        Piece::AttrDict,
        Piece::Word(":"),
        Piece::FunctionType,
    ]),
    vhlo: &[VhloForm { name: "rng_v1", attrs: &["rng_distribution"] }],
    infer: None,
    check: no_constraints,
};
