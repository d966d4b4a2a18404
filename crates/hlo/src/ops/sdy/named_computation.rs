//! `sdy.named_computation`: a region with a name and shardings of its own.

use crate::ops::def::{Arity, AttrDef, AttrKind, OpDef, Presence, Text, no_constraints};

pub(crate) const DEF: OpDef = OpDef {
    name: "sdy.named_computation",
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
    check: no_constraints,
};
