//! `sdy.named_computation`: a region with a name and shardings of its own.

use crate::ops::def::{Arity, AttrDef, AttrKind, OpClass, OpDef, OpView, Presence, Text};
use crate::ops::rules::{Checked, shapes};

pub(crate) const DEF: OpDef = OpDef {
    name: "sdy.named_computation",
    class: OpClass::Control,
    operands: Arity::at_least(0),
    results: Arity::at_least(0),
    regions: Arity::exactly(1),
    attrs: &[
        AttrDef { name: "name", kind: AttrKind::Str, presence: Presence::Required },
        AttrDef { name: "in_shardings", kind: AttrKind::SdyShardings, presence: Presence::Optional },
        AttrDef { name: "out_shardings", kind: AttrKind::SdyShardings, presence: Presence::Optional },
    ],
    text: Text::NamedComputation,
    vhlo: &[],
    infer: None,
    check,
};

fn check(op: &OpView<'_>) -> Checked {
    let clause = "sdy.named_computation";
    let (inputs, outputs) = (op.region_inputs(0)?, op.region_outputs(0)?);
    shapes::same_types(clause, ("operand", op.operands.iter()), ("body argument", inputs.into_iter()))?;
    shapes::same_types(clause, ("result", op.results.iter()), ("body result", outputs.into_iter()))
}
