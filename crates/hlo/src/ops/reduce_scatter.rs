//! `stablehlo.reduce_scatter`: reduces across a group and scatters the parts.

use crate::ops::def::{Arity, AttrDef, AttrKind, OpDef, Presence, Text, VhloForm, no_constraints};

pub(crate) const DEF: OpDef = OpDef {
    name: "stablehlo.reduce_scatter",
    operands: Arity::exactly(1),
    results: Arity::exactly(1),
    regions: Arity::exactly(1),
    attrs: &[
        AttrDef { name: "scatter_dimension", kind: AttrKind::I64, presence: Presence::Required },
        AttrDef { name: "replica_groups", kind: AttrKind::ReplicaGroups, presence: Presence::Required },
        AttrDef { name: "channel_handle", kind: AttrKind::Channel, presence: Presence::Optional },
        AttrDef { name: "use_global_device_ids", kind: AttrKind::Unit, presence: Presence::Optional },
    ],
    text: Text::Generic,
    vhlo: &[VhloForm {
        name: "reduce_scatter_v1",
        attrs: &["channel_id", "replica_groups", "scatter_dimension", "use_global_device_ids"],
    }],
    infer: None,
    check: no_constraints,
};
