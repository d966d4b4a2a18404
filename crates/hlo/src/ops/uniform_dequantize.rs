//! `stablehlo.uniform_dequantize`: quantized to real.

use crate::ops::def::{Arity, Infer, OpClass, OpDef, OpView, Piece, Text, VhloForm, Violation, no_constraints};
use crate::ops::rules::{Inferred, elementwise, quantization, spelling};

pub(crate) const DEF: OpDef = OpDef {
    name: "stablehlo.uniform_dequantize",
    class: OpClass::Quantization,
    operands: Arity::exactly(1),
    results: Arity::exactly(1),
    regions: Arity::exactly(0),
    attrs: &[],
    text: Text::Pieces(&[Piece::Operand(0), Piece::AttrDict, Piece::Word(":"), Piece::SameType]),
    vhlo: &[VhloForm { name: "uniform_dequantize_v1", attrs: &[] }],
    infer: Some(Infer::by("uniform_dequantize C2", infer)),
    check: no_constraints,
};

fn infer(op: &OpView<'_>) -> Inferred {
    let operand = op.tensor(0)?;
    match quantization::of(operand) {
        Some(q) => elementwise::infer_element(op, q.expressed),
        None => Err(Violation::new(
            "uniform_dequantize I1",
            format!("the operand must be quantized, is {}", spelling::tensor(operand)),
        )),
    }
}
