//! `stablehlo.unary_einsum`: Einstein summation of one operand (deprecated).

use crate::ops::def::{Arity, AttrDef, AttrKind, OpClass, OpDef, Piece, Presence, Text, VhloForm};
use crate::ops::rules::elements;
use crate::ops::rules::elements::Elements;

pub(crate) const DEF: OpDef = OpDef {
    name: "stablehlo.unary_einsum",
    class: OpClass::Contraction,
    operands: Arity::exactly(1),
    results: Arity::exactly(1),
    regions: Arity::exactly(0),
    attrs: &[AttrDef { name: "einsum_config", kind: AttrKind::Str, presence: Presence::Required }],
    text: Text::Pieces(&[
        Piece::Operand(0),
        Piece::Word(","),
        Piece::Word("config"),
        Piece::Word("="),
        Piece::Attr("einsum_config"),
        Piece::AttrDict,
        Piece::Word(":"),
        Piece::FunctionType,
    ]),
    vhlo: &[VhloForm { name: "unary_einsum_v1", attrs: &["einsum_config"] }],
    infer: None,
    check: |op| elements::operands_from(op, 0, Elements::TENSOR, "unary_einsum"),
};
