//! `stablehlo.add`: element-wise sum.

use crate::ops::def::{Arity, Infer, OpClass, OpDef, OpView, Piece, Text, VhloForm};
use crate::ops::rules::elements::Elements;
use crate::ops::rules::{Checked, Inferred, elements, elementwise, quantization, require, shapes};

pub(crate) const DEF: OpDef = OpDef {
    name: "stablehlo.add",
    class: OpClass::Arithmetic,
    operands: Arity::exactly(2),
    results: Arity::exactly(1),
    regions: Arity::exactly(0),
    attrs: &[],
    text: Text::Pieces(&[
        Piece::Operand(0),
        Piece::Word(","),
        Piece::Operand(1),
        Piece::AttrDict,
        Piece::Word(":"),
        Piece::SameType,
    ]),
    vhlo: &[VhloForm { name: "add_v1", attrs: &[] }],
    infer: Some(Infer::by("add C1", infer)),
    check,
};

fn infer(op: &OpView<'_>) -> Inferred {
    let (lhs, rhs) = (op.tensor(0)?, op.tensor(1)?);
    let (Some(l), Some(r)) = (quantization::of(lhs), quantization::of(rhs)) else {
        require!(
            elements::is_quantized(lhs) == elements::is_quantized(rhs),
            "add C2",
            "either both or none of lhs and rhs are quantized"
        );
        return elementwise::infer(op, "add C1");
    };
    let mut ty = shapes::meet("add C1", &[lhs, rhs])?;
    if l.axis.is_none() && r.axis.is_some() {
        ty.element = rhs.element.clone();
    }
    Ok(vec![ty.into()])
}

fn check(op: &OpView<'_>) -> Checked {
    elementwise::binary(op, Elements::ANY, ["add I1", "add I2"])?;
    let (lhs, rhs, result) = (op.tensor(0)?, op.tensor(1)?, op.result_tensor(0)?);
    if elements::is_quantized(lhs) || elements::is_quantized(result) {
        return quantization::sum(lhs, rhs, result);
    }
    Ok(())
}
