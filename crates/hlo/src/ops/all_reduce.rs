//! `stablehlo.all_reduce`: reduces operands across a group.

use crate::ops::def::{Arity, AttrDef, AttrKind, OpDef, Presence, Text, VhloForm, no_constraints};

pub(crate) const DEF: OpDef = OpDef {
    name: "stablehlo.all_reduce",
    operands: Arity::at_least(0),
    results: Arity::at_least(0),
    regions: Arity::exactly(1),
    attrs: &[
        AttrDef { name: "replica_groups", kind: AttrKind::ReplicaGroups, presence: Presence::Required },
        AttrDef { name: "channel_handle", kind: AttrKind::Channel, presence: Presence::Optional },
        AttrDef { name: "use_global_device_ids", kind: AttrKind::Unit, presence: Presence::Optional },
    ],
    text: Text::Generic,
    vhlo: &[
        VhloForm { name: "all_reduce_v1", attrs: &["channel_id", "replica_groups", "use_global_device_ids"] },
        VhloForm { name: "all_reduce_v2", attrs: &["channel_id", "replica_groups", "use_global_device_ids"] },
    ],
    infer: None,
    check: no_constraints,
};
