//! `stablehlo.select_and_scatter`: scatters values to the selected element of each window.

use crate::ops::def::{Arity, AttrDef, AttrKind, OpDef, Presence, Text, VhloForm, no_constraints};

pub(crate) const DEF: OpDef = OpDef {
    name: "stablehlo.select_and_scatter",
    operands: Arity::exactly(3),
    results: Arity::exactly(1),
    regions: Arity::exactly(2),
    attrs: &[
        AttrDef { name: "window_dimensions", kind: AttrKind::I64s, presence: Presence::DefaultFill(1) },
        AttrDef { name: "window_strides", kind: AttrKind::I64s, presence: Presence::DefaultFill(1) },
        AttrDef { name: "padding", kind: AttrKind::DenseI64, presence: Presence::DefaultFill(0) },
    ],
    text: Text::Generic,
    vhlo: &[VhloForm { name: "select_and_scatter_v1", attrs: &["padding", "window_dimensions", "window_strides"] }],
    infer: None,
    check: no_constraints,
};
