//! `stablehlo.dynamic_conv`: convolution with padding known at run time.

use crate::ir::{Attr, KeywordSet};
use crate::ops::def::{Arity, AttrDef, AttrKind, OpClass, OpDef, OpView, Presence, Text, VhloForm};
use crate::ops::rules::elements::Elements;
use crate::ops::rules::{Checked, clauses, convolution, elements, require, spelling};

pub(crate) const DEF: OpDef = OpDef {
    name: "stablehlo.dynamic_conv",
    class: OpClass::Contraction,
    operands: Arity::exactly(3),
    results: Arity::exactly(1),
    regions: Arity::exactly(0),
    attrs: &[
        AttrDef { name: "window_strides", kind: AttrKind::I64s, presence: Presence::DefaultFill(1) },
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
    text: Text::Generic,
    vhlo: &[
        VhloForm {
            name: "dynamic_conv_v1",
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
        },
        VhloForm {
            name: "dynamic_conv_v2",
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
                "precision_config",
                "rhs_dilation",
                "window_reversal",
                "window_strides",
            ],
        },
    ],
    infer: None,
    check,
};

const CLAUSES: convolution::Clauses = clauses!("dynamic_conv": 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32 33 34);

fn check(op: &OpView<'_>) -> Checked {
    elements::operand(op, 0, Elements::TENSOR, "dynamic_conv I1")?;
    elements::operand(op, 1, Elements::ANY, "dynamic_conv I2")?;
    elements::operand(op, 2, Elements::INDICES, "dynamic_conv I3")?;
    let (lhs, padding) = (op.tensor(0)?, op.tensor(2)?);
    let spatial = lhs.rank().saturating_sub(2);
    require!(
        padding.dims == [spatial as i64, 2],
        "dynamic_conv C4",
        "padding is {}, tensor<{spatial}x2> expected",
        spelling::tensor(padding)
    );
    let pairs = match op.constant(2) {
        Some(values) => values.as_chunks().0.iter().map(|&[low, high]| Some((low, high))).collect(),
        None => vec![None; spatial],
    };
    let inferred = convolution::infer(op, &CLAUSES, Some(pairs))?;
    convolution::check(op, &CLAUSES, &inferred)
}
