//! `stablehlo.batch_norm_inference`: batch normalization with given statistics.

use crate::ops::def::{Arity, AttrDef, AttrKind, Infer, OpClass, OpDef, Presence, Text, VhloForm};
use crate::ops::rules::normalization::BatchNorm;

pub(crate) const DEF: OpDef = OpDef {
    name: "stablehlo.batch_norm_inference",
    class: OpClass::Normalization,
    operands: Arity::exactly(5),
    results: Arity::exactly(1),
    regions: Arity::exactly(0),
    attrs: &[
        AttrDef { name: "epsilon", kind: AttrKind::F32, presence: Presence::Required },
        AttrDef { name: "feature_index", kind: AttrKind::I64, presence: Presence::Required },
    ],
    text: Text::Generic,
    vhlo: &[VhloForm { name: "batch_norm_inference_v1", attrs: &["epsilon", "feature_index"] }],
    infer: Some(Infer::by("batch_norm_inference C7", |op| RULE.infer(op))),
    check: |op| RULE.check(op),
};

const RULE: BatchNorm = BatchNorm {
    whole: &[0],
    per_feature: &[
        (1, "batch_norm_inference C3"),
        (2, "batch_norm_inference C4"),
        (3, "batch_norm_inference C5"),
        (4, "batch_norm_inference C6"),
    ],
    inputs: &[
        "batch_norm_inference I1",
        "batch_norm_inference I2",
        "batch_norm_inference I3",
        "batch_norm_inference I4",
        "batch_norm_inference I5",
    ],
    feature_index: "batch_norm_inference C1",
    element: "batch_norm_inference C2",
    shape: "batch_norm_inference C7",
    per_feature_results: 0,
};
