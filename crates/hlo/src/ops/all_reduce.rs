//! `stablehlo.all_reduce`: reduces operands across a group.

use crate::ops::def::{Arity, AttrDef, AttrKind, Infer, OpClass, OpDef, OpView, Presence, Text, VhloForm};
use crate::ops::rules::collectives::{GroupClauses, GroupSizes};
use crate::ops::rules::elements::Elements;
use crate::ops::rules::{Checked, Inferred, collectives, elements, reduction, shapes};

pub(crate) const DEF: OpDef = OpDef {
    name: "stablehlo.all_reduce",
    class: OpClass::Collective,
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
    infer: Some(Infer::by("all_reduce C6", infer)),
    check,
};

const GROUPS: GroupClauses =
    GroupClauses { input: "all_reduce I2", unique: "all_reduce C1", range: "all_reduce C3", channel: "all_reduce C4" };

fn infer(op: &OpView<'_>) -> Inferred {
    let accumulator = reduction::accumulators(op, 0, 1, "all_reduce C5")?.remove(0);
    Ok(op.tensors()?.into_iter().map(|ty| shapes::with_element(ty, accumulator.clone()).into()).collect())
}

fn check(op: &OpView<'_>) -> Checked {
    elements::operands_from(op, 0, Elements::TENSOR, "all_reduce I1")?;
    collectives::replica_groups(op, GroupSizes::Ragged, &GROUPS)?;
    collectives::computation(op, &op.tensors()?, "all_reduce C5")
}
