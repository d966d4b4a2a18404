//! `stablehlo.pad`: adds edge and interior padding.

use crate::ops::def::{
    Arity, AttrDef, AttrKind, Infer, OpClass, OpDef, OpView, Piece, Presence, Text, VhloForm, Violation,
};
use crate::ops::rules::elements::Elements;
use crate::ops::rules::{Checked, Inferred, dimensions, elements, padding, require, shapes};

pub(crate) const DEF: OpDef = OpDef {
    name: "stablehlo.pad",
    class: OpClass::Movement,
    operands: Arity::exactly(2),
    results: Arity::exactly(1),
    regions: Arity::exactly(0),
    attrs: &[
        AttrDef { name: "edge_padding_low", kind: AttrKind::I64s, presence: Presence::Required },
        AttrDef { name: "edge_padding_high", kind: AttrKind::I64s, presence: Presence::Required },
        AttrDef { name: "interior_padding", kind: AttrKind::I64s, presence: Presence::Required },
    ],
    text: Text::Pieces(&[
        Piece::Operand(0),
        Piece::Word(","),
        Piece::Operand(1),
        Piece::Word(","),
        Piece::Word("low"),
        Piece::Word("="),
        Piece::Attr("edge_padding_low"),
        Piece::Word(","),
        Piece::Word("high"),
        Piece::Word("="),
        Piece::Attr("edge_padding_high"),
        Piece::Word(","),
        Piece::Word("interior"),
        Piece::Word("="),
        Piece::Attr("interior_padding"),
        Piece::AttrDict,
        Piece::Word(":"),
        Piece::FunctionType,
    ]),
    vhlo: &[VhloForm { name: "pad_v1", attrs: &["edge_padding_high", "edge_padding_low", "interior_padding"] }],
    infer: Some(Infer::by("pad C4", infer)),
    check,
};

fn infer(op: &OpView<'_>) -> Inferred {
    let (operand, value) = (op.tensor(0)?, op.tensor(1)?);
    shapes::same_element("pad C1", ("operand", operand), ("padding_value", value))?;
    let (low, high) = (op.i64s("edge_padding_low")?, op.i64s("edge_padding_high")?);
    let interior = op.i64s("interior_padding")?;
    for (name, list) in [("edge_padding_low", low), ("edge_padding_high", high), ("interior_padding", interior)] {
        dimensions::count("pad C2", name, list.len(), operand.rank())?;
    }
    let padded = |d: usize, size: i64| -> Result<i64, Violation> {
        require!(interior[d] >= 0, "pad C3", "interior_padding[{d}] is {}", interior[d]);
        padding::padded(size, low[d], high[d], interior[d]).ok_or_else(|| {
            let message = format!(
                "dim {d} is {size}; padded by {}, {} and {} between elements it is negative or beyond 64 bits",
                low[d], high[d], interior[d]
            );
            Violation::new("pad C4", message)
        })
    };
    let mut dims = Vec::with_capacity(operand.rank());
    let mut limits = Vec::with_capacity(operand.rank());
    for d in 0..operand.rank() {
        dims.push(padded(d, operand.dims[d])?);
        limits.push(padded(d, shapes::bound(operand, d))?);
    }
    Ok(vec![shapes::bounded(dims, limits, operand.element.clone()).into()])
}

fn check(op: &OpView<'_>) -> Checked {
    elements::operand(op, 0, Elements::TENSOR, "pad I1")?;
    elements::scalar(op, 1, Elements::TENSOR, "pad I2")
}
