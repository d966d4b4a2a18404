//! `stablehlo.collective_broadcast`: sends one member's operand to its group.

use crate::ops::def::{Arity, AttrDef, AttrKind, OpDef, Presence, Text, VhloForm, no_constraints};

pub(crate) const DEF: OpDef = OpDef {
    name: "stablehlo.collective_broadcast",
    operands: Arity::at_least(0),
    results: Arity::at_least(0),
    regions: Arity::exactly(0),
    attrs: &[
        AttrDef { name: "replica_groups", kind: AttrKind::ReplicaGroups, presence: Presence::Required },
        AttrDef { name: "channel_handle", kind: AttrKind::Channel, presence: Presence::Optional },
        AttrDef { name: "has_dynamic_root", kind: AttrKind::Unit, presence: Presence::Optional },
    ],
    text: Text::Generic,
    vhlo: &[
        VhloForm { name: "collective_broadcast_v1", attrs: &["channel_id", "replica_groups"] },
        VhloForm { name: "collective_broadcast_v2", attrs: &["channel_id", "has_dynamic_root", "replica_groups"] },
    ],
    infer: None,
    check: no_constraints,
};
