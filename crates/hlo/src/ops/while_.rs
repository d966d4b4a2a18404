//! `stablehlo.while`: repeats a body while a condition holds.

use tensor::DType;

use crate::ir::Type;
use crate::ops::def::{Arity, Infer, OpClass, OpDef, OpView, Text, VhloForm};
use crate::ops::rules::{Checked, require, shapes, spelling};

pub(crate) const DEF: OpDef = OpDef {
    name: "stablehlo.while",
    class: OpClass::Control,
    operands: Arity::at_least(0),
    results: Arity::at_least(0),
    regions: Arity::exactly(2),
    attrs: &[],
    text: Text::While,
    vhlo: &[VhloForm { name: "while_v1", attrs: &[] }],
    infer: Some(Infer::by("while C3", |op| Ok(op.operands.to_vec()))),
    check,
};

fn check(op: &OpView<'_>) -> Checked {
    let operands = || ("operand", op.operands.iter());
    shapes::same_types("while C1", operands(), ("cond argument", op.region_inputs(0)?.into_iter()))?;
    shapes::same_types("while C2", operands(), ("body argument", op.region_inputs(1)?.into_iter()))?;
    shapes::same_types("while C2", operands(), ("body result", op.region_outputs(1)?.into_iter()))?;
    let decision = op.region_outputs(0)?;
    require!(
        decision.len() == 1 && *decision[0] == Type::scalar(DType::Bool),
        "while C1",
        "cond must return tensor<i1>, returns {}",
        spelling::types(decision)
    );
    Ok(())
}
