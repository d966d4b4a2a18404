//! `func.call`: calls a function.

use crate::ir::{Attr, Func};
use crate::ops::def::{Arity, AttrDef, AttrKind, Infer, OpClass, OpDef, OpView, Presence, Text, VhloForm, Violation};
use crate::ops::rules::{Checked, Inferred, shapes};

pub(crate) const DEF: OpDef = OpDef {
    name: "func.call",
    class: OpClass::Control,
    operands: Arity::at_least(0),
    results: Arity::at_least(0),
    regions: Arity::exactly(0),
    attrs: &[AttrDef { name: "callee", kind: AttrKind::Symbol, presence: Presence::Required }],
    text: Text::Call,
    vhlo: &[VhloForm { name: "call_v1", attrs: &["callee"] }],
    infer: Some(Infer::by("func.call", infer)),
    check,
};

fn callee<'a>(op: &OpView<'a>) -> Result<Option<&'a Func>, Violation> {
    let (Some(symbols), Attr::Symbol(name)) = (op.symbols, op.attr("callee")?) else { return Ok(None) };
    match symbols.func(name) {
        Some(func) => Ok(Some(func)),
        None => Err(Violation::new("func.call", format!("there is no function @{name}"))),
    }
}

fn infer(op: &OpView<'_>) -> Inferred {
    match callee(op)? {
        Some(func) => Ok(func.outputs.clone()),
        None if !op.results.is_empty() => Ok(op.results.to_vec()),
        None => Err(Violation::new("func.call", "the callee's types are known only in a module")),
    }
}

fn check(op: &OpView<'_>) -> Checked {
    let Some(func) = callee(op)? else { return Ok(()) };
    shapes::identical_types("func.call", ("operand", op.operands), ("callee input", &func.inputs))?;
    shapes::identical_types("func.call", ("result", op.results), ("callee output", &func.outputs))
}
