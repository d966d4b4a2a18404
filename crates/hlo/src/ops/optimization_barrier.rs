//! `stablehlo.optimization_barrier`: keeps the compiler from moving ops across.

use crate::ir::Type;
use crate::ops::def::{Arity, Infer, OpClass, OpDef, OpView, Piece, Text, VhloForm};
use crate::ops::rules::elements::Elements;
use crate::ops::rules::{Checked, elements};

pub(crate) const DEF: OpDef = OpDef {
    name: "stablehlo.optimization_barrier",
    class: OpClass::Structure,
    operands: Arity::at_least(0),
    results: Arity::at_least(0),
    regions: Arity::exactly(0),
    attrs: &[],
    text: Text::Pieces(&[Piece::AttrDict, Piece::OperandsFrom(0), Piece::PairwiseTypes]),
    vhlo: &[VhloForm { name: "optimization_barrier_v1", attrs: &[] }],
    infer: Some(Infer::by("optimization_barrier C1", |op| Ok(op.operands.to_vec()))),
    check,
};

fn check(op: &OpView<'_>) -> Checked {
    for (n, ty) in op.operands.iter().enumerate() {
        if *ty != Type::Token {
            elements::operand(op, n, Elements::TENSOR, "optimization_barrier I1")?;
        }
    }
    Ok(())
}
