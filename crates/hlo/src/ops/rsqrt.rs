//! `stablehlo.rsqrt`: reciprocal square root.

use crate::ops::def::{Arity, AttrDef, AttrKind, Infer, OpClass, OpDef, Piece, Presence, Text, VhloForm};
use crate::ops::rules::elements::Elements;
use crate::ops::rules::elementwise;

pub(crate) const DEF: OpDef = OpDef {
    name: "stablehlo.rsqrt",
    class: OpClass::Transcendental,
    operands: Arity::exactly(1),
    results: Arity::exactly(1),
    regions: Arity::exactly(0),
    attrs: &[AttrDef { name: "result_accuracy", kind: AttrKind::ResultAccuracy, presence: Presence::Optional }],
    text: Text::Pieces(&[Piece::Operand(0), Piece::AttrDict, Piece::Word(":"), Piece::SameType]),
    vhlo: &[VhloForm { name: "rsqrt_v1", attrs: &[] }, VhloForm { name: "rsqrt_v2", attrs: &["result_accuracy"] }],
    infer: Some(Infer::by("rsqrt C1", |op| elementwise::infer(op, "rsqrt C1"))),
    check: |op| elementwise::unary(op, Elements::FLOAT_COMPLEX_QUANTIZED, "rsqrt I1"),
};
