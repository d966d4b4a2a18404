//! `stablehlo.all_gather`: concatenates every group member's operand.

use crate::ops::def::{Arity, AttrDef, AttrKind, OpDef, Presence, Text, VhloForm, no_constraints};

pub(crate) const DEF: OpDef = OpDef {
    name: "stablehlo.all_gather",
    operands: Arity::at_least(0),
    results: Arity::at_least(0),
    regions: Arity::exactly(0),
    attrs: &[
        AttrDef { name: "all_gather_dim", kind: AttrKind::I64, presence: Presence::Required },
        AttrDef { name: "replica_groups", kind: AttrKind::ReplicaGroups, presence: Presence::Required },
        AttrDef { name: "channel_handle", kind: AttrKind::Channel, presence: Presence::Optional },
        AttrDef { name: "use_global_device_ids", kind: AttrKind::Unit, presence: Presence::Optional },
    ],
    text: Text::Generic,
    vhlo: &[
        VhloForm {
            name: "all_gather_v1",
            attrs: &["all_gather_dim", "channel_id", "replica_groups", "use_global_device_ids"],
        },
        VhloForm {
            name: "all_gather_v2",
            attrs: &["all_gather_dim", "channel_id", "replica_groups", "use_global_device_ids"],
        },
    ],
    infer: None,
    check: no_constraints,
};
