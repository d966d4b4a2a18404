//! `stablehlo.outfeed`: writes to the outfeed.

use crate::ir::{Attr, Type};
use crate::ops::def::{Arity, AttrDef, AttrKind, Infer, OpClass, OpDef, OpView, Presence, Text, VhloForm};
use crate::ops::rules::elements::Elements;
use crate::ops::rules::{Checked, elements, require, spelling};

pub(crate) const DEF: OpDef = OpDef {
    name: "stablehlo.outfeed",
    class: OpClass::Transfer,
    operands: Arity::at_least(1),
    results: Arity::exactly(1),
    regions: Arity::exactly(0),
    attrs: &[AttrDef { name: "outfeed_config", kind: AttrKind::Str, presence: Presence::Default(|| Attr::string("")) }],
    text: Text::Generic,
    vhlo: &[VhloForm { name: "outfeed_v1", attrs: &["outfeed_config"] }],
    infer: Some(Infer::by("outfeed O1", |_| Ok(vec![Type::Token]))),
    check,
};

fn check(op: &OpView<'_>) -> Checked {
    let Some((token, inputs)) = op.operands.split_last() else { return Ok(()) };
    require!(*token == Type::Token, "outfeed I2", "the last operand must be a token, is {}", spelling::ty(token));
    (0..inputs.len()).try_for_each(|n| elements::operand(op, n, Elements::ANY, "outfeed I1"))
}
