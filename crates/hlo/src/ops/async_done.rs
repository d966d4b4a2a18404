//! `stablehlo.async_done`: waits for a background collective.

use crate::ir::Type;
use crate::ops::def::{Arity, Infer, OpClass, OpDef, OpView, Text, VhloForm, Violation, no_constraints};
use crate::ops::rules::{Inferred, spelling};

pub(crate) const DEF: OpDef = OpDef {
    name: "stablehlo.async_done",
    class: OpClass::Control,
    operands: Arity::exactly(1),
    results: Arity::exactly(1),
    regions: Arity::exactly(0),
    attrs: &[],
    text: Text::Generic,
    vhlo: &[VhloForm { name: "async_done_v1", attrs: &[] }],
    infer: Some(Infer::by("async_done C1", infer)),
    check: no_constraints,
};

fn infer(op: &OpView<'_>) -> Inferred {
    match op.operands {
        [Type::Future(types)] => Ok(types.to_vec()),
        other => {
            Err(Violation::new("async_done I1", format!("the operand must be a future, is {}", spelling::types(other))))
        }
    }
}
