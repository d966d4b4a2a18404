//! `stablehlo.cholesky`: Cholesky factor of a batch of matrices.

use crate::ir::Attr;
use crate::ops::def::{
    Arity, AttrDef, AttrKind, Infer, OpClass, OpDef, OpView, Piece, Presence, Text, VhloForm, Violation,
};
use crate::ops::rules::elements::Elements;
use crate::ops::rules::{Inferred, elements, require, shapes};

pub(crate) const DEF: OpDef = OpDef {
    name: "stablehlo.cholesky",
    class: OpClass::LinearAlgebra,
    operands: Arity::exactly(1),
    results: Arity::exactly(1),
    regions: Arity::exactly(0),
    attrs: &[AttrDef { name: "lower", kind: AttrKind::Bool, presence: Presence::Default(|| Attr::Bool(false)) }],
    text: Text::Pieces(&[
        Piece::Operand(0),
        Piece::IfAttr("lower", &[Piece::Word(","), Piece::Word("lower"), Piece::Word("="), Piece::Attr("lower")]),
        Piece::AttrDict,
        Piece::Word(":"),
        Piece::SameType,
    ]),
    vhlo: &[VhloForm { name: "cholesky_v1", attrs: &["lower"] }],
    infer: Some(Infer::by("cholesky C1", infer)),
    check: |op| elements::operand(op, 0, Elements::FLOAT_COMPLEX_QUANTIZED, "cholesky I1"),
};

fn infer(op: &OpView<'_>) -> Inferred {
    let [.., rows, columns] = op.tensor(0)?.dims[..] else {
        return Err(Violation::new("cholesky C2", format!("a has rank {}, at least 2 expected", op.tensor(0)?.rank())));
    };
    require!(shapes::dims_agree(rows, columns), "cholesky C3", "a is {rows} by {columns}, a square expected");
    Ok(op.operands.to_vec())
}
