//! `stablehlo.cross-replica-sum`: sum over replicas (deprecated).

use crate::ops::def::{Arity, AttrDef, AttrKind, Infer, OpClass, OpDef, Presence, Text, VhloForm};
use crate::ops::rules::elements;
use crate::ops::rules::elements::Elements;

pub(crate) const DEF: OpDef = OpDef {
    name: "stablehlo.cross-replica-sum",
    class: OpClass::Collective,
    operands: Arity::exactly(1),
    results: Arity::exactly(1),
    regions: Arity::exactly(0),
    attrs: &[AttrDef { name: "replica_groups", kind: AttrKind::DenseI64, presence: Presence::Required }],
    text: Text::Generic,
    vhlo: &[VhloForm { name: "cross-replica-sum_v1", attrs: &["replica_groups"] }],
    infer: Some(Infer::by("cross-replica-sum", |op| Ok(op.operands.to_vec()))),
    check: |op| elements::operand(op, 0, Elements::TENSOR, "cross-replica-sum"),
};
