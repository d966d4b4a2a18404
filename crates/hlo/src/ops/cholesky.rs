//! `stablehlo.cholesky`: Cholesky factor of a batch of matrices.

use crate::attr::Attr;
use crate::ops::def::{Arity, AttrDef, AttrKind, OpDef, Piece, Presence, Text, VhloForm, no_constraints};

pub(crate) const DEF: OpDef = OpDef {
    name: "stablehlo.cholesky",
    operands: Arity::exactly(1),
    results: Arity::exactly(1),
    regions: Arity::exactly(0),
    attrs: &[AttrDef { name: "lower", kind: AttrKind::Bool, presence: Presence::Default(|| Attr::Bool(false)) }],
    text: Text::Pieces(&[
        Piece::Operand(0),
        Piece::IfAttr("lower", &[Piece::Word(","), Piece::Word("lower"), Piece::Word("="), Piece::Attr("lower")]),
        Piece::AttrDict,
        Piece::Word(":"),
        Piece::SameType,
    ]),
    vhlo: &[VhloForm { name: "cholesky_v1", attrs: &["lower"] }],
    infer: None,
    check: no_constraints,
};
