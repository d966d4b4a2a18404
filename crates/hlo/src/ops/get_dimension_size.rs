//! `stablehlo.get_dimension_size`: size of a dimension at run time.

use tensor::DType;

use crate::ir::Type;
use crate::ops::def::{Arity, AttrDef, AttrKind, Infer, OpClass, OpDef, OpView, Piece, Presence, Text, VhloForm};
use crate::ops::rules::elements::Elements;
use crate::ops::rules::{Checked, dimensions, elements};

pub(crate) const DEF: OpDef = OpDef {
    name: "stablehlo.get_dimension_size",
    class: OpClass::Size,
    operands: Arity::exactly(1),
    results: Arity::exactly(1),
    regions: Arity::exactly(0),
    attrs: &[AttrDef { name: "dimension", kind: AttrKind::I64, presence: Presence::Required }],
    text: Text::Pieces(&[
        Piece::Operand(0),
        Piece::Word(","),
        Piece::Word("dim"),
        Piece::Word("="),
        Piece::Attr("dimension"),
        Piece::AttrDict,
        Piece::Word(":"),
        Piece::FunctionType,
    ]),
    vhlo: &[VhloForm { name: "get_dimension_size_v1", attrs: &["dimension"] }],
    infer: Some(Infer::by("get_dimension_size O1", |_| Ok(vec![Type::scalar(DType::I32)]))),
    check,
};

fn check(op: &OpView<'_>) -> Checked {
    elements::operand(op, 0, Elements::ANY, "get_dimension_size I1")?;
    dimensions::index("get_dimension_size C1", "dimension", op.int("dimension")?, op.tensor(0)?.rank()).map(drop)
}
