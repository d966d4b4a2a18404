//! `chlo.ragged_dot`: dot product over groups of rows.

use crate::attr::{Attr, KeywordSet};
use crate::ops::def::{Arity, AttrDef, AttrKind, OpDef, Presence, Text, no_constraints};

pub(crate) const DEF: OpDef = OpDef {
    name: "chlo.ragged_dot",
    operands: Arity::exactly(3),
    results: Arity::exactly(1),
    regions: Arity::exactly(0),
    attrs: &[
        AttrDef { name: "ragged_dot_dimension_numbers", kind: AttrKind::RaggedDot, presence: Presence::Required },
        AttrDef {
            name: "precision_config",
            kind: AttrKind::Keywords(KeywordSet::Precision),
            presence: Presence::Default(|| Attr::Array([].into())),
        },
    ],
    text: Text::Generic,
    vhlo: &[],
    infer: None,
    check: no_constraints,
};
