//! `stablehlo.if`: runs one of two branches.

use tensor::DType;

use crate::ops::def::{Arity, Infer, OpClass, OpDef, Text, VhloForm};
use crate::ops::rules::control_flow;

pub(crate) const DEF: OpDef = OpDef {
    name: "stablehlo.if",
    class: OpClass::Control,
    operands: Arity::exactly(1),
    results: Arity::at_least(0),
    regions: Arity::exactly(2),
    attrs: &[],
    text: Text::Generic,
    vhlo: &[VhloForm { name: "if_v1", attrs: &[] }],
    infer: Some(Infer::by("if C3", |op| control_flow::branches(op, ["if C1", "if C2"]))),
    check: |op| control_flow::selector(op, DType::Bool, "if I1"),
};
