//! `stablehlo.reduce_window`: reduces sliding windows.

use crate::ops::def::{Arity, AttrDef, AttrKind, OpDef, Presence, Text, VhloForm, no_constraints};

pub(crate) const DEF: OpDef = OpDef {
    name: "stablehlo.reduce_window",
    operands: Arity::at_least(0),
    results: Arity::at_least(0),
    regions: Arity::exactly(1),
    attrs: &[
        AttrDef { name: "window_dimensions", kind: AttrKind::I64s, presence: Presence::Required },
        AttrDef { name: "window_strides", kind: AttrKind::I64s, presence: Presence::DefaultFill(1) },
        AttrDef { name: "base_dilations", kind: AttrKind::I64s, presence: Presence::DefaultFill(1) },
        AttrDef { name: "window_dilations", kind: AttrKind::I64s, presence: Presence::DefaultFill(1) },
        AttrDef { name: "padding", kind: AttrKind::DenseI64, presence: Presence::DefaultFill(0) },
    ],
    text: Text::Generic,
    vhlo: &[VhloForm {
        name: "reduce_window_v1",
        attrs: &["base_dilations", "padding", "window_dilations", "window_dimensions", "window_strides"],
    }],
    infer: None,
    check: no_constraints,
};
