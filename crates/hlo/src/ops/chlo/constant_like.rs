//! `chlo.constant_like`: a constant shaped like its operand.

use tensor::DType;

use crate::ir::{Attr, Type};
use crate::ops::def::{Arity, AttrDef, AttrKind, Infer, OpClass, OpDef, OpView, Presence, Text, no_constraints};
use crate::ops::rules::{Inferred, elementwise};

pub(crate) const DEF: OpDef = OpDef {
    name: "chlo.constant_like",
    class: OpClass::Source,
    operands: Arity::exactly(1),
    results: Arity::exactly(1),
    regions: Arity::exactly(0),
    attrs: &[AttrDef { name: "value", kind: AttrKind::Any, presence: Presence::Required }],
    text: Text::Generic,
    vhlo: &[],
    infer: Some(Infer::by("chlo.constant_like", infer)),
    check: no_constraints,
};

fn infer(op: &OpView<'_>) -> Inferred {
    let element = match op.attr("value")? {
        Attr::Int(_, element) | Attr::Float(_, element) => element.clone(),
        Attr::Bool(_) => DType::Bool.into(),
        Attr::Dense(dense) => dense.ty.element.clone(),
        // A value of another dialect: its type is what the result says.
        _ => match op.results {
            [Type::Tensor(result)] => result.element.clone(),
            _ => op.tensor(0)?.element.clone(),
        },
    };
    elementwise::infer_element(op, element)
}
