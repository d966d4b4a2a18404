//! `stablehlo.collective_broadcast`: sends one member's operand to its group.

use crate::ir::Attr;
use crate::ops::def::{Arity, AttrDef, AttrKind, Infer, OpClass, OpDef, OpView, Presence, Text, VhloForm, Violation};
use crate::ops::rules::collectives::{GroupClauses, GroupSizes};
use crate::ops::rules::elements::Elements;
use crate::ops::rules::{Checked, Inferred, collectives, dimensions, elements, require};

pub(crate) const DEF: OpDef = OpDef {
    name: "stablehlo.collective_broadcast",
    class: OpClass::Collective,
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
    infer: Some(Infer::by("collective_broadcast C3", infer)),
    check,
};

const GROUPS: GroupClauses = GroupClauses {
    input: "collective_broadcast I2",
    unique: "collective_broadcast C1",
    range: "collective_broadcast C2",
    channel: "collective_broadcast C2",
};

fn infer(op: &OpView<'_>) -> Inferred {
    let data = collectives::data_operands(op, "collective_broadcast C4")?.len();
    Ok(op.operands[..data].to_vec())
}

fn check(op: &OpView<'_>) -> Checked {
    elements::operands_from(op, 0, Elements::TENSOR, "collective_broadcast I1")?;
    let Some((shape, ids)) = (match op.attr("replica_groups")? {
        Attr::Dense(_) => op.dense_i64s("replica_groups")?,
        _ => return collectives::replica_groups(op, GroupSizes::Equal, &GROUPS).map(drop),
    }) else {
        return Ok(());
    };
    require!(shape.len() == 2, GROUPS.input, "replica_groups has rank {}, 2 expected", shape.len());
    if let Some(id) = ids.iter().find(|&&id| id < 0) {
        return Err(Violation::new(GROUPS.range, format!("replica_groups holds {id}")));
    }
    dimensions::unique(GROUPS.unique, "replica_groups", ids)
}
