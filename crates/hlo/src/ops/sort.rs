//! `stablehlo.sort`: sorts along a dimension by a comparator.

use tensor::DType;

use crate::ir::{Attr, Type};
use crate::ops::def::{Arity, AttrDef, AttrKind, Infer, OpClass, OpDef, OpView, Presence, Text, VhloForm, Violation};
use crate::ops::rules::elements::Elements;
use crate::ops::rules::{Checked, Inferred, elements, require, shapes, spelling};

pub(crate) const DEF: OpDef = OpDef {
    name: "stablehlo.sort",
    class: OpClass::Ordering,
    operands: Arity::at_least(0),
    results: Arity::at_least(0),
    regions: Arity::exactly(1),
    attrs: &[
        AttrDef { name: "dimension", kind: AttrKind::I64, presence: Presence::Default(|| Attr::i64(-1)) },
        AttrDef { name: "is_stable", kind: AttrKind::Bool, presence: Presence::Default(|| Attr::Bool(false)) },
    ],
    text: Text::Generic,
    vhlo: &[VhloForm { name: "sort_v1", attrs: &["dimension", "is_stable"] }],
    infer: Some(Infer::by("sort C2", infer)),
    check,
};

fn infer(op: &OpView<'_>) -> Inferred {
    shapes::meet("sort C3", &op.tensors()?).map_err(|violation| match op.operands {
        [] => Violation { clause: "sort C1", ..violation },
        _ => violation,
    })?;
    Ok(op.operands.to_vec())
}

fn check(op: &OpView<'_>) -> Checked {
    elements::operands_from(op, 0, Elements::TENSOR, "sort I1")?;
    let inputs = op.tensors()?;
    let rank = inputs[0].rank() as i64;
    let dimension = op.attrs.get("dimension").and_then(Attr::as_int).unwrap_or(-1);
    require!(
        -rank <= dimension && dimension < rank,
        "sort C4",
        "dimension is {dimension}, which is not in [-{rank}, {rank})"
    );
    let args = op.region_inputs(0)?;
    require!(
        args.len() == 2 * inputs.len(),
        "sort C5",
        "the comparator takes {} values, {} expected",
        args.len(),
        2 * inputs.len()
    );
    for (n, arg) in args.iter().enumerate() {
        let want = Type::scalar(inputs[n / 2].element.clone());
        require!(
            **arg == want,
            "sort C5",
            "the comparator's argument {n} is {}, {} expected",
            spelling::ty(arg),
            spelling::ty(&want)
        );
    }
    let outputs = op.region_outputs(0)?;
    require!(
        outputs.len() == 1 && *outputs[0] == Type::scalar(DType::Bool),
        "sort C5",
        "the comparator returns {}, tensor<i1> expected",
        spelling::types(outputs)
    );
    Ok(())
}
