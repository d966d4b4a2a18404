//! `func.call`: calls a function.

use crate::ops::def::{Arity, AttrDef, AttrKind, OpDef, Presence, Text, VhloForm, no_constraints};

pub(crate) const DEF: OpDef = OpDef {
    name: "func.call",
    operands: Arity::at_least(0),
    results: Arity::at_least(0),
    regions: Arity::exactly(0),
    attrs: &[AttrDef { name: "callee", kind: AttrKind::Symbol, presence: Presence::Required }],
    text: Text::Call,
    vhlo: &[VhloForm { name: "call_v1", attrs: &["callee"] }],
    infer: None,
    check: no_constraints,
};
