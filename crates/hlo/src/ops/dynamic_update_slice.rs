//! `stablehlo.dynamic_update_slice`: writes a slice at indices known at run time.

use crate::ir::DYNAMIC;
use crate::ops::def::{Arity, Infer, OpClass, OpDef, OpView, Piece, Text, VhloForm};
use crate::ops::rules::elements::Elements;
use crate::ops::rules::{Checked, dimensions, elements, require, shapes};

pub(crate) const DEF: OpDef = OpDef {
    name: "stablehlo.dynamic_update_slice",
    class: OpClass::Indexing,
    operands: Arity::at_least(2),
    results: Arity::exactly(1),
    regions: Arity::exactly(0),
    attrs: &[],
    text: Text::Pieces(&[Piece::OperandsFrom(0), Piece::AttrDict, Piece::Word(":"), Piece::FunctionType]),
    vhlo: &[VhloForm { name: "dynamic_update_slice_v1", attrs: &[] }],
    infer: Some(Infer::by("dynamic_update_slice C1", |op| Ok(vec![op.operands[0].clone()]))),
    check,
};

fn check(op: &OpView<'_>) -> Checked {
    elements::operand(op, 0, Elements::TENSOR, "dynamic_update_slice I1")?;
    elements::operand(op, 1, Elements::TENSOR, "dynamic_update_slice I2")?;
    let (operand, update) = (op.tensor(0)?, op.tensor(1)?);
    shapes::identical_element("dynamic_update_slice C2", ("operand", operand), ("update", update))?;
    require!(
        update.rank() == operand.rank(),
        "dynamic_update_slice C3",
        "the operand has rank {}, the update has rank {}",
        operand.rank(),
        update.rank()
    );
    dimensions::count("dynamic_update_slice C4", "start_indices", op.operands.len() - 2, operand.rank())?;
    for n in 2..op.operands.len() {
        elements::scalar(op, n, Elements::INTEGER, "dynamic_update_slice I3")?;
        let name = format!("index {}", n - 2);
        shapes::same_element("dynamic_update_slice C5", ("index 0", op.tensor(2)?), (&name, op.tensor(n)?))?;
    }
    for (d, (&size, &have)) in update.dims.iter().zip(&operand.dims).enumerate() {
        require!(
            size == DYNAMIC || have == DYNAMIC || size <= have,
            "dynamic_update_slice C6",
            "update dim {d} is {size}, operand dim {d} is {have}"
        );
    }
    Ok(())
}
