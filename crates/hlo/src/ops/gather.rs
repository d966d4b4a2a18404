//! `stablehlo.gather`: collects slices at given indices.

use crate::ir::Attr;
use crate::ops::def::{Arity, AttrDef, AttrKind, Infer, OpClass, OpDef, OpView, Presence, Text, VhloForm, Violation};
use crate::ops::rules::elements::Elements;
use crate::ops::rules::{Checked, Inferred, clauses, elements, indexing, require};

pub(crate) const DEF: OpDef = OpDef {
    name: "stablehlo.gather",
    class: OpClass::Indexing,
    operands: Arity::exactly(2),
    results: Arity::exactly(1),
    regions: Arity::exactly(0),
    attrs: &[
        AttrDef { name: "dimension_numbers", kind: AttrKind::Gather, presence: Presence::Required },
        AttrDef { name: "slice_sizes", kind: AttrKind::I64s, presence: Presence::Required },
        AttrDef { name: "indices_are_sorted", kind: AttrKind::Bool, presence: Presence::Default(|| Attr::Bool(false)) },
    ],
    text: Text::Generic,
    vhlo: &[
        VhloForm {
            name: "gather_v1",
            attrs: &[
                "collapsed_slice_dims",
                "index_vector_dim",
                "indices_are_sorted",
                "offset_dims",
                "slice_sizes",
                "start_index_map",
            ],
        },
        VhloForm {
            name: "gather_v2",
            attrs: &[
                "collapsed_slice_dims",
                "index_vector_dim",
                "indices_are_sorted",
                "offset_dims",
                "operand_batching_dims",
                "slice_sizes",
                "start_index_map",
                "start_indices_batching_dims",
            ],
        },
    ],
    infer: Some(Infer::by("gather C22", infer)),
    check,
};

const CLAUSES: [&str; 24] = clauses!("gather": 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23);

fn infer(op: &OpView<'_>) -> Inferred {
    let Attr::Gather(dims) = op.attr("dimension_numbers")? else {
        return Err(Violation::new("", "attribute `dimension_numbers` must be #stablehlo.gather"));
    };
    let sizes = op.i64s("slice_sizes")?;
    for (d, &size) in sizes.iter().enumerate() {
        require!(size >= 0, "gather C21", "slice_sizes[{d}] is {size}");
    }
    Ok(vec![indexing::gather(&CLAUSES, op.tensor(0)?, op.tensor(1)?, dims, sizes)?.into()])
}

fn check(op: &OpView<'_>) -> Checked {
    elements::operand(op, 0, Elements::TENSOR, "gather I1")?;
    elements::operand(op, 1, Elements::INTEGER, "gather I2")
}
