//! `stablehlo.collective_reduce`: reduces operands onto one member.

use crate::ops::def::{Arity, AttrDef, AttrKind, OpDef, Presence, Text, VhloForm, no_constraints};

pub(crate) const DEF: OpDef = OpDef {
    name: "stablehlo.collective_reduce",
    operands: Arity::at_least(0),
    results: Arity::at_least(0),
    regions: Arity::exactly(1),
    attrs: &[
        AttrDef { name: "replica_groups", kind: AttrKind::ReplicaGroups, presence: Presence::Required },
        AttrDef { name: "channel_handle", kind: AttrKind::Channel, presence: Presence::Optional },
        AttrDef { name: "use_global_device_ids", kind: AttrKind::Unit, presence: Presence::Optional },
        AttrDef { name: "has_dynamic_root", kind: AttrKind::Unit, presence: Presence::Optional },
    ],
    text: Text::Generic,
    vhlo: &[VhloForm {
        name: "collective_reduce_v1",
        attrs: &["channel_id", "has_dynamic_root", "replica_groups", "use_global_device_ids"],
    }],
    infer: None,
    check: no_constraints,
};
