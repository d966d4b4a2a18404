//! `stablehlo.async_start`: starts a collective in the background.

use crate::ops::def::{Arity, OpDef, Text, VhloForm, no_constraints};

pub(crate) const DEF: OpDef = OpDef {
    name: "stablehlo.async_start",
    operands: Arity::at_least(0),
    results: Arity::exactly(1),
    regions: Arity::exactly(1),
    attrs: &[],
    text: Text::Generic,
    vhlo: &[VhloForm { name: "async_start_v1", attrs: &[] }],
    infer: None,
    check: no_constraints,
};
