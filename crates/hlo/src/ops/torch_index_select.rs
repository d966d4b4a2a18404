//! `stablehlo.torch_index_select`: selects indices along a dimension (deprecated).

use crate::ops::def::{Arity, AttrDef, AttrKind, OpClass, OpDef, OpView, Presence, Text, VhloForm};
use crate::ops::rules::elements::Elements;
use crate::ops::rules::{Checked, dimensions, elements, require, shapes};

pub(crate) const DEF: OpDef = OpDef {
    name: "stablehlo.torch_index_select",
    class: OpClass::Indexing,
    operands: Arity::exactly(2),
    results: Arity::exactly(1),
    regions: Arity::exactly(0),
    attrs: &[
        AttrDef { name: "dim", kind: AttrKind::I64, presence: Presence::Required },
        AttrDef { name: "batch_dims", kind: AttrKind::I64, presence: Presence::Required },
    ],
    text: Text::Generic,
    vhlo: &[VhloForm { name: "torch_index_select_v1", attrs: &["batch_dims", "dim"] }],
    infer: None,
    check,
};

fn check(op: &OpView<'_>) -> Checked {
    let (operand, index, result) = (op.tensor(0)?, op.tensor(1)?, op.result_tensor(0)?);
    elements::operand(op, 1, Elements::INTEGER, "torch_index_select")?;
    shapes::same_element("torch_index_select", ("operand", operand), ("result", result))?;
    let dim = dimensions::index("torch_index_select", "dim", op.int("dim")?, operand.rank())?;
    let batch = op.int("batch_dims")?;
    require!(
        usize::try_from(batch).is_ok_and(|b| b <= index.rank() && b <= dim),
        "torch_index_select",
        "batch_dims is {batch}, dim is {dim}, the index has rank {}",
        index.rank()
    );
    let batch = batch as usize;
    shapes::same_dims(
        "torch_index_select",
        ("batch of the operand", &operand.dims[..batch]),
        ("batch of the index", &index.dims[..batch]),
    )?;
    let want = [&operand.dims[..dim], &index.dims[batch..], &operand.dims[dim + 1..]].concat();
    shapes::same_dims("torch_index_select", ("the selection", &want), ("result", &result.dims))
}
