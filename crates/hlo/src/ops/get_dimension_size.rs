//! `stablehlo.get_dimension_size`: size of a dimension at run time.

use crate::ops::def::{Arity, AttrDef, AttrKind, OpDef, Piece, Presence, Text, VhloForm, no_constraints};

pub(crate) const DEF: OpDef = OpDef {
    name: "stablehlo.get_dimension_size",
    operands: Arity::exactly(1),
    results: Arity::exactly(1),
    regions: Arity::exactly(0),
    attrs: &[AttrDef { name: "dimension", kind: AttrKind::I64, presence: Presence::Required }],
    text: Text::Pieces(&[
        Piece::Operand(0),
        Piece::Word(","),
        Piece::Word("dim"),
        Piece::Word("="),
        Piece::Attr("dimension"),
        Piece::AttrDict,
        Piece::Word(":"),
        Piece::FunctionType,
    ]),
    vhlo: &[VhloForm { name: "get_dimension_size_v1", attrs: &["dimension"] }],
    infer: None,
    check: no_constraints,
};
