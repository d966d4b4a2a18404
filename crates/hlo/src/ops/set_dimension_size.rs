//! `stablehlo.set_dimension_size`: sets the run-time size of a dimension.

use crate::ir::DYNAMIC;
use crate::ops::def::{Arity, AttrDef, AttrKind, Infer, OpClass, OpDef, OpView, Piece, Presence, Text, VhloForm};
use crate::ops::rules::elements::Elements;
use crate::ops::rules::{Checked, Inferred, dimensions, elements, require, shapes, spelling};

pub(crate) const DEF: OpDef = OpDef {
    name: "stablehlo.set_dimension_size",
    class: OpClass::Size,
    operands: Arity::exactly(2),
    results: Arity::exactly(1),
    regions: Arity::exactly(0),
    attrs: &[AttrDef { name: "dimension", kind: AttrKind::I64, presence: Presence::Required }],
    text: Text::Pieces(&[
        Piece::Operand(0),
        Piece::Word(","),
        Piece::Operand(1),
        Piece::Word(","),
        Piece::Word("dim"),
        Piece::Word("="),
        Piece::Attr("dimension"),
        Piece::AttrDict,
        Piece::Word(":"),
        Piece::FunctionType,
    ]),
    vhlo: &[VhloForm { name: "set_dimension_size_v1", attrs: &["dimension"] }],
    infer: Some(Infer::by("set_dimension_size", infer)),
    check,
};

fn infer(op: &OpView<'_>) -> Inferred {
    let operand = op.tensor(0)?;
    let dim = dimensions::index("set_dimension_size", "dimension", op.int("dimension")?, operand.rank())?;
    let (mut dims, mut limits) = (operand.dims.clone(), shapes::bounds(operand));
    if dims[dim] != DYNAMIC {
        limits[dim] = dims[dim];
    }
    dims[dim] = DYNAMIC;
    if let Some([size]) = op.constant(1).as_deref() {
        let limit = limits[dim];
        require!(
            *size >= 0 && (limit == DYNAMIC || *size <= limit),
            "set_dimension_size",
            "the size is {size}, dim {dim} is at most {}",
            spelling::dim(limit)
        );
    }
    // A size that is known to fill the bound leaves nothing dynamic.
    if let Some([size]) = op.constant(1).as_deref()
        && *size == limits[dim]
    {
        (dims[dim], limits[dim]) = (*size, DYNAMIC);
    }
    Ok(vec![shapes::bounded(dims, limits, operand.element.clone()).into()])
}

fn check(op: &OpView<'_>) -> Checked {
    elements::operand(op, 0, Elements::TENSOR, "set_dimension_size")?;
    elements::scalar(op, 1, Elements::SIGNED, "set_dimension_size")
}
