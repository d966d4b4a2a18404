//! `stablehlo.transpose`: permutes dimensions.

use std::sync::Arc;

use crate::ir::{ElementType, Quantized};
use crate::ops::def::{Arity, AttrDef, AttrKind, Infer, OpClass, OpDef, OpView, Piece, Presence, Text, VhloForm};
use crate::ops::rules::elements::Elements;
use crate::ops::rules::{Checked, Inferred, dimensions, elements, quantization, require, shapes};

pub(crate) const DEF: OpDef = OpDef {
    name: "stablehlo.transpose",
    class: OpClass::Movement,
    operands: Arity::exactly(1),
    results: Arity::exactly(1),
    regions: Arity::exactly(0),
    attrs: &[AttrDef { name: "permutation", kind: AttrKind::I64s, presence: Presence::Required }],
    text: Text::Pieces(&[
        Piece::Operand(0),
        Piece::Word(","),
        Piece::Word("dims"),
        Piece::Word("="),
        Piece::Attr("permutation"),
        Piece::AttrDict,
        Piece::Word(":"),
        Piece::FunctionType,
    ]),
    vhlo: &[VhloForm { name: "transpose_v1", attrs: &["permutation"] }],
    infer: Some(Infer::by("transpose C3", infer)),
    check,
};

fn infer(op: &OpView<'_>) -> Inferred {
    let operand = op.tensor(0)?;
    let permutation = op.i64s("permutation")?;
    dimensions::count("transpose C2", "permutation", permutation.len(), operand.rank())?;
    dimensions::in_range("transpose C2", "permutation", permutation, operand.rank())?;
    dimensions::unique("transpose C2", "permutation", permutation.iter().copied())?;
    let dims = permutation.iter().map(|&d| operand.dims[d as usize]).collect();
    let limits = permutation.iter().map(|&d| shapes::bound(operand, d as usize)).collect();
    let mut element = operand.element.clone();
    if let Some(q) = quantization::of(operand)
        && let Some(axis) = q.axis
        && let Some(moved) = permutation.iter().position(|&d| d == axis)
    {
        element = ElementType::Quantized(Arc::new(Quantized { axis: Some(moved as i64), ..(**q).clone() }));
    }
    Ok(vec![shapes::bounded(dims, limits, element).into()])
}

fn check(op: &OpView<'_>) -> Checked {
    elements::operand(op, 0, Elements::ANY, "transpose I1")?;
    let (operand, result) = (op.tensor(0)?, op.result_tensor(0)?);
    quantization::moved("transpose C1", operand, result)?;
    let axis = |ty| quantization::of(ty).and_then(|q| q.axis);
    let (Some(from), Some(to)) = (axis(operand), axis(result)) else { return Ok(()) };
    let source = usize::try_from(to).ok().and_then(|to| op.i64s("permutation").ok()?.get(to).copied());
    require!(source == Some(from), "transpose C4", "quantized dimension of the operand is {from}, of the result {to}");
    Ok(())
}
