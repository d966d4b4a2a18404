//! `stablehlo.infeed`: reads from the infeed.

use crate::attr::Attr;
use crate::ops::def::{Arity, AttrDef, AttrKind, OpDef, Presence, Text, VhloForm, no_constraints};

pub(crate) const DEF: OpDef = OpDef {
    name: "stablehlo.infeed",
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
    check: no_constraints,
};
