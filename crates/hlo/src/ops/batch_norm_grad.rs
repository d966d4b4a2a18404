//! `stablehlo.batch_norm_grad`: gradients of batch normalization.

use crate::ops::def::{Arity, AttrDef, AttrKind, Infer, OpClass, OpDef, Presence, Text, VhloForm};
use crate::ops::rules::normalization::BatchNorm;

pub(crate) const DEF: OpDef = OpDef {
    name: "stablehlo.batch_norm_grad",
    class: OpClass::Normalization,
    operands: Arity::exactly(5),
    results: Arity::exactly(3),
    regions: Arity::exactly(0),
    attrs: &[
        AttrDef { name: "epsilon", kind: AttrKind::F32, presence: Presence::Required },
        AttrDef { name: "feature_index", kind: AttrKind::I64, presence: Presence::Required },
    ],
    text: Text::Generic,
    vhlo: &[VhloForm { name: "batch_norm_grad_v1", attrs: &["epsilon", "feature_index"] }],
    infer: Some(Infer::by("batch_norm_grad C3", |op| RULE.infer(op))),
    check: |op| RULE.check(op),
};

const RULE: BatchNorm = BatchNorm {
    whole: &[0, 4],
    per_feature: &[(1, "batch_norm_grad C5"), (2, "batch_norm_grad C4"), (3, "batch_norm_grad C4")],
    inputs: &[
        "batch_norm_grad I1",
        "batch_norm_grad I2",
        "batch_norm_grad I3",
        "batch_norm_grad I4",
        "batch_norm_grad I5",
    ],
    feature_index: "batch_norm_grad C1",
    element: "batch_norm_grad C2",
    shape: "batch_norm_grad C3",
    per_feature_results: 2,
};
