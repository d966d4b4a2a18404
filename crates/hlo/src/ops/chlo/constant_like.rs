//! `chlo.constant_like`: a constant shaped like its operand.

use crate::ops::def::{Arity, AttrDef, AttrKind, OpDef, Presence, Text, no_constraints};

pub(crate) const DEF: OpDef = OpDef {
    name: "chlo.constant_like",
    operands: Arity::exactly(1),
    results: Arity::exactly(1),
    regions: Arity::exactly(0),
    attrs: &[AttrDef { name: "value", kind: AttrKind::Any, presence: Presence::Required }],
    text: Text::Generic,
    vhlo: &[],
    infer: None,
    check: no_constraints,
};
