//! `stablehlo.send`: sends to a channel.

use crate::ir::{Attr, Type};
use crate::ops::def::{Arity, AttrDef, AttrKind, Infer, OpClass, OpDef, OpView, Presence, Text, VhloForm};
use crate::ops::rules::collectives::PairClauses;
use crate::ops::rules::elements::Elements;
use crate::ops::rules::{Checked, collectives, elements, require, spelling};

pub(crate) const DEF: OpDef = OpDef {
    name: "stablehlo.send",
    class: OpClass::Transfer,
    operands: Arity::at_least(1),
    results: Arity::exactly(1),
    regions: Arity::exactly(0),
    attrs: &[
        AttrDef { name: "channel_handle", kind: AttrKind::Channel, presence: Presence::Required },
        AttrDef { name: "is_host_transfer", kind: AttrKind::Bool, presence: Presence::Default(|| Attr::Bool(false)) },
        AttrDef { name: "source_target_pairs", kind: AttrKind::DenseI64, presence: Presence::Optional },
    ],
    text: Text::Generic,
    vhlo: &[
        VhloForm { name: "send_v1", attrs: &["channel_id", "channel_type", "is_host_transfer"] },
        VhloForm { name: "send_v2", attrs: &["channel_id", "channel_type", "is_host_transfer", "source_target_pairs"] },
    ],
    infer: Some(Infer::by("send O1", |_| Ok(vec![Type::Token]))),
    check,
};

const PAIRS: PairClauses = PairClauses { shape: "send C1", sources: "send C2", targets: "send C3", range: "send C4" };

fn check(op: &OpView<'_>) -> Checked {
    let Some((token, inputs)) = op.operands.split_last() else { return Ok(()) };
    require!(*token == Type::Token, "send I2", "the last operand must be a token, is {}", spelling::ty(token));
    for n in 0..inputs.len() {
        elements::operand(op, n, Elements::ANY, "send I1")?;
    }
    if let Attr::Channel(channel) = op.attr("channel_handle")? {
        let want = if op.is_set("is_host_transfer") { 2 } else { 1 };
        require!(channel.kind == want, "send C5", "the channel's type is {}, {want} expected", channel.kind);
    }
    collectives::source_target_pairs(op, &PAIRS)
}
