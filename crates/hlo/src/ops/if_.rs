//! `stablehlo.if`: runs one of two branches.

use crate::ops::def::{Arity, OpDef, Text, VhloForm, no_constraints};

pub(crate) const DEF: OpDef = OpDef {
    name: "stablehlo.if",
    operands: Arity::exactly(1),
    results: Arity::at_least(0),
    regions: Arity::exactly(2),
    attrs: &[],
    text: Text::Generic,
    vhlo: &[VhloForm { name: "if_v1", attrs: &[] }],
    infer: None,
    check: no_constraints,
};
