//! `stablehlo.sort`: sorts along a dimension by a comparator.

use crate::attr::Attr;
use crate::ops::def::{Arity, AttrDef, AttrKind, OpDef, Presence, Text, VhloForm, no_constraints};

pub(crate) const DEF: OpDef = OpDef {
    name: "stablehlo.sort",
    operands: Arity::at_least(0),
    results: Arity::at_least(0),
    regions: Arity::exactly(1),
    attrs: &[
        AttrDef { name: "dimension", kind: AttrKind::I64, presence: Presence::Default(|| Attr::i64(-1)) },
        AttrDef { name: "is_stable", kind: AttrKind::Bool, presence: Presence::Default(|| Attr::Bool(false)) },
    ],
    text: Text::Generic,
    vhlo: &[VhloForm { name: "sort_v1", attrs: &["dimension", "is_stable"] }],
    infer: None,
    check: no_constraints,
};
