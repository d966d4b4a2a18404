//! `stablehlo.uniform_quantize`: real to quantized.

use crate::ops::def::{Arity, OpClass, OpDef, OpView, Piece, Text, VhloForm};
use crate::ops::rules::elements::Elements;
use crate::ops::rules::{Checked, elements, elementwise, quantization, require, spelling};

pub(crate) const DEF: OpDef = OpDef {
    name: "stablehlo.uniform_quantize",
    class: OpClass::Quantization,
    operands: Arity::exactly(1),
    results: Arity::exactly(1),
    regions: Arity::exactly(0),
    attrs: &[],
    text: Text::Pieces(&[Piece::Operand(0), Piece::AttrDict, Piece::Word(":"), Piece::SameType]),
    vhlo: &[VhloForm { name: "uniform_quantize_v1", attrs: &[] }],
    infer: None,
    check,
};

fn check(op: &OpView<'_>) -> Checked {
    let quantized = Elements::QUANTIZED.or(Elements::PER_AXIS);
    elements::operand(op, 0, Elements::FLOAT.or(quantized), "uniform_quantize I1")?;
    elements::result(op, 0, quantized, "uniform_quantize O1")?;
    elementwise::same_shape(op, "uniform_quantize C1")?;
    let (operand, result) = (op.tensor(0)?, op.result_tensor(0)?);
    let from = quantization::of(operand).map_or(operand.element.plain(), |q| Some(q.expressed));
    let to = quantization::of(result).map(|q| q.expressed);
    require!(
        from == to,
        "uniform_quantize C2",
        "the operand {} and the result {} express different types",
        spelling::tensor(operand),
        spelling::tensor(result)
    );
    Ok(())
}
