//! `sdy.propagation_barrier`: limits sharding propagation.

use crate::ops::def::{Arity, AttrDef, AttrKind, OpDef, Presence, Text, no_constraints};

pub(crate) const DEF: OpDef = OpDef {
    name: "sdy.propagation_barrier",
    operands: Arity::exactly(1),
    results: Arity::exactly(1),
    regions: Arity::exactly(0),
    attrs: &[AttrDef { name: "allowed_direction", kind: AttrKind::Any, presence: Presence::Required }],
    text: Text::Generic,
    vhlo: &[],
    infer: None,
    check: no_constraints,
};
