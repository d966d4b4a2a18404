//! `interpreter.run_parallel`: runs functions as processes of a grid.

use crate::ir::{Attr, Type};
use crate::ops::def::{Arity, AttrDef, AttrKind, OpClass, OpDef, OpView, Presence, Text, Violation};
use crate::ops::rules::{Checked, require, spelling};

pub(crate) const DEF: OpDef = OpDef {
    name: "interpreter.run_parallel",
    class: OpClass::Testing,
    operands: Arity::at_least(0),
    results: Arity::at_least(0),
    regions: Arity::exactly(0),
    attrs: &[
        AttrDef { name: "programs", kind: AttrKind::Array, presence: Presence::Required },
        AttrDef { name: "infeed", kind: AttrKind::Array, presence: Presence::Optional },
    ],
    text: Text::Generic,
    vhlo: &[],
    infer: None,
    check,
};

fn check(op: &OpView<'_>) -> Checked {
    let clause = "interpreter.run_parallel";
    if let (Some(symbols), Some(Attr::Array(feeds))) = (op.symbols, op.attrs.get("infeed")) {
        require!(!feeds.is_empty(), clause, "infeed is empty");
        for name in feeds.iter() {
            let func = match name {
                Attr::Symbol(name) => symbols.func(name),
                _ => None,
            };
            require!(
                func.is_some_and(|func| matches!(func.outputs[..], [Type::Tensor(_)])),
                clause,
                "infeed {name:?} is not a function that returns one tensor"
            );
        }
    }
    let (Some(symbols), Attr::Array(replicas)) = (op.symbols, op.attr("programs")?) else { return Ok(()) };
    require!(!replicas.is_empty(), clause, "programs is empty");
    let (mut inputs, mut outputs, mut width) = (0, 0, None);
    for replica in replicas.iter() {
        let Attr::Array(names) = replica else {
            return Err(Violation::new(clause, "programs must be an array of arrays of symbols"));
        };
        require!(!names.is_empty(), clause, "programs has an empty row");
        require!(
            width.replace(names.len()).is_none_or(|w| w == names.len()),
            clause,
            "rows of programs differ in length"
        );
        for name in names.iter() {
            let Some(func) = (match name {
                Attr::Symbol(name) => symbols.func(name),
                _ => None,
            }) else {
                return Err(Violation::new(clause, format!("{name:?} is not a function")));
            };
            let fits = |have: &[Type], at: usize, want: &[Type]| {
                have.get(at..).is_some_and(|have| have.len() >= want.len() && have.starts_with(want))
            };
            require!(
                fits(op.operands, inputs, &func.inputs) && fits(op.results, outputs, &func.outputs),
                clause,
                "@{} takes {} and returns {}, which its part of operands {} and results {} is not",
                func.name,
                spelling::types(&func.inputs),
                spelling::types(&func.outputs),
                spelling::types(op.operands),
                spelling::types(op.results)
            );
            inputs += func.inputs.len();
            outputs += func.outputs.len();
        }
    }
    require!(inputs == op.operands.len(), clause, "{} operands, the programs take {inputs}", op.operands.len());
    require!(outputs == op.results.len(), clause, "{} results, the programs return {outputs}", op.results.len());
    Ok(())
}
