//! `stablehlo.convolution`: windowed dot products.

use crate::ir::{Attr, KeywordSet};
use crate::ops::def::{Arity, AttrDef, AttrKind, OpClass, OpDef, OpView, Piece, Presence, Text, VhloForm};
use crate::ops::rules::elements::Elements;
use crate::ops::rules::{Checked, clauses, convolution, elements};

pub(crate) const DEF: OpDef = OpDef {
    name: "stablehlo.convolution",
    class: OpClass::Contraction,
    operands: Arity::exactly(2),
    results: Arity::exactly(1),
    regions: Arity::exactly(0),
    attrs: &[
        AttrDef { name: "window_strides", kind: AttrKind::I64s, presence: Presence::DefaultFill(1) },
        AttrDef { name: "padding", kind: AttrKind::DenseI64, presence: Presence::DefaultFill(0) },
        AttrDef { name: "lhs_dilation", kind: AttrKind::I64s, presence: Presence::DefaultFill(1) },
        AttrDef { name: "rhs_dilation", kind: AttrKind::I64s, presence: Presence::DefaultFill(1) },
        AttrDef { name: "window_reversal", kind: AttrKind::Bools, presence: Presence::DefaultFill(0) },
        AttrDef { name: "dimension_numbers", kind: AttrKind::Conv, presence: Presence::Required },
        AttrDef { name: "feature_group_count", kind: AttrKind::I64, presence: Presence::Required },
        AttrDef { name: "batch_group_count", kind: AttrKind::I64, presence: Presence::Required },
        AttrDef {
            name: "precision_config",
            kind: AttrKind::Keywords(KeywordSet::Precision),
            presence: Presence::Default(|| Attr::Array([].into())),
        },
    ],
    text: Text::Pieces(&[
        Piece::Word("("),
        Piece::OperandsFrom(0),
        Piece::Word(")"),
        Piece::Word("dim_numbers"),
        Piece::Word("="),
        Piece::ConvDims,
        Piece::Word(","),
        Piece::Word("window"),
        Piece::Word("="),
        Piece::Word("{"),
        Piece::ConvWindow,
        Piece::Word("}"),
        Piece::AttrDict,
        Piece::Word(":"),
        Piece::FunctionType,
    ]),
    vhlo: &[VhloForm {
        name: "convolution_v1",
        attrs: &[
            "batch_group_count",
            "feature_group_count",
            "input_batch_dimension",
            "input_feature_dimension",
            "input_spatial_dimensions",
            "kernel_input_feature_dimension",
            "kernel_output_feature_dimension",
            "kernel_spatial_dimensions",
            "lhs_dilation",
            "output_batch_dimension",
            "output_feature_dimension",
            "output_spatial_dimensions",
            "padding",
            "precision_config",
            "rhs_dilation",
            "window_reversal",
            "window_strides",
        ],
    }],
    infer: None,
    check,
};

const CLAUSES: convolution::Clauses = clauses!("convolution": 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32 33 34);

fn check(op: &OpView<'_>) -> Checked {
    elements::operand(op, 0, Elements::TENSOR, "convolution I1")?;
    elements::operand(op, 1, Elements::ANY, "convolution I2")?;
    let inferred = convolution::infer(op, &CLAUSES, None)?;
    convolution::check(op, &CLAUSES, &inferred)
}
