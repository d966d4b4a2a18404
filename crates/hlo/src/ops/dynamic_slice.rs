//! `stablehlo.dynamic_slice`: slice at start indices known at run time.

use crate::ir::{DYNAMIC, TensorType};
use crate::ops::def::{Arity, AttrDef, AttrKind, Infer, OpClass, OpDef, OpView, Piece, Presence, Text, VhloForm};
use crate::ops::rules::elements::Elements;
use crate::ops::rules::{Checked, Inferred, dimensions, elements, require, shapes, spelling};

pub(crate) const DEF: OpDef = OpDef {
    name: "stablehlo.dynamic_slice",
    class: OpClass::Indexing,
    operands: Arity::at_least(1),
    results: Arity::exactly(1),
    regions: Arity::exactly(0),
    attrs: &[AttrDef { name: "slice_sizes", kind: AttrKind::I64s, presence: Presence::Required }],
    text: Text::Pieces(&[
        Piece::Operand(0),
        Piece::Word(","),
        Piece::OperandsThenComma(1),
        Piece::Word("sizes"),
        Piece::Word("="),
        Piece::Attr("slice_sizes"),
        Piece::AttrDict,
        Piece::Word(":"),
        Piece::FunctionType,
    ]),
    vhlo: &[VhloForm { name: "dynamic_slice_v1", attrs: &["slice_sizes"] }],
    infer: Some(Infer::by("dynamic_slice C5", infer)),
    check,
};

fn infer(op: &OpView<'_>) -> Inferred {
    let operand = op.tensor(0)?;
    let sizes = op.i64s("slice_sizes")?;
    dimensions::count("dynamic_slice C2", "start_indices", op.operands.len() - 1, operand.rank())?;
    dimensions::count("dynamic_slice C2", "slice_sizes", sizes.len(), operand.rank())?;
    for (d, (&size, &have)) in sizes.iter().zip(&operand.dims).enumerate() {
        require!(
            size >= 0 && (have == DYNAMIC || size <= have),
            "dynamic_slice C4",
            "slice_sizes[{d}] is {size}, operand dim {d} is {}",
            spelling::dim(have)
        );
    }
    Ok(vec![TensorType::new(sizes, operand.element.clone()).into()])
}

fn check(op: &OpView<'_>) -> Checked {
    elements::operand(op, 0, Elements::TENSOR, "dynamic_slice I1")?;
    for n in 1..op.operands.len() {
        elements::scalar(op, n, Elements::INTEGER, "dynamic_slice I2")?;
        shapes::same_element(
            "dynamic_slice C3",
            ("index 0", op.tensor(1)?),
            (&format!("index {}", n - 1), op.tensor(n)?),
        )?;
    }
    Ok(())
}
