//! `stablehlo.cross-replica-sum`: sum over replicas (deprecated).

use crate::ops::def::{Arity, AttrDef, AttrKind, OpDef, Presence, Text, no_constraints};

pub(crate) const DEF: OpDef = OpDef {
    name: "stablehlo.cross-replica-sum",
    operands: Arity::exactly(1),
    results: Arity::exactly(1),
    regions: Arity::exactly(0),
    attrs: &[AttrDef { name: "replica_groups", kind: AttrKind::DenseI64, presence: Presence::Required }],
    text: Text::Generic,
    vhlo: &[],
    infer: None,
    check: no_constraints,
};
