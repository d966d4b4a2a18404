//! `stablehlo.recv`: receives from a channel.

use crate::attr::Attr;
use crate::ops::def::{Arity, AttrDef, AttrKind, OpDef, Presence, Text, VhloForm, no_constraints};

pub(crate) const DEF: OpDef = OpDef {
    name: "stablehlo.recv",
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
    check: no_constraints,
};
