//! `stablehlo.torch_index_select`: selects indices along a dimension (deprecated).

use crate::ops::def::{Arity, AttrDef, AttrKind, OpDef, Presence, Text, VhloForm, no_constraints};

pub(crate) const DEF: OpDef = OpDef {
    name: "stablehlo.torch_index_select",
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
    check: no_constraints,
};
