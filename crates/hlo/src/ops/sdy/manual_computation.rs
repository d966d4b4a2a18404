//! `sdy.manual_computation`: runs a body on explicit shards.

use crate::ops::def::{Arity, AttrDef, AttrKind, OpClass, OpDef, Presence, Text};
use crate::ops::rules::sharding;

pub(crate) const DEF: OpDef = OpDef {
    name: "sdy.manual_computation",
    class: OpClass::Control,
    operands: Arity::at_least(0),
    results: Arity::at_least(0),
    regions: Arity::exactly(1),
    attrs: &[
        AttrDef { name: "in_shardings", kind: AttrKind::SdyShardings, presence: Presence::Required },
        AttrDef { name: "out_shardings", kind: AttrKind::SdyShardings, presence: Presence::Required },
        AttrDef { name: "manual_axes", kind: AttrKind::SdyManualAxes, presence: Presence::Required },
    ],
    text: Text::ManualComputation,
    vhlo: &[],
    infer: None,
    check: sharding::manual_computation,
};
