//! `chlo.scan`: carries a state along a dimension.

use crate::attr::Attr;
use crate::ops::def::{Arity, AttrDef, AttrKind, OpDef, Presence, Text, no_constraints};

pub(crate) const DEF: OpDef = OpDef {
    name: "chlo.scan",
    operands: Arity::at_least(0),
    results: Arity::at_least(0),
    regions: Arity::exactly(1),
    attrs: &[
        AttrDef { name: "dimension", kind: AttrKind::I64, presence: Presence::Required },
        AttrDef { name: "scan_dim_size", kind: AttrKind::I64, presence: Presence::Optional },
        AttrDef { name: "is_reverse", kind: AttrKind::Bool, presence: Presence::Default(|| Attr::Bool(false)) },
        AttrDef { name: "is_associative", kind: AttrKind::Bool, presence: Presence::Optional },
        AttrDef { name: "operandSegmentSizes", kind: AttrKind::Any, presence: Presence::Optional },
        AttrDef { name: "resultSegmentSizes", kind: AttrKind::Any, presence: Presence::Optional },
    ],
    text: Text::Generic,
    vhlo: &[],
    infer: None,
    check: no_constraints,
};
