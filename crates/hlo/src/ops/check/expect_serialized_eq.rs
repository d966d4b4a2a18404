//! `check.expect_serialized_eq`: expects a tensor to equal a stored one.

use crate::ops::def::{Arity, AttrDef, AttrKind, OpDef, Presence, Text, no_constraints};

pub(crate) const DEF: OpDef = OpDef {
    name: "check.expect_serialized_eq",
    operands: Arity::exactly(1),
    results: Arity::exactly(0),
    regions: Arity::exactly(0),
    attrs: &[
        AttrDef { name: "probe_id", kind: AttrKind::Str, presence: Presence::Required },
        AttrDef { name: "iteration", kind: AttrKind::Any, presence: Presence::Optional },
    ],
    text: Text::Generic,
    vhlo: &[],
    infer: None,
    check: no_constraints,
};
