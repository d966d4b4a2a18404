//! `stablehlo.case`: runs one of several branches.

use crate::ops::def::{Arity, OpDef, Text, VhloForm, no_constraints};

pub(crate) const DEF: OpDef = OpDef {
    name: "stablehlo.case",
    operands: Arity::exactly(1),
    results: Arity::at_least(0),
    regions: Arity::at_least(1),
    attrs: &[],
    text: Text::Generic,
    vhlo: &[VhloForm { name: "case_v1", attrs: &[] }],
    infer: None,
    check: no_constraints,
};
