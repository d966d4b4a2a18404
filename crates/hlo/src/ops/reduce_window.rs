//! `stablehlo.reduce_window`: reduces sliding windows.

use crate::ir::TensorType;
use crate::ops::def::{Arity, AttrDef, AttrKind, Infer, OpClass, OpDef, OpView, Presence, Text, VhloForm, Violation};
use crate::ops::rules::elements::Elements;
use crate::ops::rules::window::{Window, WindowForm};
use crate::ops::rules::{Checked, Inferred, dimensions, elements, reduction, require, shapes};

pub(crate) const DEF: OpDef = OpDef {
    name: "stablehlo.reduce_window",
    class: OpClass::Reduction,
    operands: Arity::at_least(0),
    results: Arity::at_least(0),
    regions: Arity::exactly(1),
    attrs: &[
        AttrDef { name: "window_dimensions", kind: AttrKind::I64s, presence: Presence::Required },
        AttrDef { name: "window_strides", kind: AttrKind::I64s, presence: Presence::DefaultFill(1) },
        AttrDef { name: "base_dilations", kind: AttrKind::I64s, presence: Presence::DefaultFill(1) },
        AttrDef { name: "window_dilations", kind: AttrKind::I64s, presence: Presence::DefaultFill(1) },
        AttrDef { name: "padding", kind: AttrKind::DenseI64, presence: Presence::DefaultFill(0) },
    ],
    text: Text::Generic,
    vhlo: &[VhloForm {
        name: "reduce_window_v1",
        attrs: &["base_dilations", "padding", "window_dilations", "window_dimensions", "window_strides"],
    }],
    infer: Some(Infer::by("reduce_window C15", infer)),
    check,
};

const FORM: WindowForm = WindowForm {
    base_dilations: Some("base_dilations"),
    window_dilations: Some("window_dilations"),
    sizes_positive: Some("reduce_window C5"),
    strides: ["reduce_window C6", "reduce_window C7"],
    base: ["reduce_window C8", "reduce_window C9"],
    dilations: ["reduce_window C10", "reduce_window C11"],
    padding: "reduce_window C12",
    result: "reduce_window C15",
};

fn infer(op: &OpView<'_>) -> Inferred {
    let (inputs, inits) = split(op)?;
    let shape = shapes::meet("reduce_window C2", &inputs)?;
    for (n, (input, init)) in inputs.iter().zip(&inits).enumerate() {
        let names = (format!("input {n}"), format!("init value {n}"));
        shapes::same_element("reduce_window C3", (&names.0, input), (&names.1, init))?;
    }
    let sizes = op.i64s("window_dimensions")?;
    dimensions::count("reduce_window C4", "window_dimensions", sizes.len(), shape.rank())?;
    let window = Window::read(op, sizes, &FORM)?;
    let dims = window.positions(&shape.dims)?;
    let limits = window.positions(&shapes::bounds(&shape))?;
    let accumulators = reduction::accumulators(op, 0, inputs.len(), "reduce_window C13")?;
    Ok(accumulators.into_iter().map(|element| shapes::bounded(dims.clone(), limits.clone(), element).into()).collect())
}

fn check(op: &OpView<'_>) -> Checked {
    elements::operands_from(op, 0, Elements::TENSOR, "reduce_window I1")?;
    let (inputs, inits) = split(op)?;
    reduction::body(op, 0, &inputs, &inits, "reduce_window C13")
}

type Halves<'a> = (Vec<&'a TensorType>, Vec<&'a TensorType>);

fn split<'a>(op: &OpView<'a>) -> Result<Halves<'a>, Violation> {
    let mut inputs = op.tensors()?;
    require!(
        !inputs.is_empty() && inputs.len().is_multiple_of(2),
        "reduce_window C1",
        "{} operands, as many inputs as init values expected",
        inputs.len()
    );
    let inits = inputs.split_off(inputs.len() / 2);
    Ok((inputs, inits))
}
