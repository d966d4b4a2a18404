//! `stablehlo.composite`: calls a decomposition under a name of its own.

use crate::attr::Attr;
use crate::ops::def::{Arity, AttrDef, AttrKind, OpDef, Piece, Presence, Text, VhloForm, no_constraints};

pub(crate) const DEF: OpDef = OpDef {
    name: "stablehlo.composite",
    operands: Arity::at_least(0),
    results: Arity::at_least(0),
    regions: Arity::at_least(0),
    attrs: &[
        AttrDef { name: "name", kind: AttrKind::Str, presence: Presence::Required },
        AttrDef {
            name: "composite_attributes",
            kind: AttrKind::Dict,
            presence: Presence::Default(|| Attr::Dict(Default::default())),
        },
        AttrDef { name: "decomposition", kind: AttrKind::Symbol, presence: Presence::Required },
        AttrDef { name: "version", kind: AttrKind::I32, presence: Presence::Default(|| Attr::i32(0)) },
    ],
    text: Text::Pieces(&[
        Piece::Attr("name"),
        Piece::OperandsFrom(0),
        Piece::Regions,
        Piece::AttrDict,
        Piece::Word(":"),
        Piece::FunctionType,
    ]),
    vhlo: &[
        VhloForm { name: "composite_v1", attrs: &["composite_attributes", "decomposition", "name", "version"] },
        VhloForm { name: "composite_v2", attrs: &["composite_attributes", "decomposition", "name", "version"] },
    ],
    infer: None,
    check: no_constraints,
};
