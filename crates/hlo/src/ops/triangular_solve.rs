//! `stablehlo.triangular_solve`: solves triangular systems.

use crate::attr::KeywordSet;
use crate::ops::def::{Arity, AttrDef, AttrKind, OpDef, Presence, Text, VhloForm, no_constraints};

pub(crate) const DEF: OpDef = OpDef {
    name: "stablehlo.triangular_solve",
    operands: Arity::exactly(2),
    results: Arity::exactly(1),
    regions: Arity::exactly(0),
    attrs: &[
        AttrDef { name: "left_side", kind: AttrKind::Bool, presence: Presence::Required },
        AttrDef { name: "lower", kind: AttrKind::Bool, presence: Presence::Required },
        AttrDef { name: "unit_diagonal", kind: AttrKind::Bool, presence: Presence::Required },
        AttrDef { name: "transpose_a", kind: AttrKind::Keyword(KeywordSet::Transpose), presence: Presence::Required },
    ],
    text: Text::Generic,
    vhlo: &[VhloForm { name: "triangular_solve_v1", attrs: &["left_side", "lower", "transpose_a", "unit_diagonal"] }],
    infer: None,
    check: no_constraints,
};
