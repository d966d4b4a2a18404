//! `stablehlo.dot_general`: batched tensor contraction.

use crate::attr::{Attr, KeywordSet};
use crate::ops::def::{Arity, AttrDef, AttrKind, OpDef, Piece, Presence, Text, VhloForm, no_constraints};

pub(crate) const DEF: OpDef = OpDef {
    name: "stablehlo.dot_general",
    operands: Arity::exactly(2),
    results: Arity::exactly(1),
    regions: Arity::exactly(0),
    attrs: &[
        AttrDef { name: "dot_dimension_numbers", kind: AttrKind::Dot, presence: Presence::Required },
        AttrDef {
            name: "precision_config",
            kind: AttrKind::Keywords(KeywordSet::Precision),
            presence: Presence::Default(|| Attr::Array([].into())),
        },
        AttrDef { name: "algorithm", kind: AttrKind::DotAlgorithm, presence: Presence::Optional },
    ],
    text: Text::Pieces(&[
        Piece::Operand(0),
        Piece::Word(","),
        Piece::Operand(1),
        Piece::Word(","),
        Piece::DotDims,
        Piece::PrecisionAlgorithm,
        Piece::AttrDict,
        Piece::Word(":"),
        Piece::FunctionType,
    ]),
    vhlo: &[
        VhloForm {
            name: "dot_general_v1",
            attrs: &[
                "lhs_batching_dimensions",
                "lhs_contracting_dimensions",
                "precision_config",
                "rhs_batching_dimensions",
                "rhs_contracting_dimensions",
            ],
        },
        VhloForm {
            name: "dot_general_v2",
            attrs: &[
                "accumulation_type",
                "allow_imprecise_accumulation",
                "lhs_batching_dimensions",
                "lhs_component_count",
                "lhs_contracting_dimensions",
                "lhs_precision_type",
                "num_primitive_operations",
                "precision_config",
                "rhs_batching_dimensions",
                "rhs_component_count",
                "rhs_contracting_dimensions",
                "rhs_precision_type",
            ],
        },
    ],
    infer: None,
    check: no_constraints,
};
