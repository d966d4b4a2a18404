//! `stablehlo.reshape`: same elements in another shape.

use crate::ops::def::{Arity, OpClass, OpDef, OpView, Piece, Text, VhloForm};
use crate::ops::rules::elements::Elements;
use crate::ops::rules::{Checked, elements, quantization, reshaping, shapes};

pub(crate) const DEF: OpDef = OpDef {
    name: "stablehlo.reshape",
    class: OpClass::Movement,
    operands: Arity::exactly(1),
    results: Arity::exactly(1),
    regions: Arity::exactly(0),
    attrs: &[],
    text: Text::Pieces(&[Piece::OperandsFrom(0), Piece::AttrDict, Piece::Word(":"), Piece::FunctionType]),
    vhlo: &[VhloForm { name: "reshape_v1", attrs: &[] }],
    infer: None,
    check,
};

fn check(op: &OpView<'_>) -> Checked {
    elements::operand(op, 0, Elements::ANY, "reshape I1")?;
    let (operand, result) = (op.tensor(0)?, op.result_tensor(0)?);
    shapes::static_or_one_bounded("reshape O1", result)?;
    quantization::moved("reshape C1", operand, result)?;
    reshaping::same_size("reshape C2", operand, result)?;
    quantization::reshaped("reshape C3", operand, result)
}
