//! `stablehlo.select`: chooses between two values.

use crate::ops::def::{Arity, Infer, OpClass, OpDef, OpView, Piece, Text, VhloForm};
use crate::ops::rules::elements::Elements;
use crate::ops::rules::{Checked, Inferred, elements, shapes};

pub(crate) const DEF: OpDef = OpDef {
    name: "stablehlo.select",
    class: OpClass::Arithmetic,
    operands: Arity::exactly(3),
    results: Arity::exactly(1),
    regions: Arity::exactly(0),
    attrs: &[],
    text: Text::Pieces(&[Piece::OperandsFrom(0), Piece::AttrDict, Piece::Word(":"), Piece::SelectTypes]),
    vhlo: &[VhloForm { name: "select_v1", attrs: &[] }],
    infer: Some(Infer::by("select C2", infer)),
    check,
};

fn infer(op: &OpView<'_>) -> Inferred {
    let (pred, on_true, on_false) = (op.tensor(0)?, op.tensor(1)?, op.tensor(2)?);
    shapes::same_element("select C2", ("on_true", on_true), ("on_false", on_false))?;
    shapes::same_shape("select C2", ("on_true", on_true), ("on_false", on_false))?;
    if pred.rank() != 0 {
        shapes::same_shape("select C1", ("pred", pred), ("on_true", on_true))?;
    }
    Ok(vec![shapes::meet("select C2", &[on_true, on_false])?.into()])
}

fn check(op: &OpView<'_>) -> Checked {
    elements::operand(op, 0, Elements::BOOL, "select I1")?;
    elements::operand(op, 1, Elements::TENSOR, "select I2")?;
    elements::operand(op, 2, Elements::TENSOR, "select I3")
}
