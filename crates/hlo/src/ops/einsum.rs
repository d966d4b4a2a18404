//! `stablehlo.einsum`: Einstein summation (deprecated).

use crate::ops::def::{Arity, AttrDef, AttrKind, OpClass, OpDef, Piece, Presence, Text, VhloForm};
use crate::ops::rules::elements;
use crate::ops::rules::elements::Elements;

pub(crate) const DEF: OpDef = OpDef {
    name: "stablehlo.einsum",
    class: OpClass::Contraction,
    operands: Arity::exactly(2),
    results: Arity::exactly(1),
    regions: Arity::exactly(0),
    attrs: &[AttrDef { name: "einsum_config", kind: AttrKind::Str, presence: Presence::Required }],
    text: Text::Pieces(&[
        Piece::Operand(0),
        Piece::Word(","),
        Piece::Operand(1),
        Piece::Word(","),
        Piece::Word("config"),
        Piece::Word("="),
        Piece::Attr("einsum_config"),
        Piece::AttrDict,
        Piece::Word(":"),
        Piece::FunctionType,
    ]),
    vhlo: &[VhloForm { name: "einsum_v1", attrs: &["einsum_config"] }],
    infer: None,
    check: |op| elements::operands_from(op, 0, Elements::TENSOR, "einsum"),
};
