//! `stablehlo.reduce`: reduces along dimensions.

use crate::ops::def::{Arity, AttrDef, AttrKind, OpDef, Presence, Text, VhloForm, no_constraints};

pub(crate) const DEF: OpDef = OpDef {
    name: "stablehlo.reduce",
    operands: Arity::at_least(0),
    results: Arity::at_least(0),
    regions: Arity::exactly(1),
    attrs: &[AttrDef { name: "dimensions", kind: AttrKind::I64s, presence: Presence::Required }],
    text: Text::Reduce,
    vhlo: &[VhloForm { name: "reduce_v1", attrs: &["dimensions"] }],
    infer: None,
    check: no_constraints,
};
