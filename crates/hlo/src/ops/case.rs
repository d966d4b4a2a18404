//! `stablehlo.case`: runs one of several branches.

use tensor::DType;

use crate::ops::def::{Arity, Infer, OpClass, OpDef, Text, VhloForm};
use crate::ops::rules::control_flow;

pub(crate) const DEF: OpDef = OpDef {
    name: "stablehlo.case",
    class: OpClass::Control,
    operands: Arity::exactly(1),
    results: Arity::at_least(0),
    regions: Arity::at_least(1),
    attrs: &[],
    text: Text::Generic,
    vhlo: &[VhloForm { name: "case_v1", attrs: &[] }],
    infer: Some(Infer::by("case C4", |op| control_flow::branches(op, ["case C2", "case C3"]))),
    check: |op| control_flow::selector(op, DType::I32, "case I1"),
};
