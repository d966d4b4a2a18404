//! `stablehlo.all_to_all`: splits and exchanges operands within a group.

use crate::ops::def::{Arity, AttrDef, AttrKind, OpDef, Presence, Text, VhloForm, no_constraints};

pub(crate) const DEF: OpDef = OpDef {
    name: "stablehlo.all_to_all",
    operands: Arity::at_least(0),
    results: Arity::at_least(0),
    regions: Arity::exactly(0),
    attrs: &[
        AttrDef { name: "split_dimension", kind: AttrKind::I64, presence: Presence::Required },
        AttrDef { name: "concat_dimension", kind: AttrKind::I64, presence: Presence::Required },
        AttrDef { name: "split_count", kind: AttrKind::I64, presence: Presence::Required },
        AttrDef { name: "replica_groups", kind: AttrKind::ReplicaGroups, presence: Presence::Required },
        AttrDef { name: "channel_handle", kind: AttrKind::Channel, presence: Presence::Optional },
    ],
    text: Text::Generic,
    vhlo: &[
        VhloForm {
            name: "all_to_all_v1",
            attrs: &["channel_id", "concat_dimension", "replica_groups", "split_count", "split_dimension"],
        },
        VhloForm {
            name: "all_to_all_v2",
            attrs: &["channel_id", "concat_dimension", "replica_groups", "split_count", "split_dimension"],
        },
    ],
    infer: None,
    check: no_constraints,
};
