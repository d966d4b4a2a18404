//! `stablehlo.cosine`: cosine.

use crate::ops::def::{Arity, AttrDef, AttrKind, Infer, OpClass, OpDef, Piece, Presence, Text, VhloForm};
use crate::ops::rules::elements::Elements;
use crate::ops::rules::elementwise;

pub(crate) const DEF: OpDef = OpDef {
    name: "stablehlo.cosine",
    class: OpClass::Transcendental,
    operands: Arity::exactly(1),
    results: Arity::exactly(1),
    regions: Arity::exactly(0),
    attrs: &[AttrDef { name: "result_accuracy", kind: AttrKind::ResultAccuracy, presence: Presence::Optional }],
    text: Text::Pieces(&[Piece::Operand(0), Piece::AttrDict, Piece::Word(":"), Piece::SameType]),
    vhlo: &[VhloForm { name: "cosine_v1", attrs: &[] }, VhloForm { name: "cosine_v2", attrs: &["result_accuracy"] }],
    infer: Some(Infer::by("cosine C1", |op| elementwise::infer(op, "cosine C1"))),
    check: |op| elementwise::unary(op, Elements::FLOAT_COMPLEX_QUANTIZED, "cosine I1"),
};
