//! `stablehlo.reduce`: reduces along dimensions.

use crate::ir::TensorType;
use crate::ops::def::{Arity, AttrDef, AttrKind, Infer, OpClass, OpDef, OpView, Presence, Text, VhloForm, Violation};
use crate::ops::rules::elements::Elements;
use crate::ops::rules::{Checked, Inferred, dimensions, elements, reduction, require, shapes};

pub(crate) const DEF: OpDef = OpDef {
    name: "stablehlo.reduce",
    class: OpClass::Reduction,
    operands: Arity::at_least(0),
    results: Arity::at_least(0),
    regions: Arity::exactly(1),
    attrs: &[AttrDef { name: "dimensions", kind: AttrKind::I64s, presence: Presence::Required }],
    text: Text::Reduce,
    vhlo: &[VhloForm { name: "reduce_v1", attrs: &["dimensions"] }],
    infer: Some(Infer::by("reduce C7", infer)),
    check,
};

fn infer(op: &OpView<'_>) -> Inferred {
    let (inputs, inits) = split(op)?;
    let shape = shapes::meet("reduce C1", &inputs)?;
    for (n, (input, init)) in inputs.iter().zip(&inits).enumerate() {
        let names = (format!("input {n}"), format!("init value {n}"));
        shapes::same_element("reduce C2", (&names.0, input), (&names.1, init))?;
    }
    let dimensions = op.i64s("dimensions")?;
    dimensions::in_range("reduce C4", "dimensions", dimensions, shape.rank())?;
    dimensions::unique("reduce C5", "dimensions", dimensions.iter().copied())?;
    let kept = || (0..shape.rank()).filter(|&d| !dimensions.contains(&(d as i64)));
    let dims: Vec<i64> = kept().map(|d| shape.dims[d]).collect();
    let limits: Vec<i64> = kept().map(|d| shapes::bound(&shape, d)).collect();
    let accumulators = reduction::accumulators(op, 0, inputs.len(), "reduce C6")?;
    Ok(accumulators.into_iter().map(|element| shapes::bounded(dims.clone(), limits.clone(), element).into()).collect())
}

fn check(op: &OpView<'_>) -> Checked {
    elements::operands_from(op, 0, Elements::TENSOR, "reduce I1")?;
    let (inputs, inits) = split(op)?;
    reduction::body(op, 0, &inputs, &inits, "reduce C6")
}

type Halves<'a> = (Vec<&'a TensorType>, Vec<&'a TensorType>);

fn split<'a>(op: &OpView<'a>) -> Result<Halves<'a>, Violation> {
    let mut inputs = op.tensors()?;
    require!(
        !inputs.is_empty() && inputs.len().is_multiple_of(2),
        "reduce C3",
        "{} operands, as many inputs as init values expected",
        inputs.len()
    );
    let inits = inputs.split_off(inputs.len() / 2);
    Ok((inputs, inits))
}
