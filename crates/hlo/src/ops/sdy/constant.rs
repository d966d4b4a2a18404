//! `sdy.constant`: a constant that propagation may copy.

use crate::ops::def::{Arity, AttrDef, AttrKind, OpDef, Presence, Text, no_constraints};

pub(crate) const DEF: OpDef = OpDef {
    name: "sdy.constant",
    operands: Arity::exactly(0),
    results: Arity::exactly(1),
    regions: Arity::exactly(0),
    attrs: &[
        AttrDef { name: "value", kind: AttrKind::Dense, presence: Presence::Required },
    ],
    text: Text::Constant,
    vhlo: &[],
    infer: None,
    check: no_constraints,
};
