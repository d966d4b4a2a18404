//! `stablehlo.collective_permute`: sends operands along given pairs.

use crate::ops::def::{Arity, AttrDef, AttrKind, Infer, OpClass, OpDef, OpView, Presence, Text, VhloForm};
use crate::ops::rules::collectives::PairClauses;
use crate::ops::rules::elements::Elements;
use crate::ops::rules::{Checked, collectives, elements};

pub(crate) const DEF: OpDef = OpDef {
    name: "stablehlo.collective_permute",
    class: OpClass::Collective,
    operands: Arity::exactly(1),
    results: Arity::exactly(1),
    regions: Arity::exactly(0),
    attrs: &[
        AttrDef { name: "source_target_pairs", kind: AttrKind::DenseI64, presence: Presence::Required },
        AttrDef { name: "channel_handle", kind: AttrKind::Channel, presence: Presence::Optional },
    ],
    text: Text::Generic,
    vhlo: &[VhloForm { name: "collective_permute_v1", attrs: &["channel_id", "source_target_pairs"] }],
    infer: Some(Infer::by("collective_permute C5", |op| Ok(op.operands.to_vec()))),
    check,
};

const PAIRS: PairClauses = PairClauses {
    shape: "collective_permute C1",
    sources: "collective_permute C2",
    targets: "collective_permute C3",
    range: "collective_permute C4",
};

fn check(op: &OpView<'_>) -> Checked {
    elements::operand(op, 0, Elements::TENSOR, "collective_permute I1")?;
    collectives::source_target_pairs(op, &PAIRS)
}
