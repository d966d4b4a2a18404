//! `stablehlo.unary_einsum`: Einstein summation of one operand (deprecated).

use crate::ops::def::{Arity, AttrDef, AttrKind, OpClass, OpDef, OpView, Piece, Presence, Text, VhloForm};
use crate::ops::rules::elements::Elements;
use crate::ops::rules::{Checked, contraction, elements};

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
    check,
};

fn check(op: &OpView<'_>) -> Checked {
    elements::operands_from(op, 0, Elements::TENSOR, "unary_einsum")?;
    let (operands, result) = (op.tensors()?, op.result_tensor(0)?);
    let (Some(&first), Some(&last)) = (operands.first(), operands.last()) else { return Ok(()) };
    contraction::same_field("unary_einsum", [first, last, result])?;
    let config = op.attr("einsum_config")?.as_str().unwrap_or_default();
    contraction::einsum("unary_einsum", config, &operands, result)
}
