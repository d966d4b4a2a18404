//! `stablehlo.is_finite`: whether values are finite.

use tensor::DType;

use crate::ops::def::{Arity, Infer, OpClass, OpDef, Piece, Text, VhloForm};
use crate::ops::rules::elements::Elements;
use crate::ops::rules::elementwise;

pub(crate) const DEF: OpDef = OpDef {
    name: "stablehlo.is_finite",
    class: OpClass::Arithmetic,
    operands: Arity::exactly(1),
    results: Arity::exactly(1),
    regions: Arity::exactly(0),
    attrs: &[],
    text: Text::Pieces(&[Piece::OperandsFrom(0), Piece::AttrDict, Piece::Word(":"), Piece::FunctionType]),
    vhlo: &[VhloForm { name: "is_finite_v1", attrs: &[] }],
    infer: Some(Infer::by("is_finite C1", |op| elementwise::infer_element(op, DType::Bool))),
    check: |op| elementwise::unary(op, Elements::FLOAT_QUANTIZED, "is_finite I1"),
};
