//! `stablehlo.dynamic_reshape`: reshape to a shape known at run time.

use crate::ir::TensorType;
use crate::ops::def::{Arity, OpClass, OpDef, OpView, Piece, Text, VhloForm};
use crate::ops::rules::elements::Elements;
use crate::ops::rules::{Checked, elements, quantization, require, reshaping, shapes};

pub(crate) const DEF: OpDef = OpDef {
    name: "stablehlo.dynamic_reshape",
    class: OpClass::Indexing,
    operands: Arity::exactly(2),
    results: Arity::exactly(1),
    regions: Arity::exactly(0),
    attrs: &[],
    text: Text::Pieces(&[Piece::OperandsFrom(0), Piece::AttrDict, Piece::Word(":"), Piece::FunctionType]),
    vhlo: &[VhloForm { name: "dynamic_reshape_v1", attrs: &[] }],
    infer: None,
    check,
};

fn check(op: &OpView<'_>) -> Checked {
    elements::operand(op, 0, Elements::ANY, "dynamic_reshape I1")?;
    elements::sizes(op, 1, "dynamic_reshape I2")?;
    let (operand, shape, result) = (op.tensor(0)?, op.tensor(1)?, op.result_tensor(0)?);
    quantization::moved("dynamic_reshape C1", operand, result)?;
    reshaping::same_size("dynamic_reshape C2", operand, result)?;
    quantization::reshaped("dynamic_reshape C3", operand, result)?;
    require!(
        shapes::dims_agree(shape.dims[0], result.rank() as i64),
        "dynamic_reshape C4",
        "output_shape has {} elements, the result has rank {}",
        shape.dims[0],
        result.rank()
    );
    let Some(sizes) = op.constant(1) else { return Ok(()) };
    reshaping::shape_operand("dynamic_reshape C4", Some(&sizes), result)?;
    reshaping::same_size("dynamic_reshape C2", operand, &TensorType::new(sizes, operand.element.clone()))
}
