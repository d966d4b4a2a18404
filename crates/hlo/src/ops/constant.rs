//! `stablehlo.constant`: a constant tensor.

use crate::ir::{Attr, Type};
use crate::ops::def::{
    Arity, AttrDef, AttrKind, Infer, OpClass, OpDef, OpView, Presence, Text, VhloForm, Violation, no_constraints,
};
use crate::ops::rules::{Inferred, quantization};

pub(crate) const DEF: OpDef = OpDef {
    name: "stablehlo.constant",
    class: OpClass::Source,
    operands: Arity::exactly(0),
    results: Arity::exactly(1),
    regions: Arity::exactly(0),
    attrs: &[AttrDef { name: "value", kind: AttrKind::Dense, presence: Presence::Required }],
    text: Text::Constant,
    vhlo: &[VhloForm { name: "constant_v1", attrs: &["value"] }],
    infer: Some(Infer::by("constant C1", infer)),
    check: no_constraints,
};

fn infer(op: &OpView<'_>) -> Inferred {
    match op.attr("value")? {
        Attr::Dense(dense) => match op.results {
            // The elements of a quantized constant may be written in its storage type.
            [Type::Tensor(result)]
                if quantization::of(result).is_some_and(|q| dense.ty.element == q.storage.into())
                    && result.dims == dense.ty.dims =>
            {
                Ok(op.results.to_vec())
            }
            _ => Ok(vec![dense.ty.clone().into()]),
        },
        _ => Err(Violation::new("constant C1", "value must be a dense constant")),
    }
}
