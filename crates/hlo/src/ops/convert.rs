//! `stablehlo.convert`: element type conversion.

use crate::ops::def::{Arity, OpClass, OpDef, OpView, Piece, Text, VhloForm};
use crate::ops::rules::elements::Elements;
use crate::ops::rules::{Checked, elements, elementwise};

pub(crate) const DEF: OpDef = OpDef {
    name: "stablehlo.convert",
    class: OpClass::Arithmetic,
    operands: Arity::exactly(1),
    results: Arity::exactly(1),
    regions: Arity::exactly(0),
    attrs: &[],
    text: Text::Pieces(&[Piece::Operand(0), Piece::AttrDict, Piece::Word(":"), Piece::SameType]),
    vhlo: &[VhloForm { name: "convert_v1", attrs: &[] }],
    infer: None,
    check,
};

fn check(op: &OpView<'_>) -> Checked {
    elements::operand(op, 0, Elements::PLAIN, "convert I1")?;
    elements::result(op, 0, Elements::PLAIN, "convert I1")?;
    elementwise::same_shape(op, "convert C1")
}
