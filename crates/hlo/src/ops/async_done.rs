//! `stablehlo.async_done`: waits for a background collective.

use crate::ops::def::{Arity, OpDef, Text, VhloForm, no_constraints};

pub(crate) const DEF: OpDef = OpDef {
    name: "stablehlo.async_done",
    operands: Arity::exactly(1),
    results: Arity::exactly(1),
    regions: Arity::exactly(0),
    attrs: &[],
    text: Text::Generic,
    vhlo: &[VhloForm { name: "async_done_v1", attrs: &[] }],
    infer: None,
    check: no_constraints,
};
