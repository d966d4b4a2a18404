//! `stablehlo.all_gather`: concatenates every group member's operand.

use crate::ir::DYNAMIC;
use crate::ops::def::{Arity, AttrDef, AttrKind, OpClass, OpDef, OpView, Presence, Text, VhloForm, Violation};
use crate::ops::rules::collectives::{GroupClauses, GroupSizes};
use crate::ops::rules::elements::Elements;
use crate::ops::rules::{Checked, collectives, dimensions, elements, require, shapes};

pub(crate) const DEF: OpDef = OpDef {
    name: "stablehlo.all_gather",
    class: OpClass::Collective,
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
    check,
};

const GROUPS: GroupClauses =
    GroupClauses { input: "all_gather I3", unique: "all_gather C2", range: "all_gather C4", channel: "all_gather C5" };

fn check(op: &OpView<'_>) -> Checked {
    elements::operands_from(op, 0, Elements::TENSOR, "all_gather I1")?;
    let processes = collectives::replica_groups(op, GroupSizes::Equal, &GROUPS)?.processes(op);
    let dim = op.int("all_gather_dim")?;
    require!(
        op.operands.len() == op.results.len(),
        "all_gather C6",
        "{} operands, {} results",
        op.operands.len(),
        op.results.len()
    );
    for n in 0..op.operands.len() {
        let (operand, result) = (op.tensor(n)?, op.result_tensor(n)?);
        let dim = dimensions::index("all_gather C1", "all_gather_dim", dim, operand.rank())?;
        shapes::same_element("all_gather C6", ("operand", operand), ("result", result))?;
        let (have, got) = (operand.dims[dim], result.dims.get(dim).copied().unwrap_or(DYNAMIC));
        require!(have != 0, "all_gather C6", "dim {dim} of operand {n} is 0");
        let mut want = operand.dims.clone();
        want[dim] = match processes {
            Some(size) if have != DYNAMIC => have
                .checked_mul(size)
                .ok_or_else(|| Violation::new("all_gather C6", format!("{have} times {size} overflows")))?,
            _ => DYNAMIC,
        };
        require!(
            have == DYNAMIC || got == DYNAMIC || got % have == 0,
            "all_gather C6",
            "dim {dim} of result {n} is {got}, not a multiple of {have}"
        );
        shapes::same_dims("all_gather C6", ("gathered operand", &want), ("result", &result.dims))?;
    }
    Ok(())
}
