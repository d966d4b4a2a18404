//! `stablehlo.dynamic_conv`: convolution with padding known at run time.

use crate::attr::{Attr, KeywordSet};
use crate::ops::def::{Arity, AttrDef, AttrKind, OpDef, Presence, Text, VhloForm, no_constraints};

pub(crate) const DEF: OpDef = OpDef {
    name: "stablehlo.dynamic_conv",
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
    check: no_constraints,
};
