//! `stablehlo.outfeed`: writes to the outfeed.

use crate::attr::Attr;
use crate::ops::def::{Arity, AttrDef, AttrKind, OpDef, Presence, Text, VhloForm, no_constraints};

pub(crate) const DEF: OpDef = OpDef {
    name: "stablehlo.outfeed",
    operands: Arity::at_least(1),
    results: Arity::exactly(1),
    regions: Arity::exactly(0),
    attrs: &[AttrDef { name: "outfeed_config", kind: AttrKind::Str, presence: Presence::Default(|| Attr::string("")) }],
    text: Text::Generic,
    vhlo: &[VhloForm { name: "outfeed_v1", attrs: &["outfeed_config"] }],
    infer: None,
    check: no_constraints,
};
