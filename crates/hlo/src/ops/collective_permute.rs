//! `stablehlo.collective_permute`: sends operands along given pairs.

use crate::ops::def::{Arity, AttrDef, AttrKind, OpDef, Presence, Text, VhloForm, no_constraints};

pub(crate) const DEF: OpDef = OpDef {
    name: "stablehlo.collective_permute",
    operands: Arity::exactly(1),
    results: Arity::exactly(1),
    regions: Arity::exactly(0),
    attrs: &[
        AttrDef { name: "source_target_pairs", kind: AttrKind::DenseI64, presence: Presence::Required },
        AttrDef { name: "channel_handle", kind: AttrKind::Channel, presence: Presence::Optional },
    ],
    text: Text::Generic,
    vhlo: &[VhloForm { name: "collective_permute_v1", attrs: &["channel_id", "source_target_pairs"] }],
    infer: None,
    check: no_constraints,
};
