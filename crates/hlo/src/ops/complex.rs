//! `stablehlo.complex`: makes complex numbers from parts.

use crate::ops::def::{Arity, Infer, OpClass, OpDef, OpView, Piece, Text, VhloForm, no_constraints};
use crate::ops::rules::{Inferred, broadcast, shapes};

pub(crate) const DEF: OpDef = OpDef {
    name: "stablehlo.complex",
    class: OpClass::Arithmetic,
    operands: Arity::exactly(2),
    results: Arity::exactly(1),
    regions: Arity::exactly(0),
    attrs: &[],
    text: Text::Pieces(&[Piece::OperandsFrom(0), Piece::AttrDict, Piece::Word(":"), Piece::ComplexType]),
    vhlo: &[VhloForm { name: "complex_v1", attrs: &[] }],
    infer: Some(Infer::by("complex C3", infer)),
    check: no_constraints,
};

fn infer(op: &OpView<'_>) -> Inferred {
    let (lhs, rhs) = (op.tensor(0)?, op.tensor(1)?);
    let element = broadcast::complex_of("complex I1", lhs)?;
    shapes::same_element("complex C1", ("lhs", lhs), ("rhs", rhs))?;
    let ty = shapes::meet("complex C1", &[lhs, rhs])?;
    Ok(vec![shapes::with_element(&ty, element.into()).into()])
}
