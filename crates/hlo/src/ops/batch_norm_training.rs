//! `stablehlo.batch_norm_training`: batch normalization with batch statistics.

use crate::ops::def::{Arity, AttrDef, AttrKind, Infer, OpClass, OpDef, Presence, Text, VhloForm};
use crate::ops::rules::normalization::BatchNorm;

pub(crate) const DEF: OpDef = OpDef {
    name: "stablehlo.batch_norm_training",
    class: OpClass::Normalization,
    operands: Arity::exactly(3),
    results: Arity::exactly(3),
    regions: Arity::exactly(0),
    attrs: &[
        AttrDef { name: "epsilon", kind: AttrKind::F32, presence: Presence::Required },
        AttrDef { name: "feature_index", kind: AttrKind::I64, presence: Presence::Required },
    ],
    text: Text::Generic,
    vhlo: &[VhloForm { name: "batch_norm_training_v1", attrs: &["epsilon", "feature_index"] }],
    infer: Some(Infer::by("batch_norm_training C7", |op| RULE.infer(op))),
    check: |op| RULE.check(op),
};

const RULE: BatchNorm = BatchNorm {
    whole: &[0],
    per_feature: &[(1, "batch_norm_training C3"), (2, "batch_norm_training C4")],
    inputs: &["batch_norm_training I1", "batch_norm_training I2", "batch_norm_training I3"],
    feature_index: "batch_norm_training C1",
    element: "batch_norm_training C2",
    shape: "batch_norm_training C7",
    per_feature_results: 2,
};
