//! `stablehlo.dynamic_gather`: gather with slice sizes known at run time.

use crate::ir::{Attr, DYNAMIC};
use crate::ops::def::{Arity, AttrDef, AttrKind, Infer, OpClass, OpDef, OpView, Presence, Text, VhloForm, Violation};
use crate::ops::rules::elements::Elements;
use crate::ops::rules::{Checked, Inferred, elements, indexing, require, shapes};

pub(crate) const DEF: OpDef = OpDef {
    name: "stablehlo.dynamic_gather",
    class: OpClass::Indexing,
    operands: Arity::exactly(3),
    results: Arity::exactly(1),
    regions: Arity::exactly(0),
    attrs: &[
        AttrDef { name: "dimension_numbers", kind: AttrKind::Gather, presence: Presence::Required },
        AttrDef { name: "indices_are_sorted", kind: AttrKind::Bool, presence: Presence::Default(|| Attr::Bool(false)) },
    ],
    text: Text::Generic,
    vhlo: &[
        VhloForm {
            name: "dynamic_gather_v1",
            attrs: &[
                "collapsed_slice_dims",
                "index_vector_dim",
                "indices_are_sorted",
                "offset_dims",
                "start_index_map",
            ],
        },
        VhloForm {
            name: "dynamic_gather_v2",
            attrs: &[
                "collapsed_slice_dims",
                "index_vector_dim",
                "indices_are_sorted",
                "offset_dims",
                "operand_batching_dims",
                "start_index_map",
                "start_indices_batching_dims",
            ],
        },
    ],
    infer: Some(Infer::by("dynamic_gather C13", infer)),
    check,
};

/// By the numbers of `gather`, whose rules on batching dimensions hold here too.
const CLAUSES: [&str; 24] = [
    "dynamic_gather C0",
    "dynamic_gather C1",
    "dynamic_gather C2",
    "dynamic_gather C3",
    "dynamic_gather C4",
    "dynamic_gather C5",
    "dynamic_gather C6",
    "dynamic_gather C6",
    "dynamic_gather C7",
    "dynamic_gather C8",
    "gather C10",
    "gather C11",
    "gather C12",
    "gather C13",
    "gather C14",
    "gather C15",
    "gather C16",
    "gather C17",
    "dynamic_gather C9",
    "dynamic_gather C10",
    "dynamic_gather C11",
    "dynamic_gather C12",
    "dynamic_gather C13",
    "dynamic_gather C14",
];

fn infer(op: &OpView<'_>) -> Inferred {
    let Attr::Gather(dims) = op.attr("dimension_numbers")? else {
        return Err(Violation::new("", "attribute `dimension_numbers` must be #stablehlo.gather"));
    };
    elements::sizes(op, 2, "dynamic_gather I3")?;
    let (operand, slice) = (op.tensor(0)?, op.tensor(2)?);
    require!(
        shapes::dims_agree(slice.dims[0], operand.rank() as i64),
        "dynamic_gather C11",
        "slice_sizes has {} elements, the operand has rank {}",
        slice.dims[0],
        operand.rank()
    );
    let sizes = match op.constant(2) {
        Some(sizes) => {
            for (d, &size) in sizes.iter().enumerate() {
                require!(size >= 0, "dynamic_gather C12", "slice_sizes[{d}] is {size}");
            }
            sizes
        }
        None => vec![DYNAMIC; operand.rank()],
    };
    Ok(vec![indexing::gather(&CLAUSES, operand, op.tensor(1)?, dims, &sizes)?.into()])
}

fn check(op: &OpView<'_>) -> Checked {
    elements::operand(op, 0, Elements::TENSOR, "dynamic_gather I1")?;
    elements::operand(op, 1, Elements::INTEGER, "dynamic_gather I2")
}
