//! `stablehlo.map`: applies a function element by element.

use crate::ops::def::{Arity, AttrDef, AttrKind, OpDef, Presence, Text, VhloForm, no_constraints};

pub(crate) const DEF: OpDef = OpDef {
    name: "stablehlo.map",
    operands: Arity::at_least(0),
    results: Arity::exactly(1),
    regions: Arity::exactly(1),
    attrs: &[AttrDef { name: "dimensions", kind: AttrKind::I64s, presence: Presence::Required }],
    text: Text::Generic,
    vhlo: &[VhloForm { name: "map_v1", attrs: &["dimensions"] }],
    infer: None,
    check: no_constraints,
};
