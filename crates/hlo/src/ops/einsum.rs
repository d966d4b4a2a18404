//! `stablehlo.einsum`: Einstein summation (deprecated).

use crate::ops::def::{Arity, AttrDef, AttrKind, OpClass, OpDef, OpView, Piece, Presence, Text, VhloForm};
use crate::ops::rules::elements::Elements;
use crate::ops::rules::{Checked, contraction, elements};

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
    check,
};

fn check(op: &OpView<'_>) -> Checked {
    elements::operands_from(op, 0, Elements::TENSOR, "einsum")?;
    let (operands, result) = (op.tensors()?, op.result_tensor(0)?);
    let (Some(&first), Some(&last)) = (operands.first(), operands.last()) else { return Ok(()) };
    contraction::same_field("einsum", [first, last, result])?;
    let config = op.attr("einsum_config")?.as_str().unwrap_or_default();
    contraction::einsum("einsum", config, &operands, result)
}
