//! `stablehlo.map`: applies a function element by element.

use crate::ir::Type;
use crate::ops::def::{Arity, AttrDef, AttrKind, Infer, OpClass, OpDef, OpView, Presence, Text, VhloForm, Violation};
use crate::ops::rules::elements::Elements;
use crate::ops::rules::{Inferred, elements, require, shapes, spelling};

pub(crate) const DEF: OpDef = OpDef {
    name: "stablehlo.map",
    class: OpClass::Control,
    operands: Arity::at_least(0),
    results: Arity::exactly(1),
    regions: Arity::exactly(1),
    attrs: &[AttrDef { name: "dimensions", kind: AttrKind::I64s, presence: Presence::Required }],
    text: Text::Generic,
    vhlo: &[VhloForm { name: "map_v1", attrs: &["dimensions"] }],
    infer: Some(Infer::by("map C1", infer)),
    check: |op| elements::operands_from(op, 0, Elements::TENSOR, "map I1"),
};

fn infer(op: &OpView<'_>) -> Inferred {
    let inputs = op.tensors()?;
    let shape = shapes::meet("map C1", &inputs)?;
    require!(
        op.i64s("dimensions")?.iter().copied().eq(0..shape.rank() as i64),
        "map C3",
        "dimensions are {:?}, every dimension of rank {} in order expected",
        op.i64s("dimensions")?,
        shape.rank()
    );
    let args = op.region_inputs(0)?;
    require!(
        args.len() == inputs.len(),
        "map C4",
        "the computation takes {} values, {} expected",
        args.len(),
        inputs.len()
    );
    for (n, (arg, input)) in args.iter().zip(&inputs).enumerate() {
        let want = Type::scalar(input.element.clone());
        require!(
            **arg == want,
            "map C4",
            "the computation's argument {n} is {}, {} expected",
            spelling::ty(arg),
            spelling::ty(&want)
        );
    }
    let outputs = op.region_outputs(0)?;
    let [output] = outputs[..] else {
        return Err(Violation::new("map C4", format!("the computation returns {} values, 1 expected", outputs.len())));
    };
    match output.as_tensor() {
        Some(output) if output.rank() == 0 => Ok(vec![shapes::with_element(&shape, output.element.clone()).into()]),
        _ => Err(Violation::new("map C4", format!("the computation returns {}", spelling::ty(output)))),
    }
}
