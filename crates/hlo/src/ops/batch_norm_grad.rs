//! `stablehlo.batch_norm_grad`: gradients of batch normalization.

use crate::ops::def::{Arity, AttrDef, AttrKind, OpDef, Presence, Text, VhloForm, no_constraints};

pub(crate) const DEF: OpDef = OpDef {
    name: "stablehlo.batch_norm_grad",
    operands: Arity::exactly(5),
    results: Arity::exactly(3),
    regions: Arity::exactly(0),
    attrs: &[
        AttrDef { name: "epsilon", kind: AttrKind::F32, presence: Presence::Required },
        AttrDef { name: "feature_index", kind: AttrKind::I64, presence: Presence::Required },
    ],
    text: Text::Generic,
    vhlo: &[VhloForm { name: "batch_norm_grad_v1", attrs: &["epsilon", "feature_index"] }],
    infer: None,
    check: no_constraints,
};
