//! `stablehlo.all_to_all`: splits and exchanges operands within a group.

use crate::ir::{Attr, DYNAMIC};
use crate::ops::def::{Arity, AttrDef, AttrKind, Infer, OpClass, OpDef, OpView, Presence, Text, VhloForm, Violation};
use crate::ops::rules::collectives::{GroupClauses, GroupSizes};
use crate::ops::rules::elements::Elements;
use crate::ops::rules::{Checked, Inferred, collectives, dimensions, elements, require, shapes};

pub(crate) const DEF: OpDef = OpDef {
    name: "stablehlo.all_to_all",
    class: OpClass::Collective,
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
    infer: Some(Infer::by("all_to_all C9", infer)),
    check,
};

const GROUPS: GroupClauses =
    GroupClauses { input: "all_to_all I5", unique: "all_to_all C5", range: "all_to_all C7", channel: "all_to_all C7" };

fn infer(op: &OpView<'_>) -> Inferred {
    let (split, concat, count) = (op.int("split_dimension")?, op.int("concat_dimension")?, op.int("split_count")?);
    require!(count > 0, "all_to_all C4", "split_count is {count}");
    let mut types = Vec::with_capacity(op.operands.len());
    for (n, operand) in op.tensors()?.into_iter().enumerate() {
        let split = dimensions::index("all_to_all C1", "split_dimension", split, operand.rank())?;
        let concat = dimensions::index("all_to_all C3", "concat_dimension", concat, operand.rank())?;
        let size = operand.dims[split];
        require!(
            size == DYNAMIC || size % count == 0,
            "all_to_all C2",
            "dim {split} of operand {n} is {size}, not a multiple of {count}"
        );
        let (mut dims, mut limits) = (operand.dims.clone(), shapes::bounds(operand));
        for sizes in [&mut dims, &mut limits] {
            if sizes[split] != DYNAMIC {
                sizes[split] /= count;
            }
            if sizes[concat] != DYNAMIC {
                sizes[concat] = sizes[concat]
                    .checked_mul(count)
                    .ok_or_else(|| Violation::new("all_to_all C9", format!("dim {concat} times {count} overflows")))?;
            }
        }
        types.push(shapes::bounded(dims, limits, operand.element.clone()).into());
    }
    Ok(types)
}

fn check(op: &OpView<'_>) -> Checked {
    elements::operands_from(op, 0, Elements::TENSOR, "all_to_all I1")?;
    let groups = collectives::replica_groups(op, GroupSizes::Equal, &GROUPS)?;
    let (count, is_dense) = (op.int("split_count")?, matches!(op.attr("replica_groups")?, Attr::Dense(_)));
    match groups.size {
        None if is_dense => Err(Violation::new("all_to_all C8", format!("no replica groups, split_count is {count}"))),
        Some(size) => {
            require!(size == count, "all_to_all C8", "replica groups hold {size} processes, split_count is {count}");
            Ok(())
        }
        None => Ok(()),
    }
}
