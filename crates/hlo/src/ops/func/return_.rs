//! `func.return`: ends a function with its results.

use crate::ops::def::{Arity, OpClass, OpDef, Text, VhloForm, no_constraints};

pub(crate) const DEF: OpDef = OpDef {
    name: "func.return",
    class: OpClass::Terminator,
    operands: Arity::at_least(0),
    results: Arity::exactly(0),
    regions: Arity::exactly(0),
    attrs: &[],
    text: Text::Return,
    vhlo: &[VhloForm { name: "return_v1", attrs: &[] }],
    infer: None,
    check: no_constraints,
};
