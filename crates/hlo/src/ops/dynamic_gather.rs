//! `stablehlo.dynamic_gather`: gather with slice sizes known at run time.

use crate::attr::Attr;
use crate::ops::def::{Arity, AttrDef, AttrKind, OpDef, Presence, Text, VhloForm, no_constraints};

pub(crate) const DEF: OpDef = OpDef {
    name: "stablehlo.dynamic_gather",
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
    infer: None,
    check: no_constraints,
};
