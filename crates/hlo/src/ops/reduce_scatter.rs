//! `stablehlo.reduce_scatter`: reduces across a group and scatters the parts.

use crate::ir::DYNAMIC;
use crate::ops::def::{Arity, AttrDef, AttrKind, OpClass, OpDef, OpView, Presence, Text, VhloForm};
use crate::ops::rules::collectives::{GroupClauses, GroupSizes};
use crate::ops::rules::elements::Elements;
use crate::ops::rules::{Checked, collectives, dimensions, elements, reduction, require, shapes, spelling};

pub(crate) const DEF: OpDef = OpDef {
    name: "stablehlo.reduce_scatter",
    class: OpClass::Collective,
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
    check,
};

const GROUPS: GroupClauses = GroupClauses {
    input: "reduce_scatter I3",
    unique: "reduce_scatter C3",
    range: "reduce_scatter C5",
    channel: "reduce_scatter C6",
};

fn check(op: &OpView<'_>) -> Checked {
    elements::operand(op, 0, Elements::TENSOR, "reduce_scatter I1")?;
    let processes = collectives::replica_groups(op, GroupSizes::Equal, &GROUPS)?.processes(op);
    let (operand, result) = (op.tensor(0)?, op.result_tensor(0)?);
    collectives::computation(op, &[operand], "reduce_scatter C7")?;
    let dim =
        dimensions::index("reduce_scatter C2", "scatter_dimension", op.int("scatter_dimension")?, operand.rank())?;
    let have = operand.dims[dim];
    let got = result.dims.get(dim).copied().unwrap_or(DYNAMIC);
    require!(
        have != 0 && got != 0,
        "reduce_scatter C8",
        "dim {dim} is {} in the operand, {} in the result",
        spelling::dim(have),
        spelling::dim(got)
    );
    let mut want = operand.dims.clone();
    want[dim] = match processes {
        Some(size) if size > 0 && have != DYNAMIC => {
            require!(have % size == 0, "reduce_scatter C1", "dim {dim} is {have}, groups have {size} processes");
            have / size
        }
        _ => DYNAMIC,
    };
    require!(
        have == DYNAMIC || got == DYNAMIC || have % got == 0,
        "reduce_scatter C8",
        "dim {dim} is {have} in the operand, not a multiple of {got}"
    );
    shapes::same_dims("reduce_scatter C8", ("scattered operand", &want), ("result", &result.dims))?;
    let accumulator = reduction::accumulators(op, 0, 1, "reduce_scatter C7")?.remove(0);
    shapes::same_element(
        "reduce_scatter C9",
        ("the computation", &shapes::with_element(operand, accumulator)),
        ("result", result),
    )
}
