//! `sdy.constant`: a constant that propagation may copy.

use crate::ir::Attr;
use crate::ops::def::{
    Arity, AttrDef, AttrKind, Infer, OpClass, OpDef, OpView, Presence, Text, Violation, no_constraints,
};
use crate::ops::rules::Inferred;

pub(crate) const DEF: OpDef = OpDef {
    name: "sdy.constant",
    class: OpClass::Source,
    operands: Arity::exactly(0),
    results: Arity::exactly(1),
    regions: Arity::exactly(0),
    attrs: &[AttrDef { name: "value", kind: AttrKind::Dense, presence: Presence::Required }],
    text: Text::Constant,
    vhlo: &[],
    infer: Some(Infer::by("sdy.constant", infer)),
    check: no_constraints,
};

fn infer(op: &OpView<'_>) -> Inferred {
    match op.attr("value")? {
        Attr::Dense(dense) => Ok(vec![dense.ty.clone().into()]),
        _ => Err(Violation::new("sdy.constant", "value must be a dense constant")),
    }
}
