//! `stablehlo.while`: repeats a body while a condition holds.

use crate::ops::def::{Arity, OpDef, Text, VhloForm, no_constraints};

pub(crate) const DEF: OpDef = OpDef {
    name: "stablehlo.while",
    operands: Arity::at_least(0),
    results: Arity::at_least(0),
    regions: Arity::exactly(2),
    attrs: &[],
    text: Text::While,
    vhlo: &[VhloForm { name: "while_v1", attrs: &[] }],
    infer: None,
    check: no_constraints,
};
