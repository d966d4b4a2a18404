//! `stablehlo.recv`: receives from a channel.

use crate::ir::{Attr, Type};
use crate::ops::def::{Arity, AttrDef, AttrKind, OpClass, OpDef, OpView, Presence, Text, VhloForm, Violation};
use crate::ops::rules::collectives::PairClauses;
use crate::ops::rules::elements::Elements;
use crate::ops::rules::{Checked, collectives, elements, require, spelling};

pub(crate) const DEF: OpDef = OpDef {
    name: "stablehlo.recv",
    class: OpClass::Transfer,
    operands: Arity::exactly(1),
    results: Arity::at_least(0),
    regions: Arity::exactly(0),
    attrs: &[
        AttrDef { name: "channel_handle", kind: AttrKind::Channel, presence: Presence::Required },
        AttrDef { name: "is_host_transfer", kind: AttrKind::Bool, presence: Presence::Default(|| Attr::Bool(false)) },
        AttrDef { name: "source_target_pairs", kind: AttrKind::DenseI64, presence: Presence::Optional },
    ],
    text: Text::Generic,
    vhlo: &[
        VhloForm { name: "recv_v1", attrs: &["channel_id", "channel_type", "is_host_transfer"] },
        VhloForm { name: "recv_v2", attrs: &["channel_id", "channel_type", "is_host_transfer", "source_target_pairs"] },
    ],
    infer: None,
    check,
};

const PAIRS: PairClauses = PairClauses { shape: "recv C1", sources: "recv C2", targets: "recv C3", range: "recv C4" };

fn check(op: &OpView<'_>) -> Checked {
    require!(
        op.operands.first() == Some(&Type::Token),
        "recv I1",
        "the operand must be a token, is {}",
        spelling::types(op.operands)
    );
    let Some((token, data)) = op.results.split_last() else {
        return Err(Violation::new("recv O1", "there must be at least one result"));
    };
    require!(*token == Type::Token, "recv O1", "the last result must be a token, is {}", spelling::ty(token));
    for n in 0..data.len() {
        elements::result(op, n, Elements::ANY, "recv O1")?;
    }
    if let Attr::Channel(channel) = op.attr("channel_handle")? {
        let want = if op.is_set("is_host_transfer") { 3 } else { 1 };
        require!(channel.kind == want, "recv C5", "the channel's type is {}, {want} expected", channel.kind);
    }
    collectives::source_target_pairs(op, &PAIRS)
}
