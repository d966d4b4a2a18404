//! `stablehlo.infeed`: reads from the infeed.

use crate::ir::{Attr, Type};
use crate::ops::def::{Arity, AttrDef, AttrKind, OpClass, OpDef, OpView, Presence, Text, VhloForm, Violation};
use crate::ops::rules::elements::Elements;
use crate::ops::rules::{Checked, elements, require, spelling};

pub(crate) const DEF: OpDef = OpDef {
    name: "stablehlo.infeed",
    class: OpClass::Transfer,
    operands: Arity::exactly(1),
    results: Arity::at_least(0),
    regions: Arity::exactly(0),
    attrs: &[
        AttrDef { name: "infeed_config", kind: AttrKind::Str, presence: Presence::Default(|| Attr::string("")) },
        AttrDef { name: "layout", kind: AttrKind::Array, presence: Presence::Optional },
    ],
    text: Text::Generic,
    vhlo: &[VhloForm { name: "infeed_v1", attrs: &["infeed_config", "layout"] }],
    infer: None,
    check,
};

fn check(op: &OpView<'_>) -> Checked {
    require!(
        op.operands.first() == Some(&Type::Token),
        "infeed I1",
        "the operand must be a token, is {}",
        spelling::types(op.operands)
    );
    let Some((token, data)) = op.results.split_last() else {
        return Err(Violation::new("infeed C1", "there must be at least one result"));
    };
    require!(*token == Type::Token, "infeed C3", "the last result must be a token, is {}", spelling::ty(token));
    for n in 0..data.len() {
        elements::result(op, n, Elements::ANY, "infeed C2")?;
    }
    let Some(layout) = op.attrs.get("layout") else { return Ok(()) };
    let Attr::Array(layouts) = layout else {
        return Err(Violation::new("infeed layout", "layout must be an array"));
    };
    require!(layouts.len() == data.len(), "infeed layout", "{} layouts for {} results", layouts.len(), data.len());
    for layout in layouts.iter() {
        let is_list = matches!(layout, Attr::Array(dims) if dims.iter().all(|d| d.as_int().is_some()));
        require!(is_list, "infeed layout", "a layout must be an array of integers");
    }
    Ok(())
}
