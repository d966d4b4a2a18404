//! `stablehlo.scatter`: combines updates into slices at given indices.

use crate::attr::Attr;
use crate::ops::def::{Arity, AttrDef, AttrKind, OpDef, Presence, Text, VhloForm, no_constraints};

pub(crate) const DEF: OpDef = OpDef {
    name: "stablehlo.scatter",
    operands: Arity::at_least(1),
    results: Arity::at_least(0),
    regions: Arity::exactly(1),
    attrs: &[
        AttrDef { name: "scatter_dimension_numbers", kind: AttrKind::Scatter, presence: Presence::Required },
        AttrDef { name: "indices_are_sorted", kind: AttrKind::Bool, presence: Presence::Default(|| Attr::Bool(false)) },
        AttrDef { name: "unique_indices", kind: AttrKind::Bool, presence: Presence::Default(|| Attr::Bool(false)) },
    ],
    text: Text::Generic,
    vhlo: &[
        VhloForm {
            name: "scatter_v1",
            attrs: &[
                "index_vector_dim",
                "indices_are_sorted",
                "inserted_window_dims",
                "scatter_dims_to_operand_dims",
                "unique_indices",
                "update_window_dims",
            ],
        },
        VhloForm {
            name: "scatter_v2",
            attrs: &[
                "index_vector_dim",
                "indices_are_sorted",
                "input_batching_dims",
                "inserted_window_dims",
                "scatter_dims_to_operand_dims",
                "scatter_indices_batching_dims",
                "unique_indices",
                "update_window_dims",
            ],
        },
    ],
    infer: None,
    check: no_constraints,
};
