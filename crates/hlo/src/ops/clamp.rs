//! `stablehlo.clamp`: limits values to a range.

use crate::ops::def::{Arity, Infer, OpClass, OpDef, OpView, Piece, Text, VhloForm};
use crate::ops::rules::elements::Elements;
use crate::ops::rules::{Inferred, elements, shapes};

pub(crate) const DEF: OpDef = OpDef {
    name: "stablehlo.clamp",
    class: OpClass::Arithmetic,
    operands: Arity::exactly(3),
    results: Arity::exactly(1),
    regions: Arity::exactly(0),
    attrs: &[],
    text: Text::Pieces(&[Piece::OperandsFrom(0), Piece::AttrDict, Piece::Word(":"), Piece::SameType]),
    vhlo: &[VhloForm { name: "clamp_v1", attrs: &[] }],
    infer: Some(Infer::by("clamp C4", infer)),
    check: |op| elements::operands_from(op, 0, Elements::TENSOR, "clamp I1"),
};

fn infer(op: &OpView<'_>) -> Inferred {
    let (min, operand, max) = (op.tensor(0)?, op.tensor(1)?, op.tensor(2)?);
    for (clause, name, limit) in [("clamp C1", "min", min), ("clamp C2", "max", max)] {
        if limit.rank() != 0 {
            shapes::same_shape(clause, (name, limit), ("operand", operand))?;
        }
        shapes::same_element("clamp C3", (name, limit), ("operand", operand))?;
    }
    Ok(vec![op.operands[1].clone()])
}
