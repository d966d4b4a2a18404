//! `check.expect_close`: expects two tensors to be within a distance in ULPs.

use crate::ops::def::{Arity, AttrDef, AttrKind, OpDef, Presence, Text};
use crate::ops::rules::shapes;

pub(crate) const DEF: OpDef = OpDef {
    name: "check.expect_close",
    operands: Arity::exactly(2),
    results: Arity::exactly(0),
    regions: Arity::exactly(0),
    attrs: &[
        AttrDef { name: "min_ulp_difference", kind: AttrKind::Any, presence: Presence::Optional },
        AttrDef { name: "max_ulp_difference", kind: AttrKind::Any, presence: Presence::Optional },
    ],
    text: Text::Generic,
    vhlo: &[],
    infer: None,
    check: |op| {
        shapes::same_types("check.expect_close", ("lhs", op.operands[..1].iter()), ("rhs", op.operands[1..].iter()))
    },
};
