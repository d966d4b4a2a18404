//! `stablehlo.dot`: matrix product (deprecated).

use crate::attr::{Attr, KeywordSet};
use crate::ops::def::{Arity, AttrDef, AttrKind, OpDef, Piece, Presence, Text, VhloForm, no_constraints};

pub(crate) const DEF: OpDef = OpDef {
    name: "stablehlo.dot",
    operands: Arity::exactly(2),
    results: Arity::exactly(1),
    regions: Arity::exactly(0),
    attrs: &[AttrDef {
        name: "precision_config",
        kind: AttrKind::Keywords(KeywordSet::Precision),
        presence: Presence::Default(|| Attr::Array([].into())),
    }],
    text: Text::Pieces(&[
        Piece::Operand(0),
        Piece::Word(","),
        Piece::Operand(1),
        Piece::Precision,
        Piece::AttrDict,
        Piece::Word(":"),
        Piece::FunctionType,
    ]),
    vhlo: &[VhloForm { name: "dot_v1", attrs: &[] }],
    infer: None,
    check: no_constraints,
};
