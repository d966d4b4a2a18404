//! `stablehlo.reverse`: reverses dimensions.

use crate::ops::def::{Arity, AttrDef, AttrKind, Infer, OpClass, OpDef, OpView, Piece, Presence, Text, VhloForm};
use crate::ops::rules::elements::Elements;
use crate::ops::rules::{Checked, dimensions, elements};

pub(crate) const DEF: OpDef = OpDef {
    name: "stablehlo.reverse",
    class: OpClass::Movement,
    operands: Arity::exactly(1),
    results: Arity::exactly(1),
    regions: Arity::exactly(0),
    attrs: &[AttrDef { name: "dimensions", kind: AttrKind::I64s, presence: Presence::Required }],
    text: Text::Pieces(&[
        Piece::Operand(0),
        Piece::Word(","),
        Piece::Word("dims"),
        Piece::Word("="),
        Piece::Attr("dimensions"),
        Piece::AttrDict,
        Piece::Word(":"),
        Piece::SameType,
    ]),
    vhlo: &[VhloForm { name: "reverse_v1", attrs: &["dimensions"] }],
    infer: Some(Infer::by("reverse C1", |op| Ok(op.operands.to_vec()))),
    check,
};

fn check(op: &OpView<'_>) -> Checked {
    elements::operand(op, 0, Elements::TENSOR, "reverse I1")?;
    let dimensions = op.i64s("dimensions")?;
    dimensions::unique("reverse C2", "dimensions", dimensions.iter().copied())?;
    dimensions::in_range("reverse C3", "dimensions", dimensions, op.tensor(0)?.rank())
}
