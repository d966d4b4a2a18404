//! `stablehlo.composite`: calls a decomposition under a name of its own.

use crate::ir::Attr;
use crate::ops::def::{Arity, AttrDef, AttrKind, OpClass, OpDef, OpView, Piece, Presence, Text, VhloForm, Violation};
use crate::ops::rules::{Checked, require, shapes};

pub(crate) const DEF: OpDef = OpDef {
    name: "stablehlo.composite",
    class: OpClass::Control,
    operands: Arity::at_least(0),
    results: Arity::at_least(0),
    regions: Arity::at_least(0),
    attrs: &[
        AttrDef { name: "name", kind: AttrKind::Str, presence: Presence::Required },
        AttrDef {
            name: "composite_attributes",
            kind: AttrKind::Dict,
            presence: Presence::Default(|| Attr::Dict(Default::default())),
        },
        AttrDef { name: "decomposition", kind: AttrKind::Symbol, presence: Presence::Required },
        AttrDef { name: "version", kind: AttrKind::I32, presence: Presence::Default(|| Attr::i32(0)) },
    ],
    text: Text::Pieces(&[
        Piece::Attr("name"),
        Piece::OperandsFrom(0),
        Piece::Regions,
        Piece::AttrDict,
        Piece::Word(":"),
        Piece::FunctionType,
    ]),
    vhlo: &[
        VhloForm { name: "composite_v1", attrs: &["composite_attributes", "decomposition", "name", "version"] },
        VhloForm { name: "composite_v2", attrs: &["composite_attributes", "decomposition", "name", "version"] },
    ],
    infer: None,
    check,
};

fn check(op: &OpView<'_>) -> Checked {
    let name = op.attr("name")?.as_str().unwrap_or_default();
    require!(is_namespaced(name), "composite C1", "\"{name}\" is not a namespaced op name such as \"space.op\"");
    let (Some(symbols), Attr::Symbol(decomposition)) = (op.symbols, op.attr("decomposition")?) else { return Ok(()) };
    let Some(func) = symbols.func(decomposition) else {
        return Err(Violation::new("composite C2", format!("there is no function @{decomposition}")));
    };
    shapes::identical_types("composite C3", ("operand", op.operands), ("decomposition input", &func.inputs))?;
    shapes::identical_types("composite C4", ("result", op.results), ("decomposition output", &func.outputs))
}

fn is_namespaced(name: &str) -> bool {
    let mut parts = name.split('.');
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let head = parts.next().unwrap_or_default();
    let tail: Vec<&str> = parts.collect();
    head.starts_with(|c: char| c.is_ascii_alphabetic())
        && head.chars().all(word)
        && !tail.is_empty()
        && tail.iter().all(|part| !part.is_empty() && part.chars().all(|c| word(c) || c == '$'))
}
