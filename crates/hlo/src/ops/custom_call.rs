//! `stablehlo.custom_call`: calls what an implementation provides.

use crate::attr::Attr;
use crate::ops::def::{Arity, AttrDef, AttrKind, OpDef, Piece, Presence, Text, VhloForm, no_constraints};

pub(crate) const DEF: OpDef = OpDef {
    name: "stablehlo.custom_call",
    operands: Arity::at_least(0),
    results: Arity::at_least(0),
    regions: Arity::exactly(0),
    attrs: &[
        AttrDef { name: "call_target_name", kind: AttrKind::Str, presence: Presence::Required },
        AttrDef { name: "has_side_effect", kind: AttrKind::Bool, presence: Presence::Default(|| Attr::Bool(false)) },
        AttrDef { name: "backend_config", kind: AttrKind::StrOrDict, presence: Presence::Default(|| Attr::string("")) },
        AttrDef { name: "api_version", kind: AttrKind::ApiVersion, presence: Presence::Default(|| Attr::i32(1)) },
        AttrDef {
            name: "called_computations",
            kind: AttrKind::Symbols,
            presence: Presence::Default(|| Attr::Array([].into())),
        },
        AttrDef { name: "operand_layouts", kind: AttrKind::Array, presence: Presence::Optional },
        AttrDef { name: "result_layouts", kind: AttrKind::Array, presence: Presence::Optional },
        AttrDef {
            name: "output_operand_aliases",
            kind: AttrKind::Array,
            presence: Presence::Default(|| Attr::Array([].into())),
        },
        AttrDef { name: "result_tilings", kind: AttrKind::Array, presence: Presence::Optional },
    ],
    text: Text::Pieces(&[
        Piece::CallTarget,
        Piece::Word("("),
        Piece::OperandsFrom(0),
        Piece::Word(")"),
        Piece::AttrDict,
        Piece::Word(":"),
        Piece::FunctionType,
    ]),
    vhlo: &[
        VhloForm {
            name: "custom_call_v1",
            attrs: &[
                "api_version",
                "backend_config",
                "call_target_name",
                "called_computations",
                "has_side_effect",
                "operand_layouts",
                "output_operand_aliases",
                "result_layouts",
            ],
        },
        VhloForm {
            name: "custom_call_v2",
            attrs: &[
                "api_version",
                "backend_config",
                "call_target_name",
                "called_computations",
                "has_side_effect",
                "operand_layouts",
                "output_operand_aliases",
                "result_layouts",
                "result_tilings",
            ],
        },
    ],
    infer: None,
    check: no_constraints,
};
