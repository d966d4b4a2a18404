//! `stablehlo.collective_reduce`: reduces operands onto one member.

use crate::ops::def::{Arity, AttrDef, AttrKind, Infer, OpClass, OpDef, OpView, Presence, Text, VhloForm};
use crate::ops::rules::collectives::{GroupClauses, GroupSizes};
use crate::ops::rules::elements::Elements;
use crate::ops::rules::{Checked, Inferred, collectives, elements, reduction, shapes};

pub(crate) const DEF: OpDef = OpDef {
    name: "stablehlo.collective_reduce",
    class: OpClass::Collective,
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
    infer: Some(Infer::by("collective_reduce C3", infer)),
    check,
};

const GROUPS: GroupClauses = GroupClauses {
    input: "collective_reduce I2",
    unique: "collective_reduce C1",
    range: "collective_reduce C2",
    channel: "collective_reduce I3",
};

fn infer(op: &OpView<'_>) -> Inferred {
    let data = collectives::data_operands(op, "collective_reduce C3")?;
    let accumulator = reduction::accumulators(op, 0, 1, "collective_reduce C4")?.remove(0);
    Ok(data.into_iter().map(|ty| shapes::with_element(ty, accumulator.clone()).into()).collect())
}

fn check(op: &OpView<'_>) -> Checked {
    elements::operands_from(op, 0, Elements::TENSOR, "collective_reduce I1")?;
    collectives::replica_groups(op, GroupSizes::Ragged, &GROUPS)?;
    collectives::computation(op, &collectives::data_operands(op, "collective_reduce C3")?, "collective_reduce C4")
}
