//! `interpreter.run_parallel`: runs functions as processes of a grid.

use crate::ops::def::{Arity, AttrDef, AttrKind, OpDef, Presence, Text, no_constraints};

pub(crate) const DEF: OpDef = OpDef {
    name: "interpreter.run_parallel",
    operands: Arity::at_least(0),
    results: Arity::at_least(0),
    regions: Arity::exactly(0),
    attrs: &[
        AttrDef { name: "programs", kind: AttrKind::Array, presence: Presence::Required },
        AttrDef { name: "infeed", kind: AttrKind::Array, presence: Presence::Optional },
    ],
    text: Text::Generic,
    vhlo: &[],
    infer: None,
    check: no_constraints,
};
